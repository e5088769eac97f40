#include "action/host_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "action/host_scripts.hpp"
#include "base/text.hpp"

namespace trueup {
namespace {

using namespace std::chrono_literals;

// A probe's text travels as one environment variable, of at most 128 KiB with its libraries.
constexpr std::size_t kPartBytes = 48 * 1024;
constexpr std::size_t kLeastPiece = 4096;  // of a part, for which a file is not cut once more
constexpr std::size_t kMostSteps = 99;
constexpr std::size_t kMostDigits = 18;  // of a time in a journal
constexpr std::size_t kMostJournalBytes = 1 << 20;

std::string number_of(std::size_t step) { return fmt::format("{:02}", step); }

// Stands in front of every call.
std::string settings(const RunCall& call) {
  return fmt::format("state={} run={} by={} stage={}\n{}{}{}", shell_quote(call.state), shell_quote(call.run),
                     shell_quote(call.by), shell_quote(fmt::format("{}/runs/.stage.{}", call.state, call.nonce)),
                     kHostStateScript, kKubernetesScript, kHostCallsScript);
}

Probe make_call(std::string id, const RunCall& call, std::string_view command, std::chrono::milliseconds limit) {
  Probe probe;
  probe.id = std::move(id);
  probe.script = fmt::format("{}{}\n", settings(call), command);
  probe.limit = limit;
  probe.max_bytes = kMostJournalBytes;
  return probe;
}

bool is_file_name(std::string_view id) {
  return !id.empty() && id.size() <= 100 && id.front() != '.' && id.front() != '-' &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.';
         });
}

