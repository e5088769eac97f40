#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trueup/report.hpp"

// Text for people, within a width: what the table and the explanation are written on.

namespace trueup {

enum class Paint { plain, red, yellow, green, dim, bold };

class Page {
 public:
  /// `indent`: columns of the labels at the left.
  explicit Page(const TableOptions& options, std::size_t indent = 12) : options_(options), indent_(indent) {}

  std::string paint(Paint paint, std::string_view text) const;
  void line(std::string_view text = {});
  /// `label` once, `text` beside it, wrapped at words within the width, later lines `hang` columns further in. A list
  /// item hangs from its dash.
  void paragraph(std::string_view label, std::string_view text, std::size_t hang = 0);
  /// The same with colours of its own.
  void paragraph(std::string_view label, Paint label_paint, std::string_view text, Paint text_paint);
  /// A list item below the one before: `mark`, and the text hanging from it, `deeper` columns further in.
  void item(std::size_t deeper, std::string_view mark, std::string_view text);
  /// A headline: `mark` in its colour, the rest in bold, wrapped.
  void headline(Paint color, std::string_view mark, std::string_view text);

  /// Lines that another page has rendered.
  void append(std::string_view lines) { text_ += lines; }

  std::string take() { return std::move(text_); }

 private:
  std::string labelled(std::string_view label) const;
  void put(std::string head, std::size_t hang, std::string_view text, Paint paint);

  const TableOptions& options_;
  const std::size_t indent_;
  std::string text_;
};

Paint paint_of(Severity severity);

/// What `cause` explains on its host, directly or through another finding.
std::vector<const Finding*> effects_of(const HostReport& host, const Finding& cause);

/// What stands below the findings of a report: hosts that were not reached, probes in trouble, checks that could not be
/// evaluated, sources that nobody vouches for, and the last line.
void render_rest(Page& page, const RunReport& report, const TableOptions& options);

}  // namespace trueup
