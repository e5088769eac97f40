#include <fmt/format.h>

#include <algorithm>

#include "action/kinds.hpp"
#include "action/transaction.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace trueup {
namespace {

const std::vector<ParamSpec> kRepositoryParams = {
    {"url", ParamType::text, true, "of a repository of NVIDIA's packages, or a mirror"},
    {"suite", ParamType::text, false, "for apt; NVIDIA's have `/`", {}, "/"},
    {"components", ParamType::text, false, "for apt, where the suite is not `/`"},
    {"key", ParamType::content, true, "its public key, armored"},
    {"fingerprint", ParamType::text, true, "of that key, all 40 digits"},
    {"most", ParamType::text, false, "size of the download that is agreed to", {}, "6GiB"},
};

// What building kernels needs, and no more: the compilers, the headers and the libraries that they are linked to.
constexpr std::string_view kMinimal[] = {"cuda-nvcc-{}",       "cuda-cudart-dev-{}", "cuda-cccl-{}",
                                         "cuda-nvrtc-dev-{}",  "libcublas-dev-{}",   "libcurand-dev-{}",
                                         "cuda-driver-dev-{}", "cuda-cuobjdump-{}",  "cuda-nvdisasm-{}"};

std::string digits_of(std::string_view fingerprint) {
  std::string digits;
  for (const char c : fingerprint)
    if (c != ' ' && c != ':') digits += c >= 'a' && c <= 'f' ? static_cast<char>(c - 'a' + 'A') : c;
  return digits;
}

class CudaToolkitKind final : public ActionKind {
 public:
  std::string_view name() const override { return "cuda_toolkit"; }

  std::span<const ParamSpec> params() const override {
    static const std::vector<ParamSpec> kParams = {
        {"version", ParamType::text, true, "major and minor: 13.0"},
        {"packages",
         ParamType::text,
         false,
         "`full`: cuda-toolkit-13-0; `minimal`: what building kernels needs",
         {"full", "minimal"},
         "full"},
        {"from", ParamType::text, false, "a runfile is not supported yet", {"packages", "runfile"}, "packages"},
        {"repository",
         ParamType::object,
         false,
         "used where no enabled one has the packages; nothing of it stays",
         {},
         {},
         kRepositoryParams},
        {"patience", ParamType::text, false, "how long to wait while another holds the package manager", {}, "10m"},
    };
    return kParams;
  }

  Result<void> check(const Params& params) const override {
    const auto version = text_of(params, "version");
    const auto numbers = split(version, '.');
    const auto is_number = [](std::string_view text) {
      return !text.empty() && text.size() <= 2 && text.find_first_not_of("0123456789") == text.npos;
    };
    if (numbers.size() != 2 || !is_number(numbers[0]) || !is_number(numbers[1]))
      return bad(fmt::format("version: expected MAJOR.MINOR such as 13.0, got '{}'", printable(version)));
    if (text_of(params, "from") == "runfile") return bad("from: a runfile is not supported yet: packages are");
    if (const auto patience = text_of(params, "patience"); !patience.empty())
      if (const auto duration = parse_duration(patience); !duration)
        return bad("patience: " + duration.error().message);
    return params.contains("repository") ? check_repository(params.at("repository")) : Result<void>();
  }

  std::string object(const Params& params) const override { return "toolkit " + text_of(params, "version"); }
  int rank(const Params&) const override { return 10; }

  Script inspect(const Params& params) const override {
    auto words = packages(params);
    words.insert(words.begin(), text_of(params, "version"));
    return call("cuda_toolkit_inspect", words);
  }

  Result<Difference> diff(const Params& params, const Inspected& inspected) const override {
    const Seen seen(inspected);
    if (!seen.has("manager") || !seen.has("toolkit"))
      return bad("what the package manager says is missing in what was inspected");
    const auto version = text_of(params, "version"), path = "/usr/local/cuda-" + version;
    Difference difference;
    const bool is_other = seen.get("toolkit") == "other";
    const bool at_apply = seen.has("unresolved") && params.contains("repository");
    difference.current = seen.get("toolkit") == "absent" ? fmt::format("CUDA {} is not installed", version)
                                                         : fmt::format("CUDA {} is in {}", version, path);
    const auto manager = seen.get("manager");
    if (is_other || (!seen.has("step") && !seen.has("unresolved") && (manager == "apt" || manager == "dnf"))) {
      // Whoever put it there: it is there.
      difference.wanted = difference.current;
      return difference;
    }
    difference.needed = true;
    judge_transaction(seen, at_apply ? Resolve::at_apply : Resolve::now, difference);
    if (seen.has("owner"))
      difference.refused.push_back(
          fmt::format("{} is there already, and uid {} decides what is in it", path, seen.get("owner")));
    const auto leads_to = seen.get("cuda.leads_to");
    difference.wanted =
        fmt::format("CUDA {} in {}, {}", version, path,
                    seen.has("cuda.exists") ? "/usr/local/cuda still " + leads_to : "no other default than now");
    if (at_apply) {
      difference.wanted +=
          fmt::format(" (packages resolved at apply, from {})", text_of(params.at("repository"), "url"));
      difference.download_bytes = most(params);
    }
    difference.data = transaction_of(seen);
    Toolkit toolkit;
    toolkit.path = path;
    toolkit.kind = "local";
    toolkit.version = Version::of(version);
    toolkit.version_source = "nvcc";
    toolkit.has_nvcc = toolkit.nvcc_executable = true;
    difference.predicted.push_back(AddToolkit{std::move(toolkit)});
    return difference;
  }

