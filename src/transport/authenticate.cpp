#include "transport/authenticate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "base/text.hpp"
#include "transport/agent.hpp"
#include "transport/fingerprint.hpp"
#include "transport/private_key.hpp"
#include "transport/wire.hpp"

namespace trueup::ssh {
namespace {

constexpr int kFirstWithRsaSha2 = 0x010b00;  // libssh2 1.11.0

std::string describe(const std::string& key) {
  return key.empty() ? std::string("type not known") : fmt::format("{} {}", printable(key_type(key)), fingerprint(key));
}

// What the agent is to sign, handed out of libssh2's callback, and the answer handed in.
struct Signing {
  std::string data;
  std::optional<std::string> signature;
  bool refused = false;
};

// libssh2 takes EAGAIN from here as it does from a socket, and asks again when its caller does.
int give_signature(LIBSSH2_SESSION*, unsigned char** signature, std::size_t* size, const unsigned char* data,
                   std::size_t data_size, void** abstract) {
  auto& signing = *static_cast<Signing*>(*abstract);
  if (signing.refused) return LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED;
  if (!signing.signature) {
    signing.data.assign(data, data + data_size);
    return LIBSSH2_ERROR_EAGAIN;
  }
  *signature = static_cast<unsigned char*>(std::malloc(signing.signature->size()));  // libssh2 frees it
  if (*signature == nullptr) return LIBSSH2_ERROR_ALLOC;
  std::memcpy(*signature, signing.signature->data(), signing.signature->size());
  *size = signing.signature->size();
  return 0;
}

class Login {
 public:
  Login(Connection& connection, Credentials credentials, std::chrono::milliseconds limit)
      : connection_(connection), credentials_(std::move(credentials)), limit_(limit) {}

  Awaitable<Result<void>> run() {
    load_files();
    if (!credentials_.agent_socket.empty()) {
      co_await ask_agent();
      if (watch().is_final()) co_return fail(*watch().over());
    }
    watch().begin(fmt::format("authenticating as {}", credentials_.user), limit_);
    for (const auto& key : agent_keys_) {
      auto answer = co_await try_agent_key(key);
      if (!answer) co_return fail(answer.error());
      if (*answer == 0) co_return Result<void>();
      if (Connection::is_gone(*answer)) co_return fail(hung_up());
    }
    for (const auto& file : files_) {
      if (is_in_agent(file.key)) continue;
      if (file.is_public) {
        not_tried_.push_back(fmt::format("{} is a public key, and the agent does not have it", file.path));
        continue;
      }
      if (file.encrypted) {
        not_tried_.push_back(fmt::format("{} is encrypted and not in the agent", file.path));
        continue;
      }
      auto answer = co_await try_file(file);
      if (!answer) co_return fail(answer.error());
      if (*answer == 0) co_return Result<void>();
      if (Connection::is_gone(*answer)) co_return fail(hung_up());
    }
    const auto accepted = co_await accepted_methods();
    if (!accepted) co_return fail(accepted.error());
    co_return fail(accepted->empty() && !tried_.empty() ? hung_up() : refused(*accepted));
  }

 private:
  Watch& watch() { return connection_.watch(); }

  void load_files() {
    for (const auto& path : credentials_.keys) {
      auto file = load_key_file(path);
      if (file) {
        files_.push_back(*std::move(file));
      } else if (!credentials_.keys_are_default || file.error().kind != ErrorKind::not_found) {
        not_tried_.push_back(file.error().message);
        if (hint_.empty()) hint_ = file.error().hint;
      }
    }
  }

  // Nothing of the agent is fatal: what went wrong is told if no key file helps.
  Awaitable<void> ask_agent() {
    watch().begin("asking the SSH agent for its keys", limit_ / 2);
    auto agent = co_await Agent::connect(credentials_.agent_socket, watch());
    if (!agent) {
      not_tried_.push_back(fmt::format("the agent: {}", agent.error().message));
      co_return;
    }
    agent_ = std::make_unique<Agent>(*std::move(agent));
    auto keys = co_await agent_->keys();
    if (!keys) {
      not_tried_.push_back(fmt::format("the agent: {}", keys.error().message));
      co_return;
    }
    agent_keys_ = *std::move(keys);
    const auto others = std::stable_partition(agent_keys_.begin(), agent_keys_.end(), [this](const AgentKey& key) {
      return std::any_of(files_.begin(), files_.end(), [&](const KeyFile& file) { return file.key == key.key; });
    });
    if (credentials_.only_these) agent_keys_.erase(others, agent_keys_.end());
  }

  bool is_in_agent(const std::string& key) const {
    return std::any_of(agent_keys_.begin(), agent_keys_.end(), [&](const AgentKey& other) { return other.key == key; });
  }