// One word, whatever a user or a controller is called.
std::string one_word(std::string_view text) {
  auto word = printable(text);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

// Files as commands that append to them, cut where a part is full.
class Parts {
 public:
  explicit Parts(std::string first) : texts_{std::move(first)} {}

  void add(const std::string& file, std::string_view text) {
    do {
      if (texts_.back().size() + kLeastPiece > kPartBytes) texts_.emplace_back();
      const auto piece = text.substr(0, (kPartBytes - texts_.back().size()) / 4);  // a quote grows to four bytes
      texts_.back() += fmt::format("into {} {}\n", file, shell_quote(piece));
      text.remove_prefix(piece.size());
    } while (!text.empty());
  }

  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::vector<std::string> texts_;
};

void add_script(Parts& parts, const std::string& step, std::string_view name, const Script& script) {
  parts.add(fmt::format("step/{}/{}", step, name), script.text);
  parts.add(fmt::format("step/{}/{}.limit", step, name),
            fmt::format("{}\n", std::max<std::int64_t>(1, script.limit.count())));
}

template <class Number>
std::optional<Number> read_number(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// A line of the journal; its grammar: docs/host-state.md.
std::optional<JournalEvent> read_event(std::string_view line) {
  JournalEvent event;
  const auto time = take_word(line);
  const auto at = read_number<std::int64_t>(time);
  if (!at || *at < 0 || time.size() > kMostDigits) return std::nullopt;
  event.at = *at;
  for (const std::string_view whole :
       {"verified", "start apply", "start resume", "start undo", "end applied", "end undone", "end stuck"}) {
    if (line != whole) continue;
    event.event = std::string(take_word(line));
    event.detail = std::string(line);
    return event;
  }
  event.event = std::string(take_word(line));
  static constexpr std::string_view kOfSteps[] = {"begin", "done", "failed", "changed", "undo", "undone", "stuck"};
  if (std::find(std::begin(kOfSteps), std::end(kOfSteps), event.event) == std::end(kOfSteps)) return std::nullopt;
  const auto number = take_word(line);
  const auto step = read_number<unsigned>(number);
  if (!step || *step == 0 || number.size() != 2) return std::nullopt;
  event.step = static_cast<int>(*step);
  event.detail = printable(line);
  return event;
}

/// The lines of `text` that have an end.
std::vector<std::string_view> complete_lines(std::string_view text) {
  const auto end = text.rfind('\n');
  return split_lines(end == text.npos ? std::string_view{} : text.substr(0, end + 1));
}

Error bad_answer(const ProbeOutput& output) {
  const auto detail = !output.detail.empty() ? output.detail : std::string(trim(output.errors));
  return {ErrorKind::unreachable,
          fmt::format("expected an answer, found that the call {}{}{}", to_string(output.status),
                      detail.empty() ? "" : ": ", shorten(printable(detail), 300)),
          {},
          {fmt::format("asking the host ({})", output.id)},
          {}};
}

}  // namespace

Probe kubernetes_probe() {
  Probe probe;
  probe.id = "kubernetes";
  probe.script = fmt::format("{}is_kubernetes_node && echo yes || echo no\n", kKubernetesScript);
  return probe;
}

bool is_kubernetes_node(const std::vector<ProbeOutput>& outputs) {
  const auto* output = find_output(outputs, "kubernetes");
  return output != nullptr && output->output == "yes\n";
}

Probe turn_call(const RunCall& call, const std::string& plan, std::vector<std::string> after) {
  auto probe = make_call("turn", call, "may_begin " + shell_quote(plan), 20s);
  probe.reads = std::move(after);
  return probe;
}

Result<std::vector<Probe>> start_calls(const HostRun& run, const RunCall& call) {
  for (const auto& id : {run.run, run.plan})
    if (!is_file_name(id))
      return fail(ErrorKind::malformed,
                  fmt::format("expected an id of letters, digits, '-' and '.', found '{}'", printable(id)));
  if (run.steps.size() > kMostSteps)
    return fail(ErrorKind::limit,
                fmt::format("{} steps for one host; at most {} are done in one run", run.steps.size(), kMostSteps));

  std::string open = "open_stage";
  for (std::size_t i = 1; i <= run.steps.size(); ++i) open += " " + number_of(i);
  Parts parts(open + "\n");
  parts.add("about",
            fmt::format("run={}\nplan={}\nhost={}\nstarted={}\nby={}\nkeep={}\n", run.run, run.plan, one_word(run.host),
                        run.started.time_since_epoch().count(), one_word(run.by), run.keep ? 1 : 0));
  parts.add("lib", run.library);
  parts.add("executor", fmt::format("{}{}", kHostStateScript, kExecutorScript));
  std::string steps;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const auto& step = run.steps[i];
    const auto number = number_of(i + 1);
    steps += fmt::format("{} {} {}\n", number, step.kind, printable(step.object));
    parts.add(fmt::format("step/{}/expected", number), step.expected);
    add_script(parts, number, "inspect", step.inspect);
    add_script(parts, number, "apply", step.apply);
    add_script(parts, number, "verify", step.verify);
    add_script(parts, number, "undo", step.undo);
    if (!step.prune.text.empty()) add_script(parts, number, "prune", step.prune);
  }
  parts.add("steps", steps);
  std::string expects;
  for (const auto& key : run.cures) expects += fmt::format("cures {}\n", printable(key));
  for (const auto& key : run.remaining) expects += fmt::format("remains {}\n", printable(key));
  parts.add("expects", expects);

  auto own = call;
  own.run = run.run;
  own.by = one_word(run.by);
  std::vector<Probe> calls;
  for (std::size_t i = 0; i < parts.texts().size(); ++i) {
    calls.push_back(make_call(fmt::format("part-{}", i + 1), own, parts.texts()[i], 20s));
    if (i > 0) calls.back().reads = {calls[i - 1].id};  // in order: they append
  }
  auto start = make_call("start", own, fmt::format("start_run {}{}", calls.size(), run.drained ? " drained" : ""), 60s);
  for (const auto& part : calls) start.reads.push_back(part.id);
  calls.push_back(std::move(start));
  return calls;
}

Probe continue_call(const RunCall& call, Continue what) {
  return make_call("continue", call, what == Continue::resume ? "continue_run resume" : "continue_run undo", 60s);
}

Probe follow_call(const RunCall& call, std::size_t lines, std::chrono::seconds wait) {
  return make_call("follow", call, fmt::format("follow_run {} {}", lines, wait.count()), wait + 15s);
}

Probe look_call(const RunCall& call, const std::vector<std::string>& runs) {
  std::string command = "look_at_runs";
  for (const auto& run : runs) command += " " + shell_quote(run);
  return make_call("look", call, command, 20s);
}

Probe verified_call(const RunCall& call) { return make_call("mark", call, "mark_verified", 20s); }

Probe prune_call(const RunCall& call, const std::vector<std::string>& runs) {
  std::string command = "prune_runs";
  for (const auto& run : runs) command += " " + shell_quote(run);
  return make_call("prune", call, command, 600s);
}

