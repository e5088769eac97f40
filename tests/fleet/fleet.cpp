// A fleet that is not there: an SSH server that plays thousands of hosts on loopback, healthy ones and others. The
// address that is connected to tells the host: 127.1.0.0 + N is host N.
//
// usage: trueup_fleet DIRECTORY [WORKERS [MILLISECONDS]]
//
// DIRECTORY holds host_key, other_host_key, user_key.pub (OpenSSH), answers/ (recorded outputs of the probe script;
// host N gives number N % count) and perhaps faults (lines `N FAULT`, see fault.hpp). MILLISECONDS pass from the first
// word of an answer to the last. Prints `ready PORT CLOSED SILENT`: the port it serves, one that refuses, one that
// never answers a connection. Ends at the end of standard input, and says then how many connections and whole answers
// there were.

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "visitor.hpp"

namespace trueup::fleet {
namespace {

constexpr std::size_t kHosts = 65'536;
constexpr std::uint32_t kFirstAddress = 0x7f010000;  // 127.1.0.0
constexpr int kFlakyConnections = 2;

// What the workers share.
struct Tally {
  std::atomic<std::size_t> connections = 0, answers = 0;
  std::array<std::atomic<std::uint8_t>, kHosts> refused{};  // connections to flaky hosts that were reset
};

int checked(int answer, const char* what) {
  if (answer < 0) throw std::system_error(errno, std::generic_category(), what);
  return answer;
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(fmt::format("cannot read {}", path.string()));
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Socket {
  int fd;
  std::uint16_t port;
};

// On all of 127.0.0.0/8, and on no other interface.
Socket bound_to_loopback() {
  const int fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
  constexpr std::string_view kLoopback = "lo";
  checked(::setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, kLoopback.data(), kLoopback.size()), "SO_BINDTODEVICE");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  checked(::bind(fd, reinterpret_cast<const sockaddr*>(&address), size), "bind");
  checked(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
  return {fd, ntohs(address.sin_port)};
}

// Its queue is full from the start, so that whoever connects is not answered.
Socket silent_port() {
  const auto socket = bound_to_loopback();
  checked(::listen(socket.fd, 0), "listen");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(socket.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 2; ++i) {
    const int fd = checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
    (void)::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  }
  return socket;
}

ssh_bind with_key(const std::filesystem::path& path) {
  const auto bind = ssh_bind_new();
  const bool no_configuration = false;
  ssh_bind_options_set(bind, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no_configuration);
  if (ssh_bind_options_set(bind, SSH_BIND_OPTIONS_HOSTKEY, path.c_str()) != SSH_OK)
    throw std::runtime_error(ssh_get_error(bind));
  return bind;
}

World load_world(const std::filesystem::path& directory, std::chrono::milliseconds lasts) {
  World world;
  world.right_key = with_key(directory / "host_key");
  world.wrong_key = with_key(directory / "other_host_key");
  if (ssh_pki_import_pubkey_file((directory / "user_key.pub").c_str(), &world.user_key) != SSH_OK)
    throw std::runtime_error("user_key.pub is no key");
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "answers")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) world.answers.emplace_back(read_file(file));
  if (files.empty()) throw std::runtime_error("there are no answers");
  world.lasts = lasts;
  return world;
}

std::unordered_map<std::size_t, Fault> load_faults(const std::filesystem::path& path) {
  std::unordered_map<std::size_t, Fault> faults;
  if (!std::filesystem::exists(path)) return faults;
  std::ifstream file(path);
  std::size_t host = 0;
  for (std::string name; file >> host >> name;) {
    const auto fault = parse_fault(name);
    if (!fault) throw std::runtime_error(fmt::format("'{}' is no fault", name));
    faults[host] = *fault;
  }
  if (!file.eof()) throw std::runtime_error("faults: expected lines of a number and a fault");
  return faults;
}

class Worker {
 public:
  Worker(const World& world, const std::unordered_map<std::size_t, Fault>& faults, Tally& tally, int listener)
      : world_(world), faults_(faults), tally_(tally), listener_(listener) {
    epoll_ = checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLEXCLUSIVE;
    checked(::epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &wanted), "epoll_ctl");
  }

