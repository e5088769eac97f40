#include "visitor.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace trueup::fleet {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kBanner = "SSH-2.0-OpenSSH_9.2p1\r\n";

void send_raw(int fd, std::string_view bytes) { (void)::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

}  // namespace

Visitor::Visitor(const World& world, std::size_t host, const Fault& fault, int fd)
    : world_(world), host_(host), fault_(fault), fd_(fd), random_(static_cast<std::mt19937::result_type>(host)) {
  if (fault_.kind == Fault::Kind::blow && fault_.phase <= Phase::kex) {
    if (fault_.phase == Phase::kex) send_raw(fd_, kBanner);
    struck_ = true;  // without libssh, which would answer at once
    return;
  }
  greet();
}

Visitor::~Visitor() {
  if (session_ == nullptr) {
    ::close(fd_);
    return;
  }
  if (keys_exchanged_) ssh_event_remove_session(event_, session_);
  ssh_event_free(event_);
  ssh_free(session_);
}

void Visitor::greet() {
  session_ = ssh_new();
  event_ = ssh_event_new();
  if (session_ == nullptr || event_ == nullptr) throw std::bad_alloc();
  const auto key = fault_.kind == Fault::Kind::wrong_key ? world_.wrong_key : world_.right_key;
  if (ssh_bind_accept_fd(key, session_, fd_) != SSH_OK) throw std::runtime_error(ssh_get_error(key));
  ssh_set_blocking(session_, 0);
  ssh_set_auth_methods(session_, SSH_AUTH_METHOD_PUBLICKEY);
  ssh_callbacks_init(&server_calls_);
  server_calls_.userdata = this;
  server_calls_.service_request_function = on_service;
  server_calls_.auth_pubkey_function = on_key;
  server_calls_.channel_open_request_session_function = on_channel;
  ssh_set_server_callbacks(session_, &server_calls_);
}

std::chrono::milliseconds Visitor::latency() const { return fault_.kind == Fault::Kind::latency ? 20ms : 0ms; }

bool Visitor::wants_write() const {
  return session_ != nullptr && (ssh_get_poll_flags(session_) & SSH_WRITE_PENDING) != 0;
}

