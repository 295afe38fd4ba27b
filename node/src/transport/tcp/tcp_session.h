// The client's end of a connection: connect, hello, then calls.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/tcp_context.h"

namespace ramcloud::tcp {

class TcpSession final : public Session,
                         public FdHandler,
                         public std::enable_shared_from_this<TcpSession> {
 public:
  TcpSession(std::shared_ptr<TcpContext> context, const HostPort& address,
             const PeerIdentity& expected);
  ~TcpSession() override;
  /// Starts connecting. Call it once, right after construction.
  void start();

  void send(ClientCall& call, wire::MessageHeader header, std::span<const Slice> body) override;
  bool broken() const override { return state_ == State::kBroken; }
  uint64_t peer_server_id() const override { return peer_server_id_; }
  uint16_t version() const override { return version_; }
  void when_open(ClientCall& call) override;
  Absence absence() const override { return absence_; }

  /// Breaks the session: calls fail in a later turn.
  void shut_down(const Status& why) { break_with(why); }
  bool shrink() { return stream_.shrink(); }

  void on_ready(uint32_t events) override;
  bool urgent() const override { return true; }
  bool only_heartbeats() const override {
    return arrivals_.only_heartbeats() && !stream_.has_unread();
  }

 private:
  enum class State : uint8_t { kResolving, kConnecting, kHello, kOpen, kBroken };
  void look_up();
  void on_looked_up(Result<Resolver::Addresses> found);
  void use_known_addresses();
  void connect_to(Resolver::Addresses addresses);
  void connect_to_next();
  void leave_silent_address();
  void note_attempt(bool refused);
  void on_connected();
  void receive();
  bool take_hello();
  bool take_reply();
  void flush();
  void watch_output(bool wanted);
  void break_with(Status why);
  void fail_later();
  std::string peer() const { return address_.to_string(); }

  std::shared_ptr<TcpContext> context_;
  HostPort address_;
  wire::Hello hello_;
  TcpStream stream_;
  Arrivals arrivals_;
  State state_ = State::kResolving;
  bool was_open_ = false;
  bool all_refused_ = true;  // of the addresses tried
  bool remembered_ = false;  // the addresses are those of an earlier lookup
  Absence absence_ = Absence::kUnknown;
  bool watches_output_ = false;
  bool more_input_ = false;  // more input after the present reply
  bool failing_scheduled_ = false;
  uint64_t peer_server_id_ = 0;
  uint16_t version_ = 0;
  uint32_t peer_max_body_ = wire::kMaxBodyBytes;
  std::vector<SocketAddress> addresses_;  // still to be tried
  Status why_;                            // why it broke
  std::string not_found_;                 // why the name was not found at the last look
  Time connect_until_{};
  Timer connect_timer_, look_up_timer_;
  Timer known_timer_;    // while a lookup is outstanding
  Timer silence_timer_;  // while an address is tried, and others are left
};

}  // namespace ramcloud::tcp
