#include "master/tablet_service.h"

#include <fmt/core.h>

#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "master/new_head.h"

namespace ramcloud::master {
namespace {
/// The pause between two slices of purging (20 us each) while clients keep the reactor busy, and
/// while the log takes no tombstones. An idle reactor purges in every turn.
constexpr Duration kPurgeInterval = 200us;

/// 0: none.
uint64_t creation_position(uint64_t first_segment) {
  return log::LogPosition(first_segment, 0).value;
}
}  // namespace

TabletService::TabletService(ServiceRegistry& registry, Reactor& reactor, HeldReplies& replies,
                             ServerList& servers, Epochs& epochs)
    : registry_(registry),
      reactor_(reactor),
      replies_(replies),
      servers_(servers),
      epochs_(epochs),
      purge_timer_(reactor, [this] { purge(); }),
      tasks_(reactor) {
  registry.add(wire::Opcode::kTakeTablet, &call_member<&TabletService::take, TabletService>, this);
  registry.add(wire::Opcode::kDropTablet, &call_member<&TabletService::drop, TabletService>, this);
}

void TabletService::attach(store::ObjectStore& store) {
  store_ = &store;
}

void TabletService::purge() {
  if (store_->purge_step()) {
    const bool yield = store_->purge_waits() || reactor_.had_events();
    return purge_timer_.start_after(yield ? kPurgeInterval : Duration::zero());
  }
  tasks_.spawn(free_retired());
}

Task<void> TabletService::free_retired() {
  const store::Tablets::Retired retired = store_->take_retired();
  co_await epochs_.grace_period(reactor_);
}

Status TabletService::check_order(uint64_t term, uint64_t revision, uint64_t table_id) {
  if (store_ == nullptr) return Status(StatusCode::kRetry, "this server is not enlisted yet");
  RC_RETURN_IF_ERROR(servers_.check_term(term));
  Order& seen = orders_[table_id];
  if (revision < seen.revision) {
    RC_SOMETIMES("master.outdated_order_is_refused");
    return Status(StatusCode::kStaleTerm, fmt::format("table {}: revision {} is older than {}",
                                                      table_id, revision, seen.revision));
  }
  if (seen.drop) {
    dropped_.erase({seen.revision, table_id});
    dropped_.emplace(revision, table_id);
  }
  seen.revision = revision;
  return {};
}

/// Records the drop, and forgets the oldest drops.
void TabletService::note_dropped(uint64_t table_id, Order& order) {
  order.drop = true;
  dropped_.emplace(order.revision, table_id);
  if (dropped_.size() <= kMostDropped) return;
  orders_.erase(dropped_.begin()->second);
  dropped_.erase(dropped_.begin());
}

void TabletService::note_taken(uint64_t table_id, const std::string& table_name) {
  Order& order = orders_[table_id];
  if (std::exchange(order.drop, false)) dropped_.erase({order.revision, table_id});
  if (!table_name.empty()) order.table_name = table_name;
}

std::vector<wire::RestatedTable> TabletService::restate() const {
  std::map<uint64_t, std::vector<wire::RestatedTablet>> owned;
  for (const auto& tablet : store_->tablets()) {
    if (tablet.state != store::TabletState::kNormal) continue;
    owned[tablet.table_id].push_back(
        {tablet.start_hash, tablet.end_hash, creation_position(tablet.first_segment)});
  }
  std::vector<wire::RestatedTable> tables;
  for (auto order = orders_.rbegin(); order != orders_.rend(); ++order) {
    const auto& [table_id, last] = *order;
    const auto tablets = owned.find(table_id);
    auto& table = tables.emplace_back();
    table.table_id = table_id;
    table.revision = last.revision;
    table.dropped = last.drop;
    if (tablets == owned.end()) continue;
    table.name = last.table_name;
    table.tablets = std::move(tablets->second);
  }
  return tables;
}

void TabletService::refuse(const ReplyHandle& handle, const Status& status) {
  reply_error(registry_.transport(), handle, status, 1000, servers_.refusal());
}

/// Answers a change of tablets when all reactors have seen it and the log is durable up to its
/// present end. What was recovered is durable already, so that answer does not wait for what clients
/// wrote since: backups keep the dead server's frames until it comes, and this log may need them.
Task<void> TabletService::answer_when_seen(ReplyHandle handle, Change change, std::string body) {
  const uint64_t drops = store_->drops();
  {
    const store::Tablets::Retired retired = store_->take_retired();
    co_await epochs_.grace_period(reactor_);
  }
  store_->may_purge(drops);
  if (change == Change::kDropped && !purge_timer_.running())
    purge_timer_.start_after(kPurgeInterval);
  Reply reply;
  reply.handle = handle;
  if (change != Change::kRecovered) reply.depends_on = store_->log().head();
  reply.owned = std::move(body);
  replies_.send(std::move(reply));
}

void TabletService::answer_recovered(const ReplyHandle& handle, std::string body) {
  tasks_.spawn(answer_when_seen(handle, Change::kRecovered, std::move(body)));
}

void TabletService::take(const Request& request) {
  wire::TakeTabletRequest command;
  if (!request.decode(command) || command.start_hash > command.end_hash) {
    return reply_error(registry_.transport(), request.reply,
                       Status(StatusCode::kInvalidArgument, "take tablet: body does not decode"));
  }
  Status status = check_order(command.term, command.revision, command.table_id);
  if (status.ok()) {
    status = store_->check_take(command.table_id, command.start_hash, command.end_hash);
  }
  if (!status.ok()) return refuse(request.reply, status);
  tasks_.spawn(take_tablet(request.reply, std::move(command)));
}

/// If the log may hold entries of the tablet already, the tablet begins with a new head, which tells
/// old entries from later ones (docs/design/log.md#tablets). Nobody writes to the tablet before the
/// order is answered, so its entries are in no segment below a head that does not list it.
Task<void> TabletService::take_tablet(ReplyHandle handle, wire::TakeTabletRequest command) {
  uint64_t first_segment = 0;
  if (store_->may_hold(command.table_id, command.start_hash, command.end_hash)) {
    RC_SOMETIMES("master.head_is_rolled_for_a_tablet");
    const Result<uint64_t> head = co_await new_head(reactor_, epochs_, store_->log());
    if (!head) co_return refuse(handle, head.error());
    first_segment = *head;
    // Another order may have arrived in the meantime.
    Status status = check_order(command.term, command.revision, command.table_id);
    if (!status.ok()) co_return refuse(handle, status);
  }
  Status status =
      store_->take_tablet(command.table_id, command.start_hash, command.end_hash, first_segment);
  if (!status.ok()) co_return refuse(handle, status);
  note_taken(command.table_id, command.table_name);
  log_info("tablet.taken", {{"table_id", command.table_id},
                            {"start_hash", command.start_hash},
                            {"end_hash", command.end_hash}});
  // If the tablet was taken before, it keeps its earlier first segment.
  for (const auto& tablet : store_->tablets()) {
    if (tablet.table_id == command.table_id && tablet.start_hash == command.start_hash) {
      first_segment = tablet.first_segment;
    }
  }
  status = co_await begin_with_newest_head(reactor_, store_->log());
  if (!status.ok()) co_return refuse(handle, status);
  co_await answer_when_seen(
      handle, Change::kTaken,
      wire::encode(wire::TakeTabletReply{creation_position(first_segment)}, handle.version));
}

void TabletService::drop(const Request& request) {
  wire::DropTabletRequest command;
  if (!request.decode(command)) {
    return reply_error(registry_.transport(), request.reply,
                       Status(StatusCode::kInvalidArgument, "drop tablet: body does not decode"));
  }
  Status status = check_order(command.term, command.revision, command.table_id);
  if (status.ok()) {
    status = store_->drop_table(command.table_id);
    if (status == StatusCode::kNotFound) status = {};  // a repeated order: dropped already
  }
  if (!status.ok()) return refuse(request.reply, status);
  note_dropped(command.table_id, orders_[command.table_id]);
  log_info("tablet.table_dropped", {{"table_id", command.table_id}});
  if (on_drop_) on_drop_(command.table_id);
  tasks_.spawn(answer_when_seen(request.reply, Change::kDropped));
}

}  // namespace ramcloud::master
