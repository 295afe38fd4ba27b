// Metadata in memory, for simulations and tests: survives the coordinator, not the process.
// Latency, failures and ambiguous outcomes come from the reactor's seed.
#pragma once

#include "coordinator/metadata/metadata_store.h"
#include "runtime/reactor.h"

namespace ramcloud {

/// The content of the simulated store; outlives the coordinators that use it.
struct SimMetadataState {
  MetadataStore::Records records;
  uint64_t commits = 0;
  uint64_t refused = 0;  // transactions of stores that do not lead
  // The leader key, its lease, and its owner.
  Leadership leader;
  uint64_t leader_owner = 0;  // 0: no leader
  Time lease_end{};
  uint64_t last_leadership = 0;
  uint64_t last_owner = 0;
};

class SimMetadata final : public MetadataStore {
 public:
  struct Options {
    Duration latency_min = std::chrono::microseconds(100);
    Duration latency_max = std::chrono::milliseconds(5);
    double unknown = 0.0;  // probability that a commit's outcome is unknown (half of these take
                           // effect)
    double load_failure = 0.0;  // probability that load() answers UNAVAILABLE
    Duration lease = 1s;
  };
  /// A point of a transaction at which tests can end a coordinator.
  enum class Point : uint8_t { kBefore, kAfter };
  using Probe = std::function<void(Point, const MetadataTransaction&)>;

  SimMetadata(Reactor& reactor, SimMetadataState& state, Options options);
  SimMetadata(Reactor& reactor, SimMetadataState& state) : SimMetadata(reactor, state, Options()) {}

  Task<Result<Records>> load(std::string prefix) override;
  Task<CommitResult> commit(MetadataTransaction transaction) override;
  Task<Result<Leadership>> campaign(std::string record) override;
  uint64_t leading() const override;
  Task<void> wait_for_change(uint64_t number) override;
  Task<void> resign() override;

  /// While cut off, nothing reaches the store and no answer comes: calls wait until it is healed.
  /// Transactions sent meanwhile arrive then, even if their sender no longer waits.
  void set_cut_off(bool cut);
  /// While full, the store can be read and leases are renewed, but writes fail: like an etcd whose
  /// quota is used up, or SQLite on a full disk. As with those, the outcome of a commit is
  /// "unknown".
  void set_full(bool full) { full_ = full; }
  /// Called before a transaction takes effect, and before its answer is returned.
  void set_probe(Probe probe) { probe_ = std::move(probe); }

 private:
  Duration latency();
  Time in_order(Time when);
  Task<void> reach();
  void expire();
  bool arrive(const MetadataTransaction& transaction);
  Task<void> renew_for_ever(uint64_t number);
  void lose();
  Reactor& reactor_;
  SimMetadataState& state_;
  Options options_;
  Probe probe_;
  uint64_t owner_;
  bool cut_off_ = false;
  bool full_ = false;
  std::vector<MetadataTransaction> stuck_;
  Time latest_{};  // when the previous transaction takes effect
  uint64_t leading_ = 0;
  Time leading_until_{};  // by our own clock, not later than the store's
  Timer lease_timer_;
  TaskScope scope_;  // renewals
};

/// True if the conditions hold in `records`; then the transaction has been applied to them.
bool apply_transaction(const MetadataTransaction& transaction, MetadataStore::Records& records);

}  // namespace ramcloud
