#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "derive/resolve.hpp"

namespace trueup {

/// What a library that runs nvcc for the GPUs it sees asks of a host.
struct NvccLibrary {
  std::string name;                          ///< for people: `DeepGEMM`
  std::string library;                       ///< Resolution::library
  std::string package;                       ///< of the Python environment; its rows of jit_targets decide the targets
  std::string when_no_root;                  ///< what happens where no toolkit is found
  std::vector<std::string_view> needs = {};  ///< paths of the toolkit that a build cannot do without
  bool ninja = false;                        ///< it runs `ninja` by name
  bool links = false;                        ///< it links with the host's C++ compiler (CXX, else c++)
  std::optional<int> min_gcc = {};           ///< of the C++ standard that it compiles with
};

/// One question after the other, in the order in which such a library fails. Each answers whether to go on; where not,
/// the verdict is set.
class NvccBuild {
 public:
  NvccBuild(const Subject& subject, NvccLibrary library);

  bool read_version();
  /// Only notes where the toolkit is; `find_compiler` judges it, in its turn.
  bool locate(ToolkitRoot root);
  bool see_gpus();
  /// `replaced_by`: a variable that names another compiler for builds; empty: there is none.
  bool find_compiler(const std::string& replaced_by = {});
  /// From the tables, for each GPU that the process sees.
  bool choose_targets() { return choose_targets(result_.gpus_cc); }
  bool choose_targets(const std::vector<std::string>& compute_caps);
  /// What another place chose: a list of the environment's.
  void take_targets(std::vector<std::string> targets, const std::string& how);
  bool check_targets();
  bool check_driver();
  bool check_toolkit();
  bool check_tools();
  bool end(Outcome outcome, std::string reason, std::string explanation);
  void say(std::string line) { result_.evidence.push_back(std::move(line)); }

  const Resolution& result() const { return result_; }
  const ToolkitRoot& root() const { return root_; }
  const std::optional<Version>& compiler() const { return result_.compiler_version; }
  /// `DeepGEMM 2.0.0`.
  std::string name() const { return library_.name + " " + result_.library_version; }
  Resolution take() { return std::move(result_); }

 private:
  const Subject& subject_;
  NvccLibrary library_;
  Resolution result_;
  ToolkitRoot root_;
  Version version_;
  const Toolkit* toolkit_ = nullptr;
  std::string stop_gap_;
};

}  // namespace trueup
