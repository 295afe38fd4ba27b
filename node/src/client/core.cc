#include "client/core.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/hash.h"
#include "base/sometimes.h"
#include "client/outcome.h"

namespace ramcloud {
namespace {

template <typename Request>
std::string body_of(const Request& request, ByteView key, ByteView value = {}) {
  std::string body;
  body.reserve(sizeof request + key.size() + value.size());
  body.append(bytes_of(request)).append(key).append(value);
  return body;
}

/// The coordinators' answer is final, so the known map must not be used.
bool ends_the_call(const Status& status) {
  return status == StatusCode::kNotFound || status == StatusCode::kWrongCluster;
}

}  // namespace

Status check_key(ByteView key) {
  if (!key.empty() && key.size() <= wire::kMaxKeyBytes) return {};
  return {StatusCode::kInvalidArgument, fmt::format("key: it has {} bytes; accepted are 1 to {}",
                                                    key.size(), wire::kMaxKeyBytes)};
}

Status check_value(ByteView value) {
  if (value.size() <= wire::kMaxValueBytes) return {};
  return {StatusCode::kInvalidArgument, fmt::format("value: it has {} bytes; accepted are 0 to {}",
                                                    value.size(), wire::kMaxValueBytes)};
}

Status check_table_name(ByteView name) {
  if (name.empty() || name.size() > wire::kMaxTableNameBytes) {
    return {StatusCode::kInvalidArgument,
            fmt::format("table name: it has {} bytes; accepted are 1 to {}", name.size(),
                        wire::kMaxTableNameBytes)};
  }
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] >= 0x20 && name[i] <= 0x7e) continue;
    return {StatusCode::kInvalidArgument,
            fmt::format("table name: byte {} is 0x{:02x}; accepted are printable ASCII bytes", i,
                        static_cast<uint8_t>(name[i]))};
  }
  return {};
}

// ---- scan pages ---------------------------------------------------------------------------------

Result<ScanPage> ScanPage::parse(std::string body, bool keys_only) {
  ScanPage page;
  const auto bad = [] {
    return fail(StatusCode::kProtocolError, "the server's page of objects does not decode");
  };
  if (body.size() < sizeof(wire::EnumerateReply)) return bad();
  page.header_ = load<wire::EnumerateReply>(body.data());
  page.body_ = std::move(body);
  page.offset_ = sizeof(wire::EnumerateReply);
  page.left_ = page.header_.count;
  page.keys_only_ = keys_only;
  // Parse the page once, so that next() cannot fail.
  ScanPage probe = page;
  for (uint32_t i = 0; i < page.header_.count; ++i) {
    const size_t left = probe.body_.size() - probe.offset_;
    if (left < sizeof(wire::EnumeratedObject)) return bad();
    const auto object = load<wire::EnumeratedObject>(probe.body_.data() + probe.offset_);
    const uint64_t bytes =
        sizeof object + object.key_length + (keys_only ? 0 : uint64_t{object.value_length});
    if (bytes > left) return bad();
    page.last_key_at_ = probe.offset_ + sizeof object;
    page.last_key_length_ = object.key_length;
    probe.offset_ += bytes;
  }
  if (probe.offset_ != probe.body_.size()) return bad();
  return page;
}

std::optional<ScannedObject> ScanPage::next() {
  if (left_ == 0) return std::nullopt;
  --left_;
  const auto header = load<wire::EnumeratedObject>(body_.data() + offset_);
  offset_ += sizeof header;
  const ByteView all(body_);
  ScannedObject object;
  object.version = header.version;
  object.value_length = header.value_length;
  object.key = all.substr(offset_, header.key_length);
  offset_ += header.key_length;
  object.value = keys_only_ ? ByteView() : all.substr(offset_, header.value_length);
  offset_ += object.value.size();
  return object;
}

// ---- tables -------------------------------------------------------------------------------------

ClientCore::ClientCore(Reactor& reactor, Transport& transport, Options options)
    : options_(std::move(options)),
      rpc_(reactor, transport),
      coordinator_(rpc_, options_.coordinators),
      background_(reactor) {}

ClientCore::~ClientCore() = default;

Time ClientCore::deadline(Timeout timeout) {
  const Duration limit = timeout.value_or(options_.timeout);
  if (limit <= Duration::zero()) return kNever;
  // Not reactor.now(), which may be old if a client drives its own reactor.
  return reactor().clock().now() + limit;
}

