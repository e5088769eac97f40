#include "load/facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/text.hpp"
#include "load/inventory_settings.hpp"

namespace trueup {
namespace {

using nlohmann::json;

class FactsFile {
 public:
  FactsFile(std::string_view text, const std::string& file) : text_(valid_utf8(text)), file_(file) {}

  Result<std::vector<StoredFacts>> read() {
    std::istringstream stream(text_);
    for (std::size_t begin = first_word(0); begin < text_.size(); begin = first_word(begin)) {
      stream.seekg(static_cast<std::streamoff>(begin));
      json document;
      try {
        stream >> document;
      } catch (const json::exception& error) {
        return fail(no_json(error, begin));
      }
      const auto at = place(begin);
      // Of a document that ends the text the stream has no position any more.
      const auto end = stream.tellg();
      begin = end < 0 ? text_.size() : static_cast<std::size_t>(end);
      if (const auto added = add_all(document, at); !added) return fail(added.error());
    }
    if (hosts_.empty())
      return fail(ErrorKind::malformed, "empty: expected the facts of a host, as `trueup facts` prints them",
                  SourcePos{file_, 0, 0});
    return std::move(hosts_);
  }

 private:
  std::size_t first_word(std::size_t from) const {
    return std::min(text_.find_first_not_of(" \t\r\n", from), text_.size());
  }

  // Offsets only grow: a file of a thousand hosts is counted through once.
  SourcePos place(std::size_t offset) {
    for (; counted_ < offset; ++counted_)
      if (text_[counted_] == '\n') {
        ++line_;
        line_begin_ = counted_ + 1;
      }
    return {file_, line_, static_cast<int>(offset - line_begin_) + 1};
  }

  Error no_json(const json::exception& error, std::size_t begin) {
    std::size_t offset = text_.size();
    if (const auto* parsing = dynamic_cast<const json::parse_error*>(&error); parsing != nullptr && parsing->byte > 0)
      offset = std::min(begin + parsing->byte - 1, text_.size());
    std::string_view what =
        error.what();  // "[id] parse error at ...: syntax error while ... - unexpected ...; expected"
    if (const auto dash = what.find(" - "); dash != what.npos) what.remove_prefix(dash + 3);
    return {ErrorKind::malformed,
            fmt::format("not JSON: {}; expected facts, as `trueup facts` prints them", shorten(printable(what), 120)),
            place(offset),
            {},
            {}};
  }

  Result<void> add_all(const json& document, const SourcePos& at) {
    if (!document.is_array()) return add(document, at, "");
    for (std::size_t i = 0; i < document.size(); ++i)
      if (const auto added = add(document[i], at, fmt::format("[{}]: ", i)); !added) return added;
    return {};
  }

  Result<void> add(const json& document, const SourcePos& at, const std::string& where) {
    const auto wrong = [&](ErrorKind kind, std::string message) { return fail(kind, where + std::move(message), at); };
    if (!document.is_object())
      return wrong(ErrorKind::malformed, fmt::format("expected the facts of a host, got {}", document.type_name()));
    const auto& sections = environment_sections();
    if (std::none_of(sections.begin(), sections.end(), [&](const auto& name) { return document.contains(name); })) {
      std::vector<std::string> keys;
      for (const auto& [key, value] : document.items()) keys.push_back(printable(key));
      keys.resize(std::min<std::size_t>(keys.size(), 6));
      return wrong(ErrorKind::malformed,
                   fmt::format("these are no facts: no section such as host or gpus, only {}; expected what `trueup "
                               "facts` prints",
                               keys.empty() ? "an empty record" : join(keys, ", ")));
    }
    auto environment = environment_from_json(document);
    if (!environment) return wrong(environment.error().kind, environment.error().message);
    StoredFacts stored{{}, *std::move(environment), at};
    if (const auto name = document.find("name"); name != document.end() && name->is_string())
      stored.name = name->get<std::string>();
    else if (stored.environment.host.is_known())
      stored.name = stored.environment.host->hostname;
    if (stored.name.empty()) return wrong(ErrorKind::malformed, "name: missing, and the facts know no host.hostname");
    if (const auto why = why_no_host_name(stored.name); !why.empty())
      return wrong(ErrorKind::malformed, fmt::format("name: {}", why));
    hosts_.push_back(std::move(stored));
    return {};
  }

  const std::string text_;
  const std::string& file_;
  std::size_t counted_ = 0, line_begin_ = 0;
  int line_ = 1;
  std::vector<StoredFacts> hosts_;
};

}  // namespace

Result<std::vector<StoredFacts>> load_facts(std::string_view text, const std::string& file) {
  return FactsFile(text, file).read();
}

}  // namespace trueup
