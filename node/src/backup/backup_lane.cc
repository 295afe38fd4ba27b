#include "backup/backup_lane.h"

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
  if (write.length != bytes.size() || shared_.device.failed()) {
    return rest_(rest_object_, request);
  }
  const auto [outcome, bytes_held, why] = shared_.table.append_plain(write, bytes);
  switch (outcome) {
    case ReplicaTable::Plain::kTaken:
      writes_.add_from_one_thread();
      RC_FAILPOINT("backup.write.before_answer");
      if (shared_.syncs.synced()) {
        shared_.syncs.add({request.reply, bytes_held, &answers_});
        shared_.syncs.taken_elsewhere();
      } else {
        shared_.syncs.taken_elsewhere();
        reply(request.reply, bytes_held);
      }
      return;
    case ReplicaTable::Plain::kNotNow:
      return reply_error(transport_, request.reply, why, ReplicaTable::kRetryAfterUs);
    case ReplicaTable::Plain::kFailed:
      shared_.device.fail(why);
      [[fallthrough]];  // handled after that, and refused
    case ReplicaTable::Plain::kOther:
      return rest_(rest_object_, request);
  }
}

void BackupLane::reply(const ReplyHandle& handle, uint32_t bytes_held) {
  const wire::ReplicaReply body{bytes_held, 0};
  const Slice slice(bytes_of(body));
  transport_.reply(handle, StatusCode::kOk, {&slice, 1});
}

bool BackupLane::on_turn() {
  if (!answers_.take(sending_)) return false;
  const ReplyBatch batch(transport_);
  for (const AnswerQueue::Answer& answer : sending_) {
    if (answer.status.ok()) {
      reply(answer.reply, answer.bytes_held);
    } else {
      reply_error(transport_, answer.reply, answer.status);
    }
  }
  sending_.clear();
  return true;
}

}  // namespace ramcloud
