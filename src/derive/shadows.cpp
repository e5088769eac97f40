#include "derive/shadows.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace trueup {
namespace {

// A file may name fewer parts than the wheel does: libcudnn.so.9.1.0 of 9.1.0.70.
bool same(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

}  // namespace

std::vector<Shadow> find_shadows(const HostView& host, const Knowledge& knowledge, const std::vector<Claim>& claims) {
  std::vector<Shadow> shadows;
  for (const auto& claim : claims) {
    if (claim.python == nullptr || !claim.unknown.empty()) continue;
    const auto path = variable(claim.consumer.env, "LD_LIBRARY_PATH").value_or("");
    for (const auto entry : split(path, ':')) {
      const auto* directory = host.library_dir(entry);
      if (directory == nullptr || directory->resolved.starts_with(claim.python->site_packages + "/")) continue;
      for (const auto& [library, file] : directory->libraries)
        for (const auto& row : knowledge.wheel_libraries) {
          const auto* package = row.library == library ? claim.python->package(row.package) : nullptr;
          if (package == nullptr) continue;
          const bool before = std::any_of(shadows.begin(), shadows.end(), [&](const Shadow& each) {
            return each.consumer == claim.consumer.id && each.library == library;
          });
          if (before) continue;  // an earlier directory has it already
          Shadow shadow{claim.consumer.id,
                        claim.consumer.unit,
                        claim.consumer.kind != "unclaimed",
                        claim.python->path,
                        std::string(entry),
                        library,
                        {},
                        row.package,
                        package->version};
          const auto found = LibraryFile(*directory, library).version;
          const auto shipped = Version::parse(package->version);
          if (found && shipped) {
            shadow.found = found->text();
            shadow.outcome = same(found->text(), shipped->text()) ? Outcome::ok
                             : *found < *shipped                  ? Outcome::broken
                                                                  : Outcome::risk;
          }
          shadows.push_back(std::move(shadow));
        }
    }
  }
  return shadows;
}

}  // namespace trueup
