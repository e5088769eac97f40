#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trueup {

/// The lines of `text`, without their ends (`\n` or `\r\n`). A last line without an end counts; nothing after the last
/// end does not.
std::vector<std::string_view> split_lines(std::string_view text);

/// The parts of `text` between separators; `""` gives one empty part.
std::vector<std::string_view> split(std::string_view text, char separator);

/// Without blanks and line ends at both sides.
std::string_view trim(std::string_view text);

/// Takes the next word of `text`, and the blank behind it.
std::string_view take_word(std::string_view& text);

std::string to_lower(std::string_view text);

std::string join(std::span<const std::string> parts, std::string_view separator);

/// The candidate that `name` most likely meant: the smallest edit distance (transpositions count one), within a third
/// of the length; none where nothing is near. For "did you mean".
std::optional<std::string> nearest(std::string_view name, std::span<const std::string> candidates);

/// `; did you mean 'X'?`, or nothing: to be appended to a message about an unknown name.
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

/// `1 host`, `2 hosts`.
std::string count(std::size_t number, std::string_view thing);

/// One shell word that `/bin/sh` reads back as exactly `text`. Plain words stay as they are.
std::string shell_quote(std::string_view text);
/// A program and its arguments, as they would be typed.
std::string shell_line(const std::vector<std::string>& words);

/// Safe for a terminal and for one line: C0, C1, DEL, bidirectional and zero-width characters and invalid UTF-8 come
/// out as visible escapes (`\x1b`, `\u202e`), tabs as one blank, newlines as `\n`.
std::string printable(std::string_view text);

/// Valid UTF-8 without NUL: each byte that is neither comes out as U+FFFD. For text of a host that goes into JSON.
std::string valid_utf8(std::string_view text);

/// At most `width` columns of valid UTF-8, cut with an ellipsis.
std::string shorten(std::string_view text, std::size_t width);

/// fnmatch-like: `*`, `?`, `[a-z]`, `[!a]`. No path rules.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace trueup
