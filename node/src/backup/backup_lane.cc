#include "backup/backup_lane.h"

#include <utility>

#include "backup/replica_service.h"
#include "base/failpoint.h"

namespace ramcloud {

BackupLane::~BackupLane() {
  if (rest_ != nullptr) reactor_.remove_hook(this);
}

void BackupLane::serve(ServiceRegistry& registry, ServiceRegistry::Handler rest, void* object) {
  rest_ = rest;
  rest_object_ = object;
  registry.add(wire::Opcode::kReplicaWrite, &call_member<&BackupLane::on_write, BackupLane>, this);
  reactor_.add_hook(this);
}

void BackupLane::on_write(const Request& request) {
  wire::ReplicaWriteRequest write;
  if (request.body.size() < sizeof write) return rest_(rest_object_, request);
  write = load<wire::ReplicaWriteRequest>(request.body.data());
  const ByteView bytes = request.body.substr(sizeof write);
  if (write.length != bytes.size() || service_.device_status_.failed()) {
    return rest_(rest_object_, request);
  }
  const auto [outcome, held, why] = service_.table_.append_plain(write, bytes);
  switch (outcome) {
    case ReplicaTable::Plain::kTaken:
      writes_.add_from_one_thread();
      RC_FAILPOINT("backup.write.before_answer");
      if (service_.options_.synced) {
        service_.wait_for_sync(request.reply, held, this);
        service_.taken_elsewhere();
      } else {
        service_.taken_elsewhere();
        reply(request.reply, held);
      }
      return;
    case ReplicaTable::Plain::kNotNow:
      return reply_error(transport_, request.reply, why, ReplicaService::kRetryAfterUs);
    case ReplicaTable::Plain::kFailed:
      service_.device_status_.fail(why);
      [[fallthrough]];  // handled after that, and refused
    case ReplicaTable::Plain::kOther:
      return rest_(rest_object_, request);
  }
}

void BackupLane::reply(const ReplyHandle& handle, uint32_t held) {
  const wire::ReplicaReply body{held, 0};
  const Slice slice(bytes_of(body));
  transport_.reply(handle, StatusCode::kOk, {&slice, 1});
}

void BackupLane::answer_later(const ReplyHandle& reply, uint32_t held, const Status& status) {
  {
    const SpinGuard guard(lock_);
    answers_.push_back({reply, held, status});
  }
  if (!has_answers_.exchange(true, std::memory_order_acq_rel)) reactor_.nudge();
}

bool BackupLane::on_turn() {
  if (!has_answers_.load(std::memory_order_relaxed)) return false;
  has_answers_.store(false, std::memory_order_relaxed);
  {
    const SpinGuard guard(lock_);
    std::swap(answers_, giving_);
  }
  const ReplyBatch batch(transport_);
  for (const Answer& answer : giving_) {
    if (answer.status.ok()) {
      reply(answer.reply, answer.held);
    } else {
      reply_error(transport_, answer.reply, answer.status);
    }
  }
  giving_.clear();
  return true;
}

}  // namespace ramcloud
