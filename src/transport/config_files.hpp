#pragma once

#include <string>
#include <vector>

#include "transport/route.hpp"
#include "transport/ssh_config.hpp"

namespace trueup::ssh {

/// The controller's disk, for ssh_config. A file that another account owns or that others can write is refused: it
/// names programs to run. That is ssh's own rule for ~/.ssh/config.
class DiskConfigFiles final : public ConfigFiles {
 public:
  Result<std::string> read(const std::string& path) const override;
  std::vector<std::string> glob(const std::string& pattern) const override;
};

/// The account `user` with its home, on this machine, in this environment.
LocalSide local_side(std::string user, std::string home);

/// `~/.ssh/config` and `/etc/ssh/ssh_config`; `path` instead of both if it is not empty; `none`: no file at all.
SshConfig load_ssh_config(const std::string& path, const std::string& home, std::vector<Error>& errors);

}  // namespace trueup::ssh
