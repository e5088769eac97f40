#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "base/text.hpp"
#include "report/groups.hpp"
#include "report/page.hpp"
#include "trueup/report_formats.hpp"

// GitHub's Markdown, as its step summaries, comments and those of GitLab and Gitea show it. A host's words never stand
// at the beginning of a line, nor in a table or an HTML element, and go through one of `code`, `prose` and `fenced`.

namespace trueup {
namespace {

constexpr std::size_t kLongestHosts = 2000, kLongestTitle = 400, kLongestLine = 500, kLongestWhy = 2000;
constexpr std::size_t kMostEvidence = 60, kMostNamed = 20;

std::size_t longest_run(std::string_view text, char of) {
  std::size_t longest = 0, run = 0;
  for (const char c : text) {
    run = c == of ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  return longest;
}

/// A code span: nothing in it is markup, a mention or a link. `text` has no line ends and is not empty.
std::string code_span(std::string_view text) {
  const std::string fence(longest_run(text, '`') + 1, '`');
  const bool touches = text.front() == '`' || text.back() == '`';
  return fmt::format("{0}{1}{2}{1}{0}", fence, touches ? " " : "", text);
}

std::string code(std::string_view text) { return text.empty() ? std::string() : code_span(printable(text)); }

/// Whether a word can mean nothing but itself wherever it stands in a line: no markup, HTML, entity, mention, issue,
/// link, emoji (`:x:`) or formula.
bool is_plain(std::string_view word) {
  constexpr std::string_view kPlain = ",.;:()/'\"=+-%?";
  const auto is_fine = [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kPlain.find(c) != kPlain.npos;
  };
  const auto colon = word.find(':');
  return std::all_of(word.begin(), word.end(), is_fine) && (colon == word.npos || colon + 1 == word.size()) &&
         to_lower(word).find("www.") == std::string::npos;
}

/// Text within a line: words that could mean something to Markdown or to GitHub become code.
std::string prose(std::string_view text, std::size_t longest) {
  const auto visible = shorten(printable(text), longest);
  std::string safe;
  for (const auto word : split(visible, ' ')) {
    if (word.empty()) continue;
    if (!safe.empty()) safe += ' ';
    safe += is_plain(word) ? std::string(word) : code_span(word);
  }
  return safe;
}

/// A code block of lines, each as it is.
std::string fenced(const std::vector<std::string>& lines) {
  std::string body;
  for (const auto& line : lines) body += shorten(printable(line), kLongestLine) + "\n";
  const std::string fence(std::max<std::size_t>(3, longest_run(body, '`') + 1), '`');
  return fmt::format("{}text\n{}{}\n", fence, body, fence);
}

/// A reference, to be followed where it is nothing but an address.
std::string link_or_code(const std::string& reference) {
  constexpr std::string_view kUnreserved =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/:?#=%&+,";
  const bool is_address =
      reference.starts_with("https://") && reference.find_first_not_of(kUnreserved) == reference.npos;
  return is_address ? "<" + reference + ">" : code(reference);
}

/// One thing that is told, in full and, where there is no room, in short.
struct Entry {
  std::string full;
  std::string brief;
};

std::string where(const std::vector<std::string>& hosts) {
  const auto names = code(shorten(fold_hosts(hosts), kLongestHosts));
  return hosts.size() == 1 ? names : fmt::format("{} hosts: {}", hosts.size(), names);
}

/// A list of host's words, one item each, told up to kMostNamed.
template <class List, class Say>
std::string items(const List& list, Say&& say) {
  std::string text;
  std::size_t told = 0;
  for (const auto& each : list)
    if (told++ < kMostNamed) text += "- " + say(each) + "\n";
  if (told > kMostNamed) text += fmt::format("- and {} more\n", told - kMostNamed);
  return text;
}

std::string details(std::string_view summary, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n\n{}\n</details>\n\n", summary, body);
}

Entry entry_of(const Block& block) {
  const auto& finding = *block.finding;
  const auto* const mark = finding.severity == Severity::error     ? "❌ error"
                           : finding.severity == Severity::warning ? "⚠️ warning"
                                                                   : "ℹ️ info";
  const auto brief = fmt::format("### {}: {}\n\non {} · check {}\n\n", mark, prose(finding.title, kLongestTitle),
                                 where(block.hosts), code(finding.check));
  std::string body;
  if (!finding.because.empty()) body += fmt::format("**Why:** {}\n\n", prose(trim(finding.because), kLongestWhy));
  if (!finding.evidence.empty()) {
    auto lines = finding.evidence;
    if (lines.size() > kMostEvidence) {
      lines.resize(kMostEvidence);
      lines.push_back(fmt::format("(and {} more lines)", finding.evidence.size() - kMostEvidence));
    }
    body += (block.hosts.size() == 1 ? "**Evidence:**\n\n"
                                     : fmt::format("**Evidence**, on {}:\n\n", code(block.host->name))) +
            fenced(lines) + "\n";
  }
  if (const auto effects = effects_of(*block.host, finding); !effects.empty())
    body += "**Explains:**\n\n" +
            items(effects,
                  [](const Finding* effect) {
                    return fmt::format("{}: {} ({})", to_string(effect->severity), prose(effect->title, kLongestTitle),
                                       code(effect->check));
                  }) +
            "\n";
  if (!finding.fixes.empty())
    body += "**Fixes:**\n\n" + items(finding.fixes, [](const std::string& fix) { return code(fix); }) + "\n";
  if (!finding.references.empty()) body += "**See:**\n\n" + items(finding.references, link_or_code) + "\n";
  return {body.empty() ? brief : brief + details("why, evidence, fixes", body), brief};
}

Entry entry_of(const ErrorGroup& group) {
  const bool is_unreached = group.host->status == HostStatus::unreachable;
  const auto brief = fmt::format("- **{}:** {}\n", is_unreached ? "not reached" : "incomplete", where(group.hosts));
  auto full = brief + "\n  because: " + prose(to_string(*group.host->error), kLongestWhy) + "\n";
  if (!group.host->error->hint.empty()) full += "\n  do: " + prose(group.host->error->hint, kLongestWhy) + "\n";
  return {full, brief};
}

Entry entry_of(const std::string& why, const GapGroup& gap) {
  const auto brief =
      fmt::format("- **{} not evaluated:** on {}\n", count(gap.checks.size(), "check"), where(gap.hosts));
  std::vector<std::string> names;
  for (const auto& check : gap.checks)
    if (names.size() < kMostNamed) names.push_back(code(check));
  if (names.size() < gap.checks.size()) names.push_back(fmt::format("and {} more", gap.checks.size() - names.size()));
  return {fmt::format("{}\n  because: {}\n\n  checks: {}\n", brief, prose(why, kLongestWhy), join(names, ", ")), brief};
}

/// Adds what there is room for and counts what there is not.
class Document {
 public:
  Document(std::string head, std::size_t most_bytes) : text_(std::move(head)), most_(most_bytes) {}

  void heading(std::string_view text) { text_ += text; }

  void add(const Entry& entry) {
    constexpr std::size_t kTail = 1024;  // for the headings, and what is said of what was left out
    const auto has_room = [&](const std::string& more) { return text_.size() + more.size() + kTail <= most_; };
    if (has_room(entry.full)) {
      text_ += entry.full;
    } else if (has_room(entry.brief)) {
      text_ += entry.brief;
      ++shortened_;
    } else {
      ++dropped_;
    }
  }

  std::string take() {
    if (shortened_ + dropped_ != 0)
      text_ += fmt::format(
          "\n> **Cut** to stay within {} bytes: entries left out: {}, without their details: {}. The counts above are "
          "of everything; "
          "the JSON report has it all.\n",
          most_, dropped_, shortened_);
    return std::move(text_);
  }

 private:
  std::string text_;
  const std::size_t most_;
  std::size_t shortened_ = 0, dropped_ = 0;
};

std::string head_of(const RunReport& report) {
  const auto counts = counts_of(report);
  auto text = fmt::format("## trueup {}\n\n", report.kind);
  text += fmt::format(
      "| hosts | failing | not reached | incomplete | clean | errors | warnings | infos | not evaluated |\n"
      "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n| {} | {} | {} | {} | {} | {} | {} | {} | {} "
      "|\n\n",
      counts.hosts, counts.failing, counts.unreachable, counts.incomplete, counts.clean, counts.errors, counts.warnings,
      counts.infos, counts.not_evaluated);
  if (report.stopped) text += "**Stopped early:** " + prose(to_string(*report.stopped), kLongestWhy) + "\n\n";
  if (report.hosts.empty()) text += "**Nothing was audited:** no host was selected\n\n";
  return text;
}

}  // namespace

std::string render_markdown(const RunReport& report, std::size_t most_bytes) {
  Document document(head_of(report), most_bytes);
  for (const auto& block : root_blocks(report)) document.add(entry_of(block));
  const auto errors = error_groups(report);
  const auto gaps = gap_groups(report);
  if (!errors.empty() || !gaps.empty()) document.heading("### What was not looked at\n\n");
  for (const auto& group : errors) document.add(entry_of(group));
  for (const auto& [why, gap] : gaps) document.add(entry_of(why, gap));
  const auto sources = unverified_sources(report);
  if (!sources.empty()) document.heading("\n### Whose word it is\n\n");
  for (const auto& [file, names] : sources) {
    const auto line = fmt::format("- {}: read from {}, not from the host\n", where(names), code(file));
    document.add({line, line});
  }
  return document.take();
}

}  // namespace trueup
