#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/finding.hpp"
#include "trueup/playbook.hpp"
#include "trueup/result.hpp"

namespace trueup {

/// Collects the results that CheckSet::evaluate gives for one host, within limits, and makes the assessment of them:
/// findings linked to what explains them, roots first.
class Gatherer {
 public:
  explicit Gatherer(const std::vector<Check>& checks) : checks_(checks) {}

  /// The checks' results may come in any order. Errors: no result of ours.
  Result<void> add(std::size_t check, std::string_view result);
  Assessment finish();

 private:
  struct Entry {
    Finding finding;
    std::size_t check = 0;
  };
  struct Gap {
    std::size_t check = 0;
    NotEvaluated entry;
  };
  void add_found(std::size_t check, const nlohmann::json& result);
  void not_evaluated(std::size_t check, std::string about, std::string why);

  const std::vector<Check>& checks_;
  std::vector<Entry> found_ = {};
  std::vector<Gap> gaps_ = {};
  Assessment assessment_ = {};
  std::map<std::size_t, std::size_t> results_ = {};   // check -> how many
  std::map<std::size_t, std::size_t> findings_ = {};  // check -> how many
};

}  // namespace trueup
