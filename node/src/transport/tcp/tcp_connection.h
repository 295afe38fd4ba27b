// A connection that a TcpServer accepted: its hello, its requests, and its limits.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transport/tcp/tcp_context.h"

namespace ramcloud::tcp {

class TcpServer;

/// A connection that is being moved from one reactor to another.
struct HandedOver {
  TcpStream stream;
  Side side;
  std::string peer;
  uint32_t peer_max_body;
  uint16_t version;
  uint64_t expected_server_id;
  std::shared_ptr<void> counted;  // while it lives, the listening server counts it
};

class TcpConnection final : public FdHandler {
 public:
  TcpConnection(TcpServer& server, UniqueFd fd, uint32_t slot, uint32_t generation, Side side,
                RequestHandler& handler, std::string peer, Time hello_deadline);
  /// Takes over a connection after another reactor handled its hello.
  TcpConnection(TcpServer& server, HandedOver from, uint32_t slot, uint32_t generation,
                RequestHandler& handler);
  void on_ready(uint32_t events) override;
  bool only_heartbeats() const override {
    return arrivals_.only_heartbeats() && !stream_.has_unread();
  }

 private:
  friend class TcpServer;
  enum class State : uint8_t { kHello, kOpen, kClosed };
  bool take_hello();
  bool take_request();
  void receive();
  /// Handles buffered requests as far as the turn's budget allows; the rest in a later turn.
  void take_requests();
  /// Shows the handler a few buffered requests in advance; returns how many.
  uint32_t show_ahead();
  void flush();
  /// Adds the connection to epoll, at first as a stranger; IO_ERROR if that fails.
  Status start_watching();
  /// True until its first request: strangers get one read at a time.
  bool is_stranger() const;
  /// Called after its first request: its events are now handled like those of other clients.
  void become_known();
  /// Call it before the descriptor is closed or handed over.
  void stop_watching();
  /// Updates the events that epoll waits for.
  void watch();
  bool send(const wire::MessageHeader& header, std::span<const Slice> body, std::string* tail);
  /// Sends gathered replies, unless the socket is full anyway.
  void flush_gathered();
  /// Counts and logs, then closes.
  void close_for(const char* why, Counter& counter);

  // Limits.
  uint64_t pause_mark() const;  // limit of held_bytes()
  /// Memory of its replies: results in progress, held replies, and unsent output.
  uint64_t held_bytes() const { return stream_.pending_bytes() + charged_; }
  bool has_room(uint64_t bytes) const;
  bool may_take_requests() const;
  void pause();
  /// Resumes reading in a later turn when enough requests were answered.
  void resume_if_due();
  void resume();
  /// Starts or ends the message timeouts, and reports the buffers' memory to the server.
  void account();
  bool is_late(Time now, Duration limit) const;

  TcpServer& server_;
  RequestHandler& handler_;
  TcpStream stream_;
  Arrivals arrivals_;
  const uint32_t slot_;
  const uint32_t generation_;
  const Side side_;
  State state_ = State::kHello;
  EpollSource* source_ = nullptr;  // the epoll source that watches it
  uint32_t watched_ = EPOLLIN;
  bool paused_ = false;  // requests are not read: too many are unanswered
  bool resuming_ = false;
  bool backlogged_ = false;  // it is in the server's backlog: whole requests wait in its buffer
  uint32_t outstanding_ = 0;
  uint64_t charged_ = 0;  // by Transport::charge()
  size_t accounted_bytes_ = 0;
  std::optional<Time> message_began_;  // start of an incomplete message
  std::optional<Time> output_began_;   // when the present output began to wait
  uint64_t output_mark_ = 0;           // the stream's position after that output
  bool more_input_ = false;            // more input after the present request
  bool gathering_ = false;             // it is on the server's list
  uint32_t peer_max_body_ = 0;
  uint16_t version_ = 0;             // protocol version
  uint64_t expected_server_id_ = 0;  // the server id that the client expects; 0: any
  bool placed_ = false;              // it stays on this reactor
  std::shared_ptr<void> counted_;
  std::string peer_;
  std::string address_;  // the peer's, if it is counted
  Time hello_deadline_;
};

}  // namespace ramcloud::tcp
