// One TCP connection as a stream of messages: buffers and framing, no policy. Both ends use it.
//
// Steady state allocates nothing. The receive buffer is parsed in place, and one sendmsg() sends
// messages from where they are. Only bytes that the socket does not take, or that wait for more to
// go with them, are copied.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/bytes.h"
#include "base/metrics.h"
#include "runtime/unique_fd.h"
#include "transport/tcp/output_queue.h"
#include "wire/message_header.h"

namespace ramcloud::tcp {

/// A receive buffer; keeps its memory until shrink().
class ByteBuffer {
 public:
  /// The most memory that an idle buffer keeps.
  static constexpr size_t kSmallBytes = 32u << 10;
  /// The first size, so that a peer that sends little costs little memory.
  static constexpr size_t kFirstBytes = 512;

  ByteBuffer() = default;
  ByteBuffer(ByteBuffer&& other) noexcept
      : data_(std::move(other.data_)),
        capacity_(std::exchange(other.capacity_, 0)),
        begin_(std::exchange(other.begin_, 0)),
        end_(std::exchange(other.end_, 0)),
        touched_(std::exchange(other.touched_, 0)) {}

  ByteView unread() const { return {data_.get() + begin_, end_ - begin_}; }
  size_t size() const { return end_ - begin_; }
  bool empty() const { return begin_ == end_; }
  size_t capacity() const { return capacity_; }
  /// The part of the capacity that was ever used: memory that the system has provided.
  size_t touched() const { return touched_; }
  void consume(size_t n);
  /// Makes room for at least `n` more bytes after the unread ones; returns all free room.
  std::span<char> room(size_t n);
  void commit(size_t n) {
    end_ += n;
    touched_ = std::max(touched_, end_);
  }
  /// Frees a big buffer that is empty; true if it is big and not empty yet.
  bool shrink();
  void clear();

 private:
  std::unique_ptr<char[]> data_;
  size_t capacity_ = 0;
  size_t begin_ = 0;
  size_t end_ = 0;
  size_t touched_ = 0;
};

class TcpStream {
 public:
  /// `sends` counts system calls.
  TcpStream(UniqueFd fd, uint64_t max_pending_bytes, Counter& sends)
      : fd_(std::move(fd)), max_pending_bytes_(max_pending_bytes), sends_(&sends) {}
  /// Takes over the socket, input that was not popped, and pending output. The other
  /// stream is closed then.
  TcpStream(TcpStream&&) = default;
  /// Counts system calls in this counter from now on. Needed after a hand-over, because a counter
  /// belongs to one thread.
  void count_sends(Counter& sends) { sends_ = &sends; }

  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  void attach(UniqueFd fd) { fd_ = std::move(fd); }

  enum class Read {
    kSome,  // bytes were read; the socket may be empty now
    kFull,  // the buffer was filled, or `at_most` was reached: read again
    kNothing,
    kClosed,  // by the peer, or an error
  };
  static constexpr size_t kAll = ~size_t{0};
  /// Reads what fits, at most `at_most` bytes.
  Read read(size_t at_most = kAll);

  enum class Parse { kMessage, kIncomplete, kMalformed };
  /// The first whole message that was read. `body` points into the buffer and is valid until the
  /// next read(); consume it with pop(). Memory for a message is reserved only after its header was
  /// checked.
  Parse front(wire::Kind kind, wire::MessageHeader& header, ByteView& body) const;
  /// The same for the message after the first `skip` bytes. kIncomplete also if there is none.
  Parse peek(size_t skip, wire::Kind kind, wire::MessageHeader& header, ByteView& body) const;
  void pop(const wire::MessageHeader& header) { in_.consume(sizeof header + header.body_length); }
  /// The same for the hello at the beginning.
  Parse front(wire::Hello& hello) const;
  void pop_hello() {
    in_.consume(sizeof(wire::Hello));
    hello_taken_ = true;
  }

  enum class Send {
    kNow,     // at once, with all pending output
    kGather,  // later, with further output, unless much is pending already; flush() follows soon
    kHold,    // later: nothing may be sent yet
  };
  /// Sends header and body, and keeps what the socket does not take at once. False if the
  /// connection is broken, or the pending output would exceed its limit (overflowed()).
  bool send(const wire::MessageHeader& header, std::span<const Slice> body, Send when = Send::kNow);
  /// The same with `tail` after the body; header.body_length includes it. A large tail is moved and
  /// sent in pieces; otherwise the caller keeps it.
  bool send(const wire::MessageHeader& header, std::span<const Slice> body, std::string&& tail,
            Send when);
  bool send_hello(const wire::Hello& hello);
  /// Sends pending output, at most kMostFlushed of it: the rest is sent when the socket is writable
  /// (blocked()), so that others get their turn. False if the connection is broken.
  bool flush();
  static constexpr size_t kMostFlushed = 64u << 10;
  bool has_pending() const { return !out_.empty(); }
  /// The socket did not take everything: pending output is sent when it is writable.
  bool blocked() const { return blocked_; }
  /// Bytes that were read and not popped.
  size_t unread_bytes() const { return in_.size(); }
  size_t pending_bytes() const { return out_.size(); }
  /// There is an incomplete message, or one that was not handled yet.
  bool has_unread() const { return !in_.empty(); }
  /// Memory that the buffers hold.
  size_t buffered_bytes() const { return in_.touched() + out_.memory(); }
  /// Gives back buffers that are empty, big or small.
  void drop_empty_buffers();
  bool overflowed() const { return overflowed_; }
  /// Bytes passed to send() so far, and how many of them the socket took. Hellos do not count.
  uint64_t queued_bytes() const { return sent_bytes_ + out_.size(); }
  uint64_t sent_bytes() const { return sent_bytes_; }

  /// Gives back a big idle buffer; true if it is big and not idle.
  bool shrink() { return in_.shrink(); }
  bool has_big_buffers() const { return in_.capacity() > ByteBuffer::kSmallBytes; }

 private:
  bool keep(const wire::MessageHeader& header, std::span<const Slice> body, size_t skip,
            std::string&& tail = {});
  UniqueFd fd_;
  uint64_t max_pending_bytes_;
  Counter* sends_;
  uint64_t sent_bytes_ = 0;
  bool overflowed_ = false;
  bool blocked_ = false;
  bool hello_taken_ = false;                    // from now on messages follow
  size_t read_size_ = ByteBuffer::kFirstBytes;  // doubles while the buffer is filled
  ByteBuffer in_;
  OutputQueue out_;
};

}  // namespace ramcloud::tcp
