#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "integration/transport/conversation.hpp"
#include "integration/transport/sshd.hpp"
#include "support/catch.hpp"
#include "transport/config_files.hpp"
#include "transport/ssh.hpp"

using namespace trueup;
using namespace trueup::test;
using namespace std::chrono_literals;

// Hosts that are reached as ~/.ssh/config says: other names, through bastions, through programs. Real sshd everywhere.

namespace {

// `Host NAME` with all that reaches `sshd`.
std::string block(const std::string& name, const Sshd& sshd, const std::string& more = "") {
  return "Host " + name + "\n  HostName 127.0.0.1\n  Port " + std::to_string(sshd.port()) + "\n  User " + sshd.user() +
         "\n  IdentityFile " + sshd.key() + "\n  UserKnownHostsFile " + sshd.known_hosts() + "\n" + more;
}

class Configured {
 public:
  explicit Configured(const std::string& text, std::chrono::milliseconds timeout = 5s) {
    write_file(directory_.file("config"), text);
    std::vector<Error> errors;
    options_.user = "nobody";
    options_.home = directory_.file("home");
    options_.connect_timeout = timeout;
    options_.config =
        std::make_shared<ssh::SshConfig>(ssh::load_ssh_config(directory_.file("config"), options_.home, errors));
    options_.note = [this](const std::string& note) { notes.push_back(note); };
    for (const auto& error : errors) FAIL(to_string(error));
  }
  std::string file(const std::string& name) const { return directory_.file(name); }
  SshOptions& options() { return options_; }
  SshTransport& transport() {
    if (!transport_) transport_.emplace(options_);
    return *transport_;
  }
  static Host host(const std::string& name) {
    Host host;
    host.name = host.address = name;
    host.port = 0;
    return host;
  }
  Outcome run(const std::string& name, const std::string& command = "echo in", const std::string& input = "",
              std::function<void(const std::string&)> on_output = {}) {
    return run_on(transport(), host(name), command, input, std::move(on_output));
  }
  std::string error(const std::string& name) {
    const auto outcome = run(name);
    REQUIRE(outcome.error);
    kind = outcome.error->kind;
    hint = outcome.error->hint;
    return to_string(*outcome.error);
  }

  std::vector<std::string> notes;
  ErrorKind kind{};
  std::string hint;

 private:
  TemporaryDirectory directory_;
  SshOptions options_;
  std::optional<SshTransport> transport_;
};

// Our TCP connections to a port of 127.0.0.1.
std::vector<int> sockets_to(std::uint16_t port) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    const int fd = std::stoi(entry.path().filename().string());
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.sin_family == AF_INET &&
        ntohs(peer.sin_port) == port)
      found.push_back(fd);
  }
  return found;
}

std::size_t connections_to(std::uint16_t port) { return sockets_to(port).size(); }

// As when the other end goes.
void cut_connections_to(std::uint16_t port) {
  for (const int fd : sockets_to(port)) ::shutdown(fd, SHUT_RDWR);
}

// Whether the process is still there after it had time to go. A zombie is gone.
bool stays(pid_t pid) {
  for (int i = 0; i < 1000; ++i) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string number, name, state;
    if (!(stat >> number >> name >> state) || state == "Z") return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

// A port of 127.0.0.1 behind which nobody says a word. With its queue filled it neither accepts nor refuses.
class Swallowing {
 public:
  explicit Swallowing(std::size_t fillers = 4)
      : fillers_(fillers), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listener_, 0) != 0 ||
        ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
      throw std::runtime_error("no port");
    port_ = ntohs(address.sin_port);
    for (auto& fd : fillers_) {
      fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      ::connect(fd, reinterpret_cast<sockaddr*>(&address), size);
    }
  }
  ~Swallowing() {
    for (const int fd : fillers_) ::close(fd);
    ::close(listener_);
  }
  Swallowing(const Swallowing&) = delete;
  Swallowing& operator=(const Swallowing&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  std::vector<int> fillers_;
  int listener_;
  std::uint16_t port_ = 0;
};

