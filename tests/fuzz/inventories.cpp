#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "load/inventory.hpp"

namespace {

using namespace trueup;

struct OneText final : FileAccess {
  std::string text;
  Result<std::string> read(const std::string&) const override { return text; }
  std::vector<std::string> list(const std::string&) const override { return {}; }
};

}  // namespace

// Any text is answered as a file, as a program's output, as a list and as a pattern; no host's name, address or account
// can be taken for an option.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  OneText files;
  files.text.assign(reinterpret_cast<const char*>(data), size);
  const InventoryInputs inputs{files, "/home/ops", [&] { return files.read("-"); },
                               [&](const std::string& path) { return files.read(path); }};
  for (const auto& argument : {std::string("file"), std::string("exec:program"), files.text + ","}) {
    Errors errors;
    const auto inventory = load_inventory({argument}, inputs, errors);
    for (const auto& host : inventory.hosts)
      if (host.name.empty() || host.name.front() == '-' || host.address.empty() || host.address.front() == '-' ||
          (host.user && (host.user->empty() || host.user->front() == '-')))
        std::abort();
    (void)select_hosts(inventory, files.text);
  }
  return 0;
}
