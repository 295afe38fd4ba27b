// A connection that a TcpServer accepted: its hello, its requests, and what a stranger may take.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transport/tcp/tcp_context.h"

namespace ramcloud::tcp {

class TcpServer;

/// A connection on its way from one reactor to another.
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
  /// As many of those that were read as the turn's budget allows; the rest in a later turn.
  void take_requests();
  /// Shows the handler the requests that are there, a few; how many they are.
  uint32_t show_ahead();
  void flush();
  /// Begins to be watched, among strangers at first; IO_ERROR if it cannot be.
  Status start_watching();
  /// It has made no request yet: one read of it is taken at a time.
  bool is_stranger() const;
  /// It has made a request: its events are as urgent as those of other clients.
  void become_known();
  /// Before the descriptor is closed, or is another reactor's.
  void stop_watching();
  /// Tells epoll what we wait for now.
  void watch();
  bool send(const wire::MessageHeader& header, std::span<const Slice> body, std::string* tail);
  /// Sends gathered replies, unless the socket is full anyway.
  void flush_gathered();
  /// Counts and logs, then closes.
  void close_for(const char* why, Counter& counter);

  // Limits.
  uint64_t pause_mark() const;  // of held_bytes()
  /// What its replies hold: those in the making, those that wait, and output that is not sent.
  uint64_t held_bytes() const { return stream_.pending_bytes() + charged_; }
  bool has_room(uint64_t bytes) const;
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
  EpollSource* source_ = nullptr;  // that watches it
  uint32_t watched_ = EPOLLIN;
  bool paused_ = false;  // reads no requests: too many are unanswered
  bool resuming_ = false;
  bool backlogged_ = false;  // it is in the server's backlog: whole requests wait in its buffer
  uint32_t outstanding_ = 0;
  uint64_t charged_ = 0;  // by Transport::charge()
  size_t accounted_bytes_ = 0;
  std::optional<Time> message_began_;  // of a message that is not whole
  std::optional<Time> output_began_;   // to wait, of the output that was there then
  uint64_t output_mark_ = 0;           // the stream's position behind that
  bool more_input_ = false;            // behind the request that is being handled
  bool gathering_ = false;             // it is on the server's list
  uint32_t peer_max_body_ = 0;
  uint16_t version_ = 0;             // of the protocol
  uint64_t expected_server_id_ = 0;  // that the client expects; 0: any
  bool placed_ = false;              // it stays on this reactor
  std::shared_ptr<void> counted_;
  std::string peer_;
  std::string address_;  // the peer's, if it is counted
  Time hello_deadline_;
};

}  // namespace ramcloud::tcp
