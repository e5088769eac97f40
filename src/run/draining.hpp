#pragma once

#include <cstddef>
#include <vector>

#include "run/apply.hpp"

namespace trueup {

/// Hosts are taken out of service before they are changed, and brought back once it is known what they are: the
/// programs `before_host` and `after_host` of WorkTools. A host in doubt stays out, and its result says so and how it
/// comes back.
class Draining {
 public:
  Draining(const WorkTools& tools, std::size_t hosts);

  /// `before_host` of these, side by side. Those for which it did well, or which have none; the results of the others
  /// say why they are not begun.
  std::vector<std::size_t> take_out(const std::vector<std::size_t>& hosts, std::vector<WorkResult>& results);
  bool is_out(std::size_t host) const { return is_out_[host]; }

  /// `after_host` of these, side by side: of those that are as planned or as they were. `was_settled`: whether what a
  /// host was before is known too, so that one that was not touched comes back.
  void bring_back(const std::vector<std::size_t>& hosts, const std::vector<bool>& was_settled,
                  std::vector<WorkResult>& results);

 private:
  std::string by_hand(std::size_t host) const;

  const WorkTools& tools_;
  std::vector<bool> is_out_;  ///< its before_host ran, and its after_host did not
};

}  // namespace trueup
