#include "master/recovery_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/failpoint.h"
#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud::master {

using wire::HashRange;
using wire::Opcode;
using wire::RecoveryPhase;

namespace {

constexpr uint32_t kRetryAfterUs = 5000;
/// The pause between two slices of clearing while clients keep the reactor busy.
constexpr Duration kClearInterval = 200us;

constexpr const char* kParts = "ramcloud_recovery_parts_total";
constexpr const char* kPartsHelp = "Parts of dead masters that this server recovered, by outcome.";
constexpr const char* kEntries = "ramcloud_recovery_entries_total";
constexpr const char* kEntriesHelp =
    "Entries of dead masters' logs: replayed, or skipped because a newer one was there.";

std::string text(const HashRange& range) {
  return fmt::format("[{}, {}] of table {}", range.start_hash, range.end_hash, range.table_id);
}

uint64_t segments_in(const wire::RecoverRequest& order) {
  if (order.packed_segments.empty()) return order.segments.size();
  return wire::PackedSegments(order.packed_segments).left();
}

/// Rejects orders that can never succeed.
Status check_order(const wire::RecoverRequest& order) {
  const auto bad = [](std::string why) {
    return Status(StatusCode::kInvalidArgument, "recover: " + std::move(why));
  };
  if (order.attempt == 0) return bad("attempt is 0; it must be above");
  if (order.tablets.empty()) return bad("tablets is empty; there must be one at least");
  if (order.tablets.size() > TabletRecovery::kMostTablets) {
    return bad(fmt::format("{} tablets; at most {} are accepted", order.tablets.size(),
                           TabletRecovery::kMostTablets));
  }
  std::vector<HashRange> ranges;
  for (const wire::LostTablet& lost : order.tablets) ranges.push_back(lost.range);
  std::ranges::sort(ranges, {}, [](const HashRange& range) {
    return std::pair(range.table_id, range.start_hash);
  });
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].start_hash > ranges[i].end_hash) {
      return bad(fmt::format("tablet {}: the start must not be above the end", text(ranges[i])));
    }
    if (i > 0 && ranges[i - 1].table_id == ranges[i].table_id &&
        ranges[i - 1].end_hash >= ranges[i].start_hash) {
      return bad(fmt::format("tablets {} and {} overlap", text(ranges[i - 1]), text(ranges[i])));
    }
  }
  return {};
}

}  // namespace

RecoveryOrders::RecoveryOrders(ServiceRegistry& registry, RpcClient& rpc, ServerList& servers,
                               Epochs& epochs, TabletService& tablets, MetricsRegistry& metrics,
                               store::ObjectStore& store, const RecoveryLimits& limits)
    : transport_(registry.transport()),
      rpc_(rpc),
      reactor_(rpc.reactor()),
      servers_(servers),
      epochs_(epochs),
      tablets_(tablets),
      store_(store),
      slots_(store),
      fetching_(reactor_),
      fetches_(limits.fetches),
      pace_(reactor_, limits.bytes_per_second),
      replayed_bytes_(metrics.counter("ramcloud_recovery_replayed_bytes_total",
                                      "Bytes of entries of dead masters' logs that were replayed "
                                      "into this one's.")),
      replayed_entries_(metrics.counter(kEntries, kEntriesHelp, {{"outcome", "replayed"}})),
      skipped_entries_(metrics.counter(kEntries, kEntriesHelp, {{"outcome", "skipped"}})),
      served_parts_(metrics.counter(kParts, kPartsHelp, {{"outcome", "served"}})),
      failed_parts_(metrics.counter(kParts, kPartsHelp, {{"outcome", "failed"}})),
      given_up_parts_(metrics.counter(kParts, kPartsHelp, {{"outcome", "given_up"}})),
      tasks_(reactor_) {
  registry.add(Opcode::kRecover, &call_member<&RecoveryOrders::on_recover, RecoveryOrders>, this);
  registry.add(Opcode::kGetRecoveryState,
               &call_member<&RecoveryOrders::on_get_state, RecoveryOrders>, this);
  registry.add(Opcode::kServeRecovered, &call_member<&RecoveryOrders::on_serve, RecoveryOrders>,
               this);
  registry.add(Opcode::kAbortRecovery, &call_member<&RecoveryOrders::on_abort, RecoveryOrders>,
               this);
  tablets_.set_drop_listener([this](uint64_t table_id) { give_up_table(table_id); });
}

