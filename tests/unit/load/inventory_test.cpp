#include "load/inventory.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/text.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"

// A case is one file of sections, each below a line `== NAME`: `arguments` (a line each), any number of files by their
// path (`exec:PATH` is what that program prints, `<stdin>` what stands there), `select` (lines `PATTERN => hosts or
// error`), and what must come out: `hosts` and `errors`. TRUEUP_UPDATE_GOLDEN=1 rewrites what must come out.

using namespace trueup;

namespace {

struct Section {
  std::string name, text;
};

std::vector<Section> read_case(const std::string& text) {
  std::vector<Section> sections;
  for (const auto line : split_lines(text)) {
    if (line.rfind("== ", 0) == 0)
      sections.push_back({std::string(line.substr(3)), {}});
    else if (!sections.empty())
      sections.back().text += std::string(line) + "\n";
  }
  return sections;
}

struct FilesInMemory final : FileAccess {
  std::map<std::string, std::string> files;

  Result<std::string> read(const std::string& path) const override {
    const auto found = files.find(path);
    if (found == files.end())
      return fail(ErrorKind::not_found, fmt::format("cannot read '{}': No such file or directory", path));
    return found->second;
  }

  std::vector<std::string> list(const std::string& directory) const override {
    std::set<std::string> names;
    for (const auto& [path, text] : files)
      if (path.rfind(directory + "/", 0) == 0)
        names.emplace(split(std::string_view(path).substr(directory.size() + 1), '/')[0]);
    return {names.begin(), names.end()};
  }
};

struct Loaded {
  Inventory inventory;
  Errors errors;
};

Loaded load(const FilesInMemory& files, const std::vector<std::string>& arguments) {
  const InventoryInputs inputs{.files = files,
                               .home = "/home/ops",
                               .read_stdin = [&] { return files.read("<stdin>"); },
                               .run_program = [&](const std::string& path) { return files.read("exec:" + path); }};
  Loaded loaded;
  loaded.inventory = load_inventory(arguments, inputs, loaded.errors);
  return loaded;
}

std::string list_of(const std::vector<std::string>& names) { return join(names, ","); }

// What differs from a host that nothing is said about.
std::string render(const Inventory& inventory, const Host& host) {
  auto line = host.name;
  if (host.address != host.name) line += " address=" + host.address;
  if (host.port != 0) line += fmt::format(" port={}", host.port);
  if (host.user) line += " user=" + *host.user;
  if (!host.keys.empty()) line += " key=" + list_of(host.keys);
  if (!host.known_hosts.empty()) line += " known_hosts=" + list_of(host.known_hosts);
  if (host.become != Become::none) line += host.become == Become::sudo ? " become=sudo" : " become=doas";
  if (host.become_user != "root") line += " become_user=" + host.become_user;
  if (host.transport == TransportKind::local) line += " transport=local";
  if (!host.groups.empty()) line += " groups=" + list_of(host.groups);
  if (const auto& vars = inventory.vars.at(host.name); !vars.empty()) line += " vars=" + vars.dump();
  for (const auto& consumer : host.consumers)
    line += fmt::format(" consumer={}:{}:{}:{}", consumer.name, consumer.python, consumer.user,
                        nlohmann::json(consumer.env).dump());
  for (const auto& [setting, why] : host.refused) line += fmt::format("\n  refused {}: {}", setting, why);
  return line;
}

std::string select(const Inventory& inventory, const std::string& pattern) {
  const auto hosts = select_hosts(inventory, pattern);
  if (!hosts) return to_string(hosts.error());
  std::vector<std::string> names;
  for (const auto& host : *hosts) names.push_back(host.name);
  return names.empty() ? "(nothing)" : join(names, " ");
}

struct Case {
  FilesInMemory files;
  std::vector<std::string> arguments;
};

Case prepare(const std::vector<Section>& sections) {
  Case prepared;
  for (const auto& [name, text] : sections) {
    if (name == "arguments")
      for (const auto line : split_lines(text)) prepared.arguments.emplace_back(line);
    else
      prepared.files.files[name] = text;
  }
  return prepared;
}

std::string run_case(std::vector<Section> sections) {
  const auto prepared = prepare(sections);
  const auto [inventory, errors] = load(prepared.files, prepared.arguments);
  std::string text;
  for (auto& [name, content] : sections) {
    if (name == "hosts") {
      content.clear();
      for (const auto& host : inventory.hosts) content += render(inventory, host) + "\n";
      for (const auto& note : inventory.notes) content += "note: " + note + "\n";
    } else if (name == "errors") {
      content.clear();
      for (const auto& error : errors)
        content += to_string(error) + (error.hint.empty() ? "" : " (" + error.hint + ")") + "\n";
    } else if (name == "select") {
      std::string lines;
      for (const auto line : split_lines(content)) {
        const auto pattern = std::string(trim(line.substr(0, line.find(" =>"))));
        lines += fmt::format("{} => {}\n", pattern, select(inventory, pattern));
      }
      content = lines;
    }
    text += fmt::format("== {}\n{}", name, content);
  }
  return text;
}

std::string any_bytes(std::string text, std::mt19937& random) {
  static const std::string interesting = "[]{}:,=#;&*!|>-'\"\\\n\t \x00\xff%@`~?09az";
  for (int i = 0, changes = 1 + static_cast<int>(random() % 4); i < changes && !text.empty(); ++i) {
    const auto at = random() % text.size();
    switch (random() % 3) {
      case 0:
        text[at] = interesting[random() % interesting.size()];
        break;
      case 1:
        text.insert(at, 1, interesting[random() % interesting.size()]);
        break;
      default:
        text.erase(at, 1 + random() % 5);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("inventories give the hosts and the errors that their cases say", "[unit][load][inventory]") {
  bool rewritten = false;
  for (const auto& path : test::cases_in("inventory", ".case")) {
    CAPTURE(path.filename().string());
    const auto text = test::read_file(path);
    const auto sections = read_case(text);
    const auto names_section = [&](const std::string& name) {
      return std::any_of(sections.begin(), sections.end(), [&](const auto& section) { return section.name == name; });
    };
    REQUIRE(names_section("hosts"));
    REQUIRE(names_section("errors"));
    const auto actual = run_case(sections);
    if (std::getenv("TRUEUP_UPDATE_GOLDEN") != nullptr && actual != text) {
      std::ofstream(path) << actual;
      rewritten = true;
    } else {
      CHECK(actual == text);
    }
  }
  CHECK_FALSE(rewritten);
}

TEST_CASE("no bytes bring a loader down, and what loads without errors has safe names",
          "[unit][property][load][inventory]") {
  std::mt19937 random(20260101);
  for (const auto& path : test::cases_in("inventory", ".case")) {
    const auto original = prepare(read_case(test::read_file(path)));
    for (int round = 0; round < 60; ++round) {
      auto changed = original;
      for (auto& [name, text] : changed.files.files) text = any_bytes(text, random);
      CAPTURE(path.filename().string(), round);
      const auto [inventory, errors] = load(changed.files, changed.arguments);
      const auto is_safe = [](const std::string& name) {
        return !name.empty() && name.front() != '-' && name.find_first_of(" \t\n'\"$`\\/;") == std::string::npos;
      };
      CHECK(std::all_of(errors.begin(), errors.end(), [](const auto& error) { return !error.message.empty(); }));
      CHECK(std::all_of(inventory.hosts.begin(), inventory.hosts.end(), [&](const auto& host) {
        return is_safe(host.name) && is_safe(host.address) && (!host.user || host.user->front() != '-') &&
               inventory.vars.contains(host.name);
      }));
    }
  }
}

TEST_CASE("every prefix of an inventory is answered", "[unit][property][load][inventory]") {
  for (const auto& path : test::cases_in("inventory", ".case")) {
    const auto original = prepare(read_case(test::read_file(path)));
    if (original.arguments.empty() || !original.files.files.contains(original.arguments[0])) continue;
    const auto& whole = original.files.files.at(original.arguments[0]);
    for (std::size_t length = 0; length < whole.size(); length += 7) {
      auto cut = original;
      cut.files.files[original.arguments[0]] = whole.substr(0, length);
      const auto [inventory, errors] = load(cut.files, cut.arguments);
      CHECK(inventory.hosts.size() + errors.size() < 10'000);
    }
  }
}

TEST_CASE("an inventory cannot ask for more hosts than fit", "[unit][load][inventory]") {
  FilesInMemory files;
  files.files["many.ini"] = "a[1:20000]\n";
  auto loaded = load(files, {"many.ini"});
  CHECK(loaded.inventory.hosts.size() == 20'000);
  CHECK(loaded.errors.empty());

  files.files["many.ini"] = "a[1:100000]\nb1\nb2\n";
  loaded = load(files, {"many.ini"});
  REQUIRE(loaded.errors.size() == 1);
  CHECK(to_string(loaded.errors[0]) == "many.ini:2:1: read as Ansible's INI: more than 100000 hosts");

  files.files["many.ini"] = "a[1:1000][1:1000]\n";
  loaded = load(files, {"many.ini"});
  REQUIRE(loaded.errors.size() == 1);
  CHECK(to_string(loaded.errors[0]) ==
        "many.ini:1:1: read as Ansible's INI: host name 'a[1:1000][1:1000]': more than 100000 names");

  files.files["many.ini"] = "";
  for (int i = 0; i < 10; ++i) files.files["many.ini"] += fmt::format("[g{}]\na[1:100000]\n", i);
  loaded = load(files, {"many.ini"});
  REQUIRE(loaded.errors.size() == 1);
  CHECK(to_string(loaded.errors[0]) == "many.ini:8:1: read as Ansible's INI: more than 300000 host names");
}

TEST_CASE("long chains of groups need no deep stack", "[unit][load][inventory]") {
  FilesInMemory files;
  auto& text = files.files["chain.ini"];
  for (int i = 0; i < 20'000; ++i) text += fmt::format("[g{}:children]\ng{}\n", i, i + 1);
  text += "[g20000]\nhost\n[g0:vars]\nwho=first\n[g20000:vars]\nwho=last\n";
  const auto [inventory, errors] = load(files, {"chain.ini"});
  REQUIRE(errors.empty());
  CHECK(inventory.hosts.at(0).groups.size() == 20'001);
  CHECK(inventory.hosts.at(0).groups.front() == "g20000");
  CHECK(inventory.vars.at("host").dump() == R"({"who":"last"})");
}

TEST_CASE("a program's JSON is bounded in depth and keeps its text", "[unit][load][inventory]") {
  FilesInMemory files;
  files.files["exec:deep"] = std::string(100'000, '[');
  auto loaded = load(files, {"exec:deep"});
  REQUIRE(loaded.errors.size() == 1);
  CHECK(to_string(loaded.errors[0]) == "exec:deep: read as an inventory program's JSON: nested deeper than 100");

  files.files["exec:text"] =
      R"({"_meta": {"hostvars": {"a": {"note": "\ud83d\ude00 [[[[\"{", "n": 1}}}, "all": {"hosts": ["a"]}})";
  loaded = load(files, {"exec:text"});
  CHECK(loaded.errors.empty());
  CHECK(loaded.inventory.vars.at("a") == nlohmann::json{{"note", "😀 [[[[\"{"}, {"n", 1}});
}
