// The server's end: listening sockets, and the connections they accepted, by slot.
//
// A connection that has not made a request yet is a stranger. A separate epoll watches strangers
// and listening sockets, and a turn handles only a few of its events. So thousands of clients that
// connect or disconnect at once delay others by some tens of microseconds only.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/tcp/tcp_connection.h"

namespace ramcloud::tcp {

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
  /// `tail` may be null; it is empty afterwards if it was moved.
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body,
             std::string* tail);
  bool has_room(const ReplyHandle& handle, uint64_t bytes) const;
  void charge(const ReplyHandle& handle, int64_t bytes);
  bool is_open(const ReplyHandle& handle) const {
    return find(handle.connection, handle.generation) != nullptr;
  }
  uint64_t closed_connections() const { return closed_connections_; }
  size_t connections() const { return open_; }
  /// See ReplyBatch.
  void begin_replies() { ++batches_; }
  void end_replies();

 private:
  friend class TcpConnection;
  /// The most events of strangers and listening sockets in a turn, and the most connections
  /// accepted for one event. A stranger's event is one read of at most 32 KiB and the requests in
  /// it.
  static constexpr size_t kStrangersPerTurn = 8;
  static constexpr int kAcceptsPerTurn = 8;
  struct Listener;
  /// A source nested in the context's source.
  struct Strangers final : FdHandler {
    void on_ready(uint32_t) override { source.poll(); }
    EpollSource source{kStrangersPerTurn};
  };
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
  /// Called above the limit of buffered bytes: frees empty buffers, then closes connections.
  void make_room();
  TcpConnection* find(uint32_t slot, uint32_t generation) const;
  /// The memory that replies of all connections may take besides the bytes buffered now. Input may
  /// take a quarter of the limit more, because replies can wait and an incomplete message cannot.
  uint64_t reply_room() const;
  /// Queues the connection: its buffered requests wait for their turn.
  void add_to_backlog(TcpConnection& connection);
  void serve_backlog();
  void add_buffered(int64_t bytes);
  /// True if it should be called again.
  bool look_for_freed_memory();

  TcpContext& context_;
  std::unique_ptr<Strangers> strangers_;  // once it listens
  PeerIdentity self_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::vector<std::unique_ptr<TcpConnection>> closed_;  // destroyed when they are not on the stack
                                                        // any more
  uint32_t batches_ = 0;                                // in flight
  std::vector<TcpConnection*> gathering_;  // open connections with gathered replies to send
  std::deque<std::pair<uint32_t, uint32_t>> backlog_;  // slot, generation; some are closed
  bool serving_backlog_ = false;                       // scheduled for a later turn, or running now
  uint64_t closed_connections_ = 0;
  size_t open_ = 0;
  size_t silent_ = 0;                                     // connections without a hello
  std::deque<std::pair<uint32_t, uint32_t>> silent_age_;  // slot, generation; some are closed
  std::map<std::string, uint32_t> per_peer_;              // kept only with a limit
  bool making_room_ = false;
  /// look_for_freed_memory() reports memory above this, if it was not needed for so many calls.
  static constexpr uint64_t kMuchMemory = 16u << 20;
  static constexpr int kQuietCalls = 2;
  uint64_t most_buffered_ = 0;         // maximum since memory was last reported as freed
  uint64_t most_buffered_lately_ = 0;  // maximum since the latest upkeep
  int quiet_calls_ = 0;
  bool no_descriptors_ = false;     // and it was said
  std::vector<TcpServer*> others_;  // the servers to which connections are handed over
  bool (*anywhere_)(uint16_t opcode) = nullptr;
  size_t handed_over_ = 0;  // hand-overs so far, including connections that stayed here
  std::shared_ptr<std::atomic<size_t>> elsewhere_ = std::make_shared<std::atomic<size_t>>(0);
  RequestHandler* handed_over_handler_ = nullptr;
  Time over_limit_logged_{};
  bool over_limit_was_logged_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ramcloud::tcp