RecoveryOrders::~RecoveryOrders() {
  tablets_.set_drop_listener(nullptr);
}

RecoveryTools RecoveryOrders::tools() {
  return {.rpc = rpc_,
          .servers = servers_,
          .epochs = epochs_,
          .store = store_,
          .fetching = fetching_,
          .pace = pace_,
          .fetches = fetches_,
          .want_pass = [this] { want_pass(); },
          .replayed_bytes = replayed_bytes_,
          .replayed_entries = replayed_entries_,
          .skipped_entries = skipped_entries_};
}

void RecoveryOrders::refuse(const ReplyHandle& handle, const Status& status) {
  reply_error(transport_, handle, status, kRetryAfterUs, servers_.refusal());
}

RecoveryOrders::Part RecoveryOrders::find(uint64_t attempt) const {
  const auto part = parts_.find(attempt);
  return part == parts_.end() || part->second->given_up() ? nullptr : part->second;
}

RecoveryOrders::Part RecoveryOrders::find(uint64_t master_id, uint64_t attempt) const {
  Part part = find(attempt);
  return part != nullptr && part->master_id() == master_id ? part : nullptr;
}

// ---- attempts

Status RecoveryOrders::check_attempt(uint64_t master_id, uint64_t attempt) const {
  const auto latest = latest_.find(master_id);
  const uint64_t seen = latest != latest_.end() ? latest->second : forgotten_up_to_;
  if (attempt > seen) return {};
  RC_SOMETIMES("recovery.outdated_attempt_is_refused");
  return {StatusCode::kStaleTerm,
          fmt::format("recover: attempt {} for master {}, and attempt {} was begun or given up "
                      "already",
                      attempt, master_id, seen)};
}

void RecoveryOrders::note_attempt(uint64_t master_id, uint64_t attempt) {
  uint64_t& latest = latest_[master_id];
  latest = std::max(latest, attempt);
  if (latest_.size() <= kMostMasters) return;
  const auto lowest =
      std::ranges::min_element(latest_, {}, &std::pair<const uint64_t, uint64_t>::second);
  forgotten_up_to_ = std::max(forgotten_up_to_, lowest->second);
  latest_.erase(lowest);
}

// ---- recover

void RecoveryOrders::on_recover(const Request& request) {
  wire::RecoverRequest order;
  if (!request.decode(order)) {
    return refuse(request.reply, {StatusCode::kInvalidArgument, "recover: body does not decode"});
  }
  // An order without a list of segments must not be taken for one of an empty log.
  const bool packs = request.reply.version >= wire::kPackedSegments;
  if (packs != !order.packed_segments.empty() || (packs && !order.segments.empty())) {
    return refuse(request.reply,
                  {StatusCode::kInvalidArgument,
                   "recover: from version 3 of the protocol on packed_segments must be there, and "
                   "segments empty"});
  }
  Status status = servers_.check_term(order.term);
  const uint64_t master_id = order.master_id, attempt = order.attempt;
  Part part = find(master_id, attempt);
  if (status.ok() && part == nullptr) status = begin(order, part);
  if (!status.ok()) return refuse(request.reply, status);
  reply_message(transport_, request.reply, part->state());
}

