#include <nlohmann/json.hpp>

#include "action/parts.hpp"
#include "base/text.hpp"
#include "support/catch.hpp"

namespace trueup {
namespace {

using nlohmann::json;

std::vector<std::string> wrong(std::string_view kind, const json& params) {
  std::vector<std::string> messages;
  for (const auto& error : check_params(*find_action(kind), params)) messages.push_back(error.message);
  return messages;
}

bool has(const std::vector<std::string>& messages, std::string_view text) {
  INFO(join(messages, "\n"));
  return std::any_of(messages.begin(), messages.end(),
                     [&](const std::string& message) { return message.find(text) != message.npos; });
}

// One that is right for each kind, and what makes it wrong.
struct Example {
  std::string kind;
  json right;
};

const std::vector<Example> kExamples = {
    {"cuda_toolkit", {{"version", "13.0"}}},
    {"package", {{"packages", {"ninja-build", "g++-12=12.2.0-14"}}}},
    {"alternatives", {{"group", "cuda"}, {"path", "/usr/local/cuda-12.8"}}},
    {"file", {{"path", "/etc/x/y"}, {"content", "a\n"}}},
    {"systemd_override", {{"unit", "sglang.service"}, {"environment", {{"CUDA_HOME", "/usr/local/cuda-13.0"}}}}},
    {"cache", {{"path", "/root/.cache/flashinfer/0.6.7"}, {"units", {"sglang.service"}}}},
    {"command", {{"check", {"/bin/true"}}, {"apply", {"/bin/true"}}, {"undo", {"/bin/true"}}}},
    {"service", {{"unit", "sglang.service"}, {"state", "restarted"}}},
};

TEST_CASE("every kind takes an ordinary step, and its scripts are one call", "[unit][action]") {
  REQUIRE(kExamples.size() == action_kinds().size());
  for (const auto& [name, right] : kExamples) {
    CAPTURE(name);
    const auto* kind = find_action(name);
    REQUIRE(kind != nullptr);
    CHECK(wrong(name, right).empty());
    for (const auto& step : kind->steps(right)) {
      CHECK(wrong(name, step).empty());
      CHECK_FALSE(kind->object(step).empty());
      CHECK(kind->rank(step) > 0);
      for (const auto& script :
           {kind->inspect(step), kind->apply(step, {}), kind->verify(step, {}), kind->undo(step, {})}) {
        CHECK_FALSE(script.text.empty());
        CHECK(script.limit.count() > 0);
      }
    }
  }
  CHECK(find_action("cuda-toolkit") == nullptr);
}

TEST_CASE("ranks put steps in the order in which they need each other", "[unit][action]") {
  std::vector<int> ranks;
  for (const auto& [kind, params] : std::vector<Example>{{"cuda_toolkit", {}},
                                                         {"package", {}},
                                                         {"alternatives", {}},
                                                         {"file", {}},
                                                         {"service", {{"state", "stopped"}}},
                                                         {"systemd_override", {}},
                                                         {"cache", {}},
                                                         {"command", {}},
                                                         {"service", {{"state", "started"}}}})
    ranks.push_back(find_action(kind)->rank(params));
  CHECK(ranks == std::vector<int>{10, 20, 30, 40, 50, 60, 70, 80, 90});
}

TEST_CASE("names of parameters are checked, with the nearest right one", "[unit][action]") {
  for (const auto& [name, right] : kExamples) {
    auto params = right;
    params["unti"] = "x";
    CHECK(has(wrong(name, params), "unknown parameter 'unti'"));
    CHECK_FALSE(wrong(name, json::array()).empty());
    CHECK_FALSE(wrong(name, "x").empty());
    for (const auto& spec : find_action(name)->params()) {
      if (!spec.required) continue;
      params = right;
      params.erase(std::string(spec.name));
      CAPTURE(name, spec.name);
      CHECK(has(wrong(name, params), "is missing"));
    }
    // Each parameter, of each wrong type.
    for (const auto& [key, value] : right.items())
      for (const auto& other : {json(7.5), json::array({json::object()}), json({{"1x", "y"}})}) {
        params = right;
        params[key] = other;
        CAPTURE(name, key, other.dump());
        CHECK_FALSE(wrong(name, params).empty());
      }
  }
  CHECK(has(wrong("service", {{"unti", "x.service"}, {"state", "started"}}), "did you mean 'unit'?"));
  CHECK(has(wrong("service", {{"unit", "x.service"}, {"state", "start"}}), "did you mean 'started'?"));
}

TEST_CASE("paths, units and variables that cannot be meant are refused", "[unit][action]") {
  for (const auto* path :
       {"etc/x", "/etc/../x/y", "/etc//x", "/etc/./x", "/etc/x/", "", "/x", "/proc/sys/x", "/etc/x\ny", "/etc/\x1b[m"})
    CHECK_FALSE(wrong("file", {{"path", path}, {"content", ""}}).empty());
  for (const auto* unit :
       {"sglang", "-x.service", "a b.service", "../x.service", "x.service;id", ".service", "x@.service", "x.timer"})
    CHECK_FALSE(wrong("service", {{"unit", unit}, {"state", "started"}}).empty());
  CHECK(wrong("service", {{"unit", R"(a\x2db@1:x.service)"}, {"state", "started"}}).empty());
  for (const auto* name : {"", "1A", "A-B", "A=B", "A B"})
    CHECK_FALSE(wrong("systemd_override", {{"unit", "x.service"}, {"environment", {{name, "1"}}}}).empty());
  CHECK_FALSE(wrong("systemd_override", {{"unit", "x.service"}, {"environment", {{"A", "1\n2"}}}}).empty());
  CHECK_FALSE(wrong("systemd_override", {{"unit", "x.service"}, {"environment", {{"A", 1}}}}).empty());
  CHECK_FALSE(wrong("systemd_override", {{"unit", "x.service"}}).empty());
  CHECK_FALSE(
      wrong("systemd_override", {{"unit", "x.service"}, {"environment", {{"A", ""}}}, {"unset", {"A"}}}).empty());
  CHECK_FALSE(wrong("file", {{"path", "/etc/x"}, {"content", std::string("a\0b", 3)}}).empty());
}

TEST_CASE("what a fix must not do is refused before any host is asked", "[unit][action]") {
  CHECK(has(wrong("command", {{"check", {"true"}}, {"apply", {"true"}}}), "'undo' is missing"));
  CHECK(wrong("command", {{"check", {"true"}}, {"apply", {"true"}}, {"irreversible", "a key is gone"}}).empty());
  CHECK_FALSE(wrong("command", {{"check", {"-x"}}, {"apply", {"true"}}, {"undo", {"true"}}}).empty());
  for (const auto* path :
       {"/", "/root", "/root/.cache", "/home/svc/.cache", "/root/venv/lib/python3.12/site-packages/flashinfer/x",
        "/root/.cache/flashinfer/cubins", "/root/.cache/huggingface/hub", "/a/b"})
    CHECK_FALSE(wrong("cache", {{"path", path}}).empty());
  for (const auto* version : {"13", "13.0.1", "13.x", "", "-13.0", "13.0;id", "130.0"})
    CHECK_FALSE(wrong("cuda_toolkit", {{"version", version}}).empty());
  CHECK(has(wrong("cuda_toolkit", {{"version", "13.0"}, {"from", "runfile"}}), "not supported yet"));
  for (const auto* package : {"-x", "a b", "x=", "x=1 2", "", "x-", "x+", "$(id)"})
    CHECK_FALSE(wrong("package", {{"packages", {package}}}).empty());
  CHECK_FALSE(wrong("package", {{"packages", json::array()}}).empty());
  for (const auto* url : {"localhost:8000", "ftp://x/", "http://", "http://:80/", "http://u:p@h/", "http://h/a b",
                          "http://h/\"", "http:///x"})
    CHECK_FALSE(wrong("service", {{"unit", "x.service"}, {"state", "started"}, {"health", {{"url", url}}}}).empty());
  CHECK_FALSE(
      wrong("service", {{"unit", "x.service"}, {"state", "stopped"}, {"health", {{"url", "http://h/"}}}}).empty());
  CHECK_FALSE(
      wrong("service", {{"unit", "x.service"}, {"state", "started"}, {"health", {{"url", "http://h/"}, {"requst", 1}}}})
          .empty());
  CHECK_FALSE(wrong("service", {{"unit", "x.service"}, {"state", "started"}, {"drain", {"x"}}}).empty());
}

TEST_CASE("a repository needs its key's whole fingerprint", "[unit][action]") {
  json repository = {{"url", "https://mirror.example/cuda/debian12/x86_64/"},
                     {"key", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n"},
                     {"fingerprint", "eb693b3035cd5710e231 E123A4B469963BF863CC"}};
  const auto judged = [&] { return wrong("cuda_toolkit", {{"version", "13.0"}, {"repository", repository}}); };
  CHECK(judged().empty());
  repository["fingerprint"] = "3BF863CC";
  CHECK(has(judged(), "all 40 hexadecimal digits"));
  repository["fingerprint"] = std::string(40, 'A');
  repository["url"] = "https://x y/";
  CHECK_FALSE(judged().empty());
  repository["url"] = "https://x/";
  repository["key"] = "/etc/passwd";
  CHECK_FALSE(judged().empty());
}

TEST_CASE("a restart is a stop and a start, between which other steps have their place", "[unit][action]") {
  const auto* service = find_action("service");
  const auto steps = service->steps({{"unit", "x.service"},
                                     {"state", "restarted"},
                                     {"drain", {"/usr/local/bin/drain"}},
                                     {"patience", "20m"},
                                     {"health", {{"url", "http://localhost:30000/health"}}}});
  REQUIRE(steps.size() == 2);
  CHECK(steps[0] == json{{"unit", "x.service"},
                         {"state", "stopped"},
                         {"drain", {"/usr/local/bin/drain"}},
                         {"patience", "20m"},
                         {"restart", true}});
  CHECK(steps[1] == json{{"unit", "x.service"},
                         {"state", "started"},
                         {"patience", "20m"},
                         {"health", {{"url", "http://localhost:30000/health"}}},
                         {"restart", true}});
  CHECK(service->object(steps[0]) != service->object(steps[1]));
  CHECK(service->verify(steps[1], {}).limit > std::chrono::minutes(20));
}

}  // namespace
}  // namespace trueup
