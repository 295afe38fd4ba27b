#include "backup/device_status.h"

#include "base/logging.h"

namespace ramcloud {

void DeviceStatus::fail(const Status& why) {
  {
    const MutexGuard guard(mutex_);
    if (!first_failure_.ok()) return;
    first_failure_ = {StatusCode::kIoError, why.message()};
  }
  failed_.store(true, std::memory_order_release);
  log_error("backup.device_failed", {{"file", file_}, {"error", why}});
}

Status DeviceStatus::status() const {
  if (!failed()) return {};
  const MutexGuard guard(mutex_);
  return first_failure_;
}

}  // namespace ramcloud
