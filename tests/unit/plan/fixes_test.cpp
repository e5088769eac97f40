#include "plan/fixes.hpp"

#include "support/catch.hpp"
#include "support/playbook_text.hpp"
#include "unit/plan/fake_kinds.hpp"

namespace trueup {
namespace {

using Texts = std::vector<std::string>;

Texts wrong(const std::string& steps) {
  const auto playbook = test::playbook("fixes:\n  f:\n    title: t\n    steps:\n" + steps);
  std::vector<Error> errors;
  check_fixes(playbook.fixes, test::find_fake, {"toolkit", "pin", "aside", "service"}, errors);
  return test::texts(errors);
}

}  // namespace

TEST_CASE("fixes that are right pass", "[unit][plan][fixes]") {
  CHECK(wrong("    - toolkit: {version: \"13.0\"}\n"
              "    - pin: {unit: \"{{ .item.unit }}\", environment: {CUDA_HOME: \"{{ 1 }}\"}}\n"
              "    - service: {unit: a.service, state: restarted, health: }\n") == Texts{});
}

TEST_CASE("what a fix says of actions is held against them, each mistake at its place", "[unit][plan][fixes]") {
  CHECK(wrong("    - toolkti: {version: x}\n") ==
        Texts{"p.yaml:5:7: fix f: there is no action 'toolkti'; did you mean 'toolkit'?"});
  CHECK(wrong("    - toolkit: {versoin: \"13.0\"}\n") ==
        Texts{"p.yaml:5:17: fix f: toolkit: unknown parameter 'versoin'; did you mean 'version'?",
              "p.yaml:5:7: fix f: toolkit: parameter 'version' is missing (such as 13.0)"});
  CHECK(wrong("    - toolkit:\n") ==
        Texts{"p.yaml:5:7: fix f: toolkit: parameter 'version' is missing (such as 13.0)"});
  CHECK(wrong("    - toolkit: {version: 13.0}\n") ==
        Texts{"p.yaml:5:17: fix f: toolkit: version: expected a text, got number (put it in quotes)"});
  CHECK(wrong("    - service: {unit: \"{{ .item }}\", state: startd}\n") ==
        Texts{"p.yaml:5:38: fix f: service: state: expected one of started, stopped, restarted, got 'startd'; did you "
              "mean 'started'?"});
  CHECK(wrong("    - pin: {unit: a, environment: [x]}\n") ==
        Texts{"p.yaml:5:22: fix f: pin: environment: expected names and values, got array"});
  // Only the kind itself knows that it is wrong; where a template may still make it right, that is left to the plan.
  CHECK(wrong("    - toolkit: {version: bad}\n") == Texts{"p.yaml:5:7: fix f: toolkit: version: 'bad' is bad"});
  CHECK(wrong("    - toolkit: {version: \"{{ .item.version }}\"}\n") == Texts{});
}

}  // namespace trueup
