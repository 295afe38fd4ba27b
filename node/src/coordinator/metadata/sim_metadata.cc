#include "coordinator/metadata/sim_metadata.h"

#include <algorithm>

namespace ramcloud {
namespace {
constexpr Duration kLookAgain = 10ms;
}

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

SimMetadata::SimMetadata(Reactor& reactor, SimMetadataState& state, Options options)
    : reactor_(reactor),
      state_(state),
      options_(options),
      owner_(++state.last_owner),
      lease_timer_(reactor, [this] { lose(); }),
      scope_(reactor) {}

/// The latency of a request to the store; requests stay in order.
Task<void> SimMetadata::reach() {
  co_await reactor_.sleep(in_order(reactor_.now() + latency()) - reactor_.now());
  while (cut_off_) co_await reactor_.sleep(kLookAgain);
}

Task<Result<MetadataStore::Records>> SimMetadata::load(std::string prefix) {
  co_await reach();
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
  // The probe is called before and after the change: a coordinator that dies after it has changed
  // the store.
  if (probe_) probe_(Point::kBefore, transaction);
  co_await reactor_.sleep(in_order(reactor_.now() + latency()) - reactor_.now());
  if (cut_off_) {
    stuck_.push_back(std::move(transaction));
    while (cut_off_) co_await reactor_.sleep(kLookAgain);
    co_return CommitResult{CommitOutcome::kUnknown, "the simulated store was out of reach"};
  }
  if (full_) {
    co_await reactor_.sleep(latency());
    co_return CommitResult{CommitOutcome::kUnknown, "the simulated store is full"};
  }
  const bool told = !reactor_.random().chance(options_.unknown);
  CommitResult result{CommitOutcome::kUnknown, "the simulated answer was lost"};
  if (told || reactor_.random().chance(0.5)) {
    const bool applied = arrive(transaction);
    if (told) {
      result = {applied ? CommitOutcome::kCommitted : CommitOutcome::kConditionFailed, {}};
    }
    if (probe_) probe_(Point::kAfter, transaction);
  }
  co_await reactor_.sleep(latency());
  while (cut_off_) co_await reactor_.sleep(kLookAgain);
  co_return result;
}

/// True if it took effect.
bool SimMetadata::arrive(const MetadataTransaction& transaction) {
  expire();
  const uint64_t present = state_.leader_owner == 0 ? 0 : state_.leader.number;
  if (transaction.leadership && (present == 0 || *transaction.leadership != present)) {
    ++state_.refused;
    return false;
  }
  if (!apply_transaction(transaction, state_.records)) return false;
  ++state_.commits;
  return true;
}

void SimMetadata::set_cut_off(bool cut) {
  cut_off_ = cut;
  if (cut) return;
  for (const auto& transaction : std::exchange(stuck_, {})) arrive(transaction);
}

// ---- leading ------------------------------------------------------------------------------------

void SimMetadata::expire() {
  if (reactor_.now() >= state_.lease_end) state_.leader_owner = 0;
}

Task<Result<Leadership>> SimMetadata::campaign(std::string record) {
  co_await resign();
  const Time begun = reactor_.now();
  co_await reach();
  expire();
  if (state_.leader_owner == owner_) state_.leader_owner = 0;  // from a try whose answer was lost
  if (state_.leader_owner == 0) {
    state_.leader = {++state_.last_leadership, std::move(record)};
    state_.leader_owner = owner_;
    state_.lease_end = reactor_.now() + options_.lease;
  }
  const Leadership now = state_.leader;
  const bool won = state_.leader_owner == owner_;
  co_await reactor_.sleep(latency());
  if (reactor_.random().chance(options_.unknown)) {
    co_return fail(StatusCode::kUnavailable, "the simulated answer was lost");
  }
  if (won && begun + options_.lease > reactor_.now()) {
    leading_ = now.number;
    leading_until_ = begun + options_.lease;
    lease_timer_.start_at(leading_until_);
    scope_.spawn(renew_for_ever(now.number));
  }
  co_return now;
}

uint64_t SimMetadata::leading() const {
  return reactor_.clock().now() < leading_until_ ? leading_ : 0;
}

Task<void> SimMetadata::renew_for_ever(uint64_t number) {
  while (leading_ == number) {
    co_await reactor_.sleep(options_.lease / 3);
    const Time begun = reactor_.now();
    co_await reach();
    expire();
    const bool ours = state_.leader_owner == owner_ && state_.leader.number == number;
    if (ours) state_.lease_end = reactor_.now() + options_.lease;
    co_await reactor_.sleep(latency());
    if (leading_ != number) break;
    if (!ours) co_return lose();
    leading_until_ = begun + options_.lease;
    lease_timer_.start_at(leading_until_);
  }
}

void SimMetadata::lose() {
  lease_timer_.stop();
  if (std::exchange(leading_, 0) != 0 && on_lost_) on_lost_();
}

Task<void> SimMetadata::wait_for_change(uint64_t number) {
  for (;;) {
    co_await reactor_.sleep(kLookAgain);
    if (cut_off_) continue;
    expire();
    if (state_.leader_owner == 0 || state_.leader.number != number) co_return;
  }
}

Task<void> SimMetadata::resign() {
  lease_timer_.stop();
  const uint64_t number = std::exchange(leading_, 0);
  if (number == 0) co_return;
  co_await reach();
  if (state_.leader_owner == owner_ && state_.leader.number == number) state_.leader_owner = 0;
}

}  // namespace ramcloud
