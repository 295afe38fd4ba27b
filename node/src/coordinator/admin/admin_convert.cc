#include "coordinator/admin/admin_convert.h"

#include <cmath>

namespace ramcloud {
namespace pb = admin::v1;

// The enumerations have the same values on both sides.
static_assert(static_cast<int>(wire::ServerState::kUp) == pb::SERVER_UP);
static_assert(static_cast<int>(wire::ServerState::kCrashed) == pb::SERVER_CRASHED);
static_assert(static_cast<int>(wire::ServerState::kRemoved) == pb::SERVER_REMOVED);
static_assert(static_cast<int>(wire::TabletState::kNormal) == pb::TABLET_NORMAL);
static_assert(static_cast<int>(wire::TabletState::kCreating) == pb::TABLET_CREATING);
static_assert(static_cast<int>(wire::TabletState::kUnavailable) == pb::TABLET_UNAVAILABLE);
static_assert(static_cast<int>(wire::CleanerState::kNone) == pb::CLEANER_STATE_OFF);
static_assert(static_cast<int>(wire::CleanerState::kEmergency) == pb::CLEANER_STATE_EMERGENCY);

namespace {

using Timeline = RecoveryProgress::Timeline;

void to_proto(const Timeline& timeline, pb::RecoveryTimeline& out) {
  if (timeline.verdict) out.set_verdict(*timeline.verdict);
  if (timeline.queried) out.set_queried(*timeline.queried);
  if (timeline.planned) out.set_planned(*timeline.planned);
  if (timeline.first_key) out.set_first_key(*timeline.first_key);
  if (timeline.half) out.set_half(*timeline.half);
  if (timeline.served) out.set_served(*timeline.served);
  if (timeline.replicated) out.set_replicated(*timeline.replicated);
}

Timeline from_proto(const pb::RecoveryTimeline& in) {
  Timeline timeline;
  if (in.has_verdict()) timeline.verdict = in.verdict();
  if (in.has_queried()) timeline.queried = in.queried();
  if (in.has_planned()) timeline.planned = in.planned();
  if (in.has_first_key()) timeline.first_key = in.first_key();
  if (in.has_half()) timeline.half = in.half();
  if (in.has_served()) timeline.served = in.served();
  if (in.has_replicated()) timeline.replicated = in.replicated();
  return timeline;
}

/// The fields of a segment that recoveries and previews of a loss have in common.
template <typename Segment, typename Message>
pb::MissingSegment& add_missing(const Segment& segment, Message& to) {
  pb::MissingSegment& missing = *to.add_missing();
  missing.set_segment_id(segment.segment_id);
  missing.set_why(segment.why);
  for (const uint64_t id : segment.holders) missing.add_holders(id);
  return missing;
}

void to_proto(const CleanerSummary& cleaner, pb::Cleaner& out) {
  out.set_state(static_cast<pb::CleanerState>(cleaner.state));
  out.set_why(cleaner.why);
  out.set_write_cost(static_cast<double>(cleaner.write_cost_milli) / 1000);
}

CleanerSummary from_proto(const pb::Cleaner& in) {
  return {static_cast<wire::CleanerState>(in.state()), in.why(),
          static_cast<uint64_t>(std::llround(in.write_cost() * 1000))};
}

void to_proto(const RecoveryView& recovery, pb::Recovery& out) {
  const RecoveryProgress& progress = recovery.progress;
  out.set_server_id(recovery.server_id);
  out.set_name(recovery.name);
  out.set_phase(recovery_phase_name(progress.phase));
  out.set_waits_for(progress.waits_for);
  for (const auto& segment : progress.missing) (void)add_missing(segment, out);
  out.set_attempt(progress.attempt);
  out.set_parts(progress.parts);
  out.set_parts_done(progress.parts_done);
  out.set_bytes_total(progress.bytes_total);
  out.set_bytes_done(progress.bytes_done);
  out.set_begun_at_ms(progress.begun_at_ms);
  out.set_state(recovery_state_name(progress));
  out.set_outcome(progress.outcome);
  out.set_reason(progress.reason);
  out.set_crashed_at_ms(progress.crashed_at_ms);
  to_proto(progress.timeline, *out.mutable_timeline_ms());
  out.set_entries(progress.entries);
  for (const auto& partition : progress.partitions) {
    auto& shown = *out.add_partitions();
    shown.set_id(partition.id);
    shown.set_recovery_master(partition.recovery_master);
    shown.set_state(partition.state);
    shown.set_bytes(partition.bytes);
    shown.set_bytes_replayed(partition.bytes_replayed);
  }
  out.mutable_memory()->set_needed_bytes(progress.needed_bytes);
  out.mutable_memory()->set_free_bytes(progress.free_bytes);
}

RecoveryView from_proto(const pb::Recovery& in) {
  RecoveryView recovery{in.server_id(), in.name(), {}};
  RecoveryProgress& progress = recovery.progress;
  progress.phase = recovery_phase(in.phase());
  progress.waits_for = in.waits_for();
  for (const auto& segment : in.missing()) {
    progress.missing.push_back({segment.segment_id(),
                                segment.why(),
                                {segment.holders().begin(), segment.holders().end()}});
  }
  progress.attempt = in.attempt();
  progress.parts = in.parts();
  progress.parts_done = in.parts_done();
  progress.bytes_total = in.bytes_total();
  progress.bytes_done = in.bytes_done();
  progress.begun_at_ms = in.begun_at_ms();
  recovery.told_whole = !in.state().empty();
  progress.done = in.state() == "DONE";
  progress.outcome = in.outcome();
  progress.reason = in.reason();
  progress.crashed_at_ms = in.crashed_at_ms();
  progress.timeline = from_proto(in.timeline_ms());
  progress.entries = in.entries();
  for (const auto& partition : in.partitions()) {
    progress.partitions.push_back({partition.id(), partition.recovery_master(), partition.state(),
                                   partition.bytes(), partition.bytes_replayed()});
  }
  progress.needed_bytes = in.memory().needed_bytes();
  progress.free_bytes = in.memory().free_bytes();
  return recovery;
}

}  // namespace

pb::ClusterStatus to_proto(const ClusterStatus& status) {
  pb::ClusterStatus out;
  out.set_cluster_name(status.cluster_name);
  out.set_cluster_uuid(status.cluster_uuid);
  out.set_version(status.version);
  out.set_term(status.term);
  out.set_revision(status.revision);
  out.set_servers_up(status.servers_up);
  out.set_servers_crashed(status.servers_crashed);
  out.set_tables(status.tables);
  out.set_tablets(status.tablets);
  out.set_tablets_unavailable(status.tablets_unavailable);
  out.set_masters_with_tablets(status.masters_with_tablets);
  auto& sum = *out.mutable_replication();
  sum.set_replicas_wanted(status.replication.replicas_wanted);
  sum.set_segments(status.replication.segments);
  sum.set_segments_fully_replicated(status.replication.segments_fully_replicated);
  sum.set_segments_under_replicated(status.replication.segments_under_replicated);
  sum.set_unreplicated_bytes(status.replication.unreplicated_bytes);
  sum.set_segments_degraded(status.replication.segments_degraded);
  sum.set_masters_waiting(status.replication.masters_waiting);
  out.set_objects(status.objects);
  out.set_log_bytes_used(status.memory.used_bytes);
  out.set_log_bytes_total(status.memory.total_bytes);
  out.set_health(status.health);
  for (const auto& reason : status.reasons) out.add_reasons(reason);
  auto& detection = *out.mutable_detection();
  detection.set_state(detection_name(status.detection));
  detection.set_accounted(status.detection.accounted);
  detection.set_expected(status.detection.expected);
  for (const auto& one : status.detection.waits_for) detection.add_waits_for(one);
  for (const auto& recovery : status.recoveries) to_proto(recovery, *out.add_recoveries());
  for (const auto& ended : status.recoveries_ended) to_proto(ended, *out.add_recoveries_ended());
  out.set_survives_servers(status.survives_servers);
  auto& memory = *out.mutable_memory();
  memory.set_total_bytes(status.memory.total_bytes);
  memory.set_used_bytes(status.memory.used_bytes);
  memory.set_live_bytes(status.memory.live_bytes);
  memory.set_hash_table_bytes(status.memory.hash_table_bytes);
  memory.set_target_bytes(status.memory.target_bytes);
  memory.set_held_bytes(status.memory.held_bytes);
  to_proto(status.cleaner, *out.mutable_cleaner());
  return out;
}

ClusterStatus from_proto(const pb::ClusterStatus& in) {
  ClusterStatus status;
  status.cluster_name = in.cluster_name();
  status.cluster_uuid = in.cluster_uuid();
  status.version = in.version();
  status.term = in.term();
  status.revision = in.revision();
  status.servers_up = in.servers_up();
  status.servers_crashed = in.servers_crashed();
  status.tables = in.tables();
  status.tablets = in.tablets();
  status.tablets_unavailable = in.tablets_unavailable();
  status.masters_with_tablets = in.masters_with_tablets();
  status.replication = {in.replication().replicas_wanted(),
                        in.replication().segments(),
                        in.replication().segments_fully_replicated(),
                        in.replication().segments_under_replicated(),
                        in.replication().unreplicated_bytes(),
                        in.replication().segments_degraded(),
                        in.replication().masters_waiting()};
  status.objects = in.objects();
  status.health = in.health();
  status.reasons.assign(in.reasons().begin(), in.reasons().end());
  status.detection.suspect = in.detection().state() == "SUSPECT";
  status.detection.accounted = in.detection().accounted();
  status.detection.expected = in.detection().expected();
  status.detection.waits_for.assign(in.detection().waits_for().begin(),
                                    in.detection().waits_for().end());
  for (const auto& recovery : in.recoveries()) status.recoveries.push_back(from_proto(recovery));
  for (const auto& ended : in.recoveries_ended()) {
    status.recoveries_ended.push_back(from_proto(ended));
  }
  status.survives_servers = in.survives_servers();
  // A coordinator of an earlier version does not send all fields.
  status.memory = {in.log_bytes_total(),       in.log_bytes_used(),
                   in.memory().live_bytes(),   in.memory().hash_table_bytes(),
                   in.memory().target_bytes(), in.memory().held_bytes()};
  status.cleaner = from_proto(in.cleaner());
  return status;
}

pb::SetServerMemoryResponse to_proto(const wire::ResizeLogReply& reply) {
  pb::SetServerMemoryResponse out;
  out.set_target_bytes(reply.target_bytes);
  out.set_limit_bytes(reply.limit_bytes);
  out.set_held_bytes(reply.held_bytes);
  out.set_done(reply.done());
  out.set_least_bytes(reply.least_bytes);
  out.set_most_bytes(reply.most_bytes);
  for (const std::string& note : reply.notes) out.add_notes(note);
  return out;
}

wire::ResizeLogReply from_proto(const pb::SetServerMemoryResponse& in) {
  return {in.target_bytes(), in.limit_bytes(), in.held_bytes(),
          in.least_bytes(),  in.most_bytes(),  {in.notes().begin(), in.notes().end()}};
}

pb::Server to_proto(const ServerView& server) {
  pb::Server out;
  out.set_id(server.id);
  out.set_name(server.name);
  out.set_state(static_cast<pb::ServerState>(server.state));
  out.set_locator(server.locator);
  out.set_locator_outside(server.locator_outside);
  out.set_http_address(server.http_address);
  out.set_failure_domain(server.failure_domain);
  out.set_enlisted_at_ms(server.enlisted_at_ms);
  out.set_version(server.version);
  out.set_state_reason(server.state_reason);
  out.set_fence_segment(server.fence_segment);
  out.set_fence_epoch(server.fence_epoch);
  auto& stats = *out.mutable_stats();
  stats.set_log_bytes_total(server.stats.log_bytes_total);
  stats.set_log_bytes_used(server.stats.log_bytes_used);
  stats.set_objects(server.stats.objects);
  stats.set_tablets(static_cast<uint32_t>(server.stats.tablets));
  stats.set_segments(server.stats.segments);
  stats.set_segments_fully_replicated(server.stats.segments_fully_replicated);
  stats.set_segments_under_replicated(server.stats.segments_under_replicated);
  stats.set_unreplicated_bytes(server.stats.unreplicated_bytes);
  stats.set_replicas_wanted(static_cast<uint32_t>(server.stats.replicas_wanted));
  stats.set_backup_frames_total(server.stats.frames_total);
  stats.set_backup_frames_used(server.stats.frames_used);
  stats.set_backup_frames_quarantined(server.stats.frames_quarantined);
  stats.set_reads(server.stats.reads);
  stats.set_writes(server.stats.writes);
  stats.set_deletes(server.stats.deletes);
  stats.set_segments_degraded(server.stats.segments_degraded);
  stats.set_writes_wait(server.stats.writes_wait != 0);
  stats.set_replication_epoch(static_cast<uint32_t>(server.stats.replication_epoch));
  stats.set_backup_device(static_cast<pb::BackupDevice>(server.stats.backup_device));
  stats.set_log_bytes_live(server.stats.log_bytes_live);
  stats.set_hash_table_bytes(server.stats.hash_table_bytes);
  stats.set_log_bytes_target(server.stats.log_bytes_target);
  stats.set_log_bytes_held(server.stats.log_bytes_held);
  to_proto(CleanerSummary{server.stats.cleaner, server.stats.cleaner_why,
                          server.stats.cleaner_write_cost_milli},
           *stats.mutable_cleaner());
  return out;
}

ServerView from_proto(const pb::Server& in) {
  ServerView server;
  server.id = in.id();
  server.name = in.name();
  server.state = static_cast<wire::ServerState>(in.state());
  server.state_reason = in.state_reason();
  server.fence_segment = in.fence_segment();
  server.fence_epoch = in.fence_epoch();
  server.locator = in.locator();
  server.locator_outside = in.locator_outside();
  server.http_address = in.http_address();
  server.failure_domain = in.failure_domain();
  server.version = in.version();
  server.enlisted_at_ms = in.enlisted_at_ms();
  const auto& stats = in.stats();
  server.stats.log_bytes_total = stats.log_bytes_total();
  server.stats.log_bytes_used = stats.log_bytes_used();
  server.stats.log_bytes_live = stats.log_bytes_live();
  server.stats.hash_table_bytes = stats.hash_table_bytes();
  server.stats.log_bytes_target = stats.log_bytes_target();
  server.stats.log_bytes_held = stats.log_bytes_held();
  const CleanerSummary cleaner = from_proto(stats.cleaner());
  server.stats.cleaner = cleaner.state;
  server.stats.cleaner_why = cleaner.why;
  server.stats.cleaner_write_cost_milli = cleaner.write_cost_milli;
  server.stats.objects = stats.objects();
  server.stats.tablets = stats.tablets();
  server.stats.segments = stats.segments();
  server.stats.segments_fully_replicated = stats.segments_fully_replicated();
  server.stats.segments_under_replicated = stats.segments_under_replicated();
  server.stats.unreplicated_bytes = stats.unreplicated_bytes();
  server.stats.replicas_wanted = stats.replicas_wanted();
  server.stats.frames_total = stats.backup_frames_total();
  server.stats.frames_used = stats.backup_frames_used();
  server.stats.frames_quarantined = stats.backup_frames_quarantined();
  server.stats.reads = stats.reads();
  server.stats.writes = stats.writes();
  server.stats.deletes = stats.deletes();
  server.stats.segments_degraded = stats.segments_degraded();
  server.stats.writes_wait = stats.writes_wait() ? 1 : 0;
  server.stats.replication_epoch = stats.replication_epoch();
  server.stats.backup_device = static_cast<uint64_t>(stats.backup_device());
  return server;
}

pb::Table to_proto(const wire::TableInfo& table) {
  pb::Table out;
  out.set_id(table.table_id);
  out.set_name(table.name);
  for (const auto& tablet : table.tablets) {
    auto& shown = *out.add_tablets();
    shown.set_start_hash(tablet.start_hash);
    shown.set_end_hash(tablet.end_hash);
    shown.set_server_id(tablet.server_id);
    shown.set_state(static_cast<pb::TabletState>(tablet.state));
  }
  return out;
}

wire::TableInfo from_proto(const pb::Table& in) {
  wire::TableInfo table;
  table.table_id = in.id();
  table.name = in.name();
  for (const auto& tablet : in.tablets()) {
    table.tablets.push_back({tablet.start_hash(),
                             tablet.end_hash(),
                             tablet.server_id(),
                             static_cast<wire::TabletState>(tablet.state()),
                             {}});
  }
  return table;
}

namespace {
struct CodePair {
  StatusCode ours;
  int grpc;  // of grpc/status.h; the values are part of gRPC's protocol
};
// Of several pairs with the same gRPC code, the first is used to convert back.
constexpr CodePair kCodes[] = {
    {StatusCode::kOk, 0},
    {StatusCode::kCancelled, 1},
    {StatusCode::kInvalidArgument, 3},
    {StatusCode::kDeadlineExceeded, 4},
    {StatusCode::kNotFound, 5},
    {StatusCode::kExists, 6},
    {StatusCode::kOutOfMemory, 8},
    {StatusCode::kNoSpace, 8},
    {StatusCode::kWrongCluster, 9},
    {StatusCode::kIndeterminate, 10},
    {StatusCode::kUnsupported, 12},
    {StatusCode::kInternal, 13},
    {StatusCode::kUnavailable, 14},
    {StatusCode::kRetry, 14},
    {StatusCode::kNotLeader, 14},
    {StatusCode::kCorrupt, 15},
};
}  // namespace

// ---- losses

pb::AcceptLossResponse to_proto(const LossAnswer& answer) {
  pb::AcceptLossResponse out;
  const LossPreview& preview = answer.preview;
  out.set_accepted(answer.accepted);
  out.set_effect(answer.effect);
  out.set_token(preview.token);
  for (const log::MissingSegment& segment : preview.missing) {
    auto& missing = add_missing(segment, out);
    missing.set_found_bytes(segment.found);
    missing.set_end(segment.end);
  }
  out.set_more_missing(preview.more);
  out.set_end_missing(preview.end_given_up);
  out.set_newest_head(preview.newest_head);
  out.set_segments_found(preview.segments_found);
  out.set_bytes_found(preview.bytes_found);
  out.set_bytes_missing(preview.bytes_lost);
  for (const LossPreview::Table& table : preview.tables) {
    auto& affected = *out.add_tables();
    affected.set_name(table.name);
    affected.set_tablets(table.tablets);
    affected.set_share(table.share_of_table);
  }
  return out;
}

LossAnswer from_proto(const pb::AcceptLossResponse& in) {
  LossAnswer answer{in.accepted(), {}, in.effect()};
  LossPreview& preview = answer.preview;
  preview.token = in.token();
  for (const auto& segment : in.missing()) {
    log::MissingSegment& missing = preview.missing.emplace_back();
    missing.segment_id = segment.segment_id();
    missing.why = segment.why();
    missing.holders = {segment.holders().begin(), segment.holders().end()};
    missing.found = segment.found_bytes();
    missing.end = segment.end();
  }
  preview.more = in.more_missing();
  preview.end_given_up = in.end_missing();
  preview.newest_head = in.newest_head();
  preview.segments_found = in.segments_found();
  preview.bytes_found = in.bytes_found();
  preview.bytes_lost = in.bytes_missing();
  for (const auto& table : in.tables()) {
    preview.tables.push_back({table.name(), table.tablets(), table.share()});
  }
  return answer;
}

pb::AcceptedLoss to_proto(const AcceptedLossRecord& record) {
  pb::AcceptedLoss out;
  out.set_server_id(record.server_id);
  out.set_revision(record.revision);
  out.set_accepted_at_ms(record.accepted_at_ms);
  out.set_by(record.by);
  out.set_reason(record.reason);
  out.set_summary(record.summary);
  out.set_token(record.token);
  for (const GivenUpSegment& segment : record.segments) {
    auto& given_up = *out.add_segments();
    given_up.set_segment_id(segment.segment_id);
    given_up.set_found_bytes(segment.found_bytes);
  }
  out.set_end_given_up(record.end_given_up);
  out.set_newest_head(record.newest_head);
  for (const uint64_t segment : record.later) out.add_later(segment);
  return out;
}

AcceptedLossRecord from_proto(const pb::AcceptedLoss& in) {
  AcceptedLossRecord record;
  record.server_id = in.server_id();
  record.revision = in.revision();
  record.accepted_at_ms = in.accepted_at_ms();
  record.by = in.by();
  record.reason = in.reason();
  record.summary = in.summary();
  record.token = in.token();
  for (const auto& segment : in.segments()) {
    GivenUpSegment& given_up = record.segments.emplace_back();
    given_up.segment_id = segment.segment_id();
    given_up.found_bytes = segment.found_bytes();
  }
  record.end_given_up = in.end_given_up();
  record.newest_head = in.newest_head();
  record.later.assign(in.later().begin(), in.later().end());
  return record;
}

int to_grpc_code(StatusCode code) {
  for (const auto& pair : kCodes) {
    if (pair.ours == code) return pair.grpc;
  }
  return 2;  // UNKNOWN
}

StatusCode from_grpc_code(int code) {
  for (const auto& pair : kCodes) {
    if (pair.grpc == code) return pair.ours;
  }
  return StatusCode::kInternal;
}

}  // namespace ramcloud
