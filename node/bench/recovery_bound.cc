// What a recovery cannot do without, and nothing else: processes that read what a dead server's
// backups have, check it, divide it by key hash, send it over loopback, copy each entry into
// memory, hash its key, take a slot for it, send R copies to others, and write those to files. The
// bytes and processes are those of a recovery (docs/design/recovery.md); there is no coordinator,
// no log format, no normal service and no retry. hack/bench_recovery.py runs it beside a recovery.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/hash.h"
#include "bench/options.h"

namespace ramcloud {
namespace {

constexpr size_t kPage = size_t{1} << 20;    // read, and sent, at a time
constexpr size_t kUnsent = size_t{4} << 20;  // to one process, before more is read
constexpr uint64_t kTable = 1;
constexpr size_t kKeyBytes = 30;

struct Options {
  int64_t mib = 512;
  int64_t value_bytes = 1024;
  int64_t replicas = 3;
  int64_t processes = 4;  // that are left
  std::string folder = "/tmp";
  bool cold = false;
  bool no_sync = false;
};

struct Entry {
  uint32_t crc;  // of the following bytes
  uint32_t value_bytes;
  uint64_t version;
};

enum Kind : uint32_t { kEntries = 1, kEntriesEnd = 2, kLogBytes = 3, kLogEnd = 4 };
struct Head {
  uint32_t kind;
  uint32_t bytes;
};

[[noreturn]] void stop(const char* what) {
  fmt::print(stderr, "recovery_bound: {}: {}\n", what, std::strerror(errno));
  _exit(1);
}

size_t entry_bytes(const Options& options) {
  return sizeof(Entry) + kKeyBytes + static_cast<size_t>(options.value_bytes);
}
/// Of each process; a remainder of the division is left out.
uint64_t entries_of_each(const Options& options) {
  return (static_cast<uint64_t>(options.mib) << 20) / entry_bytes(options) /
         static_cast<uint64_t>(options.processes);
}
std::string file_of(const Options& options, int64_t process, const char* what) {
  return fmt::format("{}/recovery-bound-{}-{}-{}", options.folder, getppid(), what, process);
}

/// What one process sends another. Bytes of the log are sent from where they are.
struct Peer {
  struct Piece {
    std::shared_ptr<std::string> owned;
    const char* data;
    size_t bytes;
  };
  int fd = -1;
  std::deque<Piece> out;
  size_t unsent = 0;
  std::string in;
  size_t parsed = 0;
  int file = -1;  // of the copies it sends
  off_t written = 0;
  bool entries_ended = false, log_ended = false;
};

/// One of the processes.
class Node {
 public:
  Node(const Options& options, size_t me, std::vector<int> fds)
      : options_(options), me_(me), peers_(fds.size()), divided_(fds.size()) {
    for (size_t i = 0; i < fds.size(); ++i) {
      peers_[i].fd = fds[i];
      if (i == me) continue;
      const std::string name =
          file_of(options, static_cast<int64_t>(i), fmt::format("copy-{}-of", me).c_str());
      peers_[i].file = open(name.c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
      if (peers_[i].file < 0 || unlink(name.c_str()) != 0) stop("file of copies");
    }
    source_ = open(file_of(options, static_cast<int64_t>(me), "source").c_str(), O_RDONLY);
    if (source_ < 0) stop("source");
    left_ = entries_of_each(options);
    // Hashes divide entries evenly, give or take some.
    const uint64_t most = left_ + left_ / 8 + 4096;
    log_bytes_ = most * entry_bytes(options);
    log_ = static_cast<char*>(mmap(nullptr, log_bytes_, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0));
    if (log_ == MAP_FAILED) stop("memory of the log");
    size_t slots = 1;
    while (slots < most * 2) slots *= 2;
    slots_.resize(slots);
  }

  void run() {
    while (!done()) {
      const bool reads = left_ > 0 && room();
      if (reads) read_page();
      exchange(reads ? 0 : 100);
    }
    if (options_.no_sync) return;
    for (const Peer& peer : peers_) {
      if (peer.file >= 0 && peer.written > 0 && fdatasync(peer.file) != 0) stop("sync");
    }
  }
  uint64_t taken() const { return taken_; }

 private:
  bool room() const {
    for (const Peer& peer : peers_) {
      if (peer.unsent > kUnsent) return false;
    }
    return true;
  }
  bool done() const {
    for (size_t i = 0; i < peers_.size(); ++i) {
      const Peer& peer = peers_[i];
      if (i != me_ && (!peer.out.empty() || !peer.entries_ended || !peer.log_ended)) return false;
    }
    return left_ == 0 && log_ended_;
  }

  void read_page() {
    const size_t each = entry_bytes(options_);
    const size_t count = std::min<uint64_t>(left_, kPage / each);
    page_.resize(count * each);
    if (pread(source_, page_.data(), page_.size(), read_) != static_cast<ssize_t>(page_.size())) {
      stop("read");
    }
    read_ += static_cast<off_t>(page_.size());
    left_ -= count;
    for (size_t i = 0; i < count; ++i) divide(ByteView(page_).substr(i * each, each));
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (divided_[i].empty()) continue;
      if (i == me_) {
        replay(divided_[i]);
      } else {
        send(peers_[i], kEntries, std::make_shared<std::string>(std::move(divided_[i])));
      }
      divided_[i].clear();
    }
    if (left_ > 0) return;
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (i != me_) send(peers_[i], kEntriesEnd, std::make_shared<std::string>());
    }
    end_of_entries();
  }
  void divide(ByteView entry) {
    check(entry);
    const uint64_t hash = key_hash(kTable, entry.substr(sizeof(Entry), kKeyBytes));
    const auto to =
        static_cast<size_t>((static_cast<unsigned __int128>(hash) * peers_.size()) >> 64);
    divided_[to].append(entry);
  }
  static void check(ByteView entry) {
    uint32_t crc = 0;
    std::memcpy(&crc, entry.data(), sizeof crc);
    if (crc32c(entry.substr(sizeof crc)) != crc) stop("an entry does not hold");
  }