  [[noreturn]] void run() {
    for (;;) {
      std::array<epoll_event, 128> events;
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), milliseconds_to_wait());
      for (const auto& event : std::span(events).first(static_cast<std::size_t>(std::max(count, 0))))
        if (event.data.ptr == nullptr)
          accept_some();
        else
          hear(*static_cast<Guest*>(event.data.ptr), event.events);
      while (!timers_.empty() && timers_.begin()->first <= Clock::now()) ring(*timers_.begin()->second);
    }
  }

 private:
  struct Guest {
    template <class... Arguments>
    explicit Guest(Arguments&&... arguments) : visitor(std::forward<Arguments>(arguments)...) {}
    Visitor visitor;
    Clock::time_point hears_at = Clock::time_point::max();  // where it is told something, and hears it later
    Clock::time_point alarm = Clock::time_point::max();     // as in timers_
  };

  int milliseconds_to_wait() const {
    if (timers_.empty()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now()).count();
    return static_cast<int>(std::max<long>(left, 0));
  }

  void accept_some() {
    for (int i = 0; i < 16; ++i) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) return;
      welcome(fd);
    }
  }

  void welcome(int fd) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    checked(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), "getsockname");
    const std::size_t host = (ntohl(address.sin_addr.s_addr) - kFirstAddress) % kHosts;
    ++tally_.connections;
    const auto found = faults_.find(host);
    auto fault = found == faults_.end() ? Fault{} : found->second;
    if (fault.kind == Fault::Kind::flaky && tally_.refused[host]++ < kFlakyConnections)
      fault = {Fault::Kind::blow, Blow::reset, Phase::banner};
    auto guest = std::make_unique<Guest>(world_, host, fault, fd);
    auto& placed = *guest;
    guests_.emplace(&placed, std::move(guest));
    epoll_event wanted{};
    wanted.data.ptr = &placed;
    checked(::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &wanted), "epoll_ctl");
    go_on(placed, placed.visitor.drive());
  }

  void hear(Guest& guest, std::uint32_t events) {
    if (guest.visitor.is_deaf()) return go_on(guest, (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0);
    if (guest.visitor.latency().count() == 0) return go_on(guest, guest.visitor.drive());
    guest.hears_at = Clock::now() + guest.visitor.latency();
    set_alarm(guest);
  }

  void ring(Guest& guest) {
    const auto now = Clock::now();
    if (guest.hears_at <= now) {
      guest.hears_at = Clock::time_point::max();
      if (!guest.visitor.drive()) return part(guest);
    }
    go_on(guest, guest.visitor.next_word() > now || guest.visitor.speak());
  }

  void go_on(Guest& guest, bool lives) {
    if (!lives || !guest.visitor.is_open()) return part(guest);
    set_alarm(guest);
    if (guest.hears_at != Clock::time_point::max()) return;
    epoll_event wanted{};
    wanted.data.ptr = &guest;
    wanted.events = EPOLLONESHOT | EPOLLRDHUP;
    if (!guest.visitor.is_deaf()) wanted.events |= EPOLLIN;
    if (!guest.visitor.is_deaf() && guest.visitor.wants_write()) wanted.events |= EPOLLOUT;
    checked(::epoll_ctl(epoll_, EPOLL_CTL_MOD, guest.visitor.fd(), &wanted), "epoll_ctl");
  }

  void set_alarm(Guest& guest) {
    const auto wanted = std::min(guest.hears_at, guest.visitor.next_word());
    if (wanted == guest.alarm) return;
    timers_.erase({guest.alarm, &guest});
    guest.alarm = wanted;
    if (wanted != Clock::time_point::max()) timers_.insert({wanted, &guest});
  }

  void part(Guest& guest) {
    timers_.erase({guest.alarm, &guest});
    if (guest.visitor.answered()) ++tally_.answers;
    guests_.erase(&guest);
  }

  const World& world_;
  const std::unordered_map<std::size_t, Fault>& faults_;
  Tally& tally_;
  const int listener_;
  int epoll_ = -1;
  std::unordered_map<Guest*, std::unique_ptr<Guest>> guests_;
  std::set<std::pair<Clock::time_point, Guest*>> timers_;
};

void raise_descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int number(const char* text) {
  int value = 0;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  if (error != std::errc() || end != all.data() + all.size() || value < 0)
    throw std::runtime_error(fmt::format("'{}' is no number", text));
  return value;
}

int serve(int argc, char** argv) {
  const std::filesystem::path directory = argv[1];
  const int workers = argc > 2 ? number(argv[2]) : 1;
  const std::chrono::milliseconds lasts(argc > 3 ? number(argv[3]) : 0);
  raise_descriptor_limit();
  const auto world = load_world(directory, lasts);
  const auto faults = load_faults(directory / "faults");
  const auto serving = bound_to_loopback(), closed = bound_to_loopback(), silent = silent_port();
  checked(::listen(serving.fd, 4096), "listen");
  void* const shared = ::mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  auto& tally = *new (shared) Tally;

  std::vector<pid_t> children;
  const auto parent = ::getpid();
  for (int i = 0; i < workers; ++i) {
    const auto child = checked(::fork(), "fork");
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(0);
      Worker(world, faults, tally, serving.fd).run();
    }
    children.push_back(child);
  }
  fmt::print("ready {} {} {}\n", serving.port, closed.port, silent.port);
  std::fflush(stdout);
  for (char c = 0; ::read(STDIN_FILENO, &c, 1) > 0;) {
  }
  for (const auto child : children) ::kill(child, SIGKILL);
  for (const auto child : children) ::waitpid(child, nullptr, 0);
  fmt::print("connections {} answers {}\n", tally.connections.load(), tally.answers.load());
  return 0;
}

}  // namespace
}  // namespace trueup::fleet

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    fmt::print(stderr, "usage: trueup_fleet DIRECTORY [WORKERS [MILLISECONDS]]\n");
    return 2;
  }
  try {
    return trueup::fleet::serve(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "trueup_fleet: {}\n", error.what());
    return 1;
  }
}
