#include "coordinator/sim_metadata.h"

#include <algorithm>

namespace ramcloud {

bool apply_transaction(const MetadataTransaction& transaction, MetadataStore::Records& records) {
  for (const auto& condition : transaction.conditions) {
    const auto found = records.find(condition.key);
    const bool holds = condition.value ? found != records.end() && found->second == *condition.value
                                       : found == records.end();
    if (!holds) return false;
  }
  for (const auto& [key, value] : transaction.puts) records.insert_or_assign(key, value);
  for (const auto& key : transaction.deletes) records.erase(key);
  return true;
}

Duration SimMetadata::latency() {
  const auto spread = static_cast<uint64_t>((options_.latency_max - options_.latency_min).count());
  return options_.latency_min + Duration(static_cast<int64_t>(reactor_.random().below(spread + 1)));
}

Time SimMetadata::in_order(Time when) {
  latest_ = std::max(latest_, when);
  return latest_;
}

Task<Result<MetadataStore::Records>> SimMetadata::load(std::string prefix) {
  co_await reactor_.sleep(in_order(reactor_.now() + latency()) - reactor_.now());
  if (reactor_.random().chance(options_.load_failure)) {
    co_return fail(StatusCode::kUnavailable, "the simulated metadata store does not answer");
  }
  Records found;
  for (auto it = state_.records.lower_bound(prefix);
       it != state_.records.end() && it->first.starts_with(prefix); ++it) {
    found.insert(*it);
  }
  co_return found;
}

Task<CommitResult> SimMetadata::commit(MetadataTransaction transaction) {
  // The two halves of the way: a coordinator that dies on the way back has changed the store.
  co_await reactor_.sleep(in_order(reactor_.now() + latency()) - reactor_.now());
  const bool told = !reactor_.random().chance(options_.unknown);
  CommitResult result{CommitOutcome::kUnknown, "the simulated answer was lost"};
  if (told || reactor_.random().chance(0.5)) {
    const bool applied = apply_transaction(transaction, state_.records);
    if (applied) ++state_.commits;
    if (told) {
      result = {applied ? CommitOutcome::kCommitted : CommitOutcome::kConditionFailed, {}};
    }
  }
  co_await reactor_.sleep(latency());
  co_return result;
}

}  // namespace ramcloud
