#include "server/server_statistics.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace ramcloud::server {
namespace {

constexpr Duration kPublishEvery = 500ms;

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

}  // namespace

ServerStatistics::ServerStatistics(Reactor& reactor, MetricsRegistry& metrics,
                                   const ServerList& servers, const Epochs& epochs,
                                   std::vector<Part> parts, uint32_t replicas_wanted)
    : reactor_(reactor),
      servers_(servers),
      parts_(std::move(parts)),
      replicas_wanted_(replicas_wanted),
      timer_(reactor, [this] { publish(); }) {
  register_gauges(metrics, epochs);
}

void ServerStatistics::attach(Master& master, const FrameStore& frames,
                              const ReplicaService& backup, const Cleaning* cleaning) {
  first_.assert_here();
  cleaning_ = cleaning;
  master_ = &master;
  frames_ = &frames;
  backup_ = &backup;
  publish();
}

wire::ServerStats ServerStatistics::collect() const {
  first_.assert_here();
  wire::ServerStats stats;
  stats.list_version = servers_.version();
  if (master_ == nullptr) return stats;
  add_log(stats);
  add_cleaning(stats);
  add_backup(stats);
  for (const Part& part : parts_) {
    stats.reads += part.data->reads();
    stats.writes += part.data->writes();
    stats.deletes += part.data->deletes();
  }
  return stats;
}

void ServerStatistics::add_log(wire::ServerStats& stats) const {
  const log::LogStatistics log = master_->log().statistics();
  stats.log_bytes_total = log.total_bytes;
  stats.log_bytes_used = log.used_bytes;
  const log::Log::Sizes sizes = master_->log().sizes(0);
  stats.log_bytes_target = sizes.target;
  stats.log_bytes_held = sizes.held;
  stats.hash_table_bytes = master_->store().table().memory_bytes();
  for (const auto& tablet : master_->store().tablets()) {
    if (tablet.state != store::TabletState::kNormal) continue;
    ++stats.tablets;
    stats.objects += tablet.objects;
    stats.log_bytes_live += tablet.object_bytes;
  }
  stats.replicas_wanted = replicas_wanted_;
  stats.segments = log.total_segments - log.free_segments;
  if (master_->replicas() == nullptr) {
    stats.segments_fully_replicated = stats.segments;
    return;
  }
  const ReplicationStats replication = master_->replicas()->stats();
  stats.segments = replication.segments;
  stats.segments_fully_replicated = replication.fully_replicated;
  stats.segments_under_replicated = replication.under_replicated;
  stats.unreplicated_bytes = replication.unreplicated_bytes;
  stats.segments_degraded = replication.degraded;
  stats.writes_wait = replication.writes_wait ? 1 : 0;
  stats.replication_epoch = replication.epoch;
}

void ServerStatistics::add_cleaning(wire::ServerStats& stats) const {
  if (cleaning_ == nullptr) return;
  using Mode = log::CleanerMode;
  const log::CleanerState now = cleaning_->state();
  stats.cleaner = now.mode == Mode::kIdle         ? wire::CleanerState::kIdle
                  : now.mode == Mode::kCompacting ? wire::CleanerState::kCompacting
                  : now.mode == Mode::kCombined   ? wire::CleanerState::kCombined
                                                  : wire::CleanerState::kEmergency;
  stats.cleaner_why = now.why;
  stats.cleaner_write_cost_milli = static_cast<uint64_t>(now.write_cost * 1000);
}

void ServerStatistics::add_backup(wire::ServerStats& stats) const {
  stats.frames_total = frames_->frames_total();
  stats.frames_used = frames_->frames_used();
  stats.frames_quarantined = frames_->frames_quarantined();
  stats.backup_device = static_cast<uint64_t>(backup_->device());
}

void ServerStatistics::publish() {
  const wire::ServerStats stats = collect();
  {
    const MutexGuard guard(mutex_);
    published_ = stats;
  }
  timer_.start_after(kPublishEvery);
}

