// What judging costs: compiling all shipped checks (once a run), then deriving and evaluating them for N hosts.
//
// usage: trueup_bench_checks [CASE]     CASE: a file of tests/data/derive, by default the incident

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "check/check_set.hpp"
#include "load/playbook.hpp"
#include "unit/derive/derive_cases.hpp"

using namespace trueup;

namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

struct SourceTree : FileAccess {
  Result<std::string> read(const std::string& path) const override { return test::read_file(path); }
  std::vector<std::string> list(const std::string&) const override { return {}; }
};

template <class Work>
double milliseconds(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return Milliseconds(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const auto base = test::derive_case(argc > 1 ? argv[1] : "ct200");
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TRUEUP_PLAYBOOKS))
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  Errors errors;
  const auto playbook = load_playbooks(paths, SourceTree(), errors);
  const auto knowledge = test::shipped_knowledge();
  const auto environment = environment_from_json(base.facts);
  std::optional<Result<CheckSet>> checks;
  const auto compiling = milliseconds([&] { checks = CheckSet::compile(playbook.checks, errors); });
  if (!errors.empty() || !environment || !*checks) {
    fmt::print(stderr, "{}\n", errors.empty() ? "the case does not load" : to_string(errors.front()));
    return EXIT_FAILURE;
  }
  fmt::print("{} checks, compiled once: {:.1f} ms\n\n", playbook.checks.size(), compiling);
  fmt::print("{:>6}  {:>12}  {:>12}  {:>12}  {:>14}\n", "hosts", "derive", "checks", "per host", "x of one host");

  (void)(*checks)->assess(base.facts);  // what is allocated once
  double one = 0;
  for (const std::size_t hosts : {1U, 10U, 100U, 1000U}) {
    std::vector<double> deriving, judging;
    const auto whole = milliseconds([&] {
      for (std::size_t host = 0; host < hosts; ++host) {
        nlohmann::json facts;
        deriving.push_back(milliseconds([&] {
          facts = environment_to_json(*environment);
          facts["derived"] = derived_to_json(derive(*environment, base.declared, knowledge));
        }));
        judging.push_back(milliseconds([&] {
          if (!(*checks)->assess(facts)) std::abort();
        }));
      }
    });
    const auto each = whole / static_cast<double>(hosts);
    if (one == 0) one = each;
    fmt::print("{:>6}  {:>9.3f} ms  {:>9.3f} ms  {:>9.3f} ms  {:>14.1f}\n", hosts, median(deriving), median(judging),
               each, whole / one);
  }
}
