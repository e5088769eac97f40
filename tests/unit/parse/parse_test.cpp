#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "parse/parser.hpp"
#include "support/cases.hpp"
#include "support/catch.hpp"

using nlohmann::json;
using trueup::make_parser;

namespace {

json parsed(const char* declaration, std::string_view text) {
  const auto parser = make_parser(json::parse(declaration));
  if (!parser) return "declaration: " + parser.error().message;
  const auto value = (*parser)(text);
  return value ? *value : json("error: " + value.error().message);
}

std::string wrong(const char* declaration) {
  const auto parser = make_parser(json::parse(declaration));
  return parser ? "accepted" : parser.error().message;
}

}  // namespace

// A case is a JSON file {"parser": declaration, "expect": value} or {"parser": ..., "error": message}, and the text
// beside it.
TEST_CASE("every parser reads every recorded output", "[unit][parse]") {
  for (const auto& path : trueup::test::cases_in("parse", ".json")) {
    CAPTURE(path.filename().string());
    const auto test = json::parse(trueup::test::read_file(path));
    const auto parser = make_parser(test.at("parser"));
    if (!parser) FAIL(parser.error().message);
    auto text_path = path;
    const auto value = (*parser)(trueup::test::read_file(text_path.replace_extension(".txt")));
    if (test.contains("error"))
      CHECK((value ? value->dump() : value.error().message) == test["error"].get<std::string>());
    else if (!value)
      FAIL(value.error().message);
    else
      CHECK(*value == test.at("expect"));
  }
}

TEST_CASE("types mean what they say", "[unit][parse]") {
  const auto as = [](const std::string& type, const std::string& text) {
    const auto record =
        parsed(fmt::format(R"({{"kv": {{"fields": {{"x": "{}"}}, "single": true}}}})", type).c_str(), "x=" + text);
    return record.is_object() ? record["x"] : record;
  };
  CHECK(as("int", "-12") == -12);
  CHECK(as("int", "18446744073709551615") == 18446744073709551615U);
  CHECK(as("int", "0x10") == "error: line 1: field 'x': expected an integer, got '0x10'");
  CHECK(as("int", "") == "error: line 1: field 'x': expected an integer, got ''");
  CHECK(as("int?", "") == nullptr);
  CHECK(as("float", "1.5") == 1.5);
  CHECK(as("float", "nan") == "error: line 1: field 'x': expected a number, got 'nan'");
  CHECK(as("bool", "yes") == true);
  CHECK(as("bool", "False") == false);
  CHECK(as("bool", "2") == "error: line 1: field 'x': expected yes or no, got '2'");
  CHECK(as("version", "12.8.93") == "12.8.93");
  CHECK(as("version", "N/A") == "error: line 1: field 'x': expected a version, got 'N/A'");
  CHECK(as("MiB", "97887") == 97887ULL * 1024 * 1024);
  CHECK(as("MiB", "97887 MiB") == 97887ULL * 1024 * 1024);
  CHECK(as("MiB", "97887 GiB") == "error: line 1: field 'x': expected a number of MiB, got '97887 GiB'");
  CHECK(as("KiB", "65535 kB") == 65535ULL * 1024);
  CHECK(as("bytes", "1.5G") == 1610612736);
  CHECK(as("bytes", "99999999999999999999") ==
        "error: line 1: field 'x': expected a number of bytes, got '99999999999999999999'");
  CHECK(as("bytes", "-1") == "error: line 1: field 'x': expected a number of bytes, got '-1'");
  CHECK(as("epoch", "1700000000.25") == 1700000000);
  CHECK(as("epoch", "@1700000000") == 1700000000);
  CHECK(as("epoch", "2023-11-14T22:13:20Z") == 1700000000);
  CHECK(as("epoch", "2023-02-30T22:13:20Z") ==
        "error: line 1: field 'x': expected seconds since the epoch, got '2023-02-30T22:13:20Z'");
  CHECK(as("list(,)", "a, b,,c") == json{"a", "b", "c"});
  CHECK(as("list( )", " a \t b ") == json{"a", "b"});
  CHECK(as("list<int>(,)", "1,2") == json{1, 2});
  CHECK(as("list<int>(,)", "1,b") == "error: line 1: field 'x': expected an integer, got 'b'");
  CHECK(as("map(;)", "A=1;B=x=y") == json{{"A", "1"}, {"B", "x=y"}});
  CHECK(as("text", "  kept as it is ") == "  kept as it is ");
}

