#include "runtime/disk_job.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <iterator>
#include <utility>

namespace ramcloud {
namespace {

constexpr char kZeros[64 << 10] = {};

/// How often the kernel may lack resources for the calls of a job before that is an error.
constexpr uint32_t kMostTimesBusy = 1'000;

bool not_supported(int64_t result) {
  return result == -EOPNOTSUPP || result == -EINVAL || result == -ENOSYS;
}

}  // namespace

Status disk_error(int error, const std::string& what, const std::string& path) {
  const StatusCode code =
      error == ENOSPC || error == EDQUOT ? StatusCode::kNoSpace : StatusCode::kIoError;
  return {code, what + " '" + path + "': " + std::strerror(error)};
}

// ---- any job ------------------------------------------------------------------------------------

DiskJob::DiskJob(std::shared_ptr<OpenFile> file, std::weak_ptr<bool> alive,
                 std::function<void(Status)> done)
    : file_(std::move(file)) {
  waiters_.push_back({std::move(alive), std::move(done)});
}

bool DiskJob::next(DiskCall& call) {
  bool is_one = false;
  if (!again_.empty() && status_.ok()) {
    call = again_.back();
    again_.pop_back();
    is_one = true;
  } else {
    is_one = status_.ok() && next_call(call);
  }
  if (is_one) ++under_way_;
  if (!is_one && under_way_ == 0) over_ = true;
  return is_one;
}

void DiskJob::ended(const DiskCall& call, int64_t result) {
  --under_way_;
  const bool busy = result == -EAGAIN && ++times_busy_ < kMostTimesBusy;
  if (result == -EINTR || busy) {
    again_.push_back(call);
  } else {
    call_ended(call, result);
  }
}

void DiskJob::failed(int error, const char* what) {
  if (status_.ok()) status_ = disk_error(error, what, file_->path);
}

void DiskJob::absorb(DiskJob& other) {
  std::ranges::move(other.waiters_, std::back_inserter(waiters_));
  other.waiters_.clear();
}

void DiskJob::report() {
  for (Waiter& waiter : std::exchange(waiters_, {})) {
    if (!waiter.alive.expired()) waiter.done(status_);
  }
}

// ---- sync ---------------------------------------------------------------------------------------

bool SyncJob::next_call(DiskCall& call) {
  if (std::exchange(begun_, true)) return false;
  call = {.kind = DiskCall::Kind::kSync, .fd = file().fd.get()};
  return true;
}

void SyncJob::call_ended(const DiskCall&, int64_t result) {
  if (result < 0) failed(static_cast<int>(-result), "sync");
}

// ---- allocate -----------------------------------------------------------------------------------

AllocateJob::AllocateJob(std::shared_ptr<OpenFile> file, std::weak_ptr<bool> alive,
                         std::function<void(Status)> done, uint64_t offset, uint64_t length)
    : DiskJob(std::move(file), std::move(alive), std::move(done)),
      offset_(offset),
      length_(length) {}

bool AllocateJob::next_call(DiskCall& call) {
  if (calling_ || way_ == Way::kNone || length_ == 0) return false;
  calling_ = true;
  call = {.kind = DiskCall::Kind::kAllocate,
          .fd = file().fd.get(),
          .offset = offset_,
          .length = length_};
  switch (way_) {
    case Way::kZeroRange:
      call.mode = FALLOC_FL_ZERO_RANGE;
      break;
    // For tmpfs and others: make a hole, which reads as zero, then allocate its space.
    case Way::kPunchHole:
      call.mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
      break;
    case Way::kFillHole:
      call.mode = 0;
      break;
    case Way::kWriteZeros:
      call.kind = DiskCall::Kind::kWrite;
      call.offset = offset_ + written_;
      zeros_ = {const_cast<char*>(kZeros), std::min<uint64_t>(sizeof kZeros, length_ - written_)};
      call.vectors = {&zeros_, 1};
      break;
    case Way::kNone:
      break;
  }
  return true;
}

void AllocateJob::call_ended(const DiskCall&, int64_t result) {
  calling_ = false;
  switch (way_) {
    case Way::kZeroRange:
      if (result >= 0) way_ = Way::kNone;
      if (not_supported(result)) way_ = Way::kPunchHole;
      break;
    case Way::kPunchHole:
      if (result >= 0) way_ = Way::kFillHole;
      if (not_supported(result)) way_ = Way::kWriteZeros;
      break;
    case Way::kFillHole:
      if (result >= 0) way_ = Way::kNone;
      if (not_supported(result)) way_ = Way::kWriteZeros;
      break;
    case Way::kWriteZeros:
      if (result == 0) return failed(EIO, "allocate");
      if (result > 0) written_ += static_cast<uint64_t>(result);
      if (written_ >= length_) way_ = Way::kNone;
      if (result < 0) failed(static_cast<int>(-result), "allocate");
      return;
    case Way::kNone:
      break;
  }
  if (result < 0 && !not_supported(result)) failed(static_cast<int>(-result), "allocate");
}

// ---- write --------------------------------------------------------------------------------------

WriteJob::WriteJob(std::shared_ptr<OpenFile> file, std::weak_ptr<bool> alive,
                   std::function<void(Status)> done, std::span<const DirectWrite> writes,
                   std::shared_ptr<const void> keep)
    : DiskJob(std::move(file), std::move(alive), std::move(done)), keep_(std::move(keep)) {
  vectors_.reserve(writes.size());
  uint64_t end = 0;  // end of the run so far
  for (const DirectWrite& write : writes) {
    if (write.bytes.empty()) continue;
    if (runs_.empty() || write.offset != end || runs_.back().count == IOV_MAX) {
      runs_.push_back({.offset = write.offset, .first = vectors_.size(), .count = 0});
    }
    vectors_.push_back({const_cast<char*>(write.bytes.data()), write.bytes.size()});
    ++runs_.back().count;
    end = write.offset + write.bytes.size();
  }
  unwritten_ = runs_.size();
  for (size_t i = runs_.size(); i-- > 0;) to_begin_.push_back(i);
}

bool WriteJob::next_call(DiskCall& call) {
  if (to_begin_.empty()) {
    if (unwritten_ > 0 || runs_.size() <= 1 || std::exchange(sync_begun_, true)) return false;
    call = {.kind = DiskCall::Kind::kSync, .fd = file().direct.get()};
    return true;
  }
  const size_t index = to_begin_.back();
  to_begin_.pop_back();
  const Run& run = runs_[index];
  call = {.kind = DiskCall::Kind::kWrite,
          .fd = file().direct.get(),
          .mode = runs_.size() == 1 ? RWF_DSYNC : 0,
          .offset = run.offset,
          .vectors = std::span(vectors_).subspan(run.first, run.count),
          .job_index = index};
  return true;
}

void WriteJob::call_ended(const DiskCall& call, int64_t result) {
  if (call.kind == DiskCall::Kind::kSync) {
    if (result < 0) failed(static_cast<int>(-result), "sync");
    return;
  }
  if (result <= 0) return failed(result == 0 ? EIO : static_cast<int>(-result), "write");
  if (advance(runs_[call.job_index], static_cast<uint64_t>(result))) {
    --unwritten_;
  } else {
    to_begin_.push_back(call.job_index);
  }
}

bool WriteJob::advance(Run& run, uint64_t bytes) {
  run.offset += bytes;
  while (run.count > 0) {
    iovec& vector = vectors_[run.first];
    const uint64_t n = std::min<uint64_t>(bytes, vector.iov_len);
    vector.iov_base = static_cast<char*>(vector.iov_base) + n;
    vector.iov_len -= n;
    bytes -= n;
    if (vector.iov_len > 0) return false;
    ++run.first;
    --run.count;
  }
  return true;
}

// ---- read ---------------------------------------------------------------------------------------

ReadJob::ReadJob(std::shared_ptr<OpenFile> file, std::weak_ptr<bool> alive,
                 std::function<void(Status)> done, uint64_t offset, std::span<char> to,
                 std::shared_ptr<void> keep)
    : DiskJob(std::move(file), std::move(alive), std::move(done)),
      keep_(std::move(keep)),
      offset_(offset),
      rest_{to.data(), to.size()} {}

bool ReadJob::next_call(DiskCall& call) {
  if (calling_ || rest_.iov_len == 0) return false;
  calling_ = true;
  call = {.kind = DiskCall::Kind::kRead,
          .fd = file().fd.get(),
          .offset = offset_,
          .vectors = std::span(&rest_, 1)};
  return true;
}

void ReadJob::call_ended(const DiskCall&, int64_t result) {
  calling_ = false;
  // 0: the file ends before that.
  if (result <= 0) return failed(result == 0 ? EIO : static_cast<int>(-result), "read");
  offset_ += static_cast<uint64_t>(result);
  rest_.iov_base = static_cast<char*>(rest_.iov_base) + result;
  rest_.iov_len -= static_cast<size_t>(result);
}

}  // namespace ramcloud