std::string_view to_string(RunState state) {
  switch (state) {
    case RunState::running: return "running";
    case RunState::interrupted: return "interrupted";
    case RunState::applied: return "applied";
    case RunState::verified: return "verified";
    case RunState::undone: return "undone";
    case RunState::stuck: return "stuck";
  }
  return "unknown";
}

RunJournal parse_journal(std::string_view text, bool lives) {
  RunJournal journal;
  auto state = RunState::running;  // until its end; whether it lives, the journal does not tell
  for (const auto line : complete_lines(text)) {
    ++journal.lines;
    auto event = read_event(line);
    if (!event) {
      ++journal.damaged;
      continue;
    }
    const auto& name = event->event;
    if (name == "start") state = RunState::running;
    if (name == "end")
      state = event->detail == "applied"  ? RunState::applied
              : event->detail == "undone" ? RunState::undone
                                          : RunState::stuck;
    if (name == "verified" && state == RunState::applied) state = RunState::verified;
    if (name == "begin" || name == "undo" || name == "failed") journal.steps[event->step] = false;
    if (name == "done") journal.steps[event->step] = true;
    if (name == "undone" || name == "changed") journal.steps.erase(event->step);
    if (name == "undo" || name == "undone" || (name == "start" && event->detail == "undo")) journal.undoing = true;
    if (name == "failed" || name == "changed" || (name == "stuck" && journal.undoing)) {
      journal.why = event->detail;
      journal.why_step = event->step;
    }
    journal.events.push_back(*std::move(event));
  }
  journal.state = state == RunState::running && !lives ? RunState::interrupted : state;
  return journal;
}

Result<CallAnswer> read_answer(const ProbeOutput& output) {
  const auto lines = complete_lines(output.output);
  if (output.status != ProbeStatus::ok || lines.empty()) return fail(bad_answer(output));
  auto line = lines.back();
  CallAnswer answer;
  answer.words = shorten(printable(line), 1000);
  if (line == "unanswered") {
    answer.kind = CallAnswer::Kind::unanswered;
    answer.words = "the executor gave no answer";
  } else if (line.starts_with("refused ")) {
    answer.kind = CallAnswer::Kind::refused;
    take_word(line);
    answer.code = printable(take_word(line));
    answer.words = shorten(printable(line), 1000);
  }
  return answer;
}

Result<std::vector<RunOnHost>> read_runs(const ProbeOutput& output) {
  if (output.status != ProbeStatus::ok) return fail(bad_answer(output));
  std::vector<RunOnHost> runs;
  const auto current = [&]() -> RunOnHost& { return runs.empty() ? runs.emplace_back() : runs.back(); };
  for (auto line : complete_lines(output.output)) {
    const auto what = take_word(line);
    if (what == "refused") {
      const auto code = take_word(line);
      // Nothing was ever applied here, or not this.
      if (code == "no-state" || code == "no-run") return std::vector<RunOnHost>{};
      return fail(ErrorKind::refused, shorten(printable(line), 1000));
    }
    if (what == "run") runs.emplace_back().run = printable(line);
    if (what == "lives") current().lives = line == "yes";
    if (what == "journal") current().journal_text += fmt::format("{}\n", line);
    if (what == "output") current().outputs.push_back(printable(line));
    if (what == "step") {
      take_word(line);
      current().steps.push_back(printable(line));
    }
    if (what == "expects") {
      const auto which = take_word(line);
      if (which == "cures") current().cures.emplace_back(line);
      if (which == "remains") current().remaining.emplace_back(line);
    }
    if (what == "about") {
      const auto equals = line.find('=');
      if (equals != line.npos) current().about[printable(line.substr(0, equals))] = printable(line.substr(equals + 1));
    }
  }
  for (auto& run : runs) run.journal = parse_journal(run.journal_text, run.lives);
  return runs;
}

Result<std::map<std::string, std::string>> read_pruned(const ProbeOutput& output) {
  if (output.status != ProbeStatus::ok) return fail(bad_answer(output));
  std::map<std::string, std::string> pruned;
  for (auto line : complete_lines(output.output)) {
    const auto what = take_word(line);
    const auto first = printable(take_word(line));
    if (what == "refused" && first != "no-state") return fail(ErrorKind::refused, shorten(printable(line), 1000));
    if (what == "pruned" || what == "kept") pruned[first] = shorten(printable(line), 300);
  }
  return pruned;
}

}  // namespace trueup
