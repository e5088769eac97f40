#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The shape of the document that expressions see, known without a host: for linting paths before any run.

namespace trueup {

/// What stands at one place of the facts document.
struct Shape {
  enum class Kind {
    scalar,  ///< text, number or boolean; `type` says which
    list,    ///< `element` holds the shape of its items
    map,     ///< free keys, texts as values (`unit_env`, `unknown`, `ptxas`)
    record,  ///< exactly `fields`
  };
  Kind kind = Kind::scalar;
  std::string type;  ///< of a scalar: `string`, `integer`, `boolean`, `version` (a string)
  bool nullable =
      false;  ///< null is a value of its own here: absent. Sections are nullable, and unknown where named so
  std::vector<std::pair<std::string, Shape>> fields;
  std::vector<Shape> element;

  /// The field of that name of a record, or null.
  const Shape* field(std::string_view name) const;
};

/// The root: `schema`, every section, `unknown`, `derived`.
const Shape& facts_shape();

/// What stands at a dotted path, lists and maps passed through to their elements: `gpus`, `python_envs.packages`,
/// `derived.resolutions`. Null: there is no such place. Anything below a map is a scalar.
const Shape* shape_at(std::string_view path);

/// The field names at such a path: of the record there, or of the records in the list there. Empty: none.
std::vector<std::string> schema_fields(std::string_view path);

/// `schema_has("gpus", "compute_cap")`, `schema_has("derived.resolutions", "gate")`; `schema_has("", "gpus")`.
bool schema_has(std::string_view path, std::string_view field);

}  // namespace trueup