  void replay(ByteView page) {
    const size_t each = entry_bytes(options_);
    for (size_t at = 0; at + each <= page.size(); at += each) {
      const ByteView entry = page.substr(at, each);
      check(entry);
      if (used_ + each > log_bytes_) stop("the hashes do not divide the entries");
      std::memcpy(log_ + used_, entry.data(), each);
      take_slot(key_hash(kTable, entry.substr(sizeof(Entry), kKeyBytes)), used_);
      used_ += each;
      ++taken_;
    }
    if (used_ - copied_ >= kPage) copy_out();
  }
  void take_slot(uint64_t hash, uint64_t where) {
    const uint64_t slot = (hash & 0xffff000000000000) | (where + 1);
    for (size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i] != 0) continue;
      slots_[i] = slot;
      return;
    }
  }
  void copy_out() {
    const size_t bytes = used_ - copied_;
    for (size_t i = 1; bytes > 0 && i <= static_cast<size_t>(options_.replicas); ++i) {
      Peer& peer = peers_[(me_ + i) % peers_.size()];
      send_head(peer, kLogBytes, bytes);
      peer.out.push_back({nullptr, log_ + copied_, bytes});
      peer.unsent += bytes;
    }
    copied_ = used_;
  }
  /// When all have sent all: the rest of the log goes out.
  void end_of_entries() {
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (i != me_ && !peers_[i].entries_ended) return;
    }
    if (left_ > 0 || log_ended_) return;
    copy_out();
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (i != me_) send(peers_[i], kLogEnd, std::make_shared<std::string>());
    }
    log_ended_ = true;
  }

  static void send_head(Peer& peer, Kind kind, size_t bytes) {
    const Head head{kind, static_cast<uint32_t>(bytes)};
    auto owned = std::make_shared<std::string>(reinterpret_cast<const char*>(&head), sizeof head);
    peer.out.push_back({owned, owned->data(), owned->size()});
    peer.unsent += sizeof head;
  }
  static void send(Peer& peer, Kind kind, const std::shared_ptr<std::string>& bytes) {
    send_head(peer, kind, bytes->size());
    if (bytes->empty()) return;
    peer.out.push_back({bytes, bytes->data(), bytes->size()});
    peer.unsent += bytes->size();
  }

  void exchange(int wait_ms) {
    std::vector<pollfd> polled;
    std::vector<size_t> whose;
    for (size_t i = 0; i < peers_.size(); ++i) {
      if (i == me_) continue;
      const auto wanted = static_cast<int16_t>(POLLIN | (peers_[i].out.empty() ? 0 : POLLOUT));
      polled.push_back({peers_[i].fd, wanted, 0});
      whose.push_back(i);
    }
    if (poll(polled.data(), polled.size(), wait_ms) < 0 && errno != EINTR) stop("poll");
    for (size_t i = 0; i < polled.size(); ++i) {
      Peer& peer = peers_[whose[i]];
      if ((polled[i].revents & POLLOUT) != 0) write_some(peer);
      if ((polled[i].revents & (POLLIN | POLLHUP)) != 0) read_some(peer);
    }
  }
  static void write_some(Peer& peer) {
    while (!peer.out.empty()) {
      Peer::Piece& piece = peer.out.front();
      const ssize_t sent = ::send(peer.fd, piece.data, piece.bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent < 0 && errno == EAGAIN) return;
      if (sent < 0) stop("send");
      piece.data += sent;
      piece.bytes -= static_cast<size_t>(sent);
      peer.unsent -= static_cast<size_t>(sent);
      if (piece.bytes == 0) peer.out.pop_front();
    }
  }
  void read_some(Peer& peer) {
    const size_t had = peer.in.size();
    peer.in.resize(had + kPage);
    const ssize_t got = recv(peer.fd, peer.in.data() + had, kPage, MSG_DONTWAIT);
    if (got < 0 && errno != EAGAIN) stop("receive");
    peer.in.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    while (peer.in.size() - peer.parsed >= sizeof(Head)) {
      Head head;
      std::memcpy(&head, peer.in.data() + peer.parsed, sizeof head);
      if (peer.in.size() - peer.parsed - sizeof head < head.bytes) break;
      take(peer, head.kind, ByteView(peer.in).substr(peer.parsed + sizeof head, head.bytes));
      peer.parsed += sizeof head + head.bytes;
    }
    peer.in.erase(0, peer.parsed);
    peer.parsed = 0;
  }
  void take(Peer& peer, uint32_t kind, ByteView bytes) {
    switch (kind) {
      case kEntries:
        return replay(bytes);
      case kEntriesEnd:
        peer.entries_ended = true;
        return end_of_entries();
      case kLogBytes:
        if (pwrite(peer.file, bytes.data(), bytes.size(), peer.written) !=
            static_cast<ssize_t>(bytes.size())) {
          stop("write");
        }
        peer.written += static_cast<off_t>(bytes.size());
        return;
      case kLogEnd:
        peer.log_ended = true;
        return;
      default:
        stop("a message of no kind");
    }
  }

  const Options& options_;
  size_t me_;
  std::vector<Peer> peers_;
  std::vector<std::string> divided_;  // a page's entries, by the master that takes them
  std::string page_;
  int source_ = -1;
  off_t read_ = 0;
  uint64_t left_ = 0;  // entries to read
  char* log_ = nullptr;
  size_t log_bytes_ = 0, used_ = 0, copied_ = 0;
  bool log_ended_ = false;
  uint64_t taken_ = 0;
  std::vector<uint64_t> slots_;
};