TEST_CASE("what a tool does not tell is never a number", "[unit][parse]") {
  constexpr auto kGpu =
      R"({"csv": {"fields": [{"index": "int"}, {"name": "text"}, {"memory": "MiB?"}, {"cap": "version?"}]}})";
  for (const std::string mark : {"[N/A]", "N/A", "[Not Supported]", "[Unknown Error]", "[GPU is lost]", "ERR!",
                                 "[Insufficient Permissions]", "[some new words]"}) {
    const auto gpus = parsed(kGpu, "0, NVIDIA X, " + mark + ", 12.0\n");
    CAPTURE(mark);
    REQUIRE(gpus.is_array());
    CHECK(gpus[0]["memory"].is_null());
    CHECK(gpus[0]["cap"] == "12.0");
    CHECK(gpus[0]["unknown"] == json{{"memory", "the host's tool says '" + mark + "'"}});
  }
  const auto empty = parsed(kGpu, "0, [N/A], , 12.0\n")[0];
  CHECK(empty["memory"].is_null());
  CHECK(empty["name"] == "");
  CHECK(empty["unknown"] == json{{"name", "the host's tool says '[N/A]'"}});  // nothing there is absent, not unknown
  CHECK(parsed(kGpu, "[N/A], X, 1, 12.0\n") == "error: line 1: field 'index': expected an integer, got '[N/A]'");
  CHECK(parsed(kGpu, "0, Unknown, 1, 12.0\n")[0]["name"] == "Unknown");
}

TEST_CASE("kv: records, lists, maps, nested records and reasons", "[unit][parse][kv]") {
  constexpr auto kEnvs =
      R"({"kv": {"fields": {"path": "text", "torch_cuda": "text?", "bin": "list", "env": "map", "python_h": "bool",
      "packages": {"records": [{"name": "text"}, {"version": "text"}, {"installed": "epoch"}]},
      "index": {"type": "int", "default": -1}}}})";
  const auto envs =
      parsed(kEnvs,
             "path=/a=b\nbin=nvcc\nbin=ninja\nenv.PATH=/usr/bin:/bin\nenv.X.Y=1\npackages=torch 2.9.1+cu130 17\n"
             "packages=numpy 2.0 \nunknown.torch_cuda=permission denied\n\n\n\npath=/c\r\nindex=3\n");
  CHECK(envs == json::parse(R"([
    {"path": "/a=b", "torch_cuda": null, "bin": ["nvcc", "ninja"], "env": {"PATH": "/usr/bin:/bin", "X.Y": "1"},
     "python_h": false, "index": -1, "packages": [{"name": "torch", "version": "2.9.1+cu130", "installed": 17},
                                     {"name": "numpy", "version": "2.0", "installed": 0}],
     "unknown": {"torch_cuda": "permission denied"}},
    {"path": "/c", "torch_cuda": null, "bin": [], "env": {}, "python_h": false, "index": 3, "packages": []}])"));
  CHECK(parsed(kEnvs, "") == json::array());
  CHECK(parsed(kEnvs, "path=/a\nptah=/b\n") == "error: line 2: undeclared field 'ptah'; did you mean 'path'?");
  CHECK(parsed(kEnvs, "path=/a\npath=/b\n") == "error: line 2: field 'path' is given twice");
  CHECK(parsed(kEnvs, "unknown.pat=x\n") == "error: line 1: undeclared field 'pat'; did you mean 'path'?");
  CHECK(parsed(kEnvs, "/usr/bin\n") == "error: line 1: expected KEY=VALUE, got '/usr/bin'");
  constexpr auto kMemory = R"({"kv": {"separator": ":", "single": true, "ignore_unknown": true,
      "fields": {"total_bytes": {"type": "KiB", "key": "MemTotal"}}}})";
  CHECK(parsed(kMemory, "MemTotal:       131900416 kB\nMemFree:   1 kB\n") ==
        json{{"total_bytes", 131900416ULL * 1024}});
  CHECK(parsed(kMemory, "") == "error: no record, where one was expected");
  CHECK(parsed(kMemory, "MemTotal: 1\n\nMemTotal: 2\n") == "error: line 3: a second record, where one was expected");
}