wire::ServerStats ServerStatistics::published() const {
  const MutexGuard guard(mutex_);
  return published_;
}

void ServerStatistics::register_gauges(MetricsRegistry& metrics, const Epochs& epochs) {
  const auto add = [this, &metrics](const char* name, const char* help,
                                    uint64_t wire::ServerStats::* field) {
    metrics.gauge(name, help, [this, field] { return static_cast<double>(published().*field); });
  };
  using S = wire::ServerStats;
  add("ramcloud_log_bytes", "Memory that the log may use.", &S::log_bytes_total);
  add("ramcloud_log_target_bytes",
      "Memory that the log is to have: --log-memory, or what `ramcloud server set` said.",
      &S::log_bytes_target);
  add("ramcloud_log_held_bytes", "Memory that the log has from the system.", &S::log_bytes_held);
  add("ramcloud_log_used_bytes", "Log memory that holds entries, dead ones included.",
      &S::log_bytes_used);
  add("ramcloud_log_live_bytes",
      "Log memory that live objects take; of tombstones, which may be needed as well, it is not "
      "known.",
      &S::log_bytes_live);
  metrics.gauge("ramcloud_log_dead_bytes",
                "Log memory that cleaning may free: dead objects, tombstones, ends of segments.",
                [this] {
                  const wire::ServerStats stats = published();
                  return static_cast<double>(stats.log_bytes_used -
                                             std::min(stats.log_bytes_live, stats.log_bytes_used));
                });
  metrics.gauge("ramcloud_log_free_bytes", "Log memory that holds nothing.", [this] {
    const wire::ServerStats stats = published();
    // While a log shrinks, its limit may be within a segment.
    return static_cast<double>(stats.log_bytes_total -
                               std::min(stats.log_bytes_used, stats.log_bytes_total));
  });
  add("ramcloud_objects", "Live objects.", &S::objects);
  add("ramcloud_tablets", "Tablets served.", &S::tablets);
  add("ramcloud_segments", "Segments of this master's log.", &S::segments);
  add("ramcloud_segments_fully_replicated", "Segments with all their replicas.",
      &S::segments_fully_replicated);
  add("ramcloud_segments_under_replicated", "Segments that lack a replica.",
      &S::segments_under_replicated);
  add("ramcloud_unreplicated_bytes", "Appended, and not on all replicas yet.",
      &S::unreplicated_bytes);
  add("ramcloud_segments_degraded", "Segments that go on with fewer than R replicas.",
      &S::segments_degraded);
  add("ramcloud_writes_wait", "1 while too few replicas can be placed, and writes wait.",
      &S::writes_wait);
  add("ramcloud_replication_epoch", "Losses of replicas of open segments.", &S::replication_epoch);
  add("ramcloud_backup_frames", "Frames of the backup volume.", &S::frames_total);
  add("ramcloud_backup_frames_used", "Frames that hold replicas.", &S::frames_used);
  add("ramcloud_backup_frames_quarantined",
      "Frames of former incarnations, kept because nothing proves them obsolete.",
      &S::frames_quarantined);
  add("ramcloud_backup_device", "0: good, 1: full, 2: failed; it takes no replicas then.",
      &S::backup_device);
  for (size_t i = 0; i < parts_.size(); ++i) {
    metrics.gauge("ramcloud_reactor_busy_seconds_total", "Time the reactor did work.",
                  [of = parts_[i].reactor] { return static_cast<double>(of->busy_ns()) / 1e9; },
                  {{"reactor", std::to_string(i)}});
  }
  metrics.gauge("ramcloud_oldest_epoch_seconds",
                "How long the oldest change has been waiting until every reactor has seen it.",
                [this, &epochs] { return seconds(epochs.oldest_age(reactor_.clock().now())); });
}

}  // namespace ramcloud::server