// Joins its input and output to a TCP port, as nc does.
std::string relay_to(const Sshd& sshd) {
  return "python3 -c 'import socket,sys,threading,os\n"
         "s=socket.create_connection((\"127.0.0.1\"," +
         std::to_string(sshd.port()) +
         "))\n"
         "def up():\n"
         " while d:=os.read(0,65536): s.sendall(d)\n"
         " s.shutdown(1)\n"
         "threading.Thread(target=up,daemon=True).start()\n"
         "while d:=s.recv(65536): os.write(1,d)'";
}

}  // namespace

TEST_CASE("a name of ssh_config alone is enough", "[integration][transport][ssh_config]") {
  if (!can_run()) return;
  const Sshd sshd;
  Configured by(block("gpu1", sshd));
  const auto outcome = by.run("gpu1");
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == "in\n");
}

TEST_CASE("what the inventory says comes before ssh_config", "[integration][transport][ssh_config]") {
  if (!can_run()) return;
  const Sshd sshd;
  Configured by(
      "Host gpu1\n HostName 127.0.0.1\n Port 1\n User somebody\n IdentityFile /none\n UserKnownHostsFile /none\n");
  auto host = Configured::host("gpu1");
  host.port = sshd.port();
  host.user = sshd.user();
  host.keys = {sshd.key()};
  host.known_hosts = {sshd.known_hosts()};
  const auto outcome = run_on(by.transport(), host, "echo in");
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == "in\n");
}

TEST_CASE("an error says which line a value came from", "[integration][transport][ssh_config]") {
  if (!can_run()) return;
  const Sshd sshd;
  make_key(sshd.file("other_key"));
  Configured by("Host closed\n  HostName 127.0.0.1\n  Port 1\n" +
                block("alias", sshd, "  HostKeyAlias gpu.example.com\n") +
                "Host auth\n  HostName 127.0.0.1\n  User nobody\n  IdentityFile " + sshd.file("other_key") +
                "\n  Port " + std::to_string(sshd.port()) + "\n  UserKnownHostsFile " + sshd.known_hosts() + "\n");
  const auto config = by.file("config");
  CHECK(by.error("closed") ==
        "connecting to 127.0.0.1 port 1: 127.0.0.1 port 1 refused the connection (HostName from " + config +
            ":2, Port from " + config + ":3)");
  CHECK_THAT(by.error("alias"), ContainsSubstring("the key of gpu.example.com is not known"));
  CHECK_THAT(by.error("alias"), ContainsSubstring("HostKeyAlias from " + config + ":10"));
  CHECK_THAT(by.hint, ContainsSubstring("echo 'gpu.example.com ssh-ed25519 "));
  CHECK_THAT(by.error("auth"), ContainsSubstring("(User from " + config + ":13, IdentityFile from " + config + ":14)"));
  CHECK(by.kind == ErrorKind::auth);
}

TEST_CASE("addresses and times are ssh_config's", "[integration][transport][ssh_config]") {
  if (!can_run()) return;
  const Sshd sshd;
  const Swallowing silent(0);
  Configured by(block("from", sshd, "  BindAddress 127.0.0.5\n") + block("six", sshd, "  AddressFamily inet6\n") +
                "Host silent\n  HostName 127.0.0.1\n  ConnectTimeout 1\n  Port " + std::to_string(silent.port()) +
                "\n");
  const auto outcome = by.run("from", "echo $SSH_CLIENT");
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK_THAT(outcome.output, ContainsSubstring("127.0.0.5 "));
  CHECK_THAT(by.error("six"), ContainsSubstring("'127.0.0.1' has no address"));
  CHECK_THAT(by.error("six"), ContainsSubstring("AddressFamily from " + by.file("config") + ":14"));
  CHECK_THAT(by.error("silent"), ContainsSubstring("no answer within 1 s"));
}

