#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trueup/environment.hpp"
#include "trueup/inventory.hpp"
#include "trueup/result.hpp"

// Derived facts: computed from the environment alone, by pure code. They stand in JSON under the root's `derived`.

namespace trueup {

/// A variable that a service's three environments do not agree on. Absent: not set there, or that environment is not
/// known.
struct EnvDifference {
  std::string name;
  std::optional<std::string> login;    ///< what a login of the audit's account has
  std::optional<std::string> unit;     ///< what the next start would have
  std::optional<std::string> process;  ///< what the running process has
};

/// Who would compile or load CUDA code.
struct Consumer {
  std::string id;                 ///< `unit sglang-k26.service`, `user unit vllm.service of alice`, `process 4711`,
                                  ///< `declared trainer`, `environment /opt/venv`
  std::string kind;               ///< `service`, `user_unit`, `process`, `declared`, `unclaimed`
  std::string unit;               ///< of a service; else empty
  std::string user;
  std::string home;               ///< empty: none, or not known
  std::string python_env;         ///< prefix
  std::string env_source;         ///< `process` (a running process's), `unit`, `declared`, `default`
  Variables env;                  ///< the one that counts: the running process's, else the unit's
  std::vector<EnvDifference> differences = {};  ///< of a service
};

/// ok: would work; broken: would fail, `reason` says why; risk: works, with a catch; unknown: cannot be told, and why.
enum class Outcome { ok, risk, broken, unknown };

/// rejected: does not help, or breaks something else; stop_gap: helps, with a catch or until something changes; proper:
/// a cure.
enum class Judgement { rejected, stop_gap, proper };

std::string_view to_string(Judgement judgement);

/// A change of the host that people make or try, applied to the model, and what came of it.
struct Alternative {
  std::string change;             ///< `CUDA_HOME=/usr/local/cuda-13.0 in sglang-k26.service`
  Judgement verdict = Judgement::rejected;
  std::string why;                ///< one sentence or two
  std::string cuda = {};          ///< CUDA version to be installed beside others: `13.0`; empty: none. This and what follows is for fixes
  std::string toolkit = {};       ///< the toolkit that is used then; empty: none. All are empty where no fix can, or may, make the change
  Variables set = {};             ///< variables that the consumer is to start with
  std::vector<std::string> unset = {};   ///< variables that it is to start without
  std::vector<std::string> caches = {};  ///< to be cleared with it
};

/// What one JIT library of one consumer would do if it had to build now.
struct Resolution {
  std::string consumer;           ///< Consumer::id
  std::string unit;
  bool claimed = true;            ///< false: nobody is known to use the environment; findings are warnings at most
  std::string python_env;
  std::string library;            ///< `flashinfer`, `torch_extensions`, `triton`, `sglang`, `deep_gemm`, `tvm_ffi`, `tilelang`, `torch` (the wheel: may the driver run it)
  std::string library_version;
  std::string env_source;

  std::string root;               ///< toolkit root as the library would name it: `/usr/local/cuda`; empty: none found
  std::string root_resolved;      ///< links followed; empty: none, or not on this host
  std::string rule;               ///< what decided: `CUDA_HOME`, `CUDA_PATH`, `nvcc on PATH`, `default /usr/local/cuda`, `bundled`
  std::string rule_detail;        ///< `CUDA_HOME, CUDA_PATH unset; no nvcc on PATH (/usr/bin:/bin)`
  std::string compiler;           ///< absolute path of what would run: nvcc, ptxas; empty: none
  std::optional<Version> compiler_version;
  std::string better_toolkit;     ///< broken by its compiler: a toolkit on this host with which it would work; empty: none
  std::optional<Version> asked_version;  ///< what the library believes the toolkit is
  std::string asked_from;         ///< `nvcc`, `torch.version.cuda`, or empty
  std::optional<Version> torch_cuda;

  std::vector<std::string> gpus_cc;      ///< compute capabilities it would see, in CUDA's order, each once
  std::vector<std::string> targets;      ///< `120f`; empty with outcome broken: the empty set
  std::vector<std::string> dropped;      ///< compute capabilities that a gate took out
  std::optional<Version> gate;           ///< toolkit version demanded, where a gate applies
  std::string gate_rule;                 ///< version range and source of the row that says so

  Outcome outcome = Outcome::unknown;
  std::string reason;             ///< id: `arch_set_empty`, `compiler_missing`, `target_unknown_to_compiler`, `driver_too_old`, ...
  std::string explanation;        ///< one sentence
  std::vector<std::string> evidence;     ///< links of the chain from the GPU to the outcome, one line each
  std::vector<Alternative> alternatives; ///< of a broken one, proper ones first; filled by `judge_alternatives` alone
  std::string next_start;         ///< what becomes of it when the consumer starts again; likewise
  std::vector<std::string> history;      ///< what on the host tells why it may have worked before, one line each
};

struct CacheVerdict {
  std::string path;
  std::string kind;
  std::string consumer;           ///< who would use it; empty: nobody known
  std::string unit;
  std::string rule;               ///< `cache.fi.baked_toolkit`, ...
  Outcome outcome = Outcome::unknown;
  std::string explanation;
  std::vector<std::string> evidence;
};

/// A library of a consumer's wheels that its LD_LIBRARY_PATH replaces by another copy.
struct Shadow {
  std::string consumer;
  std::string unit;
  bool claimed = true;
  std::string python_env;
  std::string directory;          ///< as LD_LIBRARY_PATH names it
  std::string library;            ///< `libcublas.so.12`
  std::string found;              ///< version there; empty: its file does not tell
  std::string package;            ///< whose copy does not come to its turn: `nvidia-cublas-cu12`
  std::string shipped;            ///< that package's version
  Outcome outcome = Outcome::unknown;  ///< risk: another version than the one shipped; broken: an older one; ok: the same
};

struct Derived {
  std::vector<Consumer> consumers;
  std::vector<Resolution> resolutions;
  std::vector<CacheVerdict> caches;
  std::vector<Shadow> shadows;
  std::map<std::string, std::string> cuda_versions;  ///< the host's different "CUDA versions", apart by name: driver_max, default_toolkit, ...
};

nlohmann::json derived_to_json(const Derived& derived);

/// Version knowledge: dated tables with a source on each row (playbooks/knowledge/*.yaml), checked at load.
class Knowledge;

/// Pure. Never an error: what cannot be told is `unknown` with the reason.
Derived derive(const Environment& environment, const std::vector<DeclaredConsumer>& declared,
               const Knowledge& knowledge);

/// For each broken resolution of a known consumer in `derived`: what its next start would bring, and what would help.
/// Every alternative is made to the model and everything derived again; one whose outcome cannot be told is left out.
/// Pure. `derived` is what `derive` made of the same arguments. Costs some dozen derivations for each: for `explain`
/// and plans, not for audits of many hosts.
void judge_alternatives(const Environment& environment, const std::vector<DeclaredConsumer>& declared,
                        const Knowledge& knowledge, Derived& derived);

}  // namespace trueup
