// The server's end: listening sockets, and the connections they accepted, by slot.
//
// A connection that has not made a request yet is a stranger. An epoll of its own watches strangers
// and listening sockets, and a turn handles only a few of its events. So thousands that connect or
// hang up at once delay others by some tens of microseconds, not by all of their events.
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
  /// `tail` may be null; of one that is taken over nothing is left.
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
  /// Events of strangers and listening sockets that are handled in a turn, and connections that one
  /// of those may bring. A stranger's event is one read of at most 32 KiB and the requests in it.
  static constexpr size_t kStrangersPerTurn = 8;
  static constexpr int kAcceptsPerTurn = 8;
  struct Listener;
  /// A source within the context's.
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
  /// Above the limit of buffered bytes: gives back empty buffers, then closes connections.
  void make_room();
  TcpConnection* find(uint32_t slot, uint32_t generation) const;
  /// The memory that replies of all connections may take besides the bytes buffered now. Input may
  /// take a quarter of the limit more: replies can wait, and a message that has begun cannot.
  uint64_t reply_room() const;
  /// Its requests that were read wait for their turn, behind those of others.
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
  std::vector<std::unique_ptr<TcpConnection>> closed_;  // until nobody is inside them any more
  uint32_t batches_ = 0;                                // in flight
  std::vector<TcpConnection*> gathering_;  // open ones that have replies to send at the end
  std::deque<std::pair<uint32_t, uint32_t>> backlog_;  // slot, generation; some are closed
  bool serving_backlog_ = false;                       // in a later turn, or now
  uint64_t closed_connections_ = 0;
  size_t open_ = 0;
  size_t silent_ = 0;                                     // have not said hello
  std::deque<std::pair<uint32_t, uint32_t>> silent_age_;  // slot, generation; some are closed
  std::map<std::string, uint32_t> per_peer_;              // kept only with a limit
  bool making_room_ = false;
  /// What look_for_freed_memory() takes for much, and for how many of its calls the memory must not
  /// have been needed.
  static constexpr uint64_t kMuchMemory = 16u << 20;
  static constexpr int kQuietCalls = 2;
  uint64_t most_buffered_ = 0;         // since the heap's memory was given back
  uint64_t most_buffered_lately_ = 0;  // since the latest upkeep
  int quiet_calls_ = 0;
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