void write_source(const Options& options, int64_t process, const std::string& name) {
  const int fd = open(name.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  if (fd < 0) stop("source");
  const std::string value(static_cast<size_t>(options.value_bytes), 'v');
  std::string out;
  const uint64_t count = entries_of_each(options);
  for (uint64_t i = 0; i < count; ++i) {
    Entry entry{.crc = 0, .value_bytes = static_cast<uint32_t>(value.size()), .version = i + 1};
    std::string bytes(reinterpret_cast<const char*>(&entry), sizeof entry);
    bytes += fmt::format("{:030}", static_cast<uint64_t>(process) * count + i) + value;
    const uint32_t crc = crc32c(ByteView(bytes).substr(sizeof crc));
    std::memcpy(bytes.data(), &crc, sizeof crc);
    out += bytes;
    if (out.size() < kPage && i + 1 < count) continue;
    if (::write(fd, out.data(), out.size()) != static_cast<ssize_t>(out.size())) stop("source");
    out.clear();
  }
  if (fsync(fd) != 0) stop("source");
  if (options.cold) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  close(fd);
}

/// Two ends of a connection over loopback.
std::array<int, 2> connection() {
  const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  if (listening < 0 || bind(listening, address, size) != 0 || listen(listening, 1) != 0 ||
      getsockname(listening, address, &size) != 0) {
    stop("listen");
  }
  const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (one < 0 || connect(one, address, size) != 0) stop("connect");
  const int other = accept(listening, nullptr, nullptr);
  if (other < 0) stop("accept");
  close(listening);
  const int on = 1;
  for (const int fd : {one, other}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return {one, other};
}

int run(const Options& options) {
  const auto count = static_cast<size_t>(options.processes);
  std::vector<std::vector<int>> fds(count, std::vector<int>(count, -1));
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j) {
      const auto [one, other] = connection();
      fds[i][j] = one;
      fds[j][i] = other;
    }
  }
  std::array<int, 2> go{}, ready{};
  if (pipe(go.data()) != 0 || pipe(ready.data()) != 0) stop("pipe");
  std::vector<pid_t> children;
  for (size_t i = 0; i < count; ++i) {
    const std::string source =
        fmt::format("{}/recovery-bound-{}-source-{}", options.folder, getpid(), i);
    write_source(options, static_cast<int64_t>(i), source);
    const pid_t child = fork();
    if (child < 0) stop("fork");
    if (child == 0) {
      Node node(options, i, fds[i]);
      (void)unlink(source.c_str());
      char byte = 0;
      if (write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1) stop("pipe");
      node.run();
      const uint64_t taken = node.taken();
      if (write(ready[1], &taken, sizeof taken) != sizeof taken) stop("pipe");
      _exit(0);
    }
    children.push_back(child);
  }
  std::vector<char> bytes(count);
  for (size_t i = 0; i < count; ++i) {
    if (read(ready[0], bytes.data(), 1) != 1) stop("pipe");
  }
  const SystemClock clock;
  const Time began = clock.now();
  if (write(go[1], bytes.data(), count) != static_cast<ssize_t>(count)) stop("pipe");
  bool whole = true;
  for (const pid_t child : children) {
    int status = 0;
    whole = waitpid(child, &status, 0) == child && status == 0 && whole;
  }
  const double seconds = std::chrono::duration<double>(clock.now() - began).count();
  uint64_t taken = 0, part = 0;
  for (size_t i = 0; whole && i < count; ++i) {
    if (read(ready[0], &part, sizeof part) == sizeof part) taken += part;
  }
  if (!whole || taken != entries_of_each(options) * count) {
    fmt::print(stderr, "recovery_bound: {} of {} entries came\n", taken,
               entries_of_each(options) * count);
    return 1;
  }
  fmt::print("{{\"seconds\":{:.4f},\"entries\":{},\"bytes\":{}}}\n", seconds, taken,
             taken * entry_bytes(options));
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("The least that a recovery has to do, by as many processes, with the same bytes.");
  bench::add_number(app, "--mib", options.mib, 1, 65536, "that the dead server had");
  bench::add_number(app, "--bytes", options.value_bytes, 0, 1 << 20, "of a value");
  bench::add_number(app, "--replicas", options.replicas, 0, 15, "of what is recovered");
  bench::add_number(app, "--processes", options.processes, 2, 64, "that are left");
  app.add_option("--folder", options.folder, "for files")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_flag("--cold", options.cold, "what is read is not in the page cache");
  app.add_flag("--no-sync", options.no_sync, "do not wait for the devices in the end");
  CLI11_PARSE(app, argc, argv);
  if (options.replicas >= options.processes) {
    fmt::print(stderr, "error: --replicas is {}; it must be less than --processes, which is {}\n",
               options.replicas, options.processes);
    return 2;
  }
  return run(options);
}
