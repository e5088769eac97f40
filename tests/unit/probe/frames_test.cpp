#include "probe/frames.hpp"

#include <fmt/format.h>

#include "support/catch.hpp"

using namespace trueup;
using namespace std::chrono_literals;

namespace {

const std::string kNonce = "00112233445566778899aabbccddeeff";

Probe probe(std::string id, std::size_t max_bytes = 1000) {
  Probe made;
  made.id = std::move(id);
  made.limit = 5s;
  made.max_bytes = max_bytes;
  return made;
}

// '@' stands for the nonce.
std::string with_nonce(std::string text) {
  for (auto at = text.find('@'); at != text.npos; at = text.find('@', at + kNonce.size())) text.replace(at, 1, kNonce);
  return text;
}

std::string told(const ProbeOutput& out) {
  return fmt::format("{} {} {}", to_string(out.status), out.exit_status, out.detail);
}

// What comes of one probe `a`, limit 5 s and 1000 bytes, beside a probe `b` that says nothing.
ProbeOutput one(const std::string& text) {
  FrameReader reader({probe("a"), probe("b")}, kNonce);
  reader.feed(with_nonce(text));
  return reader.take("the connection went")[0];
}

bool same(const ProbeOutput& a, const ProbeOutput& b) {
  return told(a) == told(b) && a.id == b.id && a.output == b.output && a.errors == b.errors && a.duration == b.duration;
}

}  // namespace

TEST_CASE("frames become outputs", "[unit][probe][frames]") {
  FrameReader reader({probe("a"), probe("b"), probe("c")}, kNonce);
  CHECK_FALSE(reader.is_finished());
  reader.feed(with_nonce("@ 0 b 10.00\n@ 1 b 10.01\n@ 0 o aGVsbG8K\n@ 1 h 00ff0a\n"));
  CHECK(reader.running() == std::vector<std::string>{"a", "b"});
  reader.feed(with_nonce("@ 0 o d29ybGQ=\n@ 0 e a warning\n@ 0 x 0 10.25\n@ 1 x 0 11.01\n"));
  CHECK(reader.running().empty());
  CHECK_FALSE(reader.is_finished());
  reader.feed(with_nonce("@ end\n"));
  CHECK(reader.is_finished());
  const auto out = reader.take("unused");
  REQUIRE(out.size() == 3);
  CHECK(told(out[0]) == "ok 0 ");
  CHECK(out[0].id == "a");
  CHECK(out[0].output == "hello\nworld");
  CHECK(out[0].errors == "a warning\n");
  CHECK(out[0].duration == 250ms);
  CHECK(out[1].output == std::string("\0\xff\n", 3));
  CHECK(out[1].duration == 1000ms);
  CHECK(told(out[2]) == "lost -1 did not begin: the bundle ended without it");
}

TEST_CASE("a host without gzip asks for plain text, with the nonce alone", "[unit][probe][frames]") {
  FrameReader reader({probe("a")}, kNonce);
  reader.feed("plain\n0123456789abcdef0123456789abcdef plain\n");
  CHECK_FALSE(reader.wants_plain());
  reader.feed(with_nonce("@ plain\n"));
  CHECK(reader.wants_plain());
  CHECK(told(reader.take("it went")[0]) == "lost -1 did not begin: it went");
}

