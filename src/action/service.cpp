#include <fmt/format.h>

#include <algorithm>

#include "action/kinds.hpp"
#include "action/parts.hpp"
#include "base/text.hpp"
#include "base/units.hpp"

namespace trueup {
namespace {

using std::chrono::seconds;

const std::vector<ParamSpec> kRequestParams = {
    {"url", ParamType::text, true, "where it goes"},
    {"body", ParamType::content, false, "posted; without it, a GET"},
    {"type", ParamType::text, false, "of the body", {}, "application/json"},
    {"headers_from", ParamType::path, false, "a file on the host with further headers, such as a key"},
    {"status", ParamType::integer, false, "expected", {}, "200"},
    {"contains", ParamType::text, false, "a text that the answer has to hold"},
    {"limit", ParamType::text, false, "how long it may take: the first one may have to compile", {}, "15m"},
};

const std::vector<ParamSpec> kHealthParams = {
    {"url", ParamType::text, true, "answered by the service on its own host"},
    {"status", ParamType::integer, false, "of the answer that means ready", {}, "200"},
    {"request", ParamType::object, false, "one that exercises what was at fault", {}, {}, kRequestParams},
};

std::string wrong_url(const std::string& url) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:/?#[]@!$&()*+,;=%";
  const auto scheme = url.find("://");
  if (scheme == url.npos || (url.substr(0, scheme) != "http" && url.substr(0, scheme) != "https"))
    return "expected http:// or https://";
  if (url.size() == scheme + 3 || url[scheme + 3] == '/' || url[scheme + 3] == ':') return "it names no host";
  if (url.find_first_not_of(kPlain) != url.npos) return "it has characters that must be written as %XX";
  if (url.substr(0, url.find('/', scheme + 3)).find('@') != url.npos) return "a password must not stand in it";
  return {};
}

int integer_of(const Params& params, std::string_view name, int otherwise) {
  const auto found = params.find(name);
  return found != params.end() && found->is_number_integer() ? found->get<int>() : otherwise;
}

class ServiceKind final : public ActionKind {
 public:
  std::string_view name() const override { return "service"; }

  std::span<const ParamSpec> params() const override {
    static const std::vector<ParamSpec> kParams = {
        {"unit", ParamType::unit, true, "the service, NAME.service"},
        {"state", ParamType::text, true, "what it shall be", {"started", "stopped", "restarted"}},
        {"drain", ParamType::texts, false,
         "program on the host, with arguments, that ends what is under way before a stop"},
        {"patience", ParamType::text, false, "how long a start may take until it is healthy, and a stop", {}, "10m"},
        {"health", ParamType::object, false, "how it shows that it is ready", {}, {}, kHealthParams},
        {"restart", ParamType::boolean, false, "one half of a restart; what `restarted` is made of, not for playbooks"},
    };
    return kParams;
  }

  Result<void> check(const Params& params) const override {
    const auto state = text_of(params, "state");
    if (const auto patience = text_of(params, "patience"); !patience.empty())
      if (const auto duration = parse_duration(patience); !duration)
        return bad("patience: " + duration.error().message);
    const auto drain = texts_of(params, "drain");
    if (params.contains("drain") && drain.empty()) return bad("drain: expected a program");
    if (!drain.empty() && !is_plain_name(drain.front()))
      return bad(fmt::format("drain: '{}' is no name of a program", printable(drain.front())));
    if (state == "started" && !drain.empty()) return bad("drain: only a stop has one");
    if (!params.contains("health")) return {};
    if (state == "stopped") return bad("health: only a start has one");
    const auto& health = params.at("health");
    if (const auto errors = check_object(kHealthParams, health, "health"); !errors.empty())
      return tl::unexpected(errors.front());
    if (const auto wrong = wrong_url(text_of(health, "url")); !wrong.empty())
      return bad(fmt::format("health: url: {}: '{}'", wrong, printable(text_of(health, "url"))));
    if (!health.contains("request")) return {};
    const auto& request = health.at("request");
    if (const auto errors = check_object(kRequestParams, request, "health: request"); !errors.empty())
      return tl::unexpected(errors.front());
    if (const auto wrong = wrong_url(text_of(request, "url")); !wrong.empty())
      return bad(fmt::format("health: request: url: {}: '{}'", wrong, printable(text_of(request, "url"))));
    if (const auto type = text_of(request, "type"); type.find_first_of("\"\\") != type.npos)
      return bad("health: request: type: expected a media type");
    if (const auto limit = text_of(request, "limit"); !limit.empty())
      if (const auto duration = parse_duration(limit); !duration)
        return bad("health: request: limit: " + duration.error().message);
    return {};
  }

  std::string object(const Params& params) const override {
    const auto state = text_of(params, "state");
    return fmt::format("{}unit {}",
                       state == "stopped"   ? "stop of "
                       : state == "started" ? "start of "
                                            : "",
                       text_of(params, "unit"));
  }

  int rank(const Params& params) const override { return text_of(params, "state") == "stopped" ? 50 : 90; }

