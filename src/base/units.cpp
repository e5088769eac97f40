#include "base/units.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <span>

#include "base/text.hpp"

namespace trueup {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// number ::= digits [blank] [unit]; nullopt for anything else, for zero, and beyond `most`.
std::optional<std::uint64_t> quantity(std::string_view text, std::span<const Unit> units, std::uint64_t most) {
  text = trim(text);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0) return std::nullopt;
  const auto name = trim(text.substr(static_cast<std::size_t>(end - text.data())));
  for (const auto& unit : units)
    if (unit.name == name && number <= most / unit.factor) return number * unit.factor;
  return std::nullopt;
}

constexpr std::array<Unit, 5> kTimes = {{{"ms", 1}, {"", 1000}, {"s", 1000}, {"m", 60'000}, {"h", 3'600'000}}};
constexpr std::array<Unit, 5> kSizes = {
    {{"", 1}, {"B", 1}, {"KiB", 1ULL << 10U}, {"MiB", 1ULL << 20U}, {"GiB", 1ULL << 30U}}};

}  // namespace

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr std::uint64_t kWeek = 7ULL * 24 * 3'600'000;
  if (const auto ms = quantity(text, kTimes, kWeek)) return std::chrono::milliseconds(*ms);
  return fail(ErrorKind::malformed,
              fmt::format("expected a duration such as 500ms, 5s, 2m or 1h, got '{}'", shorten(printable(text), 60)));
}

std::string duration_text(std::chrono::milliseconds duration) {
  if (duration < std::chrono::seconds(1)) return fmt::format("{} ms", duration.count());
  return fmt::format("{:g} s", static_cast<double>(duration.count()) / 1000.0);
}

Result<std::uint64_t> parse_size(std::string_view text) {
  if (const auto bytes = quantity(text, kSizes, 1ULL << 50U)) return *bytes;
  return fail(ErrorKind::malformed,
              fmt::format("expected a size such as 64KiB, 1MiB or 2GiB, got '{}'", shorten(printable(text), 60)));
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kNames[unit]);
}

}  // namespace trueup