TEST_CASE("csv: quotes, headers, and rows that do not fit", "[unit][parse][csv]") {
  constexpr auto kPlain = R"({"csv": {"fields": [{"a": "text"}, {"b": "int"}]}})";
  CHECK(parsed(kPlain, "\"x, \"\"y\"\"\nz\", 1\r\n\nq,2") ==
        json::parse(R"([{"a": "x, \"y\"\nz", "b": 1}, {"a": "q", "b": 2}])"));
  CHECK(parsed(kPlain, "\"x\n\",1\ny\n") == "error: line 3: expected 2 cells, got 1: 'y'");
  CHECK(parsed(kPlain, "x,1,2\n") == "error: line 1: expected 2 cells, got 3: 'x, 1, 2'");
  CHECK(parsed(kPlain, "\"x,1\n") == "error: line 1: a quoted cell does not end with its quote");
  CHECK(parsed(kPlain, "\"x\"y,1\n") == "error: line 1: a quoted cell does not end with its quote");
  constexpr auto kHeader =
      R"({"csv": {"header": true, "fields": {"memory": {"type": "MiB", "key": "memory.total [MiB]"}}}})";
  CHECK(parsed(kHeader, "memory.total [MiB]\n97887 MiB\n")[0]["memory"] == 97887ULL * 1024 * 1024);
  CHECK(parsed(kHeader, "memory.totl [MiB]\n1\n") ==
        "error: line 1: no column 'memory.total [MiB]'; did you mean 'memory.totl [MiB]'?");
  CHECK(parsed(kHeader, "index, memory.total [MiB]\n0, 1\n") == "error: line 2: undeclared field 'index'");
}

