#include "report/page.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace trueup {
namespace {

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::vector<std::string> wrap(std::string_view text, std::size_t room) {
  std::vector<std::string> lines(1);
  for (const auto word : split(text, ' ')) {
    if (!lines.back().empty() && columns(lines.back()) + 1 + columns(word) > room) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

}  // namespace

std::string Page::paint(Paint paint, std::string_view text) const {
  if (!options_.color || paint == Paint::plain || text.empty()) return std::string(text);
  constexpr std::string_view kCodes[] = {"0", "1;31", "1;33", "32", "2", "1"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<std::size_t>(paint)], text);
}

void Page::line(std::string_view text) { fmt::format_to(std::back_inserter(text_), "{}\n", text); }

void Page::paragraph(std::string_view label, std::string_view text, std::size_t hang) {
  put(paint(Paint::dim, labelled(label)), indent_ + (text.starts_with("- ") ? 2 : hang), text, Paint::plain);
}

void Page::paragraph(std::string_view label, Paint label_paint, std::string_view text, Paint text_paint) {
  put(paint(label_paint, labelled(label)), indent_, text, text_paint);
}

std::string Page::labelled(std::string_view label) const { return fmt::format("  {:<{}}", label, indent_ - 2); }

void Page::item(std::size_t deeper, std::string_view mark, std::string_view text) {
  const auto begin = indent_ + deeper;
  put(fmt::format("{:{}}{} ", "", begin, mark), begin + columns(mark) + 1, text, Paint::plain);
}

void Page::headline(Paint color, std::string_view mark, std::string_view text) {
  put(paint(color, fmt::format("{:<{}}", mark, indent_)), indent_, text, Paint::bold);
}

void Page::put(std::string head, std::size_t hang, std::string_view text, Paint paint) {
  const auto room = std::max<std::size_t>(options_.width, hang + 30) - hang;
  for (const auto& part : wrap(text, room)) {
    line(head + this->paint(paint, part));
    head.assign(hang, ' ');
  }
}

}  // namespace trueup