TEST_CASE("HostKeyAlias names the key, whatever the port", "[integration][transport][ssh_config]") {
  if (!can_run()) return;
  const Sshd sshd;
  write_file(sshd.known_hosts(), "fleet-key " + sshd.host_key());
  Configured by(block("gpu1", sshd, "  HostKeyAlias fleet-key\n"));
  const auto outcome = by.run("gpu1");
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == "in\n");
}

TEST_CASE("a new host key is taken when that is asked for, and only a new one",
          "[integration][transport][ssh_config]") {
  if (!can_run()) return;
  const Sshd sshd;
  const auto hashed = GENERATE(false, true);
  const std::string settings = hashed ? "  HashKnownHosts yes\n" : "";
  write_file(sshd.known_hosts(), "# without a line end");
  {
    Configured strict(block("gpu1", sshd, settings + "  StrictHostKeyChecking no\n"));
    CHECK_THAT(strict.error("gpu1"), ContainsSubstring("is not known"));
  }
  const auto accepts = [&] {
    auto by = std::make_unique<Configured>(block("gpu1", sshd, settings));
    by->options().accept_new_host_keys = true;
    return by;
  };
  const auto first = accepts();
  // Several at once, and it is written once.
  const auto gpu1 = Configured::host("gpu1");
  for (const auto& outcome : run_on_all(first->transport(), {gpu1, gpu1, gpu1}, "echo in"))
    CHECK(outcome.output == "in\n");
  REQUIRE(first->notes.size() == 1);
  CHECK_THAT(first->notes.front(), ContainsSubstring("gpu1: new host key ssh-ed25519 SHA256:"));
  CHECK(first->run("gpu1").output == "in\n");
  CHECK(first->notes.size() == 1);
  const auto text = read_text(sshd.known_hosts());
  CHECK(std::count(text.begin(), text.end(), '\n') == 2);
  CHECK((text.find("127.0.0.1") == text.npos) == hashed);
  Configured strict(block("gpu1", sshd));
  CHECK(strict.run("gpu1").output == "in\n");

  make_key(sshd.file("other_host_key"));
  write_file(sshd.known_hosts(),
             "[127.0.0.1]:" + std::to_string(sshd.port()) + " " + read_text(sshd.file("other_host_key.pub")));
  CHECK_THAT(accepts()->error("gpu1"), ContainsSubstring("has changed"));
}

TEST_CASE("a host known by an authority alone is told as such, not accepted", "[integration][transport][ssh_config]") {
  if (!can_run()) return;
  const Sshd sshd;
  write_file(sshd.known_hosts(), "@cert-authority * " + sshd.host_key());
  Configured by(block("gpu1", sshd));
  by.options().accept_new_host_keys = true;
  CHECK_THAT(by.error("gpu1"), ContainsSubstring(sshd.known_hosts() + ":1 trusts a certificate authority for it"));
  CHECK_THAT(by.hint, ContainsSubstring("cannot check certificates"));
}

TEST_CASE("one bastion connection carries many hosts", "[integration][transport][jump]") {
  if (!can_run()) return;
  const Sshd bastion, target;
  std::string text = block("bastion", bastion) + block("gpu*", target, "  ProxyJump bastion\n");
  Configured by(text);
  std::vector<Host> hosts;
  for (int i = 0; i < 12; ++i) hosts.push_back(Configured::host("gpu" + std::to_string(i)));
  // Each command waits until all have begun, so that all tunnels are open at once.
  const auto all_here = by.file("all-here");
  int begun = 0;
  std::size_t to_bastion = 0, to_target = 1;
  const auto outcomes =
      run_on_all(by.transport(), hosts, "echo begun; until [ -e " + all_here + " ]; do sleep 0.05; done; echo done",
                 [&](const std::string& output) {
                   if (output != "begun\n" || ++begun != 12) return;
                   to_bastion = connections_to(bastion.port());
                   to_target = connections_to(target.port());
                   write_file(all_here, "");
                 });
  for (const auto& outcome : outcomes) {
    if (outcome.error) FAIL(to_string(*outcome.error));
    CHECK(outcome.output == "begun\ndone\n");
  }
  CHECK(to_bastion == 1);
  CHECK(to_target == 0);
}