TEST_CASE("columns, lines, ini, regex, os-release", "[unit][parse]") {
  constexpr auto kDf =
      R"({"columns": {"skip": 1, "rest": true, "fields": [{"dev": "text"}, {"size": "KiB"}, {"mount": "text"}]}})";
  CHECK(parsed(kDf, "Filesystem 1024-blocks Mounted on\n/dev/vda   10  /mnt/a b\n") ==
        json::parse(R"([{"dev": "/dev/vda", "size": 10240, "mount": "/mnt/a b"}])"));
  CHECK(parsed(kDf, "x\n/dev/vda 10\n") == "error: line 2: expected 3 columns, got 2");
  CHECK(parsed(R"({"columns": {"fields": [{"a": "text"}]}})", "x y\n") ==
        "error: line 1: expected 1 columns, got more: 'y'");

  CHECK(parsed(R"("lines")", "a\n\nb c\n") == json{"a", "b c"});
  CHECK(parsed(R"({"lines": {"type": "int", "single": true}})", "7\n") == 7);
  CHECK(parsed(R"({"lines": {"type": "int"}})", "7\nx\n") ==
        "error: line 2: field 'line': expected an integer, got 'x'");

  constexpr auto kVenv =
      R"({"ini": {"single": true, "ignore_unknown": true, "fields": {"home": "text", "env": {"type": "list", "key": "Service.Environment"}}}})";
  CHECK(parsed(kVenv, "# c\nhome = /usr/bin\n[Service]\nEnvironment=A=1\nEnvironment=B=2 \\\n; c\n  C=3\n") ==
        json::parse(R"({"home": "/usr/bin", "env": ["A=1", "B=2 C=3"]})"));
  CHECK(parsed(R"({"ini": {"fields": {"section": "text", "a": "int"}}})", "[x]\na=1\n[y]\na=2\n") ==
        json::parse(R"([{"section": "x", "a": 1}, {"section": "y", "a": 2}])"));
  CHECK(parsed(kVenv, "home\n") == "error: line 1: expected KEY=VALUE or [SECTION], got 'home'");

  constexpr auto kNvrm =
      R"({"regex": {"pattern": "NVRM version: (?<words>.*?) +(?<version>\\d+(\\.\\d+)+) ", "single": true,
      "ignore_unknown": true, "fields": {"words": "text", "version": "version"}}})";
  CHECK(
      parsed(kNvrm,
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version: 12\n") ==
      json::parse(R"({"words": "NVIDIA UNIX Open Kernel Module for x86_64", "version": "580.95.05"})"));
  CHECK(parsed(R"({"regex": {"pattern": "^(?<a>\\d+)(?<b>x)?$", "fields": {"a": "int", "b": "text?"}}})", "1\nq\n") ==
        "error: line 2: does not match the pattern: 'q'");

  CHECK(parsed(R"("os-release")",
               "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID='12'\n#x\nHOME_URL=x\n") ==
        json::parse(R"-({"id": "debian", "version": "12", "pretty_name": "Debian GNU/Linux 12 (bookworm)"})-"));
  CHECK(parsed(R"("os-release")", "NAME=Arch\n") ==
        json::parse(R"({"id": "linux", "version": "", "pretty_name": "Linux"})"));
  CHECK(parsed(R"("os-release")", "NAME=\"Arch\n") ==
        "error: line 1: expected KEY=VALUE as a shell reads it, got 'NAME=\"Arch'");
}

