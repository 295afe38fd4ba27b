#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "runtime/disk_engine.h"
#include "runtime/thread.h"

namespace ramcloud {
namespace {

int64_t do_call(const DiskCall& call) {
  int64_t result = -1;
  switch (call.kind) {
    case DiskCall::Kind::kSync:
      result = ::fdatasync(call.fd);
      break;
    case DiskCall::Kind::kAllocate:
      result = ::fallocate(call.fd, call.mode, static_cast<off_t>(call.offset),
                           static_cast<off_t>(call.length));
      break;
    case DiskCall::Kind::kWrite:
      result = ::pwritev2(call.fd, call.vectors.data(), static_cast<int>(call.vectors.size()),
                          static_cast<off_t>(call.offset), call.mode);
      break;
    case DiskCall::Kind::kRead:
      result = ::preadv(call.fd, call.vectors.data(), static_cast<int>(call.vectors.size()),
                        static_cast<off_t>(call.offset));
      break;
  }
  return result < 0 ? -errno : result;
}

class DiskThreads final : public DiskEngine {
 public:
  explicit DiskThreads(Reactor& reactor)
      : reactor_(reactor), thread_("disk", [this] { serve(); }) {}
  ~DiskThreads() override {
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }

  void add(std::shared_ptr<DiskJob> job) override {
    const std::lock_guard guard(mutex_);
    jobs_.push_back(std::move(job));
    changed_.notify_one();
  }
  const char* name() const override { return "threads"; }

 private:
  /// The first job, with the queued jobs that it also completes. The mutex is held.
  std::shared_ptr<DiskJob> take() {
    const std::shared_ptr<DiskJob> job = std::move(jobs_.front());
    jobs_.pop_front();
    if (job->shared()) {
      std::erase_if(jobs_, [&job](const auto& other) {
        const bool same = other->shared() && &other->file() == &job->file();
        if (same) job->absorb(*other);
        return same;
      });
    }
    return job;
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      std::shared_ptr<DiskJob> job = take();
      lock.unlock();
      DiskCall call;
      while (job->next(call)) job->ended(call, do_call(call));
      reactor_.post([job = std::move(job)] { job->report(); });
      lock.lock();
    }
  }

  Reactor& reactor_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<DiskJob>> jobs_;  // guarded by mutex_
  bool stopping_ = false;                      // guarded by mutex_
  Thread thread_;                              // last member: starts when the others are
                                               // constructed
};

}  // namespace

std::shared_ptr<DiskEngine> make_disk_threads(Reactor& reactor) {
  return std::make_shared<DiskThreads>(reactor);
}

}  // namespace ramcloud
