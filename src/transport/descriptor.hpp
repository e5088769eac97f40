#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "trueup/result.hpp"

namespace trueup {

/// An open file descriptor and its one owner.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void reset();
  /// The number, which somebody else closes from now on.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// What the system says of an errno value.
std::string system_text(int code);

/// Both ends are closed in programs that we start.
struct Pipe {
  Descriptor reading, writing;
};
Result<Pipe> make_pipe();

/// Both ends of a connection, closed in programs that we start. `flags`: SOCK_NONBLOCK, for both of them.
Result<std::pair<Descriptor, Descriptor>> make_socket_pair(int flags = 0);

/// A regular file, opened so that nothing in its place (a FIFO, a terminal) can make us wait. Errors: not_found, or io
/// with the system's text; `not a regular file`.
Result<Descriptor> open_file(const std::string& path);

/// All that is left to read. Errors: io with the system's text; limit, for more than `most_bytes`.
Result<std::string> read_to_end(const Descriptor& file, std::size_t most_bytes);

}  // namespace trueup