TEST_CASE("every end means one status", "[unit][probe][frames]") {
  CHECK(told(one("@ 0 b 1.00\n@ 0 x 7 2.00\n")) == "failed 7 exit 7");
  CHECK(told(one("@ 0 b 1.00\n@ 0 e first\n@ 0 e the \x1b[31mlast\n@ 0 x 7 2.00\n")) ==
        "failed 7 exit 7: the \\x1b[31mlast");
  CHECK(told(one("@ 0 b 1.00\n@ 0 x 137 2.00\n")) == "failed 137 ended by signal 9");
  CHECK(told(one("@ 0 b 1.00\n@ 0 x 221 2.00\n")) == "absent 221 ");
  CHECK(told(one("@ 0 b 1.00\n@ 0 o c29tZQpubyBwZXJtaXNzaW9uCg==\n@ 0 x 222 2.00\n")) == "unknown 222 no permission");
  CHECK(told(one("@ 0 b 1.00\n@ 0 x timeout 6.00\n")) == "timed_out -1 its limit of 5 s passed");
  // Given up on a starved host, its output comes late: no contradiction.
  CHECK(told(one("@ 0 b 1.00\n@ 0 x timeout 6.00\n@ 0 o YQ==\n@ 0 e late\n")) ==
        "timed_out -1 its limit of 5 s passed");
  CHECK(told(one("@ 0 b 1.00\n@ 0 x timeout 6.00 left behind: process 7 (nvidia-smi) in state D\n")) ==
        "timed_out -1 its limit of 5 s passed; left behind: process 7 (nvidia-smi) in state D");
  CHECK(told(one("@ 0 b 1.00\n@ 0 x stopped 6.00\n")) == "timed_out -1 the host's limit passed before it was done");
  CHECK(told(one("@ 0 b 1.00\n@ 0 x missing 1.00 nvidia-smi\n")) == "unknown -1 nvidia-smi is not installed");
  CHECK(told(one("@ 0 b 1.00\n")) == "lost -1 did not end: the connection went");
  CHECK(told(one("")) == "lost -1 did not begin: the connection went");
  auto docker = probe("docker");
  docker.if_missing = IfMissing::absent;
  FrameReader reader({docker}, kNonce);
  reader.feed(with_nonce("@ 0 b 1.00\n@ 0 x missing 1.00 docker\n"));
  CHECK(told(reader.take("")[0]) == "absent -1 docker is not installed");
}

TEST_CASE("frames that contradict each other spoil their probe, and no other", "[unit][probe][frames]") {
  const auto garbled = [](const std::string& text) {
    FrameReader reader({probe("a"), probe("b")}, kNonce);
    reader.feed(with_nonce(text + "@ 1 b 1.00\n@ 1 o aGVsbG8K\n@ 1 x 0 2.00\n"));
    const auto out = reader.take("cut");
    CHECK(told(out[1]) == "ok 0 ");
    CHECK(out[1].output == "hello\n");
    return told(out[0]);
  };
  CHECK(garbled("@ 0 b 1.00\n@ 0 b 1.00\n") == "garbled -1 contradictory frames: it began twice");
  CHECK(garbled("@ 0 o aGVsbG8K\n") == "garbled -1 contradictory frames: something came before its beginning");
  CHECK(garbled("@ 0 b 1.00\n@ 0 x 0 2.00\n@ 0 x 0 2.00\n") == "garbled 0 contradictory frames: it ended twice");
  CHECK(garbled("@ 0 b 1.00\n@ 0 x 0 2.00\n@ 0 o aGVsbG8K\n") ==
        "garbled 0 contradictory frames: something came after its end");
  CHECK(garbled("@ 0 b 1.00\n@ 0 o !!!!\n@ 0 x 0 2.00\n") ==
        "garbled 0 contradictory frames: its output is not what its encoding allows");
  CHECK(garbled("@ 0 b 1.00\n@ 0 o aGVs=G8K\n@ 0 x 0 2.00\n").substr(0, 7) == "garbled");
  CHECK(garbled("@ 0 b 1.00\n@ 0 o aGVsbG8\n@ 0 x 0 2.00\n").substr(0, 7) == "garbled");
  CHECK(garbled("@ 0 b 1.00\n@ 0 h 0g\n@ 0 x 0 2.00\n").substr(0, 7) == "garbled");
  CHECK(garbled("@ 0 b 1.00\n@ 0 q x\n@ 0 x 0 2.00\n") == "garbled 0 contradictory frames: a frame of an unknown kind");
  CHECK(garbled("@ 0 b soon\n") == "garbled -1 contradictory frames: its beginning has no time");
  CHECK(garbled("@ 0 b 1.00\n@ 0 x 256 2.00\n") == "garbled -1 contradictory frames: its end is not understood");
  FrameReader reader({probe("a")}, kNonce);
  reader.feed(with_nonce("@ 0 b 1.00\n@ 0 x 0 2.00\n@ end\n@ 0 x 0 2.00\n"));
  CHECK(told(reader.take("")[0]) == "garbled 0 contradictory frames: something came after the end of all");
}