Task<Result<wire::ClusterInfo>> ClientCore::cluster_info() {
  const Time until = deadline();
  co_return co_await coordinator_.call<wire::ClusterInfo>(wire::Opcode::kGetClusterInfo,
                                                          wire::Empty{}, Repeat::kSafe, until);
}

/// Learns the cluster's UUID, once. From then on a server of another cluster at a reused address is
/// refused.
Task<Status> ClientCore::introduce(Time until) {
  if (introduced_) co_return Status{};
  auto info = co_await coordinator_.call<wire::ClusterInfo>(wire::Opcode::kGetClusterInfo,
                                                            wire::Empty{}, Repeat::kSafe, until);
  if (!info) co_return info.error();
  rpc_.set_cluster_uuid(info->cluster_uuid);
  introduced_ = true;
  co_return Status{};
}

Task<Result<wire::TableInfo>> ClientCore::create_table(std::string name, uint32_t span,
                                                       Timeout timeout) {
  if (Status bad = check_table_name(name); !bad.ok()) co_return fail(std::move(bad));
  const Time until = deadline(timeout);
  if (Status status = co_await introduce(until); !status.ok()) co_return fail(std::move(status));
  auto table = co_await coordinator_.call<wire::TableInfo>(
      wire::Opcode::kCreateTable, wire::CreateTableRequest{std::move(name), span},
      Repeat::kIdempotent, until);
  if (!table) co_return fail(std::move(table.error()));
  if (Status status = map_.update(*table); !status.ok()) co_return fail(std::move(status));
  co_return std::move(*table);
}

Task<Result<wire::TableInfo>> ClientCore::open_table(std::string name, Timeout timeout) {
  if (Status bad = check_table_name(name); !bad.ok()) co_return fail(std::move(bad));
  const Time until = deadline(timeout);
  if (Status status = co_await introduce(until); !status.ok()) co_return fail(std::move(status));
  auto table = co_await coordinator_.call<wire::TableInfo>(
      wire::Opcode::kGetTable, wire::GetTableRequest{std::move(name), 0}, Repeat::kSafe, until);
  if (!table) co_return fail(std::move(table.error()));
  if (Status status = map_.update(*table); !status.ok()) co_return fail(std::move(status));
  co_return std::move(*table);
}

Task<Result<std::vector<wire::TableInfo>>> ClientCore::list_tables(Timeout timeout) {
  const Time until = deadline(timeout);
  if (Status status = co_await introduce(until); !status.ok()) co_return fail(std::move(status));
  std::vector<wire::TableInfo> tables;
  wire::ListTablesRequest page{.first_id = 0, .max_bytes = 1 << 20};
  do {
    auto reply = co_await coordinator_.call<wire::ListTablesReply>(wire::Opcode::kListTables, page,
                                                                   Repeat::kSafe, until);
    if (!reply) co_return fail(std::move(reply.error()));
    if (reply->next_id != 0 && reply->next_id <= page.first_id) {
      co_return fail(StatusCode::kProtocolError,
                     "the coordinator's list of tables does not move on");
    }
    tables.insert(tables.end(), std::make_move_iterator(reply->tables.begin()),
                  std::make_move_iterator(reply->tables.end()));
    page.first_id = reply->next_id;
  } while (page.first_id != 0);
  co_return tables;
}

Task<Status> ClientCore::drop_table(std::string name, Timeout timeout) {
  if (Status bad = check_table_name(name); !bad.ok()) co_return bad;
  const Time until = deadline(timeout);
  if (Status status = co_await introduce(until); !status.ok()) co_return status;
  auto reply = co_await coordinator_.call<wire::Empty>(
      wire::Opcode::kDropTable, wire::DropTableRequest{std::move(name)}, Repeat::kUnsafe, until);
  co_return reply ? Status{} : std::move(reply.error());
}

// ---- the tablet map -----------------------------------------------------------------------------

/// One request for a table's tablets, shared by all calls that need it at the same time.
struct ClientCore::Refresh {
  std::vector<std::shared_ptr<Event>> waiters;
  bool done = false;
  Status result;
};

