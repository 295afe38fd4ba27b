// The answer to a change when the log has no memory: RETRY while cleaning can free some, or purged
// objects will be cleaned; otherwise OUT_OF_MEMORY. Both are counted.
#pragma once

#include <cstdint>

#include "base/metrics.h"
#include "base/status.h"
#include "store/object_store.h"

namespace ramcloud::master {

class MemoryFull {
 public:
  explicit MemoryFull(MetricsRegistry& metrics)
      : retries_(counter(metrics, "retry")), refusals_(counter(metrics, "out_of_memory")) {}

  /// Codes other than OUT_OF_MEMORY are returned without change.
  StatusCode answer(StatusCode code, store::ObjectStore& store) {
    if (code != StatusCode::kOutOfMemory) return code;
    const bool helps = store.log().cleaning_helps() || store.memory_will_come();
    (helps ? retries_ : refusals_).add_from_one_thread();
    return helps ? StatusCode::kRetry : code;
  }
  /// The time after which a client should retry, in us. A cleaning pass takes milliseconds, with
  /// the replicas of its survivors and the grace period.
  static constexpr uint32_t kRetryAfterUs = 5'000;

 private:
  static Counter& counter(MetricsRegistry& metrics, const char* answer) {
    return metrics.counter("ramcloud_memory_full_total",
                           "Changes that found no memory in the log, by what they were answered.",
                           {{"answer", answer}});
  }
  Counter& retries_;
  Counter& refusals_;
};

}  // namespace ramcloud::master
