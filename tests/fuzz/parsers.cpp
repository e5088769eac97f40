#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "parse/parser.hpp"

// Any text is answered by every parser with a value whose strings are UTF-8, or with an error of one line.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trueup;
  static const std::vector<Parser> parsers = [] {
    std::vector<Parser> made;
    for (
        const auto* declaration : {
            R"({"kv": {"fields": {"Id": "text", "MainPID": "int?", "env": "map", "EnvironmentFiles": "list",
                 "packages": {"records": [{"name": "text"}, {"when": "epoch"}]}}, "ignore_unknown": true}})",
            R"({"csv": {"fields": [{"index": "int"}, {"name": "text"}, {"memory": "MiB?"}], "ignore_unknown": true}})",
            R"({"csv": {"header": true, "fields": {"a": "bytes?"}, "ignore_unknown": true}})",
            R"({"columns": {"fields": [{"a": "text"}, {"b": "float?"}], "rest": true, "at_least": 1}})",
            R"({"ini": {"fields": {"a": "list", "section": "text"}, "ignore_unknown": true}})",
            R"({"lines": {"type": "version?"}})",
            R"({"regex": {"pattern": "(?<a>[a-z]+)=(?<b>.*?)(x+x+)*$", "fields": {"a": "text", "b": "bool?"}, "ignore_unknown": true}})",
            R"("json")",
            R"({"json": {"fields": {"a": "list<int>", "b": "map", "c": "text"}, "ignore_unknown": true}})",
            R"("ndjson")",
            R"("os-release")",
        }) {
      auto parser = make_parser(nlohmann::json::parse(declaration));
      if (!parser) std::abort();
      made.push_back(std::move(*parser));
    }
    return made;
  }();
  for (const auto& parser : parsers) {
    const auto value = parser({reinterpret_cast<const char*>(data), size});
    if (value)
      (void)value->dump();  // throws where a string is not UTF-8
    else if (value.error().message.find_first_of("\n\r\x1b") != std::string::npos)
      std::abort();
  }
  return 0;
}
