#include "master/multi_service.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/sometimes.h"
#include "wire/data_messages.h"

namespace ramcloud::master {
namespace {

/// As for single operations: a head switch takes one round trip to the backups.
constexpr uint32_t kRetryAfterUs = 500;
/// Operations whose memory is fetched together: about as many as a core has misses in flight.
constexpr uint32_t kGroup = 16;
constexpr size_t kMostSpareBytes = 256u << 10;

Counter& operations(MetricsRegistry& metrics, const char* name) {
  return metrics.counter("ramcloud_operations_total", "Data operations served.", {{"op", name}});
}

void append_result(StatusCode status, uint64_t version, uint32_t value_length,
                   std::string& results) {
  const wire::MultiResult result{static_cast<uint16_t>(status), 0, value_length,
                                 status == StatusCode::kOk ? version : 0};
  const size_t at = results.size();
  // Written in place: copying a structure right after its fields were stored would stall.
  results.resize_and_overwrite(at + sizeof result, [&](char* to, size_t) {
    std::memcpy(to + at, &result, sizeof result);
    return at + sizeof result;
  });
}

template <typename T>
bool take_fixed(ByteView& rest, T& fixed) {
  if (rest.size() < sizeof(T)) return false;
  fixed = load<T>(rest.data());
  rest.remove_prefix(sizeof(T));
  return true;
}

bool take_bytes(ByteView& rest, size_t size, ByteView& bytes) {
  if (rest.size() < size) return false;
  bytes = rest.substr(0, size);
  rest.remove_prefix(size);
  return true;
}

}  // namespace

MultiService::MultiService(ServiceRegistry& registry, Reactor& reactor, HeldReplies& replies,
                           MetricsRegistry& metrics)
    : transport_(registry.transport()),
      reactor_(reactor),
      replies_(replies),
      reads_(operations(metrics, "read")),
      writes_(operations(metrics, "write")),
      deletes_(operations(metrics, "delete")),
      errors_(metrics.counter("ramcloud_operation_errors_total",
                              "Data operations answered with an error, NOT_FOUND included.")),
      memory_full_(metrics) {
  for (const auto opcode :
       {wire::Opcode::kMultiRead, wire::Opcode::kMultiWrite, wire::Opcode::kMultiDelete}) {
    registry.add(opcode, &call_member<&MultiService::handle, MultiService>, this);
  }
}

bool MultiService::take_operation(wire::Opcode opcode, ByteView& rest, Operation& operation) {
  static_assert(sizeof(wire::ReadRequest) == sizeof(wire::DeleteRequest));
  size_t key_length = 0, value_length = 0;
  if (opcode == wire::Opcode::kMultiWrite) {
    wire::WriteRequest fixed;
    if (!take_fixed(rest, fixed)) return false;
    operation.table_id = fixed.table_id;
    operation.reject = fixed.reject;
    key_length = fixed.key_length;
    value_length = fixed.value_length;
  } else {
    wire::ReadRequest fixed;  // a delete has the same fields
    if (!take_fixed(rest, fixed)) return false;
    operation.table_id = fixed.table_id;
    operation.reject = fixed.reject;
    key_length = fixed.key_length;
  }
  return take_bytes(rest, key_length, operation.key) &&
         take_bytes(rest, value_length, operation.value);
}

/// The whole message is checked before anything is done, so that a malformed message changes
/// nothing.
bool MultiService::well_formed(wire::Opcode opcode, uint32_t count, ByteView rest) {
  if (count == 0 || count > wire::kMaxMultiCount) return false;
  Operation operation;
  for (uint32_t i = 0; i < count; ++i) {
    if (!take_operation(opcode, rest, operation)) return false;
  }
  return rest.empty();
}

void MultiService::handle(const Request& request) {
  const auto opcode = static_cast<wire::Opcode>(request.header.opcode);
  ByteView rest = request.body;
  wire::MultiRequest fixed;
  if (!take_fixed(rest, fixed) || !well_formed(opcode, fixed.count, rest)) {
    return reply_error(transport_, request.reply,
                       Status(StatusCode::kInvalidArgument,
                              fmt::format("multi-operation: body of {} bytes does not hold the 1 "
                                          "to {} operations it names",
                                          request.body.size(), wire::kMaxMultiCount)));
  }
  Job job;
  job.handle = request.reply;
  job.opcode = opcode;
  job.left = fixed.count;
  job.max_bytes = std::min(fixed.max_bytes, kMaxReplyBytes);
  job.results = std::exchange(spare_, {});
  if (request.header.timeout_ms != 0) {
    job.deadline = reactor_.now() + std::chrono::milliseconds(request.header.timeout_ms);
  }
  if (run_slice(job, rest)) {
    const bool has_room = job.done > 0 || job.retry_after_us == 0;
    if (has_room || parked_ == nullptr || !parked_->wait_for_head(request)) return answer(job);
    spare_ = std::move(job.results);
    return;
  }
  // A small rest is always accepted: a connection that holds much stops receiving.
  const bool fits = rest.size() <= kSliceBytes || transport_.has_room(job.handle, rest.size());
  if (waiting_bytes_ + rest.size() > kMaxWaitingBytes || !fits) {
    job.retry_after_us = kRetryAfterUs;
    return answer(job);
  }
  RC_SOMETIMES("master.multi_operation_is_sliced");
  job.body.assign(rest);
  waiting_bytes_ += job.body.size();
  charge_body(job, job.body.capacity());
  charge_results(job, job.results.capacity());  // the memory may have come from spare_
  jobs_.push_back(std::move(job));
}

/// Runs a slice of the next message in rotation. Messages whose clients no longer wait cost no
/// slice.
bool MultiService::on_turn() {
  if (jobs_.empty()) return false;
  constexpr int kMostForgotten = 64;
  for (int i = 0; i < kMostForgotten && !jobs_.empty(); ++i) {
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    if (!transport_.is_open(job.handle)) {
      forget(job);
      continue;
    }
    ByteView rest = ByteView(job.body).substr(job.offset);
    // The client has stopped waiting, so the rest would not be read.
    const bool late = reactor_.now() >= job.deadline;
    if (late || run_slice(job, rest)) {
      waiting_bytes_ -= job.body.size();
      answer(job);
      return true;
    }
    job.offset = job.body.size() - rest.size();
    jobs_.push_back(std::move(job));
    return true;
  }
  return true;
}

void MultiService::forget(Job& job) {
  RC_SOMETIMES("master.multi_operation_of_a_closed_connection_is_dropped");
  waiting_bytes_ -= job.body.size();
  charge_body(job, 0);
  charge_results(job, 0);
}

void MultiService::charge_results(Job& job, size_t bytes) {
  const auto more = static_cast<int64_t>(bytes) - static_cast<int64_t>(job.results_charged);
  if (more != 0) transport_.charge(job.handle, more);
  job.results_charged = bytes;
}

void MultiService::charge_body(Job& job, size_t bytes) {
  const auto more = static_cast<int64_t>(bytes) - static_cast<int64_t>(job.body_charged);
  if (more != 0) transport_.charge(job.handle, more);
  job.body_charged = bytes;
}

bool MultiService::run_slice(Job& job, ByteView& rest) {
  if (store_ == nullptr) {
    job.retry_after_us = kRetryAfterUs;
    return true;
  }
  uint64_t bytes = 0;
  const bool reads = job.opcode == wire::Opcode::kMultiRead;
  const uint32_t most = reads ? kSliceReads : kSliceChanges;
  for (uint32_t i = 0; i < most && bytes < kSliceBytes;) {
    const uint32_t done = job.done;
    if (!run_group(job, rest, std::min(kGroup, most - i), bytes)) return true;
    i += job.done - done;
    if (job.left == 0) return true;
  }
  return false;
}

/// Runs a few operations together, so that their cache misses overlap: first fetch the buckets,
/// then the entries, then execute the operations.
bool MultiService::run_group(Job& job, ByteView& rest, uint32_t at_most, uint64_t& bytes) {
  std::array<Operation, kGroup> operations;
  std::array<ByteView, kGroup> after;
  const uint32_t count = std::min(at_most, job.left);
  ByteView ahead = rest;
  for (uint32_t i = 0; i < count; ++i) {
    Operation& operation = operations[i];
    take_operation(job.opcode, ahead, operation);  // cannot fail: the message is well-formed
    operation.hash = store_->prefetch(operation.table_id, operation.key);
    after[i] = ahead;
  }
  for (uint32_t i = 0; i < count; ++i) store_->prefetch_entry(operations[i].hash);
  const bool reads = job.opcode == wire::Opcode::kMultiRead;
  for (uint32_t i = 0; i < count && bytes < kSliceBytes; ++i) {
    const size_t results = job.results.size();
    const Step step = reads ? read(job, operations[i]) : change(job, operations[i]);
    if (step == Step::kStop) return false;
    if (step == Step::kPart) {
      bytes = kSliceBytes;
      return true;
    }
    job.whole = job.results.size();
    bytes += rest.size() - after[i].size() + job.results.size() - results;
    rest = after[i];
    ++job.done;
    --job.left;
  }
  return true;
}

MultiService::Step MultiService::read(Job& job, const Operation& operation) {
  store::ReadResult result;
  const StatusCode code =
      store_->read(operation.table_id, operation.key, operation.hash, operation.reject, result);
  const uint32_t size = code == StatusCode::kOk ? result.value_length : 0;
  if (job.copied > 0 && (code != StatusCode::kOk || result.version != job.version)) {
    RC_SOMETIMES("master.value_changes_while_it_is_copied");
    job.results.resize(job.whole);
    job.copied = 0;
    ++job.restarts;
  }
  if (job.copied == 0) {
    const size_t all = sizeof(wire::MultiResult) + size;
    if (job.done > 0 && job.whole + all > job.max_bytes) return Step::kStop;
    if (!make_room(job, all)) {
      if (job.done > 0) return Step::kStop;
      // A result without a value is small and always fits.
      if (size > 0) {
        RC_SOMETIMES("master.multi_read_has_no_room_for_its_results");
        job.depends_on = std::max(job.depends_on, result.depends_on);
        job.by_reference = true;
        job.first = result;
        reads_.add_from_one_thread();
        return Step::kStop;
      }
    }
    append_result(code, result.version, size, job.results);
    job.version = result.version;
  }
  job.depends_on = std::max(job.depends_on, result.depends_on);
  if (size > 0 && copy_value(job, result) == Step::kPart) return Step::kPart;
  (code == StatusCode::kOk ? reads_ : errors_).add_from_one_thread();
  job.copied = job.restarts = 0;
  return Step::kDone;
}

MultiService::Step MultiService::copy_value(Job& job, const store::ReadResult& result) {
  const uint32_t left = result.value_length - job.copied;
  const uint32_t piece = job.restarts < kMostRestarts
                             ? std::min<uint32_t>(left, static_cast<uint32_t>(kSliceBytes))
                             : left;
  const size_t at = job.results.size();
  // libstdc++ 12 gives the lambda the capacity, not the length that was asked for.
  job.results.resize_and_overwrite(at + piece, [&](char* to, size_t) {
    result.entry.read(result.value_offset + job.copied, to + at, piece);
    return at + piece;
  });
  job.copied += piece;
  return piece < left ? Step::kPart : Step::kDone;
}

/// Charges and reserves in advance. Otherwise each result would be charged alone, and growing would
/// copy the earlier results again and again.
bool MultiService::make_room(Job& job, size_t bytes) {
  const size_t wanted = job.results.size() + bytes;
  if (wanted <= job.results_charged) return true;
  constexpr size_t kLeast = 1024;
  const size_t ahead = std::min(2 * job.results_charged, wanted + kMostSpareBytes);
  // Memory of an earlier reply is used again, so most messages are charged only once.
  const size_t there = job.results.capacity() <= kMostSpareBytes ? job.results.capacity() : 0;
  size_t total = std::max({kLeast, wanted, ahead, there});
  if (total > wanted && !transport_.has_room(job.handle, total - job.results_charged)) {
    total = wanted;
  }
  if (!transport_.has_room(job.handle, total - job.results_charged)) return false;
  job.results.reserve(total);
  charge_results(job, total);
  return true;
}

MultiService::Step MultiService::change(Job& job, const Operation& operation) {
  if (job.done > 0 && job.results.size() + sizeof(wire::MultiResult) > job.max_bytes) {
    return Step::kStop;
  }
  const bool writes = job.opcode == wire::Opcode::kMultiWrite;
  log::LogPosition depends_on;
  uint64_t version = 0;
  // An earlier change of the same key was refused, and the client will send it again. If the tablet
  // has arrived since, this change must be refused as well, to keep their order.
  const bool overtakes = !job.refused.empty() && job.refused.contains(operation.hash);
  const StatusCode result =
      overtakes ? StatusCode::kUnknownTablet
      : writes  ? store_->write(operation.table_id, operation.key, operation.hash, operation.value,
                                operation.reject, version, depends_on)
               : store_->remove(operation.table_id, operation.key, operation.hash, operation.reject,
                                version, depends_on);
  const StatusCode code = memory_full_.answer(result, *store_);
  if (code == StatusCode::kRetry) {
    // Later operations wait, too: two writes of one key keep their order.
    job.retry_after_us =
        result == StatusCode::kOutOfMemory ? MemoryFull::kRetryAfterUs : kRetryAfterUs;
    return Step::kStop;
  }
  if (code == StatusCode::kUnknownTablet) job.refused.insert(operation.hash);
  job.depends_on = std::max(job.depends_on, depends_on);
  // A delete of nothing has version 0.
  job.only_appends = job.only_appends && code == StatusCode::kOk && version != 0;
  append_result(code, version, 0, job.results);
  (code != StatusCode::kOk ? errors_ : writes ? writes_ : deletes_).add_from_one_thread();
  return Step::kDone;
}

void MultiService::answer(Job& job) {
  Reply reply;
  reply.handle = job.handle;
  reply.depends_on = job.depends_on;
  reply.appended = job.only_appends && job.opcode != wire::Opcode::kMultiRead;
  if (job.by_reference) {
    // Both fixed parts, then the value directly from the log.
    const wire::MultiReply header{1, job.retry_after_us};
    const wire::MultiResult result{static_cast<uint16_t>(StatusCode::kOk), 0,
                                   job.first.value_length, job.first.version};
    static_assert(sizeof header + sizeof result <= Reply::kMaxFixedBytes);
    std::memcpy(reply.fixed, &header, sizeof header);
    std::memcpy(reply.fixed + sizeof header, &result, sizeof result);
    reply.fixed_size = sizeof header + sizeof result;
    reply.entry = job.first.entry;
    reply.entry_offset = job.first.value_offset;
    reply.entry_size = job.first.value_length;
  } else if (job.done == 0) {
    reply.status = StatusCode::kRetry;
    reply.set_fixed(wire::ErrorBody{std::max(job.retry_after_us, kRetryAfterUs), 0});
  } else {
    job.results.resize(job.whole);
    reply.set_fixed(wire::MultiReply{job.done, job.retry_after_us});
    reply.owned = std::move(job.results);
  }
  replies_.send(std::move(reply));
  charge_body(job, 0);
  charge_results(job, 0);
  // Still ours unless the reply is held or the transport took it.
  // NOLINTNEXTLINE(bugprone-use-after-move)
  if (reply.owned.capacity() > spare_.capacity() && reply.owned.capacity() <= kMostSpareBytes) {
    spare_ = std::move(reply.owned);
    spare_.clear();
  }
}

}  // namespace ramcloud::master