TEST_CASE("a bastion that hung up while nothing went through it is connected to anew",
          "[integration][transport][jump]") {
  if (!can_run()) return;
  const Sshd bastion, target;
  Configured by(block("bastion", bastion) + block("gpu*", target, "  ProxyJump bastion\n"));
  for (const auto* name : {"gpu1", "gpu2", "gpu3"}) {
    CAPTURE(name);
    const auto outcome = by.run(name);
    if (outcome.error) FAIL(to_string(*outcome.error));
    CHECK(outcome.output == "in\n");
    CHECK(connections_to(bastion.port()) == 1);
    cut_connections_to(bastion.port());
  }
}

TEST_CASE("much goes both ways through two bastions", "[integration][transport][jump]") {
  if (!can_run()) return;
  const Sshd outer, inner, target;
  Configured by(block("outer", outer) + block("inner", inner) + block("gpu1", target, "  ProxyJump outer,inner\n"));
  const std::string input(1'000'000, 'x');
  const auto outcome =
      by.run("gpu1", "head -c 3000000 /dev/zero >&2; head -c 1000000; head -c 3000000 /dev/zero", input);
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == input + std::string(3'000'000, '\0'));
  CHECK(outcome.errors == std::string(3'000'000, '\0'));
  // Again, after nothing went through for a while: the same event loop is gone by now.
  CHECK(by.run("gpu1").output == "in\n");
}

TEST_CASE("a bastion has a ProxyJump of its own, and -J outweighs the host's", "[integration][transport][jump]") {
  if (!can_run()) return;
  const Sshd outer, inner, target;
  Configured by(block("outer", outer) + block("inner", inner, "  ProxyJump outer\n") +
                block("gpu1", target, "  ProxyJump nowhere.invalid\n"));
  by.options().jump = "inner";
  const auto outcome = by.run("gpu1");
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == "in\n");
}

TEST_CASE("a jump that leads back is refused before anything is sent", "[integration][transport][jump]") {
  Configured by("Host *\n ProxyJump bastion\n");
  CHECK_THAT(by.error("gpu1"), ContainsSubstring("ProxyJump leads back to bastion"));
  CHECK_THAT(by.error("bastion"), ContainsSubstring("ProxyJump leads back to bastion"));
  CHECK_THAT(by.hint, ContainsSubstring("Host * !BASTION"));
}

TEST_CASE("what is wrong with a bastion is one error for all behind it", "[integration][transport][jump]") {
  if (!can_run()) return;
  const Sshd target;
  const auto errors_behind = [&](const Sshd& bastion, const std::string& more = "") {
    Configured by(block("bastion", bastion, more) + block("gpu*", target, "  ProxyJump bastion\n"));
    const auto outcomes = run_on_all(
        by.transport(), {Configured::host("gpu1"), Configured::host("gpu2"), Configured::host("gpu3")}, "true");
    std::set<std::string> errors;
    for (const auto& outcome : outcomes) {
      REQUIRE(outcome.error);
      errors.insert(to_string(*outcome.error));
      by.kind = outcome.error->kind;
    }
    REQUIRE(errors.size() == 1);
    return std::string(to_string(by.kind)) + ": " + *errors.begin();
  };
  SECTION("its host key is not known") {
    const Sshd bastion;
    write_file(bastion.known_hosts(), "");
    const auto error = errors_behind(bastion);
    CHECK_THAT(error,
               ContainsSubstring("host_key: jumping through bastion: checking the host key: the key of [127.0.0.1]"));
    CHECK_THAT(error, ContainsSubstring("is not known"));
  }
  SECTION("it refuses the login") {
    const Sshd bastion;
    write_file(bastion.file("authorized_keys"), "");
    CHECK_THAT(errors_behind(bastion),
               ContainsSubstring("auth: jumping through bastion: authenticating as " + bastion.user()));
  }
  SECTION("nobody listens") {
    auto bastion = std::make_unique<Sshd>();
    const auto port = std::to_string(bastion->port());
    Configured by(block("bastion", *bastion) + block("gpu1", target, "  ProxyJump bastion\n"));
    bastion.reset();
    CHECK_THAT(by.error("gpu1"), ContainsSubstring("jumping through bastion: connecting to 127.0.0.1 port " + port +
                                                   ": 127.0.0.1 port " + port + " refused the connection"));
  }
  SECTION("it forwards nothing") {
    const Sshd bastion("AllowTcpForwarding no\n");
    CHECK_THAT(errors_behind(bastion),
               ContainsSubstring("unreachable: connecting to 127.0.0.1 port " + std::to_string(target.port()) +
                                 " through bastion: bastion does not forward to 127.0.0.1 port "));
  }
}

