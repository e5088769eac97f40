#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "support/catch.hpp"
#include "unit/derive/assess.hpp"

namespace trueup {

using nlohmann::json;
using test::assess;
using test::find;
using test::summary;

TEST_CASE("shipped checks find on every recorded host what is wrong, and nothing else", "[unit][derive][playbooks]") {
  for (const auto& path : test::cases_in("derive", ".json")) {
    const auto c = test::derive_case(path.stem().string());
    if (!c.document.contains("findings")) continue;
    const auto& expected = c.document["findings"];
    const auto assessment = assess(c);
    INFO(c.name << ": " << c.document.at("what") << "\n" << summary(assessment));

    std::vector<std::string> keys;
    for (const auto& finding : assessment.findings)
      if (finding.severity != Severity::info) keys.push_back(finding.key());
    std::sort(keys.begin(), keys.end());
    CHECK(json(keys) == expected.at("exact"));
    for (const auto& finding : assessment.findings) {
      CHECK_FALSE(finding.because.empty());
      for (const auto& text : {finding.title, finding.because, join(finding.evidence, "\n")})
        CHECK(text.find("{{error") == text.npos);
    }

    for (const auto& key : expected.value("roots", json::array())) {
      const auto* finding = find(assessment, key);
      CHECK((finding != nullptr && finding->root));
      for (const auto& other : assessment.findings)  // one root; the others, info apart, are explained
        if (finding != nullptr && &other != finding && other.severity != Severity::info) CHECK_FALSE(other.root);
    }
    const auto severities = expected.value("severity", json::object());
    for (const auto& [key, severity] : severities.items()) {
      const auto* finding = find(assessment, key);
      REQUIRE(finding != nullptr);
      CHECK(to_string(finding->severity) == severity.get<std::string>());
    }
    json skipped = json::array();
    for (const auto& each : assessment.not_evaluated) skipped.push_back(each.check);
    for (const auto& check : expected.value("not_evaluated", json::array()))
      CHECK(std::find(skipped.begin(), skipped.end(), check) != skipped.end());
    if (!expected.contains("not_evaluated")) CHECK(skipped == json::array());
  }
}

TEST_CASE("the incident's finding carries its chain, its journal line and its history",
          "[unit][derive][playbooks]") {
  const auto assessment = assess(test::derive_case("ct200"));
  REQUIRE_FALSE(assessment.findings.empty());
  const auto& root = assessment.findings.front();
  CHECK(root.check == "flashinfer.arch-set-empty");
  CHECK(root.severity == Severity::error);
  CHECK_THAT(root.title,
             ContainsSubstring("sglang-k26.service failed, and will fail again at the first sampled request"));
  const auto evidence = join(root.evidence, "\n");
  for (const auto* part : {"compute capability 12.0", "default /usr/local/cuda",
                           "/usr/local/cuda/bin/nvcc is CUDA 12.8", "flashinfer-python 0.6.12", "requires CUDA >= 12.9",
                           "empty", "journal: RuntimeError: FlashInfer requires GPUs with sm75",
                           "before: FlashInfer 0.6.5 built 1 module for 120a"})
    CHECK_THAT(evidence, ContainsSubstring(part));

  const auto* failed = find(assessment, "service.failed@sglang-k26.service");
  REQUIRE(failed != nullptr);
  CHECK(failed->caused_by == std::vector<std::string>{root.key()});
  CHECK_THAT(join(failed->evidence, "\n"), ContainsSubstring("signal 9 names no sender"));
  CHECK(find(assessment, "service.oom-killed@sglang-k26.service") == nullptr);
  CHECK(find(assessment, "service.program-error@sglang-k26.service")->severity == Severity::info);
}

TEST_CASE("libraries are not called sound where processes or consumers could not be looked into",
          "[unit][derive][playbooks]") {
  const auto blind_to = [](const Assessment& assessment, const std::string& check) {
    return std::any_of(assessment.not_evaluated.begin(), assessment.not_evaluated.end(),
                       [&](const NotEvaluated& each) { return each.check == check; });
  };
  auto c = test::derive_case("ct200");
  const auto checks = {"flashinfer.arch-set-empty", "torch.driver-too-old", "torch.arch-list-rejected",
                       "triton.assembler-too-old", "vllm.flashinfer-off"};
  const auto seeing = assess(c);
  for (const auto* check : checks) CHECK_FALSE(blind_to(seeing, check));
  c.facts["processes"] = nullptr;
  c.facts["unknown"]["processes"] = "no permission";
  const auto blind = assess(c);
  for (const auto* check : checks) {
    CAPTURE(check);
    CHECK(blind_to(blind, check));
  }
  CHECK(blind_to(assess(test::derive_case("unit-env-unknown")), "torch.arch-list-rejected"));
}

TEST_CASE("signal 9 is called want of memory only with a record of it", "[unit][derive][playbooks]") {
  auto c = test::derive_case("ct200");
  c.facts["journal"].push_back(
      {{"signature", "kernel.oom-kill"},
       {"source", "kernel"},
       {"unit", ""},
       {"time", 1},
       {"text", "oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/system.slice/sglang-k26.service,task=python3"}});
  CHECK(find(assess(c), "service.oom-killed@sglang-k26.service") != nullptr);

  c.facts["journal"].back()["text"] =
      "oom-kill:constraint=CONSTRAINT_NONE,task_memcg=/system.slice/other.service,task=python3";
  CHECK(find(assess(c), "service.oom-killed@sglang-k26.service") == nullptr);

  c.facts["journal"] = nullptr;
  c.facts["unknown"]["journal"] = "no permission";
  const auto blind = assess(c);
  INFO(summary(blind));
  CHECK(find(blind, "service.oom-killed@sglang-k26.service") == nullptr);
  CHECK(std::any_of(blind.not_evaluated.begin(), blind.not_evaluated.end(),
                    [](const NotEvaluated& each) { return each.check == "service.oom-killed"; }));
}

TEST_CASE("a driver whose libraries were upgraded under it explains nvidia-smi", "[unit][derive][playbooks]") {
  auto c = test::derive_case("h100");
  c.facts["driver"]["library_versions"] = {"580.105.08"};
  c.facts["driver"]["on_disk"] = "580.105.08";
  c.facts["driver"]["nvidia_smi"] = false;
  c.facts["driver"]["nvidia_smi_error"] = "Failed to initialize NVML: Driver/library version mismatch";
  const auto assessment = assess(c);
  INFO(summary(assessment));
  REQUIRE(find(assessment, "driver.library-mismatch") != nullptr);
  CHECK(find(assessment, "driver.library-mismatch")->root);
  REQUIRE(find(assessment, "driver.nvidia-smi-failed") != nullptr);
  CHECK_FALSE(find(assessment, "driver.nvidia-smi-failed")->root);
}

TEST_CASE("findings name the container's image and the last words of the boot before", "[unit][derive][playbooks]") {
  auto c = test::derive_case("container-lost");
  c.facts["containers"][0]["engine"] = "docker";
  c.facts["containers"][0]["image"] = "vllm/vllm-openai:v0.14.1";
  auto assessment = assess(c);
  const auto lost = std::find_if(assessment.findings.begin(), assessment.findings.end(),
                                 [](const Finding& each) { return each.check == "container.gpus-lost"; });
  REQUIRE(lost != assessment.findings.end());
  CHECK_THAT(join(lost->evidence, "\n"), ContainsSubstring("image vllm/vllm-openai:v0.14.1 (docker)"));

  c = test::derive_case("unified-wedge");
  c.facts["previous_boot"]["last"] = "NVRM: last words";
  assessment = assess(c);
  const auto wedged = std::find_if(assessment.findings.begin(), assessment.findings.end(),
                                   [](const Finding& each) { return each.check == "memory.unified-exhausted"; });
  REQUIRE(wedged != assessment.findings.end());
  CHECK_THAT(join(wedged->evidence, "\n"), ContainsSubstring("its last line: NVRM: last words"));
}

TEST_CASE("FlashInfer's companions may carry a suffix and no other release", "[unit][derive][playbooks]") {
  auto c = test::derive_case("h100");
  auto& packages = c.facts["python_envs"][0]["packages"];
  packages.push_back({{"name", "flashinfer-jit-cache"}, {"version", "0.6.12+cu130"}});
  packages.push_back({{"name", "flashinfer-cubin"}, {"version", "0.6.12"}});
  CHECK(find(assess(c), "flashinfer.package-skew@sglang-k26.service") == nullptr);
  packages.back()["version"] = "0.6.11";
  const auto assessment = assess(c);
  REQUIRE(find(assessment, "flashinfer.package-skew@sglang-k26.service") != nullptr);
  CHECK(find(assessment, "flashinfer.package-skew@sglang-k26.service")->severity == Severity::error);
}

}  // namespace trueup
