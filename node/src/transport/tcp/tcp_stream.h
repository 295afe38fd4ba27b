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

/// Bytes between the socket and us; grows as told, keeps its memory until shrink().
class ByteBuffer {
 public:
  /// What an idle buffer may keep.
  static constexpr size_t kSmallBytes = 32u << 10;
  /// The first size: a peer that sends little costs little.
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
  /// Of the capacity, what bytes have been in: memory that is really there.
  size_t touched() const { return touched_; }
  void consume(size_t n);
  /// Room for at least `n` more bytes behind the unread ones; gives all the room there is.
  std::span<char> room(size_t n);
  void commit(size_t n) {
    end_ += n;
    touched_ = std::max(touched_, end_);
  }
  /// Gives back a big buffer that is empty; true if it was big and could not be given back yet.
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
  /// Counts system calls in this counter from now on. A counter belongs to one thread, and the
  /// connection has come to another one.
  void count_sends(Counter& sends) { sends_ = &sends; }

  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }
  void attach(UniqueFd fd) { fd_ = std::move(fd); }

  enum class Read {
    kSome,  // something came; the socket may be empty now
    kFull,  // as much as there was room for, or as was asked for: read again
    kNothing,
    kClosed,  // by the peer, or an error
  };
  static constexpr size_t kAll = ~size_t{0};
  /// Takes from the socket what fits, or so many bytes of it.
  Read read(size_t at_most = kAll);

  enum class Parse { kMessage, kIncomplete, kMalformed };
  /// The first whole message that was read. `body` points into the buffer and is valid until the
  /// next read(); consume it with pop(). Room for a message is made only after its header was
  /// checked.
  Parse front(wire::Kind kind, wire::MessageHeader& header, ByteView& body) const;
  /// The same of a message behind those in the first `skip` bytes. kIncomplete: nor is it there.
  Parse peek(size_t skip, wire::Kind kind, wire::MessageHeader& header, ByteView& body) const;
  void pop(const wire::MessageHeader& header) { in_.consume(sizeof header + header.body_length); }
  /// The same for the hello at the begin.
  Parse front(wire::Hello& hello) const;
  void pop_hello() {
    in_.consume(sizeof(wire::Hello));
    hello_taken_ = true;
  }

  enum class Send {
    kNow,     // with all that waits
    kGather,  // later, with what else comes, unless it is much by now: flush() follows soon
    kHold,    // later: nothing may be sent yet
  };
  /// Sends header and body, and keeps the rest that does not go at once. False if the connection is
  /// broken, or more would wait than a reader may leave lying (overflowed()).
  bool send(const wire::MessageHeader& header, std::span<const Slice> body, Send when = Send::kNow);
  /// The same with `tail` behind the body, of which header.body_length tells. A large one is taken
  /// over and sent in pieces; else it stays the caller's.
  bool send(const wire::MessageHeader& header, std::span<const Slice> body, std::string&& tail,
            Send when);
  bool send_hello(const wire::Hello& hello);
  /// Sends pending output, at most kMostFlushed of it: the rest goes when the socket is writable
  /// (blocked()), so that others get their turn. False if the connection is broken.
  bool flush();
  static constexpr size_t kMostFlushed = 64u << 10;
  bool has_pending() const { return !out_.empty(); }
  /// The socket took less than it was given: pending output goes when it is writable.
  bool blocked() const { return blocked_; }
  /// Bytes that were read and not popped.
  size_t unread_bytes() const { return in_.size(); }
  size_t pending_bytes() const { return out_.size(); }
  /// A message has begun and is not whole (or nobody has looked at it yet).
  bool has_unread() const { return !in_.empty(); }
  /// Memory that the buffers hold.
  size_t buffered_bytes() const { return in_.touched() + out_.memory(); }
  /// Gives back buffers that are empty, big or small.
  void drop_empty_buffers();
  bool overflowed() const { return overflowed_; }
  /// Bytes given to send() so far, and of those how many the socket took. Hellos do not count.
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
  bool hello_taken_ = false;                    // from now on messages come
  size_t read_size_ = ByteBuffer::kFirstBytes;  // doubles while more comes than there is room for
  ByteBuffer in_;
  OutputQueue out_;
};

}  // namespace ramcloud::tcp
