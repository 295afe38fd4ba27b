// One TCP connection as a stream of messages: buffers and framing, no policy. Both ends use it.
//
// Steady state allocates nothing: the receive buffer is parsed in place, messages go out by one
// sendmsg() from where they lie, and only what the socket does not take is copied.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "runtime/unique_fd.h"
#include "wire/message_header.h"

namespace ramcloud::tcp {

/// Bytes between the socket and us; grows as told, keeps its memory until shrink().
class ByteBuffer {
 public:
  /// Where the buffer starts and what it goes back to when idle.
  static constexpr size_t kSmallBytes = 32u << 10;

  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept
      : data_(std::move(other.data_)),
        capacity_(std::exchange(other.capacity_, 0)),
        begin_(std::exchange(other.begin_, 0)),
        end_(std::exchange(other.end_, 0)) {}

  ByteView unread() const { return {data_.get() + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  size_t capacity() const { return capacity_; }
  void consume(size_t n);
  /// Room for at least `n` more bytes behind the unread ones; gives all the room there is.
  std::span<char> room(size_t n);
  void commit(size_t n) { end_ += n; }
  void append(ByteView bytes);
  /// Gives back a big buffer that is empty; true if it was big and could not be given back yet.
  bool shrink();
  void clear();

 private:
  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
};

class TcpStream {
 public:
  explicit TcpStream(UniqueFd fd, uint64_t max_pending_bytes)
      : fd_(std::move(fd)), max_pending_bytes_(max_pending_bytes) {}
  /// With what was read and not taken yet, and what waits to be sent; the other is closed then.
  TcpStream(TcpStream&&) = default;

  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  void attach(UniqueFd fd) { fd_ = std::move(fd); }

  enum class Read {
    kSome,  // something came; the socket may be empty now
    kFull,  // as much as there was room for: read again
    kNothing,
    kClosed,  // by the peer, or an error
  };
  /// Takes from the socket what fits.
  Read read();

  enum class Parse { kMessage, kIncomplete, kMalformed };
  /// The first whole message that was read. `body` points into the buffer and is valid until the
  /// next read(); consume it with pop(). Room for a message is made only after its header was
  /// checked.
  Parse front(wire::Kind kind, wire::MessageHeader& header, ByteView& body) const;
  void pop(const wire::MessageHeader& header) { in_.consume(sizeof header + header.body_length); }
  /// The same for the hello at the begin.
  Parse front(wire::Hello& hello) const;
  void pop_hello() { in_.consume(sizeof(wire::Hello)); }

  /// Sends header and body, or keeps what does not go at once; `hold` only keeps. False if the
  /// connection is broken, or more would wait than a reader may leave lying (overflowed()).
  bool send(const wire::MessageHeader& header, std::span<const Slice> body, bool hold = false);
  bool send_hello(const wire::Hello& hello);
  /// Sends what waits. False if the connection is broken.
  bool flush();
  bool has_pending() const { return !out_.empty(); }
  bool overflowed() const { return overflowed_; }
  /// Bytes given to send() so far, and of those how many the socket took. Hellos do not count.
  uint64_t queued_bytes() const { return sent_bytes_ + out_.size(); }
  uint64_t sent_bytes() const { return sent_bytes_; }

  /// Gives back big idle buffers; true if there still are big ones.
  bool shrink();
  bool has_big_buffers() const {
    return in_.capacity() > ByteBuffer::kSmallBytes || out_.capacity() > ByteBuffer::kSmallBytes;
  }

 private:
  bool keep(const wire::MessageHeader& header, std::span<const Slice> body, size_t skip);
  UniqueFd fd_;
  uint64_t max_pending_bytes_;
  uint64_t sent_bytes_ = 0;
  bool overflowed_ = false;
  ByteBuffer in_;
  ByteBuffer out_;
};

}  // namespace ramcloud::tcp