Task<void> ClientCore::run_refresh(uint64_t table_id, std::shared_ptr<Refresh> refresh,
                                   Time until) {
  Status status = co_await introduce(until);
  if (status.ok()) {
    auto table = co_await coordinator_.call<wire::TableInfo>(
        wire::Opcode::kGetTable, wire::GetTableRequest{{}, table_id}, Repeat::kSafe, until);
    status = table ? map_.update(*table) : std::move(table.error());
    if (status == StatusCode::kNotFound) map_.erase(table_id);
  }
  refresh->result = std::move(status);
  refresh->done = true;
  refreshing_.erase(table_id);
  for (const auto& waiter : refresh->waiters) waiter->set();
}

Task<Status> ClientCore::refresh(uint64_t table_id, Time until) {
  for (;;) {
    auto& slot = refreshing_[table_id];
    const bool first = slot == nullptr;
    if (first) slot = std::make_shared<Refresh>();
    const std::shared_ptr<Refresh> running = slot;
    auto done = std::make_shared<Event>(reactor());
    running->waiters.push_back(done);
    if (first) background_.spawn(run_refresh(table_id, running, until));

    Timer alarm(reactor(), [&done] { done->set(); });
    if (until != kNever) alarm.start_at(until);
    co_await *done;
    if (!running->done) break;
    if (running->result.ok() || ends_the_call(running->result) || first ||
        reactor().now() >= until) {
      co_return running->result;
    }
    // The call that sent the request had an earlier deadline than this one.
    RC_SOMETIMES("client.asks_again_for_what_another_gave_up");
  }
  co_return Status(StatusCode::kUnavailable,
                   fmt::format("no coordinator answered in time at {}", coordinator_.addresses()));
}

/// The place of a hash. The map must have a generation above `newer_than`; if the coordinator does
/// not answer, the known map is used.
Task<Result<ClientCore::Located>> ClientCore::locate(uint64_t table_id, uint64_t hash,
                                                     uint64_t newer_than, Time until) {
  const TabletMap::Table* table = map_.find(table_id);
  if (table == nullptr || table->generation <= newer_than) {
    const bool known = table != nullptr;
    if (known) RC_SOMETIMES("client.asks_for_a_newer_map");
    const Time patience = known ? std::min(until, reactor().now() + attempt_timeout(0)) : until;
    Status status = co_await refresh(table_id, patience);
    table = map_.find(table_id);
    if (status == StatusCode::kNotFound) {
      co_return fail(StatusCode::kNotFound, fmt::format("table {} does not exist", table_id));
    }
    if (ends_the_call(status)) co_return fail(std::move(status));
    if (table == nullptr) {
      if (status.ok()) status = Status(StatusCode::kUnavailable, "the table was dropped meanwhile");
      co_return fail(std::move(status));
    }
  }
  co_return Located{TabletMap::place_of(*table, hash), table->name, table->generation};
}

// ---- calls to tablets ---------------------------------------------------------------------------

/// One try. A call that must not be repeated is sent only over an established connection. Otherwise
/// an unreachable address would make it INDETERMINATE although nothing was sent.
Task<RpcReply> ClientCore::attempt(const Place& place, const TabletCall& call, int number,
                                   Time deadline) {
  // The deadline may pass while we wait. An operation that was not sent has not happened.
  const auto too_late = [&] { return reactor().now() >= deadline; };
  const RpcReply unsent{
      .status = {StatusCode::kRetry, "no time was left to send it"}, .body = {}, .details = {}};
  if (too_late()) co_return unsent;
  const Time short_deadline = std::min(deadline, reactor().now() + attempt_timeout(number));
  if (call.repeat == Repeat::kSafe) {
    co_return co_await call_owner(place, call, short_deadline);
  }
  if (rpc_.session(place.locator, place.server_id)->peer_server_id() == 0) {
    RpcReply pong =
        co_await rpc_.call(place.locator, place.server_id, wire::Opcode::kPing, {}, short_deadline);
    const Outcome outcome = pong.ok() ? Outcome::kFinal : outcome_at_server(pong.status.code());
    if (outcome != Outcome::kFinal) {
      pong.status = Status(StatusCode::kUnavailable,
                           "no connection to the server: " + pong.status.to_string());
      co_return pong;
    }
  }
  if (too_late()) co_return unsent;
  co_return co_await call_owner(place, call, deadline);
}