  Awaitable<Result<long>> try_agent_key(AgentKey key) {
    Signing signing;
    void* abstract = &signing;
    std::string why;
    for (;;) {
      if (watch().over()) co_return fail(*watch().over());
      const int answer = libssh2_userauth_publickey(connection_.handle(), credentials_.user.c_str(),
                                                    reinterpret_cast<const unsigned char*>(key.key.data()),
                                                    key.key.size(), &give_signature, &abstract);
      if (answer != LIBSSH2_ERROR_EAGAIN) {
        if (answer != 0)
          tried(fmt::format("agent key {} ({}){}", describe(key.key), shorten(printable(key.comment), 60), why),
                key.key);
        co_return answer;
      }
      if (signing.data.empty() || signing.signature) {
        auto ready = co_await connection_.ready();
        if (!ready) co_return fail(ready.error());
        continue;
      }
      auto signature = co_await agent_->sign(key.key, signing.data);
      if (watch().over()) co_return fail(*watch().over());
      if (signature) {
        signing.signature = *std::move(signature);
      } else {
        signing.refused = true;
        why = fmt::format(": {}", signature.error().message);
      }
    }
  }

  Awaitable<Result<long>> try_file(const KeyFile& file) {
    // Without it libssh2 finds the public key out, and OpenSSL 3 tries all its decoders for that.
    const auto public_key =
        file.key.empty() ? std::string() : fmt::format("{} {}", key_type(file.key), base64_encode(file.key));
    const auto call = [this, &file, &public_key] {
      const auto text = file.text.reveal();
      return libssh2_userauth_publickey_frommemory(
          connection_.handle(), credentials_.user.c_str(), credentials_.user.size(),
          public_key.empty() ? nullptr : public_key.data(), public_key.size(), text.data(), text.size(), nullptr);
    };
    auto answer = co_await connection_.until_done(call);
    if (answer && *answer < 0) {
      const bool unusable =
          *answer != LIBSSH2_ERROR_AUTHENTICATION_FAILED && *answer != LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED;
      tried(fmt::format("{} ({}){}", file.path, describe(file.key), unusable ? ": " + connection_.last_error() : ""),
            file.key);
    }
    co_return answer;
  }

  void tried(std::string what, const std::string& key) {
    tried_.push_back(std::move(what));
    if (key_type(key) == "ssh-rsa" && libssh2_version(kFirstWithRsaSha2) == nullptr) rsa_without_sha2_ = true;
  }

  // Empty: the host has hung up. libssh2 then calls the last key refused, so this is where it shows.
  Awaitable<Result<std::string>> accepted_methods() {
    std::string methods;
    const auto call = [this, &methods]() -> int {
      const char* const list = libssh2_userauth_list(connection_.handle(), credentials_.user.c_str(),
                                                     static_cast<unsigned>(credentials_.user.size()));
      if (list != nullptr) methods = list;
      return list != nullptr ? 0 : libssh2_session_last_errno(connection_.handle());
    };
    const auto answer = co_await connection_.until_done(call);
    if (!answer) co_return fail(answer.error());
    co_return shorten(printable(methods), 100);
  }

  std::string attempts() const {
    std::string text = tried_.empty() ? "no key was tried" : fmt::format("tried {}", join(tried_, ", "));
    if (!not_tried_.empty()) text += fmt::format("; not tried: {}", join(not_tried_, ", "));
    return text;
  }

  Error refused(const std::string& accepted) const {
    const auto& user = credentials_.user;
    Error error{ErrorKind::auth, {}, {}, {}, hint_};
    if (tried_.empty()) {
      error.message = not_tried_.empty()
                          ? fmt::format("no key to log in as {}: no agent, no key in the inventory, none of {}", user,
                                        join(credentials_.keys, ", "))
                          : fmt::format("no key to log in as {}: {}", user, join(not_tried_, ", "));
    } else {
      error.message = fmt::format("the host refused {}: {}; it accepts {}", user, attempts(), accepted);
    }
    if (rsa_without_sha2_)
      error.hint =
          fmt::format("libssh2 {} signs RSA with SHA-1 only, which OpenSSH 8.8 and newer refuse: use an ed25519 key",
                      libssh2_version(0));
    else if (error.hint.empty() && !not_tried_.empty() && tried_.empty())
      error.hint =
          "load the key into an agent (ssh-add), or name another one with --private-key or 'key' in the inventory";
    else if (error.hint.empty())
      error.hint = fmt::format(
          "add one of these public keys to {}'s authorized_keys on the host, or name the right key with "
          "--private-key or 'key' in the inventory, and the right account with -u or 'user'",
          user);
    return error;
  }

  Error hung_up() const {
    return {ErrorKind::auth,
            fmt::format("the host hung up while {} logged in: {}", credentials_.user, attempts()),
            {},
            {},
            "sshd hangs up after MaxAuthTries keys (6): take keys out of the agent, or run without SSH_AUTH_SOCK"};
  }

  Connection& connection_;
  const Credentials credentials_;
  const std::chrono::milliseconds limit_;
  std::vector<KeyFile> files_;
  std::unique_ptr<Agent> agent_;
  std::vector<AgentKey> agent_keys_;
  std::vector<std::string> tried_, not_tried_;
  std::string hint_;
  bool rsa_without_sha2_ = false;
};

}  // namespace

Awaitable<Result<void>> authenticate(Connection& connection, Credentials credentials, std::chrono::milliseconds limit) {
  Login login(connection, std::move(credentials), limit);
  co_return co_await login.run();
}

}  // namespace trueup::ssh
