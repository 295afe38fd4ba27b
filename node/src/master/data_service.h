// The client-facing service of a master: read, write, delete, increment, enumerate [Ousterhout15
// §3.1]. Each request runs to completion here; its reply leaves when its dependency is durable.
#pragma once

#include <span>
#include <vector>

#include "base/metrics.h"
#include "master/held_replies.h"
#include "master/memory_full.h"
#include "master/parked_requests.h"
#include "rpc/rpc.h"
#include "store/object_store.h"

namespace ramcloud::master {

class DataService {
 public:
  /// Registers the handlers. Until attach() every request is answered RETRY.
  DataService(ServiceRegistry& registry, HeldReplies& replies, MetricsRegistry& metrics);

  /// Serves this store from now on. `parked`: holds changes that wait for the next head; null: such
  /// changes are answered RETRY.
  void attach(store::ObjectStore& store, ParkedRequests* parked = nullptr) {
    store_ = &store;
    parked_ = parked;
  }

  uint64_t reads() const { return reads_.value(); }
  uint64_t writes() const { return writes_.value(); }
  uint64_t deletes() const { return deletes_.value(); }

 private:
  /// How long a client waits before it sends again: a head switch takes one round trip to the
  /// backups.
  static constexpr uint32_t kRetryAfterUs = 500;
  /// Fetches the memory that these operations will touch, all at once: buckets of the hash table
  /// first, then entries.
  void fetch_ahead(std::span<const Ahead> requests) const;
  void read(const Request& request);
  void write(const Request& request);
  void remove(const Request& request);
  void increment(const Request& request);
  void enumerate(const Request& request);
  void refuse(const Request& request, StatusCode code, log::LogPosition depends_on,
              uint32_t retry_after_us = kRetryAfterUs);
  void refuse_change(const Request& request, StatusCode code, log::LogPosition depends_on);
  void refuse_value(const Request& request, uint32_t value_length, log::LogPosition depends_on);

  Transport& transport_;
  HeldReplies& replies_;
  store::ObjectStore* store_ = nullptr;
  ParkedRequests* parked_ = nullptr;
  Reply reply_;                                // reused, so that nothing is allocated
  std::vector<log::ObjectView> page_objects_;  // objects of the page being built
  Counter& reads_;
  Counter& writes_;
  Counter& deletes_;
  Counter& increments_;
  Counter& enumerations_;
  Counter& errors_;
  MemoryFull memory_full_;
};

}  // namespace ramcloud::master
