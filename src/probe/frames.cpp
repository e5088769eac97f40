#include "probe/frames.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/base64.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace trueup {

namespace {

constexpr std::size_t kMaxFrame = 512;  // as bundle.sh writes them
constexpr std::size_t kMaxLine = 4096;  // of noise: more of one line is forgotten from its front
constexpr std::size_t kMaxErrors = 2048;
constexpr std::size_t kMaxDetail = 300;
constexpr int kExitAbsent = 221;  // lib.sh: absent, unknown
constexpr int kExitUnknown = 222;

bool append_base64(std::string_view text, std::string& bytes) {
  if (text.empty() || text.size() % 4 != 0) return false;  // a frame is padded, or cut
  const auto decoded = base64_decode(text);
  if (decoded) bytes += *decoded;
  return decoded.has_value();
}

bool append_hex(std::string_view text, std::string& bytes) {
  if (text.empty() || text.size() % 2 != 0) return false;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    std::uint8_t byte = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + i + 2, byte, 16);
    if (error != std::errc{} || end != text.data() + i + 2) return false;
    bytes += static_cast<char>(byte);
  }
  return true;
}

// Seconds with a fraction, as /proc/uptime has them.
std::optional<double> read_uptime(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size() || !(seconds >= 0 && seconds < 1e12))
    return std::nullopt;
  return seconds;
}

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string_view last_line(std::string_view text) {
  text = trim(text);
  const auto before = text.rfind('\n');
  return before == text.npos ? text : text.substr(before + 1);
}

std::string shown(std::string_view text) { return shorten(printable(text.substr(0, 4 * kMaxDetail)), kMaxDetail); }

// What the frames of one probe said so far.
struct Heard {
  std::string id;
  IfMissing if_missing = IfMissing::unknown;
  std::chrono::milliseconds limit{0};
  std::size_t max_bytes = 0;

  bool began = false;
  bool ended = false;
  double begin_s = 0;
  double end_s = 0;
  std::string status;  // of the x frame
  std::string words;
  std::string output;
  bool overflowed = false;
  std::string errors;
  std::string garbled;  // why

  void garble(std::string_view why) {
    if (garbled.empty()) garbled = why;
  }
  void take_frame(std::string_view letter, std::string_view rest);
  ProbeOutput result(std::string_view why_lost) const;
};

void Heard::take_frame(std::string_view letter, std::string_view rest) {
  if (letter == "b") {
    if (began) return garble("it began twice");
    const auto uptime = read_uptime(rest);
    if (!uptime) return garble("its beginning has no time");
    began = true;
    begin_s = *uptime;
    return;
  }
  if (!began) return garble("something came before its beginning");
  // The scheduler gives up on a probe whose output does not end; on a starved host that may still be on its way.
  if (ended && (status == "timeout" || status == "stopped") && (letter == "o" || letter == "h" || letter == "e"))
    return;
  if (ended) return garble(letter == "x" ? "it ended twice" : "something came after its end");
  if (letter == "o" || letter == "h") {
    if (overflowed) return;
    const bool decoded = letter == "o" ? append_base64(rest, output) : append_hex(rest, output);
    overflowed = output.size() > max_bytes;
    if (overflowed) output.resize(max_bytes);
    if (!decoded) garble("its output is not what its encoding allows");
  } else if (letter == "e") {
    errors += rest.substr(0, kMaxErrors - std::min(kMaxErrors, errors.size()));
    if (errors.size() < kMaxErrors) errors += '\n';
  } else if (letter == "x") {
    status = take_word(rest);
    const auto uptime = read_uptime(take_word(rest));
    if (!uptime ||
        (status != "timeout" && status != "missing" && status != "stopped" && !read_number<std::uint8_t>(status)))
      return garble("its end is not understood");
    ended = true;
    end_s = *uptime;
    words = shown(rest);
  } else {
    garble("a frame of an unknown kind");
  }
}

