#include "fault.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace trueup::fleet {
namespace {

template <class T, std::size_t N>
std::optional<T> named(const std::array<std::pair<std::string_view, T>, N>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.first == name; });
  return found == table.end() ? std::nullopt : std::optional(found->second);
}

using Kind = Fault::Kind;
constexpr std::array<std::pair<std::string_view, Kind>, 7> kKinds = {{{"wrong-key", Kind::wrong_key},
                                                                      {"flaky", Kind::flaky},
                                                                      {"latency", Kind::latency},
                                                                      {"trickle", Kind::trickle},
                                                                      {"huge", Kind::huge},
                                                                      {"noise", Kind::noise},
                                                                      {"killed", Kind::killed}}};
constexpr std::array<std::pair<std::string_view, Blow>, 4> kBlows = {
    {{"hang", Blow::hang}, {"cut", Blow::cut}, {"reset", Blow::reset}, {"garbage", Blow::garbage}}};
constexpr std::array<std::pair<std::string_view, Phase>, 6> kPhases = {{{"banner", Phase::banner},
                                                                        {"kex", Phase::kex},
                                                                        {"auth", Phase::auth},
                                                                        {"channel", Phase::channel},
                                                                        {"exec", Phase::exec},
                                                                        {"output", Phase::output}}};

}  // namespace

std::optional<Fault> parse_fault(std::string_view name) {
  if (const auto kind = named(kKinds, name)) return Fault{*kind, {}, {}};
  const auto colon = name.find(':');
  if (colon == name.npos) return std::nullopt;
  const auto blow = named(kBlows, name.substr(0, colon));
  const auto phase = named(kPhases, name.substr(colon + 1));
  if (!blow || !phase) return std::nullopt;
  return Fault{Kind::blow, *blow, *phase};
}

}  // namespace trueup::fleet