TEST_CASE("json and ndjson", "[unit][parse][json]") {
  CHECK(parsed(R"("json")", R"({"a": [1, null]})") == json::parse(R"({"a": [1, null]})"));
  CHECK(parsed(R"({"json": {"at": "disks", "fields": {"name": "text", "size": "bytes"}}})",
               R"({"disks": [{"name": "vda", "size": "10"}, {"name": "vdb", "size": 11}]})") ==
        json::parse(R"([{"name": "vda", "size": 10}, {"name": "vdb", "size": 11}])"));
  CHECK(parsed(R"({"json": {"fields": {"a": "int"}}})", R"([{"a": 1}, {"a": "x"}])") ==
        "error: item 2: field 'a': expected an integer, got 'x'");
  CHECK(parsed(R"({"json": {"fields": {"a": "int"}}})", R"([{"a": [1]}])") ==
        "error: item 1: field 'a': expected an integer, got '[1]'");
  CHECK(parsed(R"("json")", "{\"a\":\n1,}") == "error: line 2: not JSON: unexpected '}'; expected string literal");
  CHECK(parsed(R"("json")", R"({"a": 1, "a": 2})") == "error: line 1: 'a' stands twice in one object");
  CHECK(parsed(R"("json")", std::string(100'000, '[')) == "error: line 1: nested deeper than 64 levels");
  constexpr auto kJournal =
      R"({"ndjson": {"ignore_unknown": true, "fields": {"text": {"type": "text", "key": "MESSAGE"}}}})";
  CHECK(parsed(kJournal, "{\"MESSAGE\": [104, 105, 255], \"_PID\": \"1\"}\n\n{\"MESSAGE\": null}\n") ==
        json::parse(R"([{"text": "hi�"}, {"text": ""}])"));
  CHECK(parsed(kJournal, "{}\n[]\n") == "error: line 2: expected an object, got array");
}

TEST_CASE("a declaration that is wrong is told so", "[unit][parse]") {
  CHECK(wrong(R"({"kw": {}})") == "unknown parser 'kw'; did you mean 'kv'?");
  CHECK(wrong(R"({"kv": {}, "csv": {}})") == "expected one parser with its options, such as {kv: {fields: {...}}}");
  CHECK(wrong(R"({"kv": {}})") == "parser kv: fields: missing");
  CHECK(wrong(R"({"kv": {"fields": {"a": "integer"}}})") == "parser kv: fields: a: unknown type 'integer'");
  CHECK(wrong(R"({"kv": {"fields": {"a": "txet"}}})") ==
        "parser kv: fields: a: unknown type 'txet'; did you mean 'text'?");
  CHECK(wrong(R"({"kv": {"fields": {"a": "list(,"}}})") ==
        "parser kv: fields: a: cannot read type 'list(,' at '(,'; a list is written list<int>(,)");
  CHECK(wrong(R"({"kv": {"fields": {"a": {"typ": "int"}}}})") ==
        "parser kv: fields: a: unknown key 'typ'; did you mean 'type'?");
  CHECK(wrong(R"({"kv": {"fields": {"a": "int"}, "singel": true}})") ==
        "parser kv: unknown option 'singel'; did you mean 'single'?");
  CHECK(wrong(R"({"csv": {"fields": {"a": "int"}}})") ==
        "parser csv: fields: expected a list such as [index: int, name: text], for the order counts");
  CHECK(wrong(R"({"regex": {"pattern": "(?<a>", "fields": {"a": "int"}}})").substr(0, 22) == "parser regex: pattern:");
  CHECK(wrong(R"-({"regex": {"pattern": "(?<aa>x)", "fields": {"ab": "int"}}})-") ==
        "parser regex: group 'aa' is no field; did you mean 'ab'?");
}

TEST_CASE("hostile output ends in a value or an error, soon", "[unit][parse][property]") {
  const auto declarations = {
      R"({"kv": {"fields": {"a": "text"}, "ignore_unknown": true}})",
      R"({"csv": {"fields": [{"a": "text"}], "ignore_unknown": true}})",
      R"({"ini": {"fields": {"a": "list"}, "ignore_unknown": true}})",
      R"("lines")",
      R"("json")",
      R"("ndjson")",
      R"("os-release")",
      R"({"columns": {"fields": [{"a": "text"}], "ignore_unknown": true}})",
      R"({"regex": {"pattern": "^(?<a>(x+x+)+)y$", "fields": {"a": "text"}, "ignore_unknown": true}})"};
  const std::string_view alphabet("a=\"\\\n\r\t ,;[]{}:#x\0\xff\xc3\x1b", 22);
  unsigned seed = 1;
  for (const auto* declaration : declarations) {
    CAPTURE(declaration);
    const auto parser = make_parser(json::parse(declaration));
    REQUIRE(parser);
    for (int round = 0; round < 300; ++round) {
      std::string text;
      for (int i = 0; i < round; ++i) text += alphabet[(seed = seed * 1664525 + 1013904223) / 65536 % alphabet.size()];
      for (const auto& whole : {text, "a=" + text, "{\"a\":\"" + text, "[" + text}) {
        const auto value = (*parser)(whole);
        if (value) CHECK_NOTHROW(value->dump());  // strings are UTF-8
        if (!value) CHECK(value.error().message.find_first_of("\n\x1b") == std::string::npos);
      }
    }
    for (const auto& whole :
         {std::string(100'000, 'x'), "a=" + std::string(100'000, '\xff') + "\n", std::string(100'000, '\0')})
      (*parser)(whole);
  }
  CHECK(parsed(R"({"kv": {"fields": {"a": "text"}}})", std::string("a=b\0c\n", 6))[0]["a"] == "b�c");
  std::string many;
  for (int i = 0; i < 20'001; ++i) many += "a=\n\n";
  CHECK(parsed(R"({"kv": {"fields": {"a": "text"}}})", many) == "error: more than 20000 records");
}
