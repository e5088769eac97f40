#pragma once

#include <map>
#include <string>
#include <vector>

#include "plan/draft.hpp"
#include "trueup/environment.hpp"
#include "trueup/plan.hpp"

// A path on a network file system is one thing, however many hosts see it: one of them does what is to be done there.

namespace trueup {

/// Where `path` lies on a server, the same for all hosts that mount it: `nas:/export/home/ml/.cache`. Empty: on the
/// host's own disks, on a server that its mounts do not name, or its mounts are not known.
std::string shared_place(const Environment& environment, const std::string& path);

/// The places of a plan that hosts do something at, each with the first host that does.
class SharedPlaces {
 public:
  /// Of the draft's steps those that an earlier host does, by index.
  std::map<std::size_t, SharedStep> done_before(const PlanDraft& draft, const Environment& environment) const;
  /// `host` does those steps of the draft (indexes).
  void note(const std::string& host, const std::vector<std::size_t>& steps, const PlanDraft& draft,
            const Environment& environment);

 private:
  std::map<std::string, std::string> first_;  ///< kind and place -> host
};

}  // namespace trueup
