#include "sim/history.h"

#include <fmt/core.h>

namespace ramcloud::sim {
namespace {
constexpr uint64_t kKeys = 6;  // few, so that clients use the same keys
constexpr uint64_t kMostPauseUs = 40'000;
}  // namespace

std::string History::to_json_lines() const {
  std::string text;
  for (const Operation& o : operations_) {
    const int64_t answered =
        o.answered == kNever ? -1 : static_cast<int64_t>(o.answered.time_since_epoch().count());
    text += fmt::format(R"({{"client":{},"op":"{}","key":"{}","value":"{}","call":{},"return":{}}})"
                        "\n",
                        o.client, o.kind, o.key, o.value, o.called.time_since_epoch().count(),
                        answered);
  }
  return text;
}

Task<void> HistoryWorker::work() {
  for (uint32_t i = 0; i < operations_; ++i) {
    co_await operation();
    co_await client_.reactor().sleep(std::chrono::microseconds(random_.below(kMostPauseUs)));
  }
  done_ = true;
}

Task<void> HistoryWorker::operation() {
  History::Operation o;
  o.client = number_;
  o.key = fmt::format("shared-{}", random_.below(kKeys));
  o.called = client_.reactor().clock().now();
  const uint64_t dice = random_.below(100);
  Status status;
  if (dice < 50) {
    o.kind = "read";
    auto result = co_await client_.read(table_id_, o.key);
    if (result) o.value = result->value;
    if (!result && !(result.error() == StatusCode::kNotFound)) status = result.error();
  } else if (dice < 90) {
    o.kind = "write";
    o.value = fmt::format("{}-{}", number_, ++serial_);  // each value is unique
    auto result = co_await client_.write(table_id_, o.key, o.value);
    if (!result) status = result.error();
  } else {
    o.kind = "delete";
    auto result = co_await client_.remove(table_id_, o.key);
    if (!result) status = result.error();
  }
  o.answered = client_.reactor().clock().now();
  note(std::move(o), status, dice >= 50);
}

/// Operations that were not executed are left out; those with unknown outcome have no end.
void HistoryWorker::note(History::Operation o, const Status& status, bool changes) {
  const bool nothing_done = status == StatusCode::kUnavailable ||
                            status == StatusCode::kDeadlineExceeded ||
                            status == StatusCode::kRetry || status == StatusCode::kOutOfMemory;
  if (status == StatusCode::kIndeterminate && changes) {
    o.answered = kNever;
  } else if (!status.ok()) {
    if (!nothing_done) {
      wrong_ += fmt::format("{} of {}: unexpected answer {}\n", o.kind, o.key, status.to_string());
    }
    return;
  }
  history_.add(std::move(o));
}

}  // namespace ramcloud::sim
