#include "expr/jq.hpp"

extern "C" {
#include <jq.h>
#include <jv.h>
}

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.hpp"

namespace trueup {
namespace {

std::string take_text(jv value) {
  std::string text(jv_string_value(value), static_cast<std::size_t>(jv_string_length_bytes(jv_copy(value))));
  jv_free(value);
  return text;
}

// As JSON. Most outputs are the numbers of checks, and that they hold: libjq takes long to write these.
std::string take_json(jv value) {
  if (jv_get_kind(value) == JV_KIND_TRUE) return "true";
  if (jv_get_kind(value) == JV_KIND_FALSE) return "false";
  if (jv_get_kind(value) != JV_KIND_NUMBER) return take_text(jv_dump_string(value, 0));
  const double number = jv_number_value(value);
  if (number < 0 || number > 1e6 || number != std::floor(number)) return take_text(jv_dump_string(value, 0));
  jv_free(value);
  return std::to_string(static_cast<int>(number));
}

// "jq: error: foo/0 is not defined at <top-level>, line 3:\n<the whole text>"; the last is "jq: 1 compile error".
JqProgram::Complaint clean(std::string_view raw) {
  JqProgram::Complaint complaint;
  for (const std::string_view prefix : {"jq: ", "error: "})
    if (raw.starts_with(prefix)) raw.remove_prefix(prefix.size());
  auto message = raw.substr(0, raw.find('\n'));
  if (const auto at = message.rfind(" at <top-level>"); at != message.npos) {
    constexpr std::string_view kLine = ", line ";
    if (const auto line = message.find(kLine, at); line != message.npos)
      std::from_chars(message.data() + line + kLine.size(), message.data() + message.size(), complaint.line);
    message = message.substr(0, at);
  }
  if (const auto advice = message.find(" (Unix shell quoting issues?)"); advice != message.npos)
    message = message.substr(0, advice);
  complaint.message = std::string(message);
  return complaint;
}

void on_complaint(void* data, jv message) {
  auto raw = take_text(jq_format_error(message));
  if (raw.find("compile error") != raw.npos && raw.size() < 40) return;
  static_cast<std::vector<JqProgram::Complaint>*>(data)->push_back(clean(raw));
}

jv no_input(jq_state*, void*) { return jv_invalid(); }

}  // namespace

struct JqValue::Value {
  jv value;
  ~Value() { jv_free(value); }
};

JqValue::JqValue(std::unique_ptr<Value> value) : value_(std::move(value)) {}
JqValue::~JqValue() = default;
JqValue::JqValue(JqValue&&) noexcept = default;
JqValue& JqValue::operator=(JqValue&&) noexcept = default;

Result<JqValue> JqValue::parse(std::string_view json) {
  const jv value = jv_parse_sized(json.data(), static_cast<int>(json.size()));
  if (!jv_is_valid(value)) {
    const jv message = jv_invalid_get_msg(value);
    if (jv_get_kind(message) == JV_KIND_STRING) return fail(ErrorKind::malformed, take_text(message));
    jv_free(message);
    return fail(ErrorKind::malformed, "no JSON");
  }
  return JqValue(std::unique_ptr<Value>(new Value{value}));
}

struct JqProgram::State {
  jq_state* jq = nullptr;
  ~State() { jq_teardown(&jq); }
};

JqProgram::JqProgram(std::unique_ptr<State> state) : state_(std::move(state)) {}
JqProgram::~JqProgram() = default;

std::unique_ptr<JqProgram> JqProgram::compile(const std::string& text, std::vector<Complaint>& complaints) {
  auto state = std::make_unique<State>();
  state->jq = jq_init();
  if (state->jq == nullptr) {
    complaints.push_back({"libjq does not start: no memory", 0});
    return nullptr;
  }
  // Modules are refused before; without these 1.6 would abort on one that slipped through, and crash on `input`.
  jq_set_attr(state->jq, jv_string("JQ_LIBRARY_PATH"), jv_array());
  jq_set_attr(state->jq, jv_string("JQ_ORIGIN"), jv_string("/nonexistent"));
  jq_set_attr(state->jq, jv_string("PROGRAM_ORIGIN"), jv_string("/nonexistent"));
  jq_set_input_cb(state->jq, no_input, nullptr);
  jq_set_error_cb(state->jq, on_complaint, &complaints);
  const bool compiled = jq_compile(state->jq, text.c_str()) != 0;
  jq_set_error_cb(state->jq, nullptr, nullptr);
  if (!compiled) {
    if (complaints.empty()) complaints.push_back({"does not compile", 0});
    return nullptr;
  }
  return std::unique_ptr<JqProgram>(new JqProgram(std::move(state)));
}

Result<void> JqProgram::run(Selection selection, const JqValue& facts,
                            const std::function<void(std::string_view)>& on_output) const {
  jv input = jv_object_set(jv_object(), jv_string("n"), jv_number(static_cast<double>(selection.number)));
  input = jv_object_set(input, jv_string("alone"), selection.alone ? jv_true() : jv_false());
  input = jv_object_set(input, jv_string("facts"), jv_copy(facts.value_->value));
  jq_start(state_->jq, input, 0);
  for (;;) {
    jv output = jq_next(state_->jq);
    if (!jv_is_valid(output)) {
      if (jv_invalid_has_msg(jv_copy(output)) == 0) {
        jv_free(output);
        return {};
      }
      jv message = jv_invalid_get_msg(output);
      if (jv_get_kind(message) != JV_KIND_STRING) message = jv_dump_string(message, 0);
      return fail(ErrorKind::malformed, take_text(message));
    }
    on_output(take_json(output));
  }
}

}  // namespace trueup
