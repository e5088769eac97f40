#include <nlohmann/json.hpp>

#include "support/catch.hpp"
#include "unit/derive/assess.hpp"

// What single shipped checks make of settings and records that look alike: a table for each.

namespace trueup {
namespace {

using nlohmann::json;
using test::assess;
using test::summary;

constexpr auto kUnit = "sglang-k26.service";

/// The severity of what `check` finds about `about`; `unknown` where it was not evaluated, `holds` where neither.
std::string verdict(const Assessment& assessment, const std::string& check, const std::string& about = "") {
  for (const auto& finding : assessment.findings)
    if (finding.check == check && (about.empty() || finding.about == about))
      return std::string(to_string(finding.severity));
  for (const auto& gap : assessment.not_evaluated)
    if (gap.check == check) return "unknown";
  return "holds";
}

json line(const std::string& signature, std::int64_t time, const std::string& text) {
  return {{"signature", signature}, {"source", "kernel"}, {"unit", ""}, {"time", time}, {"text", text}};
}

json cache_dir(const std::string& kind, const std::string& path) {
  return {{"kind", kind}, {"path", path}, {"exists", true}, {"writable", true}, {"mount", "/"}};
}

}  // namespace

TEST_CASE("which device settings of a unit leave it without GPUs", "[unit][derive][playbooks]") {
  const struct {
    std::string policy, allow;
    bool hidden;
  } kRows[] = {
      {"", "", false},
      {"closed", "", true},
      {"strict", "/dev/null rw", true},
      {"", "/dev/fuse rw", true},  // `auto` with a list closes the rest
      {"closed", "char-* rw", false},
      {"closed", "char-nvidia* rwm", false},
      {"closed", "char-nvidia rw, char-nvidia-uvm rw", false},
      {"closed", "char-nvidia-frontend rw, char-nvidia-uvm rw", false},
      {"closed", "char-nvidiactl rw, char-nvidia-u?m rw, char-nvidia-caps rw", false},
      {"closed", "char-195 rw, char-511 rw", false},
      {"closed", "/dev/nvidia-uvm rw, /dev/nvidia0 rw, /dev/nvidiactl rw", false},
      {"closed", "/dev/nvidia0 rw, /dev/nvidiactl rw", true},  // CUDA opens /dev/nvidia-uvm as well
      {"closed", "char-nvidia rw", true},
      {"closed", "char-195 rw", true},
      {"closed", "char-nvidia* r", true},
      {"closed", "/dev/nvidia* rwm", true},  // a path is no pattern
      {"closed", "char-pts rw, block-* rw", true},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("host-sound");
    auto& settings = c.facts["services"][0]["settings"];
    settings = json::object();
    if (!row.policy.empty()) settings["DevicePolicy"] = row.policy;
    if (!row.allow.empty()) settings["DeviceAllow"] = row.allow;
    CAPTURE(row.policy, row.allow);
    CHECK(verdict(assess(c), "service.gpus-hidden", kUnit) == (row.hidden ? "warning" : "holds"));
  }
}

TEST_CASE("which settings of a unit close its caches", "[unit][derive][playbooks]") {
  const struct {
    json settings;
    std::string path, expected;
  } kRows[] = {
      {json::object(), "/home/serve/.triton/cache", "holds"},
      {{{"ProtectHome", "yes"}}, "/home/serve/.triton/cache", "warning"},
      {{{"ProtectHome", "yes"}}, "/homes/serve/.triton/cache", "holds"},
      {{{"ProtectHome", "yes"}}, "/root", "warning"},
      {{{"ProtectHome", "yes"}, {"ReadWritePaths", "/home/serve"}}, "/home/serve/.triton/cache", "warning"},
      {{{"ProtectHome", "yes"}, {"BindPaths", "/srv:/home/serve:rbind"}}, "/home/serve/.triton/cache", "warning"},
      {{{"ProtectHome", "tmpfs"}}, "/home/serve/.triton/cache", "unknown"},
      {{{"ProtectHome", "tmpfs"}, {"BindPaths", "-/srv:/home/serve:rbind"}}, "/home/serve/.triton/cache", "holds"},
      {{{"ProtectHome", "read-only"}}, "/home/serve/.triton/cache", "warning"},
      {{{"ProtectHome", "read-only"}, {"ReadWritePaths", "-/home/serve"}}, "/home/serve/.triton/cache", "holds"},
      {{{"ProtectHome", "read-only"}, {"ReadWritePaths", "/x -+/home/serve/"}}, "/home/serve/.triton/cache", "holds"},
      {{{"ProtectHome", "read-only"}, {"ReadWritePaths", "/home/serv"}}, "/home/serve/.triton/cache", "warning"},
      {{{"ProtectSystem", "strict"}}, "/home/serve/.triton/cache", "holds"},
      {{{"ProtectSystem", "strict"}}, "/var/cache/serve", "warning"},
      {{{"ProtectSystem", "strict"}, {"CacheDirectory", "serve"}}, "/var/cache/serve", "holds"},
      {{{"ProtectSystem", "strict"}, {"CacheDirectory", "other serve"}}, "/var/cache/serve/.triton/cache", "holds"},
      {{{"ProtectSystem", "strict"}, {"CacheDirectory", "serve"}}, "/var/cache/private/serve/x", "holds"},
      {{{"ProtectSystem", "strict"}, {"CacheDirectory", "serve"}}, "/srv/serve/x", "warning"},
      {{{"ProtectSystem", "strict"}, {"StateDirectory", "serve"}}, "/var/lib/serve/x", "holds"},
      {{{"ProtectSystem", "strict"}, {"BindPaths", "/data:/srv/serve"}}, "/srv/serve/x", "holds"},
      {{{"ProtectSystem", "strict"}, {"BindPaths", "/srv/serve"}}, "/srv/serve/x", "holds"},
      {{{"ProtectSystem", "strict"}, {"ReadWritePaths", "/"}}, "/srv/serve/x", "holds"},
      {{{"ProtectSystem", "strict"}}, "/tmp/x", "warning"},
      {{{"ProtectSystem", "strict"}, {"PrivateTmp", "yes"}}, "/tmp/x", "holds"},
      {{{"ProtectSystem", "full"}}, "/var/cache/serve", "holds"},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("cache-opened");
    auto& service = c.facts["services"][0];
    service["settings"] = row.settings;
    service["cache_dirs"] = json::array({cache_dir("triton", row.path)});
    CAPTURE(row.settings.dump(), row.path);
    CHECK(verdict(assess(c), "service.caches-hidden", kUnit) == row.expected);
  }
}

TEST_CASE("which kernel boots next", "[unit][derive][playbooks]") {
  const struct {
    std::string running;
    std::vector<std::string> bare;  ///< installed, without a module of the driver
    std::string expected;
  } kRows[] = {
      {"6.8.0-60-generic", {"6.8.0-9-generic"}, "holds"},
      {"6.8.0-60-generic", {"6.8.0-100-generic"}, "error"},
      {"6.8.0-60-generic", {"6.8.0-1015-nvidia-64k", "6.8.0-60-generic-64k"}, "holds"},  // the loader's choice
      {"5.14.0-427.13.1.el9_4.x86_64", {"5.14.0-427.el9.x86_64"}, "holds"},
      {"5.14.0-427.el9.x86_64", {"5.14.0-427.8.1.el9_4.x86_64"}, "error"},
      {"5.14.0-427.8.1.el9_4.x86_64", {"5.14.0-427.8.1.el9_4.x86_64+debug"}, "holds"},
      {"6.1.0-18-amd64", {"6.12.48+deb13-amd64"}, "error"},
      {"6.12.48+deb13-amd64", {"6.12.41+deb13-amd64", "6.12.9+bpo-amd64"}, "holds"},
      {"6.1.0-18-amd64", {"6.1.0-0.deb11.7-amd64", "6.1.0-21-rt-amd64"}, "holds"},
      {"6.1.0-18-amd64", {"rescue"}, "holds"},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("host-sound");
    auto& kernels = c.facts["kernels"];
    kernels = json::array({{{"release", row.running}, {"running", true}, {"nvidia_module", true}}});
    for (const auto& release : row.bare) kernels.push_back({{"release", release}});
    CAPTURE(row.running, row.bare);
    CHECK(verdict(assess(c), "driver.next-kernel-without-module") == row.expected);
  }
}

TEST_CASE("what the kernel said before a later load of the module is over", "[unit][derive][playbooks]") {
  const auto loading = [](std::int64_t time) {
    return line("kernel.module-loading", time,
                "nvidia-nvlink: Nvlink Core is being initialized, major device number 510");
  };
  const auto failed =
      line("kernel.gpu-not-started", 100, "NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x22:0x56:897)");
  const auto gone =
      line("kernel.gpu-not-started", 100, "NVRM: GPU 0000:09:00.0: RmInitAdapter failed! (0x22:0x56:897)");
  const auto unnamed = line("kernel.gpu-not-started", 100, "NVRM: RmInitAdapter failed! (0x26:0x56:1474)");
  const auto wants_open = line("kernel.open-module-needed", 100,
                               "NVRM: installed in this system requires use of the NVIDIA open kernel modules.");
  const auto not_open =
      line("kernel.open-module-needed", 100,
           "NVRM: GPU 0000:02:00.0 is not supported by open nvidia.ko because it does not include GSP");
  const struct {
    std::string check;
    json journal;
    std::vector<int> listed;  ///< of the two GPUs, as nvidia-smi numbers them; -1: not
    std::string flavour, expected;
  } kRows[] = {
      {"gpu.not-started", json::array({loading(90), failed}), {0, -1}, "open", "error"},
      {"gpu.not-started", json::array({failed}), {0, -1}, "open", "error"},
      {"gpu.not-started", json::array({loading(100), failed}), {0, -1}, "open", "error"},
      {"gpu.not-started", json::array({loading(90), failed, loading(101)}), {0, -1}, "open", "holds"},
      {"gpu.not-started", json::array({loading(90), failed}), {0, 1}, "open", "holds"},  // it did, in the end
      {"gpu.not-started",
       json::array({loading(90), failed}),
       {-1, 0},
       "open",
       "holds"},                                                          // of another one nothing was said
      {"gpu.not-started", json::array({gone}), {0, 1}, "open", "error"},  // sysfs does not even show it
      {"gpu.not-started", json::array({unnamed}), {0, -1}, "open", "error"},
      {"gpu.not-started", json::array({unnamed}), {0, 1}, "open", "holds"},
      {"driver.module-cannot-drive-gpu", json::array({loading(90), wants_open}), {0, -1}, "proprietary", "error"},
      {"driver.module-cannot-drive-gpu", json::array({wants_open}), {-1, -1}, "", "error"},
      {"driver.module-cannot-drive-gpu",
       json::array({loading(90), wants_open, loading(101)}),
       {0, -1},
       "proprietary",
       "holds"},
      {"driver.module-cannot-drive-gpu", json::array({wants_open}), {0, -1}, "open", "holds"},
      {"driver.module-cannot-drive-gpu", json::array({not_open}), {0, -1}, "open", "error"},
      {"driver.module-cannot-drive-gpu", json::array({not_open}), {0, -1}, "proprietary", "holds"},
      {"driver.module-cannot-drive-gpu", json::array({wants_open}), {0, 1}, "proprietary", "holds"},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("host-sound");
    c.facts["journal"] = row.journal;
    c.facts["driver"]["flavour"] = row.flavour;
    for (std::size_t i = 0; i < row.listed.size(); ++i) c.facts["gpus"][i]["index"] = row.listed[i];
    CAPTURE(row.check, row.journal.dump(), row.listed, row.flavour);
    CHECK(verdict(assess(c), row.check) == row.expected);
  }
}

TEST_CASE("a container that the engine told nothing of is not called sound", "[unit][derive][playbooks]") {
  const struct {
    std::string what;
    json changed;
    std::string expected;
  } kRows[] = {
      {"it says so", json::object(), "error"},
      {"its log is not known", {{"log", json::array()}, {"unknown", {{"log", "too long"}}}}, "unknown"},
      {"it does not say so", {{"log", json::array()}}, "holds"},
      {"the engine tells no driver", {{"cgroup_driver", ""}, {"unknown", {{"cgroup_driver", "why"}}}}, "unknown"},
      {"neither, and no GPUs",
       {{"gpus", false}, {"cgroup_driver", ""}, {"unknown", {{"cgroup_driver", "why"}}}},
       "holds"},
      {"started after the reload",
       {{"started", 1795600200}, {"cgroup_driver", ""}, {"unknown", {{"cgroup_driver", "why"}}}},
       "holds"},
      {"nothing is known of it",
       {{"name", ""}, {"state", ""}, {"started", 0}, {"gpus", false}, {"unknown", {{"gpus", "no answer"}}}},
       "unknown"},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("container-lost");
    c.facts["containers"][0].update(row.changed);
    INFO(row.what << "\n" << summary(assess(c)));
    CHECK(verdict(assess(c), "container.gpus-lost") == row.expected);
  }
}

TEST_CASE("packages and modules that could not be read are not called sound", "[unit][derive][playbooks]") {
  const struct {
    std::string check;
    json changed;
    std::string expected;
  } kRows[] = {
      {"python.extension-of-another-cuda", json::object(), "error"},
      {"python.extension-of-another-cuda", {{"links", json::array()}}, "holds"},
      {"python.extension-of-another-cuda", {{"links", json::array()}, {"unknown", {{"links", "why"}}}}, "unknown"},
      {"python.extension-of-another-cuda", {{"unknown", {{"links", "why"}}}}, "error"},
      {"python.extension-of-another-cuda", {{"torch_cuda", nullptr}, {"unknown", {{"torch_cuda", "why"}}}}, "unknown"},
      {"python.extension-of-another-cuda",
       {{"torch_cuda", nullptr}, {"links", json::array()}, {"unknown", {{"torch_cuda", "why"}}}},
       "holds"},
      {"python.extension-of-another-cuda", {{"torch_cuda", nullptr}}, "holds"},
      {"python.two-cuda-majors", json::object(), "warning"},
      {"python.two-cuda-majors", {{"unknown", {{"packages", "why"}}}}, "warning"},
      {"python.two-cuda-majors", {{"packages", json::array()}, {"unknown", {{"packages", "why"}}}}, "unknown"},
      {"torch.cpu-build", json::object(), "holds"},
      {"torch.cpu-build", {{"torch_cuda", nullptr}, {"unknown", {{"torch_cuda", "why"}}}}, "unknown"},
      {"torch.cpu-build", {{"torch_cuda", "none"}}, "error"},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("extension-of-another-cuda");
    c.facts["python_envs"][0].update(row.changed);
    INFO(row.check << " " << row.changed << "\n" << summary(assess(c)));
    CHECK(verdict(assess(c), row.check) == row.expected);
  }
}

TEST_CASE("which vLLM reads MIG identifiers", "[unit][derive][playbooks]") {
  const struct {
    std::string version, devices, expected;
  } kRows[] = {
      {"0.20.1", "MIG-11111111-2222-5333-8444-555555555555", "warning"},
      {"0.22.0", "MIG-11111111-2222-5333-8444-555555555555", "warning"},
      {"0.23.0", "MIG-11111111-2222-5333-8444-555555555555", "unknown"},
      {"0.24.0+cu129", "MIG-11111111-2222-5333-8444-555555555555", "holds"},
      {"0.99.0", "MIG-11111111-2222-5333-8444-555555555555", "holds"},
      {"0.23.0", "0", "holds"},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("mig-vllm-newer");
    for (auto& package : c.facts["python_envs"][0]["packages"])
      if (package["name"] == "vllm") package["version"] = row.version;
    c.facts["services"][0]["process_env"]["CUDA_VISIBLE_DEVICES"] = row.devices;
    CAPTURE(row.version, row.devices);
    CHECK(verdict(assess(c), "vllm.mig-identifier", "") == row.expected);
  }
}

TEST_CASE("what root owns in a cache hinders whom the modes do not let in", "[unit][derive][playbooks]") {
  const struct {
    std::string writable_by;
    json groups;
    std::string expected;
  } kRows[] = {
      {"owner", json::array({1005}), "warning"},
      {"all", json::array(), "holds"},
      {"group 1005", json::array({7, 1005}), "holds"},
      {"group 1005", json::array({7}), "warning"},
      {"group 100", json::array({1005}), "warning"},
      {"group 1005", json::array(), "unknown"},
      {"", json::array({1005}), "unknown"},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("root-owned-cache");
    c.facts["caches"][1]["writable_by"] = row.writable_by;
    c.facts["services"][0]["groups"] = row.groups;
    CAPTURE(row.writable_by, row.groups.dump());
    CHECK(verdict(assess(c), "cache.owned-by-root") == row.expected);
  }
}

TEST_CASE("a libcuda for forward compatibility is missed where nobody looked", "[unit][derive][playbooks]") {
  const auto compat = json::array({{{"version", "590.44"},
                                    {"directory", "/usr/local/cuda/compat"},
                                    {"libcuda", "/usr/local/cuda/compat/libcuda.so.590.44"}}});
  for (const auto* section : {"login", "processes"})
    for (const bool installed : {false, true}) {
      auto c = test::derive_case("host-sound");
      c.facts[section] = nullptr;
      c.facts["unknown"][section] = "why";
      c.facts["driver"]["compat"] = installed ? compat : json::array();
      CAPTURE(section, installed);
      CHECK(verdict(assess(c), "driver.compat-conflict") == (installed ? "unknown" : "holds"));
    }
  auto c = test::derive_case("host-sound");
  c.facts["driver"]["compat"] = compat;
  CHECK(verdict(assess(c), "driver.compat-conflict") == "holds");
  c.facts["services"][0]["unknown"]["libcuda"] = "why";
  CHECK(verdict(assess(c), "driver.compat-conflict") == "unknown");
}

TEST_CASE("facts that were not told leave their checks open", "[unit][derive][playbooks]") {
  auto c = test::derive_case("unified-wedge");
  c.facts["previous_boot"]["unknown"]["clean"] = "why";
  CHECK(verdict(assess(c), "memory.unified-exhausted") == "unknown");
  c.facts["previous_boot"]["signatures"] = json::array();
  CHECK(verdict(assess(c), "memory.unified-exhausted") == "holds");

  c = test::derive_case("updates-driver");
  c.facts["updates"] = {{"automatic", ""}, {"unknown", {{"automatic", "why"}}}};
  CHECK(verdict(assess(c), "updates.replace-driver") == "unknown");
  c.facts["packages"] = json::array();
  CHECK(verdict(assess(c), "updates.replace-driver") == "holds");

  c = test::derive_case("gpus-denied");
  c.facts["services"][0]["denied"] = json::array();
  CHECK(verdict(assess(c), "service.gpus-denied") == "holds");
  c.facts["services"][0]["unknown"]["denied"] = "why";
  CHECK(verdict(assess(c), "service.gpus-denied") == "unknown");
}

// A toolkit that would do is as urgent as the library that misses it, and one finding for each pair of toolkits.
TEST_CASE("the wrong toolkit weighs what its libraries weigh", "[unit][derive][playbooks]") {
  const auto resolution = [](const char* library, const char* root, const char* better, bool claimed = true) {
    return json{{"consumer", "unit a.service"},
                {"unit", "a.service"},
                {"claimed", claimed},
                {"python_env", "/venv"},
                {"library", library},
                {"outcome", "broken"},
                {"root", root},
                {"better_toolkit", better},
                {"rule", "CUDA_HOME"},
                {"rule_detail", "x"},
                {"explanation", "why"},
                {"evidence", json::array()},
                {"reason", "x"},
                {"targets", json::array()}};
  };
  const json says = line("cuda.unsupported-arch", 1, "nvcc fatal   : Unsupported gpu architecture 'sm_100f'");
  const struct {
    json resolutions;
    bool logged;
    std::vector<std::string> expected;
  } kRows[] = {
      {json::array({resolution("flashinfer", "/a", "/b")}), false, {"error"}},
      {json::array({resolution("flashinfer", "/a", "/b", false)}), false, {"warning"}},
      {json::array({resolution("deep_gemm", "/a", "/b")}), false, {"warning"}},
      {json::array({resolution("deep_gemm", "/a", "/b")}), true, {"error"}},
      {json::array({resolution("tilelang", "/a", "/b")}), false, {"info"}},
      {json::array({resolution("sglang", "/a", "/b", false)}), false, {"info"}},
      {json::array({resolution("tilelang", "/a", "/b"), resolution("flashinfer", "/a", "/b")}), false, {"error"}},
      {json::array({resolution("tilelang", "/a", "/b"), resolution("flashinfer", "/a", "/c")}),
       false,
       {"error", "info"}},
      {json::array({resolution("deep_gemm", "/a", "/b"), resolution("tvm_ffi", "/d", "/b")}),
       false,
       {"warning", "warning"}},
  };
  for (const auto& row : kRows) {
    auto c = test::derive_case("host-sound");
    const auto environment = environment_from_json(c.facts);
    REQUIRE(environment);
    auto facts = environment_to_json(*environment);
    facts["derived"] = derived_to_json(Derived{});
    facts["derived"]["resolutions"] = row.resolutions;
    if (row.logged) {
      facts["journal"].push_back(says);
      facts["journal"].back()["unit"] = "a.service";
    }
    const auto assessment = assess(facts);
    std::vector<std::string> severities;
    for (const auto& finding : assessment.findings)
      if (finding.check == "toolchain.wrong-toolkit") severities.emplace_back(to_string(finding.severity));
    INFO(row.resolutions.dump() << "\n" << summary(assessment));
    CHECK(severities == row.expected);
  }
}

}  // namespace trueup