/// OK: `part` has begun. It may be over, and forgotten, already.
Status RecoveryOrders::begin(wire::RecoverRequest& order, Part& part) {
  RC_RETURN_IF_ERROR(check_order(order));
  RC_RETURN_IF_ERROR(check_attempt(order.master_id, order.attempt));
  for (const auto& [attempt, other] : parts_) {
    if (attempt >= order.attempt) continue;
    other->give_up([&](const HashRange& range) {
      return std::ranges::any_of(order.tablets, [&](const wire::LostTablet& lost) {
        return range.table_id == lost.range.table_id && range.start_hash <= lost.range.end_hash &&
               lost.range.start_hash <= range.end_hash;
      });
    });
  }
  for (const wire::LostTablet& lost : order.tablets) {
    for (const auto& [attempt, other] : parts_) {
      if (!other->overlaps(lost.range)) continue;
      return {StatusCode::kStaleTerm,
              fmt::format("recover: attempt {} has {} already", attempt, text(lost.range))};
    }
    RC_RETURN_IF_ERROR(
        store_.check_take(lost.range.table_id, lost.range.start_hash, lost.range.end_hash));
  }
  if (parts_.contains(order.attempt) || parts_.size() - over_.size() >= kMostRunning) {
    return {StatusCode::kRetry, "recover: other parts must end here first"};
  }
  note_attempt(order.master_id, order.attempt);
  log_info("recovery.part_begun", {{"master", order.master_id},
                                   {"attempt", order.attempt},
                                   {"tablets", order.tablets.size()},
                                   {"segments", segments_in(order)}});
  const uint64_t attempt = order.attempt;
  part = std::make_shared<TabletRecovery>(tools(), std::move(order));
  parts_.emplace(attempt, part);
  tasks_.spawn(run(part));
  RC_FAILPOINT("master.recovery.begun");
  return {};
}

Task<void> RecoveryOrders::run(Part part) {
  co_await part->run();
  count_over(*part);
  over_.insert(part->attempt());
  forget_over();
}

/// Forgets parts that are over and were given up, and the oldest of the other parts that are over.
void RecoveryOrders::forget_over() {
  std::erase_if(over_, [this](uint64_t attempt) {
    const bool forget = parts_.at(attempt)->given_up();
    if (forget) parts_.erase(attempt);
    return forget;
  });
  for (; over_.size() > kMostOver; over_.erase(over_.begin())) parts_.erase(*over_.begin());
}

void RecoveryOrders::count_over(const TabletRecovery& part) {
  if (part.given_up()) return given_up_parts_.add();
  (part.state().phase == RecoveryPhase::kServing ? served_parts_ : failed_parts_).add();
}

// ---- its state

void RecoveryOrders::on_get_state(const Request& request) {
  wire::GetRecoveryStateRequest asked;
  if (!request.decode(asked)) {
    return refuse(request.reply,
                  {StatusCode::kInvalidArgument, "get recovery state: body does not decode"});
  }
  if (Status status = servers_.check_term(asked.term); !status.ok()) {
    return refuse(request.reply, status);
  }
  tasks_.spawn(tell_state(request.reply, find(asked.master_id, asked.attempt), asked));
}

Task<void> RecoveryOrders::tell_state(ReplyHandle handle, Part part,
                                      wire::GetRecoveryStateRequest asked) {
  const Duration wait = std::min<Duration>(std::chrono::milliseconds(asked.wait_ms), kMostWaiting);
  const Time limit = reactor_.now() + wait;
  while (part != nullptr && !part->given_up() && part->state().phase == asked.known) {
    if (!co_await wait_until(reactor_, part->changed(), limit)) break;
  }
  if (part == nullptr || part->given_up()) {
    co_return refuse(handle,
                     {StatusCode::kNotFound, fmt::format("attempt {} for master {} is not here",
                                                         asked.attempt, asked.master_id)});
  }
  if (part->state().phase == RecoveryPhase::kReady) RC_FAILPOINT("master.recovery.ready");
  reply_message(transport_, handle, part->state());
}

// ---- serve

/// By this attempt or by a later one. After an import of metadata from before the later attempt,
/// the coordinator knows that the tablet is this server's, but not by which attempt.
bool RecoveryOrders::serves(const HashRange& range, uint64_t attempt) const {
  return std::ranges::any_of(store_.tablets(), [&](const store::TabletCounts& tablet) {
    return tablet.attempt >= attempt && tablet.table_id == range.table_id &&
           tablet.start_hash == range.start_hash && tablet.end_hash == range.end_hash &&
           tablet.state == store::TabletState::kNormal;
  });
}

