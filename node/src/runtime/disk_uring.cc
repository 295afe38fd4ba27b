#include <liburing.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "runtime/disk_engine.h"
#include "runtime/unique_fd.h"

namespace ramcloud {
namespace {

/// Calls in the kernel at once.
constexpr unsigned kDepth = 64;
/// The pause before a call is submitted again when the kernel has no room.
constexpr Duration kSubmitAgain = 1ms;

Status unavailable(int error, const char* what) {
  return {StatusCode::kUnsupported, std::string(what) + ": " + std::strerror(error)};
}

/// The operations that jobs need came with different kernel versions.
bool has_operations(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return false;
  const bool all = io_uring_opcode_supported(probe, IORING_OP_FSYNC) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_FALLOCATE) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_READV) != 0 &&
                   io_uring_opcode_supported(probe, IORING_OP_WRITEV) != 0;
  io_uring_free_probe(probe);
  return all;
}

class DiskUring final : public DiskEngine, public FdHandler {
 public:
  DiskUring(Reactor& reactor, EpollSource& events)
      : reactor_(reactor), events_(events), retry_(reactor, [this] { submit(); }) {
    free_.reserve(kDepth);
    for (unsigned i = kDepth; i-- > 0;) free_.push_back(i);
  }

  Status start() {
    if (const int made = io_uring_queue_init(kDepth, &ring_, 0); made < 0) {
      return unavailable(-made, "io_uring_queue_init");
    }
    has_ring_ = true;
    if (!has_operations(ring_)) return unavailable(EOPNOTSUPP, "io_uring's operations");
    if (const int entered = try_it(); entered < 0) return unavailable(-entered, "io_uring_enter");
    completed_ = UniqueFd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!completed_.valid()) return unavailable(errno, "eventfd");
    if (const int done = io_uring_register_eventfd(&ring_, completed_.get()); done < 0) {
      return unavailable(-done, "io_uring_register_eventfd");
    }
    RC_RETURN_IF_ERROR(events_.add(completed_.get(), EPOLLIN, this));
    watching_ = true;
    return {};
  }

  ~DiskUring() override {
    if (watching_) events_.remove(completed_.get());
    // The kernel still reads from the jobs' buffers.
    while (free_.size() < kDepth && passes(io_uring_submit_and_wait(&ring_, 1))) reap();
    if (has_ring_) io_uring_queue_exit(&ring_);
  }

  void add(std::shared_ptr<DiskJob> job) override {
    waiting_.push_back(std::move(job));
    begin_calls();
  }
  const char* name() const override { return "io_uring"; }

  void on_ready(uint32_t) override {
    uint64_t count;
    [[maybe_unused]] const auto n = ::read(completed_.get(), &count, sizeof count);
    reap();
    begin_calls();
  }

 private:
  struct Slot {
    std::shared_ptr<DiskJob> job;
    DiskCall call;
  };

  /// Makes a call that does nothing, because a seccomp filter may allow creating rings but not
  /// using them.
  int try_it() {
    io_uring_prep_nop(io_uring_get_sqe(&ring_));
    const int entered = io_uring_submit_and_wait(&ring_, 1);
    io_uring_cqe* done = nullptr;
    if (entered >= 0 && io_uring_peek_cqe(&ring_, &done) == 0) io_uring_cqe_seen(&ring_, done);
    return entered;
  }

  static bool passes(int result) {
    return result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY;
  }

  void reap() {
    io_uring_cqe* done = nullptr;
    while (io_uring_peek_cqe(&ring_, &done) == 0) {
      const auto index = static_cast<unsigned>(io_uring_cqe_get_data64(done));
      const int result = done->res;
      io_uring_cqe_seen(&ring_, done);
      Slot& slot = slots_[index];
      slot.job->ended(slot.call, result);
      slot.job.reset();
      free_.push_back(index);
    }
  }

  bool is_running(const DiskJob& like) const {
    return std::ranges::any_of(running_, [&like](const auto& job) {
      return job->shared() && &job->file() == &like.file();
    });
  }

  /// Starts the jobs that may run now, with the queued jobs that they also complete.
  void begin_jobs() {
    for (size_t i = 0; i < waiting_.size();) {
      const std::shared_ptr<DiskJob> job = waiting_[i];
      if (job->shared() && is_running(*job)) {
        ++i;
        continue;
      }
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      if (job->shared()) {
        std::erase_if(waiting_, [&job](const auto& other) {
          const bool same = other->shared() && &other->file() == &job->file();
          if (same) job->absorb(*other);
          return same;
        });
      }
      running_.push_back(job);
    }
  }

  void begin_calls() {
    bool again = true;
    while (again) {
      again = false;
      begin_jobs();
      for (const auto& job : running_) {
        DiskCall call;
        while (!free_.empty() && job->next(call)) prepare(job, call);
      }
      // A finished job makes room for a waiting one.
      again = std::erase_if(running_,
                            [this](const auto& job) {
                              if (!job->over()) return false;
                              reactor_.defer([job] { job->report(); });
                              return true;
                            }) > 0 &&
              !waiting_.empty();
    }
    submit();
  }

  void prepare(const std::shared_ptr<DiskJob>& job, const DiskCall& call) {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);  // there are as many as slots
    const unsigned index = free_.back();
    free_.pop_back();
    slots_[index] = {job, call};
    switch (call.kind) {
      case DiskCall::Kind::kSync:
        io_uring_prep_fsync(entry, call.fd, IORING_FSYNC_DATASYNC);
        break;
      case DiskCall::Kind::kAllocate:
        io_uring_prep_fallocate(entry, call.fd, call.mode, static_cast<off_t>(call.offset),
                                static_cast<off_t>(call.length));
        break;
      case DiskCall::Kind::kWrite:
        io_uring_prep_writev2(entry, call.fd, call.vectors.data(),
                              static_cast<unsigned>(call.vectors.size()), call.offset, call.mode);
        break;
      case DiskCall::Kind::kRead:
        io_uring_prep_readv(entry, call.fd, call.vectors.data(),
                            static_cast<unsigned>(call.vectors.size()), call.offset);
        break;
    }
    io_uring_sqe_set_data64(entry, index);
  }

  void submit() {
    while (io_uring_sq_ready(&ring_) > 0) {
      const int submitted = io_uring_submit(&ring_);
      if (submitted >= 0 || submitted == -EINTR) continue;
      if (!passes(submitted) && !std::exchange(said_, true)) {
        log_error("disk.io_uring_enter", {{"error", std::strerror(-submitted)}});
      }
      retry_.start_after(kSubmitAgain);
      return;
    }
  }

  Reactor& reactor_;
  EpollSource& events_;
  Timer retry_;
  UniqueFd completed_;  // the ring's eventfd
  io_uring ring_{};
  bool has_ring_ = false;
  bool watching_ = false;
  bool said_ = false;  // logged that the kernel refuses calls
  std::array<Slot, kDepth> slots_;
  std::vector<unsigned> free_;  // slots
  std::deque<std::shared_ptr<DiskJob>> waiting_;
  std::vector<std::shared_ptr<DiskJob>> running_;
};

}  // namespace

Result<std::shared_ptr<DiskEngine>> make_disk_uring(Reactor& reactor, EpollSource& events) {
  auto engine = std::make_shared<DiskUring>(reactor, events);
  if (Status started = engine->start(); !started.ok()) return fail(std::move(started));
  return engine;
}

}  // namespace ramcloud
