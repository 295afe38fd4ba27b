// The server's end: listening sockets, and the connections they accepted, by slot.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
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
  void receive();
  void take_requests();
  void flush();
  /// Tells epoll what we wait for now.
  void watch();
  bool send(const wire::MessageHeader& header, std::span<const Slice> body);
  /// Sends what was gathered, unless the socket is full anyway.
  void flush_gathered();
  /// Counts and logs, then closes.
  void close_for(const char* why, Counter& counter);

  // Limits.
  uint64_t pause_mark() const;  // of unsent bytes
  bool may_take_requests() const;
  void pause();
  /// Goes on reading, from a later turn, when enough was answered.
  void resume_if_due();
  void resume();
  /// Begins or ends the times that messages may take, and tells the server what the buffers hold.
  void account();
  bool is_late(Time now, Duration limit) const;

  TcpServer& server_;
  RequestHandler& handler_;
  TcpStream stream_;
  const uint32_t slot_;
  const uint32_t generation_;
  const Side side_;
  State state_ = State::kHello;
  uint32_t watched_ = EPOLLIN;
  bool paused_ = false;  // reads no requests: too many are unanswered
  bool resuming_ = false;
  uint32_t outstanding_ = 0;
  size_t accounted_bytes_ = 0;
  std::optional<Time> message_began_;  // of a message that is not whole
  std::optional<Time> output_began_;   // to wait, for what was there then
  uint64_t output_mark_ = 0;           // the stream's position behind that
  bool more_input_ = false;            // behind the request that is being handled
  bool gathering_ = false;             // it is on the server's list
  uint32_t peer_max_body_ = 0;
  uint64_t expected_server_id_ = 0;  // whom the client asked for; 0: any
  bool placed_ = false;              // it stays on this reactor
  std::shared_ptr<void> counted_;
  std::string peer_;
  std::string address_;  // the peer's, if it is counted
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
  /// See ReplyBatch.
  void begin_replies() { ++batches_; }
  void end_replies();

 private:
  friend class TcpConnection;
  struct Listener;
  struct Slot {
    std::unique_ptr<TcpConnection> connection;
    uint32_t generation = 0;
  };
  void accept_from(Listener& listener);
  void add_connection(UniqueFd fd, Listener& listener, const HostPort& from);
  uint32_t free_slot();
  TcpConnection* add(std::unique_ptr<TcpConnection> connection);
  bool hand_over(TcpConnection& connection, uint16_t opcode);
  void adopt(HandedOver from);
  void release_peer(const std::string& address);
  void close(TcpConnection& connection);
  void forget(TcpConnection& connection);
  bool upkeep();
  bool is_refused(const std::string& address, const std::string& peer);
  void drop_oldest_silent();
  /// Above the limit of buffered bytes: gives back empty buffers, then closes connections.
  void make_room();
  TcpConnection* find(uint32_t slot, uint32_t generation);

  TcpContext& context_;
  PeerIdentity self_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<std::unique_ptr<TcpConnection>> closed_;  // until nobody is inside them any more
  uint32_t batches_ = 0;                                // under way
  std::vector<TcpConnection*> gathering_;  // open ones that have replies to send at the end
  size_t open_ = 0;
  size_t silent_ = 0;                                     // have not said hello
  std::deque<std::pair<uint32_t, uint32_t>> silent_age_;  // slot, generation; some are gone
  std::map<std::string, uint32_t> per_peer_;              // kept only with a limit
  bool making_room_ = false;
  bool no_descriptors_ = false;     // and it was said
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