Status RecoveryOrders::check_serve(const wire::ServeRecoveredRequest& order) const {
  const Part part = find(order.attempt);
  for (const HashRange& range : order.tablets) {
    if (range.table_id != order.tablets.front().table_id) {
      return {StatusCode::kInvalidArgument,
              fmt::format("serve recovered: tablets of tables {} and {}; they must be of one",
                          order.tablets.front().table_id, range.table_id)};
    }
    if (serves(range, order.attempt)) continue;
    if (part == nullptr || !part->recovers(range)) {
      return {StatusCode::kNotFound,
              fmt::format("serve recovered: attempt {} has no tablet {} here", order.attempt,
                          text(range))};
    }
    if (part->state().phase != RecoveryPhase::kReady) {
      return {StatusCode::kRetry,
              fmt::format("serve recovered: attempt {} is not ready", order.attempt)};
    }
  }
  return {};
}

void RecoveryOrders::on_serve(const Request& request) {
  wire::ServeRecoveredRequest order;
  if (!request.decode(order) || order.tablets.empty()) {
    return refuse(request.reply, {StatusCode::kInvalidArgument,
                                  "serve recovered: body does not decode, or tablets is empty"});
  }
  const uint64_t table_id = order.tablets.front().table_id;
  Status status = servers_.check_term(order.term);
  if (status.ok()) status = check_serve(order);
  if (status.ok()) status = tablets_.check_order(order.term, order.revision, table_id);
  if (!status.ok()) return refuse(request.reply, status);
  RC_FAILPOINT("master.recovery.before_serve");
  for (const HashRange& range : order.tablets) {
    const Part part = find(order.attempt);
    if (part == nullptr || !part->recovers(range)) continue;  // served already
    tablets_.note_taken(table_id, part->serve(range));
    log_info("recovery.tablet_served", {{"table_id", table_id},
                                        {"start_hash", range.start_hash},
                                        {"end_hash", range.end_hash},
                                        {"attempt", order.attempt}});
  }
  RC_FAILPOINT("master.recovery.served");
  tablets_.answer_recovered(request.reply, wire::encode(wire::Empty{}, request.reply.version));
}

// ---- give up

void RecoveryOrders::on_abort(const Request& request) {
  wire::AbortRecoveryRequest order;
  if (!request.decode(order)) {
    return refuse(request.reply,
                  {StatusCode::kInvalidArgument, "abort recovery: body does not decode"});
  }
  if (Status status = servers_.check_term(order.term); !status.ok()) {
    return refuse(request.reply, status);
  }
  // Of all masters: late orders of former leaders are refused by their term.
  const bool of_all = order.master_id == wire::AbortRecoveryRequest::kAllMasters;
  if (!of_all) note_attempt(order.master_id, order.attempt);
  for (const auto& [attempt, part] : parts_) {
    if (!of_all && part->master_id() != order.master_id) continue;
    if (attempt <= order.attempt) part->give_up([](const HashRange&) { return true; });
  }
  forget_over();
  reply_message(transport_, request.reply, wire::Empty{});
}

void RecoveryOrders::give_up_table(uint64_t table_id) {
  for (const auto& [attempt, part] : parts_) {
    part->give_up([&](const HashRange& range) { return range.table_id == table_id; });
  }
}

// ---- slots

void RecoveryOrders::want_pass() {
  slots_.want_pass();
  if (!std::exchange(clearing_, true)) tasks_.spawn(clear_slots());
}

Task<void> RecoveryOrders::clear_slots() {
  // In a later turn, because the caller is still using the tablets.
  co_await reactor_.sleep(Duration::zero());
  while (slots_.step()) {
    co_await reactor_.sleep(reactor_.had_events() ? kClearInterval : Duration::zero());
  }
  clearing_ = false;
  const store::Tablets::Retired retired = store_.take_retired();
  co_await epochs_.grace_period(reactor_);
}

}  // namespace ramcloud::master
