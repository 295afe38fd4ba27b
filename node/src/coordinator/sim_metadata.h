// Metadata in memory, for simulations and tests: survives the coordinator, not the process.
// Latency, failures and ambiguous outcomes come from the reactor's seed.
#pragma once

#include "coordinator/metadata_store.h"
#include "runtime/reactor.h"

namespace ramcloud {

/// What the simulated store holds; outlives the coordinators that use it.
struct SimMetadataState {
  MetadataStore::Records records;
  uint64_t commits = 0;
};

class SimMetadata final : public MetadataStore {
 public:
  struct Options {
    Duration latency_min = std::chrono::microseconds(100);
    Duration latency_max = std::chrono::milliseconds(5);
    double unknown = 0.0;  // probability that a commit's outcome is not told (half take effect)
    double load_failure = 0.0;  // probability that load() says UNAVAILABLE
  };
  SimMetadata(Reactor& reactor, SimMetadataState& state, Options options)
      : reactor_(reactor), state_(state), options_(options) {}
  SimMetadata(Reactor& reactor, SimMetadataState& state) : SimMetadata(reactor, state, Options()) {}

  Task<Result<Records>> load(std::string prefix) override;
  Task<CommitResult> commit(MetadataTransaction transaction) override;

 private:
  Duration latency();
  Time in_order(Time when);
  Reactor& reactor_;
  SimMetadataState& state_;
  Options options_;
  Time latest_{};  // when the transaction before takes effect
};

/// True if the conditions hold in `records`; then the transaction has been applied to them.
bool apply_transaction(const MetadataTransaction& transaction, MetadataStore::Records& records);

}  // namespace ramcloud
