#include "master/data_service.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/failpoint.h"
#include "base/sometimes.h"
#include "wire/data_messages.h"

namespace ramcloud::master {
namespace {

/// The limits of one page of an enumeration, which is one item of work of a turn: about 10 us each
/// for empty buckets, for entries looked at, and for copied bytes.
constexpr uint32_t kMaxPageBytes = 32u << 10;
constexpr uint32_t kMaxPageBuckets = 512;
constexpr uint32_t kMaxPageEntries = 128;
constexpr size_t kMaxPageObjects = kMaxPageEntries;

/// The fixed part of a request, and the bytes after it. False: the body is shorter than the fixed
/// part.
template <typename T>
bool split(ByteView body, T& fixed, ByteView& rest) {
  if (body.size() < sizeof(T)) return false;
  fixed = load<T>(body.data());
  rest = body.substr(sizeof(T));
  return true;
}

Status malformed(const char* operation, size_t size) {
  return Status(
      StatusCode::kInvalidArgument,
      fmt::format("{}: body of {} bytes does not match the lengths it names", operation, size));
}

/// Appends {EnumeratedObject, key, value} of one object to a page.
void append_object(const log::ObjectView& object, bool keys_only, std::string& page) {
  const uint32_t value_length = keys_only ? 0 : object.value_length;
  page.append(bytes_of(wire::EnumeratedObject{object.version, value_length, object.key_length, 0}));
  const size_t at = page.size();
  page.resize(at + object.key_length + value_length);
  object.entry.read(object.key_offset, page.data() + at, object.key_length);
  object.entry.read(object.value_offset, page.data() + at + object.key_length, value_length);
}

/// The table and the key of an operation on one object; false if the body does not hold them.
template <typename Fixed>
bool target_in(ByteView body, uint64_t& table_id, ByteView& key) {
  Fixed fixed;
  ByteView rest;
  if (!split(body, fixed, rest) || rest.size() < fixed.key_length) return false;
  table_id = fixed.table_id;
  key = rest.substr(0, fixed.key_length);
  return true;
}

bool target_of(const Ahead& request, uint64_t& table_id, ByteView& key) {
  switch (static_cast<wire::Opcode>(request.header.opcode)) {
    case wire::Opcode::kRead:
      return target_in<wire::ReadRequest>(request.body, table_id, key);
    case wire::Opcode::kWrite:
      return target_in<wire::WriteRequest>(request.body, table_id, key);
    case wire::Opcode::kDelete:
      return target_in<wire::DeleteRequest>(request.body, table_id, key);
    case wire::Opcode::kIncrement:
      return target_in<wire::IncrementRequest>(request.body, table_id, key);
    default:
      return false;
  }
}

bool is_condition(StatusCode code) {
  return code == StatusCode::kExists || code == StatusCode::kWrongVersion;
}

/// The entry that was read is not durable yet, so the reply waits for it.
void note_fresh_read(StatusCode code) {
  if (code == StatusCode::kOk) RC_SOMETIMES("master.read_waits_for_fresh_object");
  if (code == StatusCode::kNotFound) RC_SOMETIMES("master.read_waits_for_fresh_delete");
}

}  // namespace

DataService::DataService(ServiceRegistry& registry, HeldReplies& replies, MetricsRegistry& metrics)
    : transport_(registry.transport()),
      replies_(replies),
      reads_(metrics.counter("ramcloud_operations_total", "Data operations served.",
                             {{"op", "read"}})),
      writes_(metrics.counter("ramcloud_operations_total", "Data operations served.",
                              {{"op", "write"}})),
      deletes_(metrics.counter("ramcloud_operations_total", "Data operations served.",
                               {{"op", "delete"}})),
      increments_(metrics.counter("ramcloud_operations_total", "Data operations served.",
                                  {{"op", "increment"}})),
      enumerations_(metrics.counter("ramcloud_operations_total", "Data operations served.",
                                    {{"op", "enumerate"}})),
      errors_(metrics.counter("ramcloud_operation_errors_total",
                              "Data operations answered with an error, NOT_FOUND included.")),
      memory_full_(metrics) {
  page_objects_.resize(kMaxPageObjects);
  using wire::Opcode;
  registry.set_ahead(
      [](void* self, std::span<const Ahead> requests) {
        static_cast<const DataService*>(self)->fetch_ahead(requests);
      },
      this);
  registry.add(Opcode::kRead, &call_member<&DataService::read, DataService>, this);
  registry.add(Opcode::kWrite, &call_member<&DataService::write, DataService>, this);
  registry.add(Opcode::kDelete, &call_member<&DataService::remove, DataService>, this);
  registry.add(Opcode::kIncrement, &call_member<&DataService::increment, DataService>, this);
  registry.add(Opcode::kEnumerate, &call_member<&DataService::enumerate, DataService>, this);
}

void DataService::fetch_ahead(std::span<const Ahead> requests) const {
  if (store_ == nullptr) return;
  constexpr size_t kAtOnce = 16;
  while (!requests.empty()) {
    std::array<uint64_t, kAtOnce> hashes;
    size_t count = 0;
    const auto some = requests.first(std::min(requests.size(), kAtOnce));
    requests = requests.subspan(some.size());
    for (const Ahead& request : some) {
      uint64_t table_id = 0;
      ByteView key;
      if (target_of(request, table_id, key)) hashes[count++] = store_->prefetch(table_id, key);
    }
    for (size_t i = 0; i < count; ++i) store_->prefetch_entry(hashes[i]);
  }
}

/// Answers with an error code and no text: these answers are frequent, so they allocate nothing.
void DataService::refuse(const Request& request, StatusCode code, log::LogPosition depends_on,
                         uint32_t retry_after_us) {
  errors_.add_from_one_thread();
  reply_.handle = request.reply;
  reply_.status = code;
  reply_.depends_on = depends_on;
  reply_.appended = false;
  reply_.entry_size = 0;
  reply_.set_fixed(wire::ErrorBody{code == StatusCode::kRetry ? retry_after_us : 0, 0});
  replies_.send(reply_);
}

/// Refuses a change; nothing was done. If the head has no room, the request waits for the next
/// head. If memory is full, the client must retry.
void DataService::refuse_change(const Request& request, StatusCode code,
                                log::LogPosition depends_on) {
  if (code == StatusCode::kRetry && parked_ != nullptr && parked_->wait_for_head(request)) return;
  refuse(request, memory_full_.answer(code, *store_), depends_on,
         code == StatusCode::kOutOfMemory ? MemoryFull::kRetryAfterUs : kRetryAfterUs);
}

void DataService::read(const Request& request) {
  wire::ReadRequest fixed;
  ByteView key;
  if (!split(request.body, fixed, key) || key.size() != fixed.key_length) {
    return reply_error(transport_, request.reply, malformed("read", request.body.size()));
  }
  if (store_ == nullptr) return refuse(request, StatusCode::kRetry, {});
  store::ReadResult result;
  const StatusCode code = store_->read(fixed.table_id, key, fixed.reject, result);
  if (result.depends_on.value != 0) note_fresh_read(code);
  if (code != StatusCode::kOk) return refuse(request, code, result.depends_on);
  reads_.add_from_one_thread();
  reply_.handle = request.reply;
  reply_.status = code;
  reply_.depends_on = result.depends_on;
  reply_.appended = false;
  reply_.set_fixed(wire::ReadReply{result.version, result.value_length, 0});
  reply_.entry = result.entry;
  reply_.entry_offset = result.value_offset;
  reply_.entry_size = result.value_length;
  replies_.send(reply_);
}

void DataService::write(const Request& request) {
  wire::WriteRequest fixed;
  ByteView rest;
  if (!split(request.body, fixed, rest) ||
      rest.size() != size_t{fixed.key_length} + fixed.value_length) {
    return reply_error(transport_, request.reply, malformed("write", request.body.size()));
  }
  if (fixed.value_length > wire::kMaxValueBytes) {
    return reply_error(transport_, request.reply,
                       Status(StatusCode::kInvalidArgument,
                              fmt::format("write: value of {} bytes; accepted are up to {}",
                                          uint32_t{fixed.value_length}, wire::kMaxValueBytes)));
  }
  if (store_ == nullptr) return refuse(request, StatusCode::kRetry, {});
  RC_FAILPOINT("master.write.before_append");
  wire::WriteReply written;
  log::LogPosition depends_on;
  uint64_t version = 0;
  const StatusCode code =
      store_->write(fixed.table_id, rest.substr(0, fixed.key_length), rest.substr(fixed.key_length),
                    fixed.reject, version, depends_on);
  if (depends_on.value != 0 && is_condition(code)) {
    RC_SOMETIMES("master.condition_fails_on_fresh_object");
  }
  if (code != StatusCode::kOk) return refuse_change(request, code, depends_on);
  writes_.add_from_one_thread();
  written.version = version;
  reply_.handle = request.reply;
  reply_.status = code;
  reply_.depends_on = depends_on;
  reply_.appended = true;
  reply_.entry_size = 0;
  reply_.set_fixed(written);
  replies_.send(reply_);
}

void DataService::remove(const Request& request) {
  wire::DeleteRequest fixed;
  ByteView key;
  if (!split(request.body, fixed, key) || key.size() != fixed.key_length) {
    return reply_error(transport_, request.reply, malformed("delete", request.body.size()));
  }
  if (store_ == nullptr) return refuse(request, StatusCode::kRetry, {});
  log::LogPosition depends_on;
  uint64_t version = 0;
  const StatusCode code = store_->remove(fixed.table_id, key, fixed.reject, version, depends_on);
  if (code != StatusCode::kOk) return refuse_change(request, code, depends_on);
  deletes_.add_from_one_thread();
  reply_.handle = request.reply;
  reply_.status = code;
  reply_.depends_on = depends_on;
  reply_.appended = version != 0;  // 0: nothing was deleted
  reply_.entry_size = 0;
  reply_.set_fixed(wire::DeleteReply{version});
  replies_.send(reply_);
}

void DataService::increment(const Request& request) {
  wire::IncrementRequest fixed;
  ByteView key;
  if (!split(request.body, fixed, key) || key.size() != fixed.key_length) {
    return reply_error(transport_, request.reply, malformed("increment", request.body.size()));
  }
  if (fixed.type != wire::NumberType::kInt64 && fixed.type != wire::NumberType::kDouble) {
    return reply_error(
        transport_, request.reply,
        Status(StatusCode::kInvalidArgument,
               fmt::format("increment: number type {}; accepted are 1 (int64) and 2 (double)",
                           static_cast<unsigned>(fixed.type))));
  }
  if (store_ == nullptr) return refuse(request, StatusCode::kRetry, {});
  store::ObjectStore::Incremented result;
  log::LogPosition depends_on;
  const StatusCode code = store_->increment(fixed.table_id, key, fixed.type, fixed.delta,
                                            fixed.reject, result, depends_on);
  if (code == StatusCode::kInvalidArgument && (fixed.reject.flags & ~wire::kAllRejectFlags) == 0) {
    return refuse_value(request, result.value_length, depends_on);
  }
  if (code != StatusCode::kOk) return refuse_change(request, code, depends_on);
  increments_.add_from_one_thread();
  reply_.handle = request.reply;
  reply_.status = code;
  reply_.depends_on = depends_on;
  reply_.appended = true;
  reply_.entry_size = 0;
  reply_.set_fixed(wire::IncrementReply{result.version, result.bits});
  replies_.send(reply_);
}

/// The object's value is not a number. The reply tells of the present value, so it depends on that
/// entry.
void DataService::refuse_value(const Request& request, uint32_t value_length,
                               log::LogPosition depends_on) {
  errors_.add_from_one_thread();
  Reply reply;
  reply.handle = request.reply;
  reply.status = StatusCode::kInvalidArgument;
  reply.depends_on = depends_on;
  reply.owned =
      fmt::format("increment: the object's value has {} bytes; accepted are 8", value_length);
  reply.set_fixed(wire::ErrorBody{0, static_cast<uint16_t>(reply.owned.size())});
  replies_.send(std::move(reply));
}

void DataService::enumerate(const Request& request) {
  wire::EnumerateRequest fixed;
  ByteView rest;
  const bool whole = split(request.body, fixed, rest);
  const bool splits_hashes = whole && (fixed.flags & wire::EnumerateRequest::kSplitsHashes) != 0;
  if (!whole || rest.size() != (splits_hashes ? fixed.after_key_length : 0)) {
    return reply_error(transport_, request.reply, malformed("enumerate", request.body.size()));
  }
  if (store_ == nullptr) return refuse(request, StatusCode::kRetry, {});
  store::EnumerateLimits limits;
  limits.max_bytes = std::min(fixed.max_bytes, kMaxPageBytes);
  limits.keys_only = (fixed.flags & wire::EnumerateRequest::kKeysOnly) != 0;
  limits.splits_hashes = splits_hashes;
  limits.after_key = rest;
  limits.max_buckets = kMaxPageBuckets;
  limits.max_entries = kMaxPageEntries;
  store::EnumerateResult page;
  const StatusCode code = store_->enumerate(fixed.table_id, fixed.start_hash, fixed.cursor, limits,
                                            page_objects_, page);
  if (code != StatusCode::kOk) return refuse(request, code, page.depends_on);
  size_t bytes = 0;
  for (uint32_t i = 0; i < page.count; ++i) {
    const log::ObjectView& object = page_objects_[i];
    bytes += sizeof(wire::EnumeratedObject) + object.key_length +
             (limits.keys_only ? 0 : object.value_length);
  }
  // A read changes nothing, so the client may send it again when there is more room.
  if (!transport_.has_room(request.reply, bytes)) return refuse(request, StatusCode::kRetry, {});
  enumerations_.add_from_one_thread();
  Reply reply;
  reply.owned.reserve(bytes);
  for (uint32_t i = 0; i < page.count; ++i) {
    append_object(page_objects_[i], limits.keys_only, reply.owned);
  }
  reply.handle = request.reply;
  reply.depends_on = page.depends_on;
  reply.set_fixed(wire::EnumerateReply{page.next_cursor, page.tablet_end, page.count, page.done, 1,
                                       page.within_hash, 0});
  replies_.send(std::move(reply));
}

}  // namespace ramcloud::master
