#include "transport/tcp/tcp_stream.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "wire/hello.h"

namespace ramcloud::tcp {

namespace {
/// Messages are gathered up to this size; above it, copying costs more than a system call.
constexpr size_t kMostGathered = 16u << 10;
}  // namespace

// ---- ByteBuffer

void ByteBuffer::consume(size_t n) {
  begin_ += n;
  if (begin_ == end_) begin_ = end_ = 0;
}

std::span<char> ByteBuffer::room(size_t n) {
  if (capacity_ - end_ < n && begin_ > 0) {
    std::memmove(data_.get(), data_.get() + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  if (capacity_ - end_ < n) {
    const size_t wanted = std::max({kFirstBytes, end_ + n, capacity_ * 3 / 2});
    // Not initialised, so that unused pages are never touched.
    std::unique_ptr<char[]> bigger(new char[wanted]);
    if (end_ > 0) std::memcpy(bigger.get(), data_.get(), end_);
    data_ = std::move(bigger);
    capacity_ = wanted;
    touched_ = end_;
  }
  return {data_.get() + end_, capacity_ - end_};
}

bool ByteBuffer::shrink() {
  if (capacity_ <= kSmallBytes) return false;
  if (!empty()) return true;
  clear();
  return false;
}

void ByteBuffer::clear() {
  data_.reset();
  capacity_ = begin_ = end_ = touched_ = 0;
}

// ---- TcpStream

TcpStream::Read TcpStream::read(size_t at_most) {
  size_t wanted = 1;
  if (hello_taken_ && in_.size() >= sizeof(wire::MessageHeader)) {
    // front() checked the header, so its length is within bounds. (Before the hello it may be
    // arbitrary bytes.) The whole message is read into contiguous memory, so that handlers get the
    // body as one view.
    const auto header = load<wire::MessageHeader>(in_.unread().data());
    const size_t total = sizeof header + header.body_length;
    wanted = total > in_.size() ? total - in_.size() : 1;
  }
  auto room = in_.room(std::max(wanted, in_.empty() ? read_size_ : ByteBuffer::kFirstBytes));
  room = room.first(std::min(room.size(), at_most));
  const ssize_t n = ::recv(fd_.get(), room.data(), room.size(), MSG_DONTWAIT);
  if (n > 0) {
    in_.commit(static_cast<size_t>(n));
    if (static_cast<size_t>(n) < room.size()) return Read::kSome;
    read_size_ = std::min(std::max(read_size_, room.size()) * 2, ByteBuffer::kSmallBytes);
    return Read::kFull;
  }
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Read::kNothing;
  return Read::kClosed;
}

TcpStream::Parse TcpStream::front(wire::Kind kind, wire::MessageHeader& header,
                                  ByteView& body) const {
  return peek(0, kind, header, body);
}

TcpStream::Parse TcpStream::peek(size_t skip, wire::Kind kind, wire::MessageHeader& header,
                                 ByteView& body) const {
  const ByteView unread = in_.unread().substr(skip);
  if (unread.size() < sizeof header) return Parse::kIncomplete;
  header = load<wire::MessageHeader>(unread.data());
  if (!wire::is_valid_header(header, kind)) return Parse::kMalformed;
  if (unread.size() - sizeof header < header.body_length) return Parse::kIncomplete;
  body = unread.substr(sizeof header, header.body_length);
  return Parse::kMessage;
}

TcpStream::Parse TcpStream::front(wire::Hello& hello) const {
  const ByteView unread = in_.unread();
  if (unread.size() < sizeof hello) return Parse::kIncomplete;
  hello = load<wire::Hello>(unread.data());
  return wire::is_hello(hello) ? Parse::kMessage : Parse::kMalformed;
}

bool TcpStream::send(const wire::MessageHeader& header, std::span<const Slice> body, Send when) {
  const size_t size = sizeof header + header.body_length;
  const bool little = out_.size() + size <= std::min<uint64_t>(kMostGathered, max_pending_bytes_);
  // Large pending output is sent by flush(), in pieces.
  if (when == Send::kHold || blocked_ || (when == Send::kGather && little)) {
    return keep(header, body, 0);
  }
  constexpr size_t kMaxPieces = 40;
  std::array<iovec, kMaxPieces> pieces;
  const size_t waiting = out_.size();
  size_t count = out_.pieces(std::span(pieces).first(kMaxPieces / 2), waiting);
  pieces[count++] = {const_cast<wire::MessageHeader*>(&header), sizeof header};
  for (size_t i = 0; i < body.size() && count < kMaxPieces; ++i) {
    pieces[count++] = {const_cast<void*>(body[i].data), body[i].size};
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  sends_->add_from_one_thread();
  const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
  const size_t taken = n < 0 ? 0 : static_cast<size_t>(n);
  sent_bytes_ += taken;
  const size_t taken_before = std::min(taken, waiting);
  out_.consume(taken_before);
  if (taken - taken_before == size) return true;
  blocked_ = true;
  return keep(header, body, taken - taken_before);
}

bool TcpStream::send(const wire::MessageHeader& header, std::span<const Slice> body,
                     std::string&& tail, Send when) {
  constexpr size_t kMostSlices = 8;
  const size_t most_copied = blocked_ || when == Send::kHold ? kMostGathered : kMostFlushed;
  if (tail.size() <= most_copied && body.size() < kMostSlices) {
    std::array<Slice, kMostSlices> all;
    std::ranges::copy(body, all.begin());
    all[body.size()] = Slice(ByteView(tail));
    return send(header, {all.data(), body.size() + 1}, when);
  }
  if (!keep(header, body, 0, std::move(tail))) return false;
  return when == Send::kHold || blocked_ || flush();
}

/// Copies header and body without their first `skip` bytes to the pending output, and appends
/// `tail`.
bool TcpStream::keep(const wire::MessageHeader& header, std::span<const Slice> body, size_t skip,
                     std::string&& tail) {
  const size_t rest = sizeof header + header.body_length - skip;
  if (out_.size() + rest > max_pending_bytes_) {
    overflowed_ = true;
    return false;
  }
  const auto append = [&](ByteView bytes) {
    const size_t skipped = std::min(skip, bytes.size());
    skip -= skipped;
    out_.append(bytes.substr(skipped));
  };
  append(bytes_of(header));
  for (const Slice& slice : body) append({static_cast<const char*>(slice.data), slice.size});
  out_.append_owned(std::move(tail));
  return true;
}

bool TcpStream::send_hello(const wire::Hello& hello) {
  // The first bytes of a connection always fit into an empty socket buffer.
  return ::send(fd_.get(), &hello, sizeof hello, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof hello;
}

bool TcpStream::flush() {
  size_t left = kMostFlushed;
  while (!out_.empty() && left > 0) {
    std::array<iovec, 8> pieces;
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = out_.pieces(pieces, left);
    sends_->add_from_one_thread();
    const ssize_t n = ::sendmsg(fd_.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
      blocked_ = true;
      return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    }
    sent_bytes_ += static_cast<size_t>(n);
    out_.consume(static_cast<size_t>(n));
    left -= static_cast<size_t>(n);
  }
  blocked_ = !out_.empty();
  return true;
}

void TcpStream::drop_empty_buffers() {
  if (in_.empty()) in_.clear();
  if (out_.empty()) out_.clear();
}

}  // namespace ramcloud::tcp