  std::vector<Params> steps(const Params& params) const override {
    if (text_of(params, "state") != "restarted") return {params};
    auto stop = params, start = params;
    stop["state"] = "stopped";
    stop.erase("health");
    start["state"] = "started";
    start.erase("drain");
    stop["restart"] = start["restart"] = true;
    return {stop, start};
  }

  Script inspect(const Params& params) const override {
    return call("service_inspect",
                {unit(params), is_stop(params) ? "stopped" : "started", is_half(params) ? "yes" : "no"});
  }

  Result<Difference> diff(const Params& params, const Inspected& inspected) const override {
    if (text_of(params, "state") == "restarted") return bad("a restart is two steps, a stop and a start");
    const Seen seen(inspected);
    if (!seen.has("LoadState"))
      return bad("what systemd says of " + unit(params) + " is missing in what was inspected");
    Difference difference;
    difference.refused = refusals(params, seen);
    const bool is_up = seen.get("active") == "up";
    if (is_stop(params)) {
      difference.needed = is_up;
      difference.current = unit(params) + (is_up ? " is up" : " is down");
      difference.wanted = unit(params) + " is down" + (is_half(params) ? " until its start" : "");
      if (is_up && texts_of(params, "drain").empty())
        difference.irreversible = "requests that are under way when it stops are lost";
    } else {
      difference.needed = is_half(params) || !is_up;
      difference.current = unit(params) + (is_half(params) ? " was stopped" : is_up ? " is up" : " is down");
      difference.wanted = unit(params) + " is up" + shown_health(params, seen);
      difference.predicted.push_back(Restart{unit(params)});
    }
    if (difference.needed) difference.restarts.push_back(unit(params));
    return difference;
  }

  Script apply(const Params& params, const Difference&) const override {
    if (!is_stop(params))
      return call("service_start", {unit(params), seconds_of(patience(params)), is_half(params) ? "yes" : "no"},
                  2 * patience(params) + kMargin);
    std::vector<std::string> words = {unit(params), seconds_of(patience(params))};
    const auto drain = texts_of(params, "drain");
    words.insert(words.end(), drain.begin(), drain.end());
    return call("service_stop", words, 2 * patience(params) + kMargin);
  }

  Script verify(const Params& params, const Difference&) const override {
    if (is_stop(params)) return call("service_stopped", {unit(params)});
    const auto health = params.value("health", Params::object());
    const auto request = health.value("request", Params::object());
    const auto limit = duration_of(request, "limit", std::chrono::minutes(15));
    const auto type = request.contains("body") ? text_of(request, "type", "application/json") : std::string();
    return call("service_healthy",
                {unit(params), text_of(health, "url"), std::to_string(integer_of(health, "status", 200)),
                 seconds_of(patience(params)), text_of(request, "url"), type, text_of(request, "headers_from"),
                 std::to_string(integer_of(request, "status", 200)), text_of(request, "contains"), seconds_of(limit),
                 text_of(request, "body")},
                patience(params) + limit + kMargin);
  }

  Script undo(const Params& params, const Difference&) const override {
    const auto stop = std::max(patience(params), kLongestStop);
    return call(is_stop(params) ? "service_stop_undo" : "service_start_undo",
                {unit(params), seconds_of(patience(params))}, stop + patience(params) + kMargin);
  }

 private:
  static constexpr seconds kMargin{60};
  static constexpr seconds kLongestStop{1800};  ///< as in service.sh

  static std::string unit(const Params& params) { return text_of(params, "unit"); }
  static bool is_stop(const Params& params) { return text_of(params, "state") == "stopped"; }
  static bool is_half(const Params& params) { return boolean_of(params, "restart").value_or(false); }
  static seconds patience(const Params& params) { return duration_of(params, "patience", std::chrono::minutes(10)); }
  static std::string seconds_of(seconds duration) { return std::to_string(duration.count()); }

  static std::string shown_health(const Params& params, const Seen& seen) {
    if (!params.contains("health")) return ", not exercised";
    if (seen.get("http") == "none") return ", not exercised: this host has neither curl nor python3";
    const auto& health = params.at("health");
    auto text = fmt::format(" and answers {}", text_of(health, "url"));
    if (health.contains("request"))
      text += fmt::format(", and one request to {}", text_of(health.at("request"), "url"));
    return text;
  }

  static std::vector<std::string> refusals(const Params& params, const Seen& seen) {
    std::vector<std::string> why;
    const auto load = seen.get("LoadState"), id = seen.get("Id");
    if (load != "loaded")
      why.push_back(fmt::format("{} is not a loaded unit: {}", unit(params), load));
    else if (id != unit(params))
      why.push_back(fmt::format("{} is another name of {}: name that one", unit(params), id));
    if (seen.get("active") == "down") return why;
    for (const auto* key : {"RequiredBy", "BoundBy", "ConsistsOf"})
      for (const auto& other : seen.all(key))
        why.push_back(fmt::format("{} would be stopped with it ({}=)", other, key));
    for (const auto& other : seen.all("TriggeredBy"))
      why.push_back(fmt::format("{} may start it again while it has to be down", other));
    return why;
  }
};

}  // namespace

std::unique_ptr<ActionKind> make_service_kind() { return std::make_unique<ServiceKind>(); }

}  // namespace trueup