TEST_CASE("noise is ignored, wherever it stands", "[unit][probe][frames]") {
  const auto quiet = one("@ 0 b 1.00\n@ 0 o aGVsbG8K\n@ 0 x 0 2.00\n");
  const std::string noise(10'000, 'x');
  CHECK(same(one("Welcome!\nno newline@ 0 b 1.00\n\n0 x 1 1.0\nend\n@ 0 o aGVsbG8K\r\n" + noise + "\n@ 0 x 0 2.00\n"),
             quiet));
  CHECK(same(one(noise + "@ 0 b 1.00\n@ 0 o aGVsbG8K\n" + noise + "@ 0 x 0 2.00\n" + noise), quiet));
  // Another run's frames, an index that is none, a nonce cut short.
  CHECK(same(one("ffffffffffffffffffffffffffffffff 0 x 1 1.00\n@ 0 b 1.00\n@ 7 b 1.00\n@ -1 b 1\n@  b 1\n" +
                 kNonce.substr(1) + " 0 x 1 1.00\n@ 0 o aGVsbG8K\n@ 0 x 0 2.00\n"),
             quiet));
}

TEST_CASE("memory is bounded by the probes' limits", "[unit][probe][frames]") {
  FrameReader reader({probe("a", 10)}, kNonce);
  reader.feed(with_nonce("@ 0 b 1.00\n"));
  for (int i = 0; i < 1000; ++i) reader.feed(with_nonce("@ 0 o aGVsbG8K\n@ 0 e " + std::string(300, 'x') + "\n"));
  reader.feed(std::string(1 << 20, 'x'));
  reader.feed(with_nonce("@ 0 x 0 2.00\n"));
  const auto out = reader.take("")[0];
  CHECK(told(out) == "truncated 0 more output than 10 bytes");
  CHECK(out.output == "hello\nhell");
  CHECK(out.errors.size() == 2048);
}

TEST_CASE("chunks do not matter", "[unit][probe][frames][property]") {
  const auto stream = with_nonce(
      "banner without end@ 0 b 1.00\n\n@ 1 b 1.00\nnoise@noise\n@ 1 e oh\n@ 0 o aGVsbG8K\n@ 0 o d29ybGQ=\n@ 0 x 0 "
      "2.00\n" +
      std::string(600, 'z') + "\n@ 1 o aGVsbG8K\n@ 1 x 3 2.50\n@ end\n");
  const auto whole = [&] {
    FrameReader reader({probe("a"), probe("b")}, kNonce);
    reader.feed(stream);
    return reader.take("");
  }();
  REQUIRE(told(whole[0]) == "ok 0 ");
  REQUIRE(told(whole[1]) == "failed 3 exit 3: oh");
  for (std::size_t first = 0; first <= stream.size(); ++first) {
    CAPTURE(first);
    // In two parts, and from there on in parts of one to three bytes.
    for (const std::size_t step : {stream.size(), std::size_t{1}, std::size_t{3}}) {
      FrameReader reader({probe("a"), probe("b")}, kNonce);
      reader.feed(stream.substr(0, first));
      for (auto at = first; at < stream.size(); at += step) reader.feed(std::string_view(stream).substr(at, step));
      const auto out = reader.take("");
      if (!same(out[0], whole[0]) || !same(out[1], whole[1]) || !reader.is_finished()) FAIL("other outputs");
    }
    // Any beginning of a stream gives an answer too, and never more than there is.
    FrameReader cut({probe("a"), probe("b")}, kNonce);
    cut.feed(std::string_view(stream).substr(0, first));
    for (const auto& out : cut.take("cut"))
      CHECK((out.status == ProbeStatus::lost || out.status == ProbeStatus::ok || out.status == ProbeStatus::failed));
  }
}