bool Visitor::drive() {
  if (struck_) return strike();
  if (!keys_exchanged_) {
    const int answer = ssh_handle_key_exchange(session_);
    if (answer == SSH_ERROR) return false;
    if (answer == SSH_OK) {
      keys_exchanged_ = true;  // until then the session has a context of its own, and none to move
      if (ssh_event_add_session(event_, session_) != SSH_OK) return false;
    }
  } else if (ssh_event_dopoll(event_, 0) == SSH_ERROR) {
    return false;
  }
  if ((ssh_get_status(session_) & (SSH_CLOSED | SSH_CLOSED_ERROR)) != 0) return false;
  if (struck_) {
    // What was said before the blow arrives: at once, on loopback, if this process gets to run.
    if (wants_write()) ssh_blocking_flush(session_, 10'000);
    return strike();
  }
  return true;
}

void Visitor::reach(Phase phase) {
  if (fault_.kind == Fault::Kind::blow && fault_.phase == phase) struck_ = true;
}

bool Visitor::strike() {
  switch (fault_.blow) {
    case Blow::hang:
      deaf_ = true;
      return true;
    case Blow::garbage:
      send_raw(fd_, garbage(4096));
      deaf_ = true;
      return true;
    case Blow::reset: {
      const linger at_once{1, 0};
      ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      return false;
    }
    case Blow::cut:
      ::shutdown(fd_, SHUT_RDWR);
      return false;
  }
  return false;
}

// The client asks for it as the last act of its handshake: only when that is answered does it authenticate.
int Visitor::on_service(ssh_session, const char*, void* self) {
  static_cast<Visitor*>(self)->reach(Phase::auth);
  return 0;
}

int Visitor::on_key(ssh_session, const char*, ssh_key_struct* key, char state, void* self) {
  auto& visitor = *static_cast<Visitor*>(self);
  if (ssh_key_cmp(key, visitor.world_.user_key, SSH_KEY_CMP_PUBLIC) != 0) return SSH_AUTH_DENIED;
  if (state == SSH_PUBLICKEY_STATE_NONE) return SSH_AUTH_SUCCESS;
  if (state != SSH_PUBLICKEY_STATE_VALID) return SSH_AUTH_DENIED;
  visitor.reach(Phase::channel);
  return SSH_AUTH_SUCCESS;
}

ssh_channel Visitor::on_channel(ssh_session session, void* self) {
  auto& visitor = *static_cast<Visitor*>(self);
  if (visitor.channel_ != nullptr) return nullptr;
  visitor.channel_ = ssh_channel_new(session);
  ssh_callbacks_init(&visitor.channel_calls_);
  visitor.channel_calls_.userdata = self;
  visitor.channel_calls_.channel_exec_request_function = on_exec;
  visitor.channel_calls_.channel_data_function = on_data;
  ssh_set_channel_callbacks(visitor.channel_, &visitor.channel_calls_);
  visitor.reach(Phase::exec);
  return visitor.channel_;
}

// Whatever the command: the script on standard input says what is wanted.
int Visitor::on_exec(ssh_session, ssh_channel, const char*, void*) { return 0; }

int Visitor::on_data(ssh_session, ssh_channel, void* data, std::uint32_t size, int, void* self) {
  auto& visitor = *static_cast<Visitor*>(self);
  if (visitor.pieces_.empty()) {
    visitor.script_.append(static_cast<const char*>(data), size);
    if (const auto nonce = nonce_of(visitor.script_); !nonce.empty()) visitor.begin_answer(nonce);
  }
  return static_cast<int>(size);
}

void Visitor::begin_answer(const std::string& nonce) {
  script_ = {};
  pieces_ = world_.answers[host_ % world_.answers.size()].pieces(nonce);
  between_words_ = Clock::duration(world_.lasts) / static_cast<int>(pieces_.size());
  if (fault_.kind == Fault::Kind::trickle) {
    std::string all;
    for (const auto& piece : pieces_) all += piece;
    pieces_.clear();
    for (std::size_t at = 0; at < all.size(); at += 512) pieces_.push_back(all.substr(at, 512));
    between_words_ = 2ms;
  }
  if (fault_.kind == Fault::Kind::noise) pieces_ = {garbage(20'000), {}};
  next_word_ = Clock::now() + between_words_;
}

bool Visitor::speak() {
  next_word_ = Clock::time_point::max();
  if (fault_.kind == Fault::Kind::huge) {
    // As fast as it is taken, without holding more than one piece back.
    if (!wants_write() && !say(std::string(32'768, 'x') + '\n')) return false;
    next_word_ = Clock::now() + 1ms;
    return true;
  }
  const bool halfway = said_ == pieces_.size() / 2;
  if (halfway) reach(Phase::output);
  if (struck_) return strike();
  if (halfway && (fault_.kind == Fault::Kind::killed || fault_.kind == Fault::Kind::noise)) {
    if (fault_.kind == Fault::Kind::noise) say(pieces_.front());
    end_shell(fault_.kind == Fault::Kind::killed ? 137 : 0);
    return true;
  }
  if (!say(pieces_[said_])) return false;
  if (++said_ < pieces_.size()) {
    next_word_ = Clock::now() + between_words_;
  } else {
    answered_ = true;
    end_shell(0);
  }
  return true;
}

bool Visitor::say(std::string_view text) {
  return ssh_channel_write(channel_, text.data(), static_cast<std::uint32_t>(text.size())) != SSH_ERROR;
}

void Visitor::end_shell(int status) {
  ssh_channel_request_send_exit_status(channel_, status);
  ssh_channel_send_eof(channel_);
  ssh_channel_close(channel_);
}

std::string Visitor::garbage(std::size_t bytes) {
  std::string text(bytes, '\0');
  for (auto& byte : text) byte = static_cast<char>(random_() & 0xffU);
  return text;
}

}  // namespace trueup::fleet
