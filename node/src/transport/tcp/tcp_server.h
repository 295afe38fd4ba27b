// The server's end: listening sockets, and the connections they accepted, by slot.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "transport/tcp/tcp_context.h"

namespace ramcloud::tcp {

class TcpServer;

/// A connection on its way from one reactor to another.
struct HandedOver {
  TcpStream stream;
  Side side;
  std::string peer;
  uint32_t peer_max_body;
  uint64_t expected_server_id;
  std::shared_ptr<void> counted;  // while it lives, the listening server counts it
};

class TcpConnection final : public FdHandler {
 public:
  TcpConnection(TcpServer& server, UniqueFd fd, uint32_t slot, uint32_t generation, Side side,
                RequestHandler& handler, std::string peer, Time hello_deadline);
  /// One that another reactor has said hello to.
  TcpConnection(TcpServer& server, HandedOver from, uint32_t slot, uint32_t generation,
                RequestHandler& handler);
  void on_ready(uint32_t events) override;

 private:
  friend class TcpServer;
  enum class State : uint8_t { kHello, kOpen, kClosed };
  bool take_hello();
  bool take_request();
  void take_requests();
  void receive();
  void flush();
  void watch_output(bool wanted);
  bool send(const wire::MessageHeader& header, std::span<const Slice> body);
  /// Counts and logs, then closes.
  void close_for(const char* why, Counter& counter);

  TcpServer& server_;
  RequestHandler& handler_;
  TcpStream stream_;
  const uint32_t slot_;
  const uint32_t generation_;
  const Side side_;
  State state_ = State::kHello;
  bool watches_output_ = false;
  uint32_t peer_max_body_ = 0;
  uint64_t expected_server_id_ = 0;  // whom the client asked for; 0: any
  uint32_t unanswered_ = 0;          // requests
  bool placed_ = false;              // it stays on this reactor
  std::shared_ptr<void> counted_;
  std::string peer_;
  Time hello_deadline_;
};

class TcpServer {
 public:
  explicit TcpServer(TcpContext& context);
  ~TcpServer();
  TcpServer(const TcpServer&) = delete;
  TcpServer& operator=(const TcpServer&) = delete;

  Result<HostPort> listen(const HostPort& address, Side side, RequestHandler& handler);
  void spread_over(std::vector<TcpServer*> others, bool (*anywhere)(uint16_t opcode));
  void serve_handed_over(RequestHandler& handler) { handed_over_handler_ = &handler; }
  void set_identity(const PeerIdentity& self);
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body);
  size_t connections() const { return open_; }

 private:
  friend class TcpConnection;
  struct Listener;
  struct Slot {
    std::unique_ptr<TcpConnection> connection;
    uint32_t generation = 0;
  };
  void accept_from(Listener& listener);
  void add_connection(UniqueFd fd, Listener& listener, std::string peer);
  bool over_limit(const std::string& peer);
  uint32_t free_slot();
  TcpConnection* add(std::unique_ptr<TcpConnection> connection);
  bool hand_over(TcpConnection& connection, uint16_t opcode);
  void adopt(HandedOver from);
  void close(TcpConnection& connection);
  void forget(TcpConnection& connection);
  bool upkeep();

  TcpContext& context_;
  PeerIdentity self_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<std::unique_ptr<TcpConnection>> closed_;  // until nobody is inside them any more
  size_t open_ = 0;
  std::vector<TcpServer*> others_;  // that connections are handed over to
  bool (*anywhere_)(uint16_t opcode) = nullptr;
  size_t handed_over_ = 0;  // so far, those that stayed in their turn included
  std::shared_ptr<std::atomic<size_t>> elsewhere_ = std::make_shared<std::atomic<size_t>>(0);
  RequestHandler* handed_over_handler_ = nullptr;
  Time over_limit_logged_{};
  bool over_limit_was_logged_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ramcloud::tcp