ProbeOutput Heard::result(std::string_view why_lost) const {
  ProbeOutput out;
  out.id = id;
  out.output = output;
  out.errors = errors;
  if (ended) out.duration = std::chrono::milliseconds(std::llround(std::max(0.0, end_s - begin_s) * 1000));
  if (const auto exit = read_number<std::uint8_t>(status)) out.exit_status = *exit;
  const auto say = [&](ProbeStatus what, std::string detail) {
    out.status = what;
    out.detail = std::move(detail);
  };
  if (!garbled.empty())
    say(ProbeStatus::garbled, "contradictory frames: " + garbled);
  else if (!ended) {
    say(ProbeStatus::lost, fmt::format("{}: {}", began ? "did not end" : "did not begin", why_lost));
    out.lost_with = why_lost;
  } else if (overflowed)
    say(ProbeStatus::truncated, fmt::format("more output than {} bytes", max_bytes));
  else if (status == "timeout")
    say(ProbeStatus::timed_out,
        fmt::format("its limit of {} passed{}{}", duration_text(limit), words.empty() ? "" : "; ", words));
  else if (status == "stopped")
    say(ProbeStatus::timed_out, "the host's limit passed before it was done");
  else if (status == "missing")
    say(if_missing == IfMissing::absent ? ProbeStatus::absent : ProbeStatus::unknown,
        fmt::format("{} is not installed", words));
  else if (out.exit_status == kExitAbsent)
    say(ProbeStatus::absent, "");
  else if (out.exit_status == kExitUnknown)
    say(ProbeStatus::unknown, shown(last_line(output)));
  else if (out.exit_status == 0)
    say(ProbeStatus::ok, "");
  else {
    const auto why = shown(last_line(errors));
    const auto how = out.exit_status > 128 ? fmt::format("ended by signal {}", out.exit_status - 128)
                                           : fmt::format("exit {}", out.exit_status);
    say(ProbeStatus::failed, why.empty() ? how : fmt::format("{}: {}", how, why));
  }
  return out;
}

}  // namespace

struct FrameReader::State {
  std::string mark;  // nonce and blank
  std::string line;
  std::vector<Heard> probes;
  bool finished = false;
  bool wants_plain = false;

  void take_line(std::string_view text);
};

// Whatever stands in front of the nonce is noise: an rc file may print without a newline.
void FrameReader::State::take_line(std::string_view text) {
  const auto at = text.rfind(mark);
  if (at == text.npos) return;
  text.remove_prefix(at + mark.size());
  if (text.ends_with('\r')) text.remove_suffix(1);  // a terminal on the way
  if (text == "end") {
    finished = true;
    return;
  }
  if (text == "plain") {
    wants_plain = true;
    return;
  }
  const auto index = read_number<std::size_t>(take_word(text));
  if (!index || *index >= probes.size()) return;
  auto& probe = probes[*index];
  if (finished) return probe.garble("something came after the end of all");
  const auto letter = take_word(text);
  probe.take_frame(letter, text);
}

FrameReader::FrameReader(const std::vector<Probe>& probes, std::string nonce) : state_(std::make_unique<State>()) {
  state_->mark = std::move(nonce) + ' ';
  for (const auto& probe : probes) {
    Heard heard;
    heard.id = probe.id;
    heard.if_missing = probe.if_missing;
    heard.limit = probe.limit;
    heard.max_bytes = probe.max_bytes;
    state_->probes.push_back(std::move(heard));
  }
}

FrameReader::~FrameReader() = default;
FrameReader::FrameReader(FrameReader&&) noexcept = default;
FrameReader& FrameReader::operator=(FrameReader&&) noexcept = default;

void FrameReader::feed(std::string_view bytes) {
  auto& line = state_->line;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const auto part = bytes.substr(0, end);
    if (end != bytes.npos && line.empty()) {
      state_->take_line(part.substr(part.size() - std::min(part.size(), kMaxFrame)));
    } else {
      line += part.substr(part.size() - std::min(part.size(), kMaxLine));
      if (line.size() > kMaxLine) line.erase(0, line.size() - kMaxFrame);
      if (end != bytes.npos) {
        state_->take_line(std::string_view(line).substr(line.size() - std::min(line.size(), kMaxFrame)));
        line.clear();
      }
    }
    bytes.remove_prefix(std::min(bytes.size(), part.size() + 1));
  }
}

bool FrameReader::is_finished() const { return state_->finished; }

bool FrameReader::wants_plain() const { return state_->wants_plain; }

std::vector<std::string> FrameReader::running() const {
  std::vector<std::string> ids;
  for (const auto& probe : state_->probes)
    if (probe.began && !probe.ended) ids.push_back(probe.id);
  return ids;
}

std::vector<ProbeOutput> FrameReader::take(std::string_view why_lost) {
  std::vector<ProbeOutput> outputs;
  for (const auto& probe : state_->probes)
    outputs.push_back(probe.result(state_->finished ? "the bundle ended without it" : why_lost));
  return outputs;
}

}  // namespace trueup
