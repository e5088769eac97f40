#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trueup/inventory.hpp"

namespace trueup {

/// A group of the inventory whose hosts stand in for each other. Members: indexes into the hosts of the run.
struct GroupRule {
  std::string name;
  std::vector<std::size_t> hosts;
  std::optional<std::size_t> max_unavailable;  ///< so many may be away at once
  bool atomic = false;                         ///< its hosts serve together: all go at once, and back at once
};

struct BatchPolicy {
  std::size_t canary = 0;    ///< hosts in the first batch; it goes on only when all of them went well; 0: no canary
  std::size_t size = 0;      ///< hosts in the others; 0: as `percent` says
  std::size_t percent = 100; ///< of all hosts, rounded up
  std::size_t max_fail = 0;  ///< hosts that may fail before no more are begun
  std::vector<GroupRule> groups;
  std::vector<std::pair<std::size_t, std::size_t>> order = {};  ///< hosts, each with one that has to be done before
};

/// Of an inventory's groups those with the variables `max_unavailable` (a whole number) or `atomic` (true or false),
/// for these hosts. Errors: a value of another kind.
std::vector<GroupRule> group_rules(const Inventory& inventory, const std::vector<Host>& hosts,
                                   std::vector<Error>& errors);

/// What became of a host so far.
enum class HostProgress {
  waiting,
  done,      ///< as the plan said, or nothing was to be done
  untouched, ///< refused or not reached: as it was, and no failure of the plan
  put_back,  ///< failed, and as it was
  away,      ///< failed, and needs somebody; or at work with nobody watching
};

struct Batch {
  std::vector<std::size_t> hosts;
  std::string stop;  ///< why no more are begun though some wait; empty: go on, or nothing is left
};

/// Which hosts are next. `batches`: those so far in which anything was done. A host that cannot go now, since its group
/// has too many away, is left for later; where that holds of all that wait, that is the reason to stop.
Batch next_batch(const BatchPolicy& policy, const std::vector<HostProgress>& hosts, std::size_t batches);

}  // namespace trueup