TEST_CASE("a host behind a bastion has its own errors", "[integration][transport][jump]") {
  if (!can_run()) return;
  const Sshd bastion, target;
  const Swallowing swallowing;
  make_key(target.file("other_host_key"));
  Configured by(block("bastion", bastion) + block("fine", target, "  ProxyJump bastion\n") +
                    "Host closed\n HostName 127.0.0.1\n Port 1\n ProxyJump bastion\n"
                    "Host silent\n HostName 127.0.0.1\n Port " +
                    std::to_string(swallowing.port()) + "\n ProxyJump bastion\n" +
                    block("unknown", target, "  ProxyJump bastion\n")
                        .replace(0, 0, "Host unknown\n UserKnownHostsFile /dev/null\n"),
                1s);
  CHECK_THAT(by.error("closed"), ContainsSubstring("bastion cannot connect to 127.0.0.1 port 1"));
  CHECK_THAT(by.error("unknown"), ContainsSubstring("checking the host key: the key of [127.0.0.1]"));
  CHECK_THAT(by.hint, ContainsSubstring("echo '[127.0.0.1]:"));
  // libssh2 waits for an answer about the silent one; the others go around it.
  const auto outcomes = run_on_all(
      by.transport(), {Configured::host("silent"), Configured::host("fine"), Configured::host("fine")}, "echo in");
  REQUIRE(outcomes[0].error);
  CHECK(outcomes[0].error->kind == ErrorKind::timeout);
  CHECK_THAT(to_string(*outcomes[0].error), ContainsSubstring("through bastion: no answer within 1 s"));
  CHECK(outcomes[1].output == "in\n");
  CHECK(outcomes[2].output == "in\n");
}

TEST_CASE("a bastion that goes away is named, and connected to again", "[integration][transport][jump]") {
  if (!can_run()) return;
  const Sshd bastion, target;
  Configured by(block("bastion", bastion) + block("gpu1", target, "  ProxyJump bastion\n"));
  const auto outcome =
      by.run("gpu1", "echo begun; sleep 1000", "", [&](const std::string&) { cut_connections_to(bastion.port()); });
  REQUIRE(outcome.error);
  CHECK_THAT(to_string(*outcome.error), ContainsSubstring("the connection was cut (bastion: the connection was cut"));
  CHECK(by.run("gpu1").output == "in\n");
  CHECK(connections_to(bastion.port()) == 1);
}

TEST_CASE("a program is the way to a host", "[integration][transport][proxy_command]") {
  if (!can_run()) return;
  const Sshd sshd;
  Configured by(block("gpu1", sshd, "  ProxyCommand " + ("sh " + sshd.file("relay")) + " %h %p\n"));
  write_file(sshd.file("relay"), "echo $$ >> " + sshd.file("pids") + "; exec " + relay_to(sshd) + "\n");
  const std::string input(1'000'000, 'x');
  const auto outcome = by.run("gpu1", "head -c 1000000; head -c 3000000 /dev/zero", input);
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == input + std::string(3'000'000, '\0'));
  CHECK_FALSE(stays(std::stoi(read_text(sshd.file("pids")))));
}

