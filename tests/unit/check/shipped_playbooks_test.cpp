#include <filesystem>

#include "check/check_set.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"
#include "support/playbook_text.hpp"

using namespace trueup;

TEST_CASE("the playbooks that trueup ships are right", "[unit][check][playbook]") {
  std::map<std::string, std::string> files;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(TRUEUP_PLAYBOOKS))
    if (entry.path().extension() == ".yaml") {
      paths.push_back(entry.path().filename().string());
      files[paths.back()] = test::read_file(entry.path());
    }
  REQUIRE_FALSE(paths.empty());
  Errors errors;
  const auto playbook = load_playbooks(paths, test::TextFiles(files), errors);
  CHECK(test::texts(errors) == std::vector<std::string>{});
  (void)CheckSet::compile(playbook.checks, playbook.fixes, errors);
  CHECK(test::texts(errors) == std::vector<std::string>{});
}
