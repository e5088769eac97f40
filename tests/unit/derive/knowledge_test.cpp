#include "derive/knowledge.hpp"

#include "support/catch.hpp"
#include "unit/derive/derive_cases.hpp"

namespace trueup {

TEST_CASE("FlashInfer versions find their row", "[unit][derive][knowledge]") {
  const auto knowledge = test::shipped_knowledge();
  const auto gate = [&](const char* version) -> std::string {
    const auto found = knowledge.flashinfer_archs_of(Version::of(version));
    if (found.row == nullptr) return "no row";
    return found.row->gate ? found.row->gate->text() : "none";
  };
  CHECK(gate("0.1.6") == "no row");
  CHECK(gate("0.6.6") == "none");
  CHECK(gate("0.6.7rc1") == "no row");
  CHECK(gate("0.6.7") == "12.9");
  CHECK(gate("0.6.7.post3") == "12.9");
  CHECK(gate("0.6.18rc7") == "12.9");
  CHECK(gate("0.6.12+cu130") == "12.9");
  CHECK(gate("0.6.6.dev20260319") == "none");
  CHECK(gate("0.6.6.dev20260321") == "none");
  CHECK(gate("0.6.6.dev20260322") == "12.9");
  CHECK(gate("0.6.7.dev20260403") == "no row");
  CHECK(gate("0.6.9.dev20260501") == "12.9");
  CHECK(gate("0.6.19.dev20260822") == "no row");
}

TEST_CASE("a target is known to a range of compilers", "[unit][derive][knowledge]") {
  const auto knowledge = test::shipped_knowledge();
  CHECK(knowledge.gpu_target("120a")->known_to(Version::of("12.8.93")));
  CHECK_FALSE(knowledge.gpu_target("120f")->known_to(Version::of("12.8.93")));
  CHECK(knowledge.gpu_target("70")->known_to(Version::of("12.9.86")));
  CHECK_FALSE(knowledge.gpu_target("70")->known_to(Version::of("13.0")));
  CHECK(knowledge.gpu_target("120g") == nullptr);
  CHECK(knowledge.compiler_reaches(Version::of("12.4"), Version::of("12.0")) == false);
  CHECK_FALSE(knowledge.compiler_reaches(Version::of("13.0"), Version::of("14.0")).has_value());
}

TEST_CASE("drivers belong to the branch below them", "[unit][derive][knowledge]") {
  const auto knowledge = test::shipped_knowledge();
  CHECK(knowledge.driver_max_cuda(Version::of("596.49"))->text() == "13.2");
  CHECK(knowledge.driver_max_cuda(Version::of("570.86.10"))->text() == "12.8");
  CHECK_FALSE(knowledge.driver_max_cuda(Version::of("390.10")).has_value());
}

TEST_CASE("product names give the compute capability, the first match counting", "[unit][derive][knowledge]") {
  const auto knowledge = test::shipped_knowledge();
  const auto of = [&](const char* name) {
    return knowledge.product_compute_cap(name).value_or(Version::of("0")).text();
  };
  CHECK(of("NVIDIA RTX PRO 6000 Blackwell Server Edition") == "12.0");
  CHECK(of("NVIDIA GB300") == "10.3");
  CHECK(of("NVIDIA GB10") == "12.1");
  CHECK(of("NVIDIA H100 80GB HBM3") == "9.0");
  CHECK(of("nvidia l4") == "8.9");
  CHECK(of("Something else") == "0");
}

TEST_CASE("a table that says something wrong is refused with its place", "[unit][derive][knowledge]") {
  Errors errors;
  const auto knowledge = load_knowledge({{"k.yaml", R"(knowledge: 1
as_of: "2026-11"
sources: {seen: "a page"}
cuda_majors:
  - {cuda_major: 13, min_driver: "580.65.06", source: sean, confidence: verified}
  - {cuda_major: 12, min_driver: soon, source: seen, confidence: verified}
  - {cuda_major: 11, min_driver: "450.80.02", source: seen, confidence: sure}
  - {cuda_major: 10, min_driver: "410.48", source: seen, confidence: verified, colour: red}
  - {cuda_major: 9, min_driver: "390.10", source: seen, confidence: verified}
)"}},
                                        errors);
  REQUIRE(errors.size() == 4);
  CHECK(to_string(errors[0]) == "k.yaml:5:55: row of cuda_majors: unknown source 'sean'; did you mean 'seen'?");
  CHECK(errors[1].at->line == 6);
  CHECK(errors[2].at->line == 7);
  CHECK(errors[3].at->line == 8);
  CHECK(knowledge.cuda_majors.size() == 1);
}

TEST_CASE("a later table is asked first", "[unit][derive][knowledge]") {
  const std::string head = "knowledge: 1\nas_of: \"2026-11\"\nsources: {s: t}\ncuda_majors:\n";
  Errors errors;
  const auto knowledge =
      load_knowledge({{"a", head + "  - {cuda_major: 13, min_driver: \"580.1\", source: s, confidence: verified}\n"},
                      {"b", head + "  - {cuda_major: 13, min_driver: \"580.2\", source: s, confidence: verified}\n"}},
                     errors);
  REQUIRE(errors.empty());
  CHECK(knowledge.cuda_major(13)->min_driver == Version::of("580.2"));
}

TEST_CASE("libraries that compile for the GPUs they see ask for the target of their version",
          "[unit][derive][knowledge]") {
  const auto knowledge = test::shipped_knowledge();
  const auto target = [&](const char* package, const char* version, const char* compute_cap,
                          bool below) -> std::string {
    const auto* row = knowledge.jit_target(package, Version::of(version), Version::of(compute_cap));
    return row == nullptr ? "no row" : row->target_of(Version::of(compute_cap), below);
  };
  CHECK(target("deep-gemm", "2.0.0+1876566", "10.0", true) == "100f");
  CHECK(target("deep-gemm", "2.1.0", "10.3", true) == "100a");
  CHECK(target("deep-gemm", "2.1.0", "10.3", false) == "100f");
  CHECK(target("deep-gemm", "2.1.0", "8.9", false) == "no row");
  CHECK(target("sglang", "0.5.15", "12.0", false) == "120");
  CHECK(target("sglang", "0.5.16", "12.0", true) == "120");
  CHECK(target("sglang", "0.5.17", "12.0", true) == "120a");
  CHECK(target("sglang", "0.5.17", "12.1", false) == "121a");
  CHECK(target("sglang", "0.5.17", "8.6", false) == "86");
  CHECK(target("tilelang", "0.1.12", "9.0", false) == "90a");
  CHECK(target("apache-tvm-ffi", "0.1.9", "9.0", false) == "90");
  CHECK(knowledge.knows_jit_version("sglang", Version::of("0.5.23")));
  CHECK_FALSE(knowledge.knows_jit_version("sglang", Version::of("0.5.24")));
  CHECK_FALSE(knowledge.knows_jit_version("sglang", Version::of("0.5.8")));
}

TEST_CASE("every row of a table of libraries stands for itself", "[unit][derive][knowledge]") {
  const auto knowledge = test::shipped_knowledge();
  CHECK(knowledge.vllm_wheel_of(Version::of("0.16.0"))->cuda.text() == "12.9");
  CHECK(knowledge.vllm_wheel_of(Version::of("0.33.0")) == nullptr);
  for (const auto& row : knowledge.jit_targets) CHECK((row.versions.from && row.versions.to));
}

}  // namespace trueup