Task<Result<ClientCore::TabletReply>> ClientCore::call_tablet(TabletCall call) {
  if (!call.refused.ok()) co_return fail(std::move(call.refused));
  const Time until = deadline(call.timeout);
  BackOff back_off;
  uint64_t newer_than = 0;
  for (int number = 0;; ++number) {
    auto located = co_await locate(call.table_id, call.hash, newer_than, until);
    if (!located) co_return fail(std::move(located.error()));
    const Place& place = located->place;
    const auto where = [&] {
      return fmt::format("table '{}' (id {}), {}", located->table_name, call.table_id,
                         describe(place));
    };
    if (call.only_server_id != 0 && place.server_id != call.only_server_id) {
      co_return fail(StatusCode::kUnavailable,
                     where() + ": the tablet moved during the scan; start the scan again");
    }

    RpcReply reply;
    if (place.reachable()) {
      reply = co_await attempt(place, call, number, until);
      if (reply.ok()) co_return TabletReply{std::move(reply.body), place.server_id};
      const Outcome outcome = outcome_at_server(reply.status.code());
      if (outcome == Outcome::kFinal) co_return fail(std::move(reply.status));
      if (outcome == Outcome::kMaybeDone && call.repeat == Repeat::kUnsafe) {
        RC_SOMETIMES("client.outcome_of_a_change_is_unknown");
        co_return fail(StatusCode::kIndeterminate,
                       fmt::format("{}: the reply was lost ({}); it may or may not have happened",
                                   where(), reply.status.to_string()));
      }
    } else {
      reply.status = why_unreachable(place);
    }
    if (wants_new_map(reply.status.code(), number, number)) newer_than = located->generation;
    const Duration wait = back_off.next_asked(reactor().random(), reply.retry_after_us);
    if (until - reactor().now() <= wait) co_return fail(out_of_time(reply.status, where()));
    co_await reactor().sleep(wait);
  }
}

// ---- objects ------------------------------------------------------------------------------------

ClientCore::TabletCall ClientCore::data_call(wire::Opcode opcode, Repeat repeat, uint64_t table_id,
                                             ByteView key) {
  TabletCall call{
      .table_id = table_id, .opcode = opcode, .repeat = repeat, .body = {}, .refused = {}};
  call.refused = check_key(key);
  if (call.refused.ok()) call.hash = key_hash(table_id, key);
  return call;
}

Task<Result<ReadResult>> ClientCore::read(uint64_t table_id, ByteView key, wire::RejectRules reject,
                                          Timeout timeout) {
  TabletCall call = data_call(wire::Opcode::kRead, Repeat::kSafe, table_id, key);
  call.timeout = timeout;
  if (call.refused.ok()) {
    const wire::ReadRequest request{table_id, reject, static_cast<uint16_t>(key.size()), {}};
    call.body = body_of(request, key);
  }
  return read_reply(std::move(call));
}

Task<Result<ReadResult>> ClientCore::read_reply(TabletCall call) {
  auto reply = co_await call_tablet(std::move(call));
  if (!reply) co_return fail(std::move(reply.error()));
  if (reply->body.size() >= sizeof(wire::ReadReply)) {
    const auto header = load<wire::ReadReply>(reply->body.data());
    if (reply->body.size() - sizeof header == header.value_length) {
      reply->body.erase(0, sizeof header);
      co_return ReadResult{header.version, std::move(reply->body)};
    }
  }
  co_return fail(StatusCode::kProtocolError, "the server's reply to a read does not decode");
}

/// Replies of write and delete have the same form: a version.
Task<Result<uint64_t>> ClientCore::version_of(TabletCall call) {
  static_assert(sizeof(wire::WriteReply) == sizeof(wire::DeleteReply));
  auto reply = co_await call_tablet(std::move(call));
  if (!reply) co_return fail(std::move(reply.error()));
  if (reply->body.size() != sizeof(wire::WriteReply)) {
    co_return fail(StatusCode::kIndeterminate,
                   "the server's reply does not decode; it may or may not have happened");
  }
  co_return load<wire::WriteReply>(reply->body.data()).version;
}

Task<Result<uint64_t>> ClientCore::write(uint64_t table_id, ByteView key, ByteView value,
                                         wire::RejectRules reject, Timeout timeout) {
  TabletCall call = data_call(wire::Opcode::kWrite, Repeat::kUnsafe, table_id, key);
  call.timeout = timeout;
  if (call.refused.ok()) call.refused = check_value(value);
  if (call.refused.ok()) {
    const wire::WriteRequest request{table_id, reject, static_cast<uint32_t>(value.size()),
                                     static_cast<uint16_t>(key.size()), 0};
    call.body = body_of(request, key, value);
  }
  return version_of(std::move(call));
}

