// Whether a backup's device works. Its first failure is final. Any reactor.
#pragma once

#include <string>
#include <utility>

#include "base/atomic.h"
#include "base/mutex.h"
#include "base/status.h"

namespace ramcloud {

class DeviceStatus {
 public:
  /// `file` names the device in the log.
  explicit DeviceStatus(std::string file) : file_(std::move(file)) {}
  DeviceStatus(const DeviceStatus&) = delete;
  DeviceStatus& operator=(const DeviceStatus&) = delete;

  /// The device failed. A reactor that sees this refuses writes. Bytes that it takes before that are
  /// lost with the device, like bytes taken before the failure.
  void fail(const Status& why);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// OK, or IO_ERROR with the first failure.
  Status status() const;

 private:
  const std::string file_;
  Atomic<bool> failed_{false};
  mutable Mutex mutex_;
  Status first_failure_ RC_GUARDED_BY(mutex_);
};

}  // namespace ramcloud
