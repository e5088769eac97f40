#include "expr/prelude.hpp"

#include <algorithm>
#include <iterator>

namespace trueup {

namespace {

// libjq 1.6 has no `ltrimstr` on null, no `abs`, no `getpath` errors worth having, and looks for every name through the
// whole program: what a program does not mention is left out of it. Comments are C++ comments, so that jq need not read
// them.
constexpr std::string_view kDefinitions[] = {
    // A second wall: the tokenizer refuses these names already.
    "def _closed(name): error(\"\\(name) is not for checks\");", "def env: _closed(\"env\");",
    "def input: _closed(\"input\");", "def inputs: _closed(\"inputs\");",
    "def input_filename: _closed(\"input_filename\");", "def input_line_number: _closed(\"input_line_number\");",
    "def debug: _closed(\"debug\");", "def debug(f): _closed(\"debug\");", "def stderr: _closed(\"stderr\");",
    "def halt: _closed(\"halt\");", "def halt_error: _closed(\"halt_error\");",
    "def halt_error(f): _closed(\"halt_error\");", "def get_search_list: _closed(\"get_search_list\");",
    "def modulemeta: _closed(\"modulemeta\");", "def now: _closed(\"now\");", "def localtime: _closed(\"localtime\");",
    "def strflocaltime(f): "
    "_closed(\"strflocaltime\");",

    // Versions as Version (trueup/version.hpp) reads and orders them. `_ver` gives an array that jq orders alike:
    // release without trailing zeros, kind of pre-release (dev alone -1, a 0, b 1, rc 2, none 3), its number, post,
    // whether no dev, dev.
    "def _numbers: split(\".\") | map(tonumber) | until(length == 1 or .[-1] != 0; .[:-1])"
    " | if any(. > 2147483647) then error(\"number too large\") else . end;",
    "def _bad_ver: error(\"expected a version such as 12.8 or 0.6.7.post3, got \\(tojson | .[:60])\");",
    "def _ver: if type != \"string\" or length > 128 then _bad_ver"
    " elif test(\"^[0-9]+(\\\\.[0-9]+)*$\") then [_numbers, 3, 0, -1, 1, -1]"
    " else . as $text | [ascii_downcase | capture(\"^\\\\s*v?(?<r>[0-9]+(\\\\.[0-9]+)*)"
    "([._-]?(?<k>alpha|beta|preview|pre|rc|a|b|c)([._-](?=[^+\\\\s]))?(?<kn>[0-9]+)?)?"
    "(?<p>[._-]?post([._-](?=[^+\\\\s]))?(?<pn>[0-9]+)?)?"
    "(?<d>[._-]?dev([._-](?=[^+\\\\s]))?(?<dn>[0-9]+)?)?(\\\\+.*)?\\\\s*$\")]"
    " | if length == 0 then $text | _bad_ver else .[0] | [(.r | _numbers),"
    " (if .k == null then (if .p == null and .d != null then -1 else 3 end)"
    " else {\"a\": 0, \"b\": 1}[.k[:1]] // 2 end),"
    " (.kn // \"0\" | tonumber), (if .p == null then -1 else .pn // \"0\" | tonumber end),"
    " (if .d == null then 1 else 0 end), (if .d == null then -1 else .dn // \"0\" | tonumber end)] end end;",
    "def ver_ge($v): if . == null or $v == null then null else _ver >= ($v | _ver) end;",
    "def ver_gt($v): if . == null or $v == null then null else _ver > ($v | _ver) end;",
    "def ver_le($v): if . == null or $v == null then null else _ver <= ($v | _ver) end;",
    "def ver_lt($v): if . == null or $v == null then null else _ver < ($v | _ver) end;",
    "def ver_eq($v): if . == null or $v == null then null else _ver == ($v | _ver) end;",

    // `12.0`, `sm_120a`, `compute_90`, `120f` -> 120, 90, 120
    "def compute_cap: if . == null then null else . as $text | [tostring"
    " | capture(\"^(sm_|compute_)?(?<n>[0-9]+)(\\\\.(?<m>[0-9]))?[af]?$\")] | if length == 0 then"
    " error(\"expected a compute capability such as 12.0 or sm_120, got \\($text | tojson | .[:60])\")"
    " else .[0] | if .m == null then .n | tonumber else (.n | tonumber) * 10 + (.m | tonumber) end end end;",

    "def kib: . * 1024;", "def mib: . * 1048576;", "def gib: . * 1073741824;",
    "def _tenths: . * 10 | round / 10 | tostring;",
    "def size_text: if . == null then null elif . >= 1099511627776 then \"\\(. / 1099511627776 | _tenths) TiB\""
    " elif . >= 1073741824 then \"\\(. / 1073741824 | _tenths) GiB\" elif . >= 1048576 then"
    " \"\\(. / 1048576 | _tenths) MiB\" elif . >= 1024 then \"\\(. / 1024 | _tenths) KiB\" else \"\\(.) B\" end;",
    "def age_text: if . == null then null elif . >= 172800 then \"\\(. / 86400 | floor) days\""
    " elif . >= 7200 then \"\\(. / 3600 | floor) hours\" elif . >= 120 then \"\\(. / 60 | floor) minutes\""
    " else \"\\(.) seconds\" end;",

    // The frame of a check. Everything that the playbook wrote arrives as a closure and fails by name.
    "def _why: if type == \"string\" then . else tojson end;",
    // The brackets end the reach of `try`: up to jq 1.6 it also catches what fails behind it.
    "def _in(part; f): [try (f | [.]) catch _why] | .[] | if type == \"array\" then .[0]"
    " else error(\"\\(part): \\(.)\") end;",
    "def _one(part; f): _in(part; [f] | if length == 1 then .[0] elif length == 0 then error(\"gives no value\")"
    " else error(\"gives more than one value\") end);",
    "def _truth(part; f): _one(part; f) | if type == \"boolean\" or type == \"null\" then ."
    " else error(\"\\(part): expected true, false or null, got \\(type)\") end;",
    "def _scalar: if . == null then \"\" elif type == \"array\" or type == \"object\" then"
    " error(\"expected one value, got \\(type)\") else tostring end;",
    "def _text(part; f): _in(part; [f] | if length == 0 then \"\" elif length == 1 then .[0] | _scalar"
    " else error(\"gives more than one value\") end);",
    // A text that fails must not hide a finding.
    "def _piece(f): try _text(\"\"; f) catch \"{{error\\(.)}}\";",
    "def _lines(f): try (f | _scalar) catch \"{{error: \\(_why)}}\";",
    // A text of several parts.
    "def _joined(parts): [parts] | add;"};

// `def NAME: ...;` or `def NAME(...): ...;`
std::string_view name_of(std::string_view definition) {
  definition.remove_prefix(std::string_view("def ").size());
  return definition.substr(0, definition.find_first_of("(:"));
}

}  // namespace

std::string prelude(std::string_view program) {
  std::vector<std::string_view> used;
  for (auto definition = std::rbegin(kDefinitions); definition != std::rend(kDefinitions); ++definition) {
    const auto mentions = [&](std::string_view text) { return text.find(name_of(*definition)) != text.npos; };
    if (mentions(program) || std::any_of(used.begin(), used.end(), mentions)) used.push_back(*definition);
  }
  std::string text;
  std::for_each(used.rbegin(), used.rend(), [&](std::string_view definition) { text += definition; });
  return text + "\n";
}

std::string_view facts_prelude() {
  static constexpr std::string_view kText =
      "($facts.unknown // {}) as $unknown |"
      "def known($section): ($unknown | has($section)) | not;"
      "def age($time): if $time == null or $facts.host.clock == null then null else $facts.host.clock - $time end;\n";
  return kText;
}

std::string_view check_prelude() {
  static constexpr std::string_view kText =
      "($facts + {item: null}) as $bare | ($unknown == {} and ($alone | not)) as $all |"
      "def _missing: [.[] | select(known(.) | not) | \"needs \\(.): \\($unknown[.] | _why)\"];"
      // By number: whether that check is to be evaluated.
      "(if $all then null else [_needs | range(length) as $i | ($i == $n or ($alone | not)) and (.[$i] | _missing == "
      "[])]"
      " end) as $ready |"
      "def _not_ready: if $all or $alone or $n > 0 then empty else _needs | range(length) as $i | .[$i] | _missing"
      " | select(. != []) | $i, {kind: \"unknown\", about: \"\", why: join(\"; \")} end;"

      "def _report(title; because; evidence):"
      " {title: _joined(title), because: _joined(because), evidence: [limit(201; evidence)]};"
      // A check's results: true where it held, false where it has nothing to say, else an object.
      "def _careful(about; when; assert; severity; report; why):"
      // Which derived resolution a check looked at, where it looked at one.
      " def subject: .item | if type == \"object\" and has(\"consumer\") and has(\"library\")"
      " then {consumer, library} else {} end;"
      " def found(about): about as $about"
      " | {kind: \"found\", about: $about, severity: _one(\"severity\"; _joined(severity))} + subject + report;"
      " def judge(about): _truth(\"when\"; when) as $when | if $when == false then false"
      " elif $when == null then {kind: \"unknown\", about: about, why: \"when: not known\"}"
      " else _truth(\"assert\"; assert) as $holds | if $holds then true"
      " elif $holds == null then {kind: \"unknown\", about: about, why: _joined(why)}"
      " else found(about) end end;"
      " . as $given | try judge(_text(\"about\"; about))"
      " catch (_why as $why | {kind: \"error\", about: ($given | try _text(\"about\"; about) catch \"\"), why: $why});"
      // Most checks of most hosts end in the first comparison: one value, true, and no error. Each begins with its
      // number.
      "def _simple(number; about; assert; severity; report; why): if $all or $ready[number] then number,"
      " if [try assert catch null] == [true] then true"
      " else _careful(about; true; assert; severity; report; why) end else empty end;"
      "def _when(number; about; when; assert; severity; report; why): if $all or $ready[number] then number,"
      " ([try when catch null] as $when"
      " | if $when == [false] then false"
      " elif $when == [true] and [try assert catch null] == [true] then true"
      " else _careful(about; when; assert; severity; report; why) end) else empty end;"
      // Checks that stand together and have the same items, or none: they are made once for all of them. The facts are
      // copied once, not for each item: nothing else may hold on to the state.
      "def _turn(first; last): if last < $n or $alone and first > $n then false"
      " else $all or any($ready[first:last + 1][]; .) end;"
      "def _once(first; last; checks): if _turn(first; last) then $bare | checks else empty end;"
      "def _each(first; last; items; checks): if _turn(first; last) then first, ($facts"
      " | try foreach items as $item ($bare; . + {item: $item}; checks)"
      " catch (_why as $why | range(first; last + 1) | select($all or $ready[.])"
      " | ., {kind: \"error\", about: \"\", why: \"for_each: \\($why)\"})) else empty end;\n";
  return kText;
}

std::string_view fix_prelude() {
  static constexpr std::string_view kText =
      "def _advice: .item | if type == \"object\" and has(\"consumer\") and has(\"library\") then . as $item"
      " | first((($facts.derived.resolutions // [])[] | select(.consumer == $item.consumer and .library == "
      "$item.library)"
      " | (.alternatives // [])[] | select(.verdict == \"proper\""
      " and (.cuda != \"\" or .set != {} or .unset != [] or .caches != []))), null) else null end;"

      // A part of a longer text. What is not known must not come out as a shorter path.
      "def _known(part; f): _one(part; f) | if . == null then error(\"\\(part): not known (null)\") else _scalar end;"
      "def _step($kind; items; when; params): . as $given"
      " | limit(1001; _in(\"\\($kind): for_each\"; items)) as $each | ($given + {each: $each})"
      " | _truth(\"\\($kind): when\"; when) as $when | if $when == null then error(\"\\($kind): when: not known "
      "(null)\")"
      " elif $when then {kind: $kind, params: (params | with_entries(select(.value != null)))} else empty end;"
      "def _proposal($fix; title; when; why_not; steps): {fix: $fix, title: title} + ([try"
      " (_truth(\"when\"; when) as $fits | if $fits then {fit: \"yes\", why: \"\", steps: [steps]}"
      " else {fit: (if $fits == null then \"unknown\" else \"no\" end), why: why_not, steps: []} end)"
      " catch {fit: \"unknown\", why: _why, steps: []}] | .[0]);\n";
  return kText;
}

const std::vector<std::string>& prelude_functions() {
  static const std::vector<std::string> kNames = {"ver_ge/1", "ver_gt/1", "ver_le/1",    "ver_lt/1",   "ver_eq/1",
                                                  "kib/0",    "mib/0",    "gib/0",       "size_text/0", "compute_cap/0",
                                                  "age/1",    "age_text/0", "known/1"};
  return kNames;
}

}  // namespace trueup