Task<Result<uint64_t>> ClientCore::remove(uint64_t table_id, ByteView key, wire::RejectRules reject,
                                          Timeout timeout) {
  TabletCall call = data_call(wire::Opcode::kDelete, Repeat::kUnsafe, table_id, key);
  call.timeout = timeout;
  if (call.refused.ok()) {
    const wire::DeleteRequest request{table_id, reject, static_cast<uint16_t>(key.size()), {}};
    call.body = body_of(request, key);
  }
  return version_of(std::move(call));
}

Task<Result<Incremented>> ClientCore::increment(uint64_t table_id, ByteView key,
                                                wire::NumberType type, uint64_t delta,
                                                wire::RejectRules reject, Timeout timeout) {
  TabletCall call = data_call(wire::Opcode::kIncrement, Repeat::kUnsafe, table_id, key);
  call.timeout = timeout;
  if (call.refused.ok()) {
    const wire::IncrementRequest request{table_id, reject, delta, static_cast<uint16_t>(key.size()),
                                         type,     {}};
    call.body = body_of(request, key);
  }
  return increment_reply(std::move(call));
}

Task<Result<Incremented>> ClientCore::increment_reply(TabletCall call) {
  auto reply = co_await call_tablet(std::move(call));
  if (!reply) co_return fail(std::move(reply.error()));
  if (reply->body.size() != sizeof(wire::IncrementReply)) {
    co_return fail(StatusCode::kIndeterminate,
                   "the server's reply does not decode; it may or may not have happened");
  }
  const auto sum = load<wire::IncrementReply>(reply->body.data());
  co_return Incremented{sum.version, sum.value};
}

/// If the tablet ends before the range does, the rest of the range is scanned later from the same
/// cursor, because all objects of the range before the cursor were returned already.
Status ClientCore::move_on(ScanPosition& position, const ScanPage& scanned, uint64_t server_id) {
  const wire::EnumerateReply& page = scanned.header();
  ScanPosition::Range& range = position.range;
  if (page.tablet_end < range.start_hash) {
    return {StatusCode::kProtocolError, "the server's tablet ends before it starts"};
  }
  const bool within_hash = page.within_hash != 0;
  if (page.done == 0 && page.count == 0 && (page.next_cursor == range.cursor || within_hash)) {
    return {StatusCode::kProtocolError, "the server's scan does not move on"};
  }
  if (page.tablet_end < range.end_hash) {
    position.later.push_back({page.tablet_end + 1, range.end_hash, range.cursor, range.after_key});
    range.end_hash = page.tablet_end;
  }
  position.server_id = page.cursor_is_place != 0 ? 0 : server_id;
  range.cursor = page.next_cursor;
  range.after_key = within_hash ? scanned.last_key() : ByteView();
  if (page.done == 0) return {};
  position.server_id = 0;
  position.done = position.later.empty();
  if (position.done) return {};
  range = position.later.back();
  position.later.pop_back();
  return {};
}

Task<Result<ScanPage>> ClientCore::scan_page(uint64_t table_id, ScanPosition& position,
                                             bool keys_only, uint32_t page_bytes, Timeout timeout) {
  if (position.done) co_return ScanPage{};
  using wire::EnumerateRequest;
  const ScanPosition::Range& range = position.range;
  uint16_t flags = EnumerateRequest::kSplitsHashes;
  if (keys_only) flags |= EnumerateRequest::kKeysOnly;
  const EnumerateRequest request{table_id,     range.start_hash,
                                 range.cursor, page_bytes,
                                 flags,        static_cast<uint16_t>(range.after_key.size())};
  TabletCall call{.table_id = table_id,
                  .hash = position.range.start_hash,
                  .opcode = wire::Opcode::kEnumerate,
                  .body = body_of(request, range.after_key),
                  .refused = {},
                  .only_server_id = position.server_id,
                  .timeout = timeout};
  auto reply = co_await call_tablet(std::move(call));
  if (!reply) co_return fail(std::move(reply.error()));
  auto page = ScanPage::parse(std::move(reply->body), keys_only);
  if (!page) co_return page;
  Status moved = move_on(position, *page, reply->server_id);
  if (!moved.ok()) co_return fail(std::move(moved));
  co_return page;
}

}  // namespace ramcloud