  Script apply(const Params& params, const Difference& change) const override {
    const auto transaction = text(change);
    const auto repository = transaction.empty() ? params.value("repository", Params::object()) : Params::object();
    std::vector<std::string> words = {text_of(params, "version"),
                                      patience(params),
                                      transaction,
                                      std::to_string(most(params) / 1024),
                                      text_of(repository, "url"),
                                      text_of(repository, "suite", "/"),
                                      text_of(repository, "components"),
                                      digits_of(text_of(repository, "fingerprint")),
                                      text_of(repository, "key")};
    for (auto& name : packages(params)) words.push_back(std::move(name));
    return call("cuda_toolkit_apply", words, kLimit);
  }
  Script verify(const Params& params, const Difference& change) const override {
    return call("cuda_toolkit_verify", {text_of(params, "version"), text(change)});
  }
  Script undo(const Params& params, const Difference&) const override {
    return call("cuda_toolkit_undo", {patience(params)}, kLimit);
  }

 private:
  // Gigabytes over a slow line, and then a package manager that must not be ended half-way.
  static constexpr std::chrono::hours kLimit{4};

  static std::vector<std::string> packages(const Params& params) {
    auto suffix = text_of(params, "version");
    std::replace(suffix.begin(), suffix.end(), '.', '-');
    if (text_of(params, "packages") != "minimal") return {"cuda-toolkit-" + suffix};
    std::vector<std::string> names;
    for (const auto pattern : kMinimal) names.push_back(fmt::format(fmt::runtime(pattern), suffix));
    return names;
  }

  static std::string patience(const Params& params) {
    return std::to_string(duration_of(params, "patience", std::chrono::minutes(10)).count());
  }

  static std::uint64_t most(const Params& params) {
    constexpr std::uint64_t kMost = 6ULL << 30;
    if (!params.contains("repository")) return kMost;
    return parse_size(text_of(params.at("repository"), "most", "6GiB")).value_or(kMost);
  }

  static std::string text(const Difference& change) {
    return change.data.is_string() ? change.data.get<std::string>() : std::string();
  }

  static Result<void> check_repository(const Params& repository) {
    if (const auto errors = check_object(kRepositoryParams, repository, "repository"); !errors.empty())
      return tl::unexpected(errors.front());
    const auto url = text_of(repository, "url");
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/%+";
    if (!(url.starts_with("https://") || url.starts_with("http://") || url.starts_with("file:///")) ||
        url.find_first_not_of(kPlain) != url.npos)
      return bad(fmt::format("repository: url: expected https://, http:// or file:///, without blanks, got '{}'",
                             printable(url)));
    for (const auto* name : {"suite", "components"})
      if (const auto value = text_of(repository, name);
          value.starts_with('-') || value.find_first_not_of(fmt::format("{} ", kPlain)) != value.npos)
        return bad(fmt::format("repository: {}: '{}' is none", name, printable(value)));
    const auto digits = digits_of(text_of(repository, "fingerprint"));
    if (digits.size() != 40 || digits.find_first_not_of("0123456789ABCDEF") != digits.npos)
      return bad("repository: fingerprint: expected all 40 hexadecimal digits of the key's fingerprint");
    if (text_of(repository, "key").find("-----BEGIN PGP PUBLIC KEY BLOCK-----") == std::string::npos)
      return bad("repository: key: expected an armored public key (-----BEGIN PGP PUBLIC KEY BLOCK-----)");
    if (const auto most = text_of(repository, "most"); !most.empty())
      if (const auto size = parse_size(most); !size) return bad("repository: most: " + size.error().message);
    return {};
  }
};

}  // namespace

std::unique_ptr<ActionKind> make_cuda_toolkit_kind() { return std::make_unique<CudaToolkitKind>(); }

}  // namespace trueup
