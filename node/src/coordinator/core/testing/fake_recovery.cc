#include "coordinator/core/testing/fake_recovery.h"

#include <algorithm>
#include <cmath>

namespace ramcloud::testing {

using Phase = wire::RecoveryPhase;

FakeRecovery::FakeRecovery(Reactor& reactor, Transport& transport, ServiceRegistry& registry)
    : reactor_(reactor), transport_(transport), scope_(reactor) {
  const auto add = [&]<auto Member>(wire::Opcode opcode) {
    registry.add(opcode, &call_member<Member, FakeRecovery>, this);
  };
  add.operator()<&FakeRecovery::on_query>(wire::Opcode::kRecoveryQuery);
  add.operator()<&FakeRecovery::on_recover>(wire::Opcode::kRecover);
  add.operator()<&FakeRecovery::on_state>(wire::Opcode::kGetRecoveryState);
  add.operator()<&FakeRecovery::on_serve_recovered>(wire::Opcode::kServeRecovered);
  add.operator()<&FakeRecovery::on_abort>(wire::Opcode::kAbortRecovery);
}

/// False: the request was answered.
template <typename Message>
bool FakeRecovery::take(const Request& request, wire::Opcode opcode, Message& message) {
  if (!enabled) {
    reply_error(transport_, request.reply, {StatusCode::kUnsupported, "unknown operation"});
    return false;
  }
  if (!request.decode(message)) violation = "a message of recovery that does not decode";
  if (on_call) on_call(opcode);
  if (message.term < heard_term_) {
    wire::ErrorDetails details;
    details.term = heard_term_;
    reply_error(transport_, request.reply, {StatusCode::kStaleTerm, "of a former leader"}, 0,
                details);
    return false;
  }
  heard_term_ = message.term;
  return true;
}

void FakeRecovery::on_query(const Request& r) {
  wire::RecoveryQueryRequest asked;
  if (!take(r, wire::Opcode::kRecoveryQuery, asked)) return;
  if (!query_fails.ok()) return reply_error(transport_, r.reply, query_fails);
  frozen.try_emplace(asked.master_id, reactor_.now());
  scans[asked.master_id].push_back(asked.scan_closed_from);
  pages[asked.master_id].push_back(asked.first_frame);
  if (keeps_silent) return;
  wire::RecoveryQueryReply reply;
  reply.former_server_id = former_server_id;
  for (wire::RecoveryReplica replica : replicas[asked.master_id]) {
    if (replica.frame < asked.first_frame) continue;
    if (reply.replicas.size() == page) {
      reply.next_frame = replica.frame;
      break;
    }
    if (replica.segment_id >= asked.scan_closed_from && !scans_nothing) {
      replica.flags |= wire::RecoveryReplica::kScanned;
    }
    if ((replica.flags & wire::RecoveryReplica::kScanned) == 0) replica.digest.clear();
    reply.replicas.push_back(std::move(replica));
  }
  scope_.spawn(answer_query(r.reply, std::move(reply)));
}

Task<void> FakeRecovery::answer_query(ReplyHandle handle, wire::RecoveryQueryReply reply) {
  if (query_takes > Duration{}) co_await reactor_.sleep(query_takes);
  reply_message(transport_, handle, reply);
}

void FakeRecovery::give_up(const wire::HashRange& range, uint64_t below) {
  for (auto& [key, job] : jobs) {
    if (key.second >= below) continue;
    std::erase_if(job.ranges, [&](const wire::HashRange& other) {
      return other.table_id == range.table_id && other.start_hash <= range.end_hash &&
             range.start_hash <= other.end_hash;
    });
  }
  std::erase_if(jobs, [](const auto& entry) { return entry.second.ranges.empty(); });
}

void FakeRecovery::on_recover(const Request& r) {
  wire::RecoverRequest asked;
  if (!take(r, wire::Opcode::kRecover, asked)) return;
  const std::string packed = std::exchange(asked.packed_segments, {});
  if (packed.empty() != (r.reply.version < wire::kPackedSegments) ||
      (!packed.empty() && !wire::unpack_segments(packed, asked.segments))) {
    violation = "an order whose segments are not packed as its version demands";
  }
  if (hold_orders) return;
  if (busy) return reply_error(transport_, r.reply, {StatusCode::kRetry, "other parts end first"});
  const std::pair key{asked.master_id, asked.attempt};
  for (const auto& [other, job] : jobs) {
    if (other.first == key.first && other.second > key.second) {
      return reply_error(transport_, r.reply, {StatusCode::kStaleTerm, "a higher attempt came"});
    }
  }
  if (!jobs.contains(key)) {
    if (asked.tablets.empty()) violation = "an order to recover nothing";
    for (size_t i = 1; i < asked.segments.size(); ++i) {
      if (asked.segments[i - 1].segment_id <= asked.segments[i].segment_id) {
        violation = "segments that are not ordered by falling id";
      }
    }
    Job job{.order = asked, .ranges = {}, .state = {}};
    for (const auto& tablet : asked.tablets) {
      give_up(tablet.range, asked.attempt);
      job.ranges.push_back(tablet.range);
    }
    jobs[key] = std::move(job);
    orders.push_back(asked);
    scope_.spawn(run(asked.master_id, asked.attempt));
  }
  reply_message(transport_, r.reply, jobs.at(key).state);
}

uint64_t FakeRecovery::bytes_of(const Job& job) const {
  double bytes = 0;
  for (const wire::LostTablet& tablet : job.order.tablets) {
    const auto table = table_bytes.find(tablet.range.table_id);
    if (table == table_bytes.end()) continue;
    const double share =
        std::ldexp(static_cast<double>(tablet.range.end_hash - tablet.range.start_hash), -64);
    bytes += static_cast<double>(table->second) * share;
  }
  return static_cast<uint64_t>(bytes);
}

Task<void> FakeRecovery::run(uint64_t master_id, uint64_t attempt) {
  const std::pair key{master_id, attempt};
  for (const Phase phase : {Phase::kReplaying, Phase::kCommitting, Phase::kReady}) {
    const auto job = jobs.find(key);
    if (job == jobs.end()) co_return;
    job->second.state.phase = phase;
    job->second.state.bytes_fetched +=
        100 + (phase == Phase::kReplaying ? bytes_of(job->second) : 0);
    if (phase == Phase::kReady) job->second.state.creation_position = ++log_head;
    if (phase == Phase::kCommitting && bytes_of(job->second) > framed_bytes) {
      fail.insert(fail.begin(), {StatusCode::kNoSpace, 0});
    }
    if (phase == Phase::kCommitting && !fail.empty()) {
      const auto [status, segment] = fail.front();
      fail.erase(fail.begin());
      job->second.state.phase = Phase::kFailed;
      job->second.state.status = static_cast<uint16_t>(status);
      job->second.state.segment = segment;
      job->second.state.why = "as the test wants";
      co_return;
    }
    while (stuck_in == phase) co_await reactor_.sleep(std::chrono::milliseconds(5));
    co_await reactor_.sleep(replay / 2);
  }
}

void FakeRecovery::on_state(const Request& r) {
  wire::GetRecoveryStateRequest asked;
  if (!take(r, wire::Opcode::kGetRecoveryState, asked) || tells_no_state) return;
  scope_.spawn(tell(r.reply, asked));
}

Task<void> FakeRecovery::tell(ReplyHandle handle, wire::GetRecoveryStateRequest asked) {
  const Time until = reactor_.now() + std::chrono::milliseconds(asked.wait_ms);
  for (;;) {
    const auto job = jobs.find({asked.master_id, asked.attempt});
    if (job == jobs.end()) {
      co_return reply_error(transport_, handle, {StatusCode::kNotFound, "no such recovery"});
    }
    if (job->second.state.phase != asked.known || reactor_.now() >= until) {
      co_return reply_message(transport_, handle, job->second.state);
    }
    co_await reactor_.sleep(std::chrono::milliseconds(5));
  }
}

void FakeRecovery::on_serve_recovered(const Request& r) {
  wire::ServeRecoveredRequest asked;
  if (!take(r, wire::Opcode::kServeRecovered, asked)) return;
  if (lose_serves > 0) {
    --lose_serves;
    return;
  }
  ++serve_orders;
  if (has_lost_all) {
    return reply_error(transport_, r.reply, {StatusCode::kNotFound, "it is not here"});
  }
  for (const wire::HashRange& range : asked.tablets) {
    const auto had = serving.find({range.table_id, range.start_hash});
    if (had != serving.end() && had->second.attempt == asked.attempt) continue;
    const auto job = std::ranges::find_if(jobs, [&](const auto& entry) {
      const Job& one = entry.second;
      return entry.first.second == asked.attempt &&
             (one.state.phase == Phase::kReady || one.state.phase == Phase::kServing) &&
             std::ranges::any_of(one.ranges, [&](const wire::HashRange& mine) {
               return mine.table_id == range.table_id && mine.start_hash == range.start_hash &&
                      mine.end_hash == range.end_hash;
             });
    });
    if (job == jobs.end()) {
      violation = "told to serve what it does not have";
      return reply_error(transport_, r.reply, {StatusCode::kNotFound, "it is not here"});
    }
    std::erase_if(job->second.ranges, [&](const wire::HashRange& mine) {
      return mine.table_id == range.table_id && mine.start_hash == range.start_hash;
    });
    serving[{range.table_id, range.start_hash}] = {range.end_hash, asked.attempt,
                                                   job->second.order.safe_version};
    if (on_serve) on_serve(range, asked.attempt);
  }
  reply_message(transport_, r.reply, wire::Empty());
}

void FakeRecovery::on_abort(const Request& r) {
  wire::AbortRecoveryRequest asked;
  if (!take(r, wire::Opcode::kAbortRecovery, asked)) return;
  std::erase_if(jobs, [&](const auto& entry) {
    const bool of_all = asked.master_id == wire::AbortRecoveryRequest::kAllMasters;
    return (of_all || entry.first.first == asked.master_id) && entry.first.second <= asked.attempt;
  });
  uint64_t& highest = aborted[asked.master_id];
  highest = std::max(highest, asked.attempt);
  reply_message(transport_, r.reply, wire::Empty());
}

}  // namespace ramcloud::testing
