#include "trueup/environment.hpp"

namespace trueup {

const std::vector<std::string>& environment_sections() {
  static const std::vector<std::string> kSections = {
      "host",  "os",          "memory",   "disks",     "driver", "gpus",   "toolkits", "cuda_links",
      "tools", "python_envs", "services", "processes", "login",  "caches", "journal"};
  return kSections;
}

}  // namespace trueup