TEST_CASE("a program that is no way to a host is told as such, and ended", "[integration][transport][proxy_command]") {
  if (!can_run()) return;
  const Sshd sshd;
  const auto pid_file = sshd.file("pid");
  const auto with = [&](const std::string& script, std::chrono::milliseconds timeout) {
    write_file(sshd.file("script"), "echo $$ > " + pid_file + "\n" + script + "\n");
    Configured by(block("gpu1", sshd, "  ProxyCommand sh " + sshd.file("script") + "\n"), timeout);
    const auto error = by.error("gpu1");
    CHECK_THAT(error, ContainsSubstring("ProxyCommand from " + by.file("config") + ":7"));
    CHECK_THAT(by.hint, ContainsSubstring("run the command by hand"));
    CHECK_FALSE(stays(std::stoi(read_text(pid_file))));
    return error;
  };
  CHECK_THAT(with("echo no way >&2; exit 7", 5s),
             ContainsSubstring("its ProxyCommand ended with status 7 and said: no way"));
  CHECK_THAT(with("trap '' HUP TERM; sleep 1000", 500ms),
             ContainsSubstring("no answer within 500 ms; its ProxyCommand is"));
  CHECK_THAT(with("yes garbage | head -c 100000; sleep 1000", 1s),
             ContainsSubstring("its ProxyCommand is still running"));
  CHECK_THAT(with("head -c 100000 /dev/urandom; sleep 1000", 1s), ContainsSubstring("ProxyCommand"));
  CHECK_THAT(with("kill -9 $$", 5s), ContainsSubstring("its ProxyCommand was ended by signal 9"));
}

TEST_CASE("a bastion may itself be reached by a program", "[integration][transport][proxy_command][jump]") {
  if (!can_run()) return;
  const Sshd bastion, target;
  write_file(bastion.file("relay"), "exec " + relay_to(bastion) + "\n");
  Configured by(block("bastion", bastion, "  ProxyCommand sh " + bastion.file("relay") + "\n") +
                block("gpu1", target, "  ProxyJump bastion\n"));
  const auto outcome = by.run("gpu1");
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == "in\n");
}

TEST_CASE("IdentitiesOnly takes of the agent's keys those that are named", "[integration][transport][ssh_config]") {
  if (!can_run()) return;
  const Sshd sshd("MaxAuthTries 3\n");
  const auto socket = sshd.file("agent");
  const Daemon agent({"ssh-agent", "-D", "-a", socket}, "echo Agent pid");
  for (const char* const name : {"one", "two", "three"}) {
    make_key(sshd.file(name));
    run_program({"ssh-add", "-q", sshd.file(name)}, {"SSH_AUTH_SOCK=" + socket});
  }
  std::filesystem::remove(sshd.file("two"));  // what is left is its public half
  const auto base = "  HostName 127.0.0.1\n  Port " + std::to_string(sshd.port()) + "\n  User " + sshd.user() +
                    "\n  UserKnownHostsFile " + sshd.known_hosts() + "\n  IdentityAgent " + socket + "\n";
  Configured by("Host all\n" + base + "  IdentityFile none\nHost two\n" + base +
                "  IdentitiesOnly yes\n  IdentityFile " + sshd.file("two") + "\nHost own\n" + base +
                "  IdentitiesOnly yes\n  IdentityFile " + sshd.key() + "\n");
  CHECK_THAT(by.error("all"), ContainsSubstring("the host hung up"));
  const auto error = by.error("two");
  CHECK_THAT(error, ContainsSubstring("the host refused"));
  CHECK(error.find("agent key ") == error.rfind("agent key "));
  const auto outcome = by.run("own");
  if (outcome.error) FAIL(to_string(*outcome.error));
  CHECK(outcome.output == "in\n");
}
