#include "model/schema.hpp"

#include <algorithm>
#include <type_traits>

#include "base/text.hpp"
#include "model/fields.hpp"

namespace trueup {
namespace {

template <class T>
struct Of {};

template <class T>
Shape shape(Of<T>);

Shape scalar(std::string type) { return {Shape::Kind::scalar, std::move(type), false, {}, {}}; }

template <class T>
Shape shape(Of<std::optional<T>>) {
  Shape result = shape(Of<T>{});
  result.nullable = true;
  return result;
}

template <class T>
Shape shape(Of<Fact<T>>) {
  return shape(Of<std::optional<T>>{});
}

template <class T>
Shape shape(Of<std::vector<T>>) {
  return {Shape::Kind::list, {}, false, {}, {shape(Of<T>{})}};
}

Shape shape(Of<Variables>) { return {Shape::Kind::map, {}, false, {}, {scalar("string")}}; }
Shape shape(Of<Version>) { return scalar("version"); }
Shape shape(Of<Outcome>) { return scalar("string"); }
Shape shape(Of<Judgement>) { return scalar("string"); }
Shape shape(Of<std::string>) { return scalar("string"); }
Shape shape(Of<bool>) { return scalar("boolean"); }

template <class T>
Shape shape(Of<T>) {
  if constexpr (IsRecord<T>) {
    Shape result{Shape::Kind::record, {}, false, {}, {}};
    for_each_field<T>(
        [&]<class R, class M>(const Field<R, M>& field) { result.fields.emplace_back(field.name, shape(Of<M>{})); });
    return result;
  } else {
    static_assert(std::is_integral_v<T>);
    return scalar("integer");
  }
}

}  // namespace

const Shape* Shape::field(std::string_view name) const {
  const auto found = std::find_if(fields.begin(), fields.end(), [&](const auto& entry) { return entry.first == name; });
  return found == fields.end() ? nullptr : &found->second;
}

const Shape& facts_shape() {
  static const Shape kShape = [] {
    Shape root = shape(Of<Environment>{});
    root.fields.emplace(root.fields.begin(), "schema", scalar("integer"));
    root.fields.emplace_back("unknown", shape(Of<FieldReasons>{}));
    root.fields.emplace_back("derived", shape(Of<Derived>{}));
    return root;
  }();
  return kShape;
}

const Shape* shape_at(std::string_view path) {
  const Shape* at = &facts_shape();
  if (path.empty()) return at;
  for (const auto name : split(path, '.')) {
    while (at->kind == Shape::Kind::list) at = &at->element.front();
    at = at->kind == Shape::Kind::map ? &at->element.front() : at->field(name);
    if (!at) return nullptr;
  }
  return at;
}

std::vector<std::string> schema_fields(std::string_view path) {
  const Shape* at = shape_at(path);
  while (at && at->kind == Shape::Kind::list) at = &at->element.front();
  std::vector<std::string> names;
  if (at)
    for (const auto& [name, field] : at->fields) names.push_back(name);
  return names;
}

bool schema_has(std::string_view path, std::string_view field) {
  const auto names = schema_fields(path);
  return std::find(names.begin(), names.end(), field) != names.end();
}

}  // namespace trueup
