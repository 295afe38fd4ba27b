// Backups that come back with their volumes: a new process with a new id, which asks masters about
// its former frames.
#pragma once

#include <fmt/core.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backup/frame_format.h"
#include "backup/testing/replication_rig.h"
#include "log/compacted_segment.h"
#include "replication/unneeded_service.h"
#include "server/former_frames.h"

namespace ramcloud::testing {

class ReturningBackups : public ReplicationRig {
 public:
  /// Ids of backups that came back are above all others.
  static constexpr uint64_t kFirstReturned = 200;

  explicit ReturningBackups(uint64_t seed) : ReplicationRig(seed) {}
  ~ReturningBackups() { asking_.clear(); }

  /// `segments` closed segments.
  void begin(uint32_t backups, uint32_t replicas, uint64_t segments) {
    start(backups, replicas, backup_bytes_);
    for (uint32_t i = 0; i < backups; ++i) ids_.push_back(i + 1);
    asking_.resize(backups);
    registry_ = std::make_unique<ServiceRegistry>(*transport_);
    unneeded_.emplace(*registry_, servers_, *manager_);
    ASSERT_TRUE(transport_->listen({"m", 1}, Side::kInside, *registry_).has_value());
    for (int i = 0; log_->head().segment_id() <= segments; ++i) {
      must_put("k" + std::to_string(i), std::string(600'000, static_cast<char>('a' + i % 26)));
    }
    ASSERT_TRUE(all_durable());
    ASSERT_TRUE(is_whole());
  }

  /// The backup's process ends. The lists do not change yet.
  void leave(uint32_t i) {
    asking_[i].reset();
    scheduler_.kill(*nodes_[i]);
    backups_[i].reset();
    entry_of(ids_[i]).state = wire::ServerState::kCrashed;
    ++list_.version;
  }
  /// The same after a planned stop: the list will say so.
  void stop_by_plan(uint32_t i) {
    entry_of(ids_[i]).stopped_by_plan = true;
    leave(i);
  }
  /// Flips a byte in the first frame with a closed replica. Its process has ended.
  void damage_a_frame(uint32_t i) {
    nodes_[i]->disk().crash();
    auto file = std::move(*nodes_[i]->disk().open("/data/frames", 0));
    uint32_t frame = 0;
    std::string metadata(kFrameMetadataBytes, '\0');
    FrameSlot slot;
    do {
      ASSERT_TRUE(
          file->read(frame_metadata_offset(frame++), metadata.data(), metadata.size()).ok());
    } while (parse_slot(ByteView(metadata).substr(0, kSlotBytes), slot) != SlotVerdict::kValid);
    ASSERT_TRUE(file->write(frame_data_offset(frame - 1) + 1'000'000, "x").ok());
  }
  /// Of the `had` replicas of a backup that came back, one was damaged.
  void expect_damaged_one_copied(uint32_t i, size_t had) {
    EXPECT_EQ(adopted(), had - 1);
    EXPECT_EQ(recreated(), 1u);
    EXPECT_TRUE(no_former_frame_is_left(i)) << "also the damaged one";
    expect_no_leak();
    expect_all_is_found();
  }
  /// All of segment 1 is overwritten then, and copies are as they should be. `holder` has
  /// a replica of it.
  void begin_with_dead_segment(uint32_t& holder) {
    ASSERT_NO_FATAL_FAILURE(begin(6, 2, 6));
    for (int i = 0; i < 13; ++i) must_put(fmt::format("k{}", i), std::string(600'000, 'z'));
    ASSERT_TRUE(all_durable());
    while (log_->head().segment_id() < 10) {
      must_put("more", std::string(600'000, 'm'));
      ASSERT_TRUE(all_durable());
    }
    ASSERT_TRUE(is_whole());
    holder = index_of(manager_->replica_servers(1).front());
  }
  /// Drops what an object in the log needs no more: all of segment `id` was overwritten.
  void compact_to_nothing(uint64_t id) {
    log::Segment* original = log_->find_segment(id);
    log::CompactedSegment copy(*log_, *original);
    ASSERT_EQ(copy.open(1), StatusCode::kOk);
    copy.close(log_->head());
    copy.replace();
  }
  /// Another process starts with its volume. The list names it; backups know that.
  void come_back(uint32_t i, const std::string& domain = {}) {
    const wire::ServerListEntry former = entry_of(ids_[i]);
    ids_[i] = kFirstReturned + list_.servers.size();
    scheduler_.restart(*nodes_[i]);
    wire::ServerListEntry entry;
    entry.server_id = ids_[i];
    entry.locator = former.locator;
    entry.failure_domain = domain.empty() ? former.failure_domain : domain;
    list_.servers.push_back(entry);
    ++list_.version;
    start_backup(i, backup_bytes_);
    backups_[i]->transport->set_identity({kCluster, ids_[i]});
    ASSERT_TRUE(backups_[i]->frames->adopt(kCluster, ids_[i], 1, list_.version).ok());
    tell_backups();
    asking_[i] = std::make_unique<Asking>(*this, i);
  }
  void tell_all() {
    tell_backups();
    tell_master();
  }
  bool is_whole(Duration limit = 120s) {
    return scheduler_.run_until(
        [this] {
          const ReplicationStats stats = manager_->stats();
          return stats.under_replicated == 0 && !stats.writes_wait && list_is_applied();
        },
        limit);
  }
  bool no_former_frame_is_left(uint32_t i) {
    return scheduler_.run_until([&] { return backups_[i]->frames->frames_quarantined() == 0; },
                                120s);
  }
  /// A backup without a replica of a segment that is not closed; its index.
  std::optional<uint32_t> with_closed_ones_only() {
    for (uint32_t i = 0; i < ids_.size(); ++i) {
      size_t open = 0, closed = 0;
      manager_->for_each_slot(0, [&](const ReplicaSlot& slot) {
        if (slot.placed() && slot.server_id() == ids_[i]) ++(slot.closed() ? closed : open);
      });
      if (open == 0 && closed > 0) return i;
    }
    return std::nullopt;
  }
  size_t replicas_on(uint32_t i) {
    size_t count = 0;
    manager_->for_each_slot(0, [&](const ReplicaSlot& slot) {
      if (slot.placed() && slot.server_id() == ids_[i]) ++count;
    });
    return count;
  }
  /// Closed replicas in place of lost ones.
  uint64_t recreated() { return manager_->stats().replicas_recreated; }
  uint64_t adopted() { return manager_->stats().replicas_adopted; }
  uint32_t index_of(uint64_t id) const {
    return static_cast<uint32_t>(std::ranges::find(ids_, id) - ids_.begin());
  }
  /// Bytes that backups took since their processes started.
  uint64_t bytes_taken() const {
    uint64_t bytes = 0;
    for (const auto& role : backups_) {
      if (role) bytes += role->service->counters().written_bytes;
    }
    return bytes;
  }
  uint64_t opens() const {
    uint64_t count = 0;
    for (const auto& role : backups_) {
      if (role) count += role->service->counters().opens;
    }
    return count;
  }
  /// Each backup has exactly the replicas that the master believes to be there.
  void expect_no_leak() {
    EXPECT_EQ(manager_->check_counts(), "");
    const auto same = [this] {
      for (uint32_t i = 0; i < ids_.size(); ++i) {
        if (backups_[i] && backups_[i]->service->replicas() != replicas_on(i)) return false;
      }
      return true;
    };
    EXPECT_TRUE(scheduler_.run_until(same, 60s));
  }
  /// A rebuild from all folders finds everything; `each`: also from all but one.
  void expect_all_is_found(bool each = false) {
    std::vector<std::string> images;
    for (auto& asking : asking_) asking.reset();
    for (uint32_t i = 0; i < nodes_.size(); ++i) images.push_back(image_of(i));
    for (size_t missing = 0; missing <= (each ? images.size() : 0); ++missing) {
      std::vector<VolumeImage> volumes;
      for (size_t i = 0; i < images.size(); ++i) {
        if (i + 1 != missing) volumes.push_back({"b" + std::to_string(i + 1), images[i]});
      }
      std::map<std::string, std::string> found;
      const Status status = rebuild_images(volumes, [&](const log::ReplayedObject& object) {
        found[std::string(object.key)] = std::string(object.value);
      });
      EXPECT_TRUE(status.ok()) << "without folder " << missing << ": " << status.to_string();
      EXPECT_TRUE(found == model_)
          << "without folder " << missing << ": " << found.size() << " of " << model_.size();
    }
  }

  /// A returned backup asks.
  struct Asking {
    Asking(ReturningBackups& rig, uint32_t i)
        : rpc(rig.nodes_[i]->reactor(), *rig.backups_[i]->transport) {
      rpc.set_cluster_uuid(kCluster);
      frames.emplace(rpc, rig.backups_[i]->servers, rig.ids_[i], *rig.backups_[i]->service);
    }
    RpcClient rpc;
    std::optional<server::FormerFrames> frames;
  };

  uint64_t backup_bytes_ = 96u << 20;
  std::vector<uint64_t> ids_;  // the present ones, by node
  std::vector<std::unique_ptr<Asking>> asking_;
  std::unique_ptr<ServiceRegistry> registry_;
  std::optional<UnneededService> unneeded_;

 private:
  wire::ServerListEntry& entry_of(uint64_t id) {
    return *std::ranges::find(list_.servers, id, &wire::ServerListEntry::server_id);
  }
  /// The master knows the newest list, and has handled its losses.
  bool list_is_applied() {
    bool applied = servers_.version() == list_.version;
    manager_->for_each_slot(0, [&](const ReplicaSlot& slot) {
      applied = applied && (!slot.placed() || servers_.is_live(slot.server_id()));
    });
    return applied;
  }
};

}  // namespace ramcloud::testing
