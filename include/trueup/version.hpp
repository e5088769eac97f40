#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/result.hpp"

namespace trueup {

/// A version as GPU software writes it: CUDA `12.8`, drivers `580.95.05`, Python packages `0.6.7.post3`, `0.4.0rc3`,
/// `0.6.6.dev20260323`, `2.9.1+cu130`. Ordered as PEP 440 orders releases; numeric-only versions order by number, and
/// missing numbers count as zero (`12` == `12.0`). The local part (`+cu130`) takes no part in the order.
class Version {
 public:
  static Result<Version> parse(std::string_view text);

  /// For constants in our own code and tests: `Version::of("12.9")`. Undefined for text that is no version.
  static Version of(std::string_view text);

  int major() const { return number(0); }
  int minor() const { return number(1); }
  /// The `index`-th number of the release, 0 where there is none.
  int number(std::size_t index) const { return index < release_.size() ? release_[index] : 0; }
  /// `cu130` of `2.9.1+cu130`; empty where there is none.
  const std::string& local() const { return local_; }
  bool is_dev() const { return dev_ >= 0; }
  /// The number after `.dev` (a date in nightly builds); -1 where there is none.
  long dev() const { return dev_; }

  /// `12.8` of `12.8.93`: what compatibility tables are keyed by.
  Version major_minor() const;

  /// As it was written.
  const std::string& text() const { return text_; }

  friend std::strong_ordering operator<=>(const Version& a, const Version& b);
  friend bool operator==(const Version& a, const Version& b) { return (a <=> b) == 0; }

 private:
  std::string text_;
  std::vector<int> release_;
  int pre_kind_ = 3;  ///< 0 a, 1 b, 2 rc, 3 none
  int pre_ = 0;
  int post_ = -1;
  long dev_ = -1;
  std::string local_;
};

}  // namespace trueup
