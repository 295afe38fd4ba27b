// Backups are lost at any moment, and any number of folders may be missing afterwards: every
// rebuild that succeeds has all acknowledged writes, and an incomplete one reports an error.
#include <fmt/format.h>

#include "backup/testing/replication_rig.h"
#include "base/logging.h"
#include "base/testing/sanitizer.h"

namespace ramcloud {
namespace {

using testing::kMaster;
using testing::ReplicationRig;

constexpr uint64_t kBackupBytes = 96u << 20;

/// One master, four or five backups of which some are lost, and the acknowledged writes.
class BackupLoss {
 public:
  explicit BackupLoss(uint64_t seed) : seed_(seed), random_(seed), rig_(seed) {}

  void run() {
    backups_ = 4 + static_cast<uint32_t>(random_.below(2));
    replicas_ = 1 + static_cast<uint32_t>(random_.below(3));
    rig_.coordinator_delay_ = std::chrono::microseconds(random_.below(20'000));
    rig_.network_.options().loss = random_.chance(0.3) ? 0.01 : 0;
    rig_.reactors_ = seed_ % 2 == 0 ? 3 : 1;
    rig_.start(backups_, replicas_, kBackupBytes);
    write_some(20);
    for (int round = 0; round < 2 && rig_.list_.servers.size() > replicas_ + 2; ++round) {
      lose_one();
      write_some(15 + random_.below(15));
      // With R = 1 the only replica of something acknowledged may be gone by now.
      if (replicas_ > 1) check("while replicas are missing", false);
      if (!wait_whole()) return;
      check("after repair", replicas_ > 1);
      if (lost_.size() + replicas_ + 1 >= backups_) break;
    }
    rig_.network_.options().loss = 0;
    write_some(5);
    EXPECT_TRUE(rig_.all_durable(120s)) << "seed " << seed_;
    note_acknowledged();
    check("at the end", replicas_ > 1 && rig_.manager_->stats().under_replicated == 0);
    EXPECT_FALSE(rig_.manager_->condemned());
    EXPECT_EQ(rig_.manager_->stats().epoch, rig_.fence_.epoch) << "seed " << seed_;
  }

  /// The backups die one after the other, and then the master: the last backup's disk has
  /// everything.
  void run_out() {
    backups_ = replicas_ = 2;
    rig_.reactors_ = seed_ % 2 == 0 ? 3 : 1;
    rig_.start(backups_, replicas_, kBackupBytes);
    write_some(10);
    for (const uint32_t victim : {0u, 1u}) {
      EXPECT_TRUE(rig_.all_durable(120s)) << "seed " << seed_;
      note_acknowledged();
      lost_.insert(victim);
      rig_.crash_backup(victim);
      write_some(1);
      rig_.scheduler_.run_for(5s);
    }
    EXPECT_LT(rig_.log_->durable(), rig_.log_->head()) << "nobody has it";
    take_images();
    rebuild("when no backup is left", 3, true);
  }

  uint64_t event_hash() const { return rig_.scheduler_.event_hash(); }
  uint64_t refused_rebuilds() const { return refused_; }
  uint64_t fenced() const { return rig_.fence_.epoch; }
  /// The number of messages to backups that reactors other than the first sent.
  uint64_t sent_by_others() const {
    uint64_t sum = 0;
    for (size_t i = 1; i < rig_.lanes_.size(); ++i) sum += rig_.lanes_[i]->messages.value();
    return sum;
  }

 private:
  struct Written {
    log::LogPosition end;
    std::string key, value;
  };

  /// Puts without waiting for durability, so that losses meet bytes in flight.
  void write_some(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      const std::string key = fmt::format("k{}", random_.below(40));
      const std::string value =
          fmt::format("{}:", ++serial_) +
          std::string(random_.chance(0.3) ? random_.below(400'000) : random_.below(2'000), 'v');
      if (!rig_.scheduler_.run_until([&] { return rig_.put(key, value) == StatusCode::kOk; },
                                     120s)) {
        ADD_FAILURE() << "seed " << seed_ << ": the log took nothing for two minutes; waiting: "
                      << rig_.manager_->stats().waiting.to_string();
        return;
      }
      pending_.push_back({rig_.log_->head(), key, value});
      possible_[key].insert(value);
      rig_.scheduler_.run_for(std::chrono::microseconds(random_.below(3'000)));
      note_acknowledged();
    }
  }

  void note_acknowledged() {
    while (!pending_.empty() && pending_.front().end <= rig_.log_->durable()) {
      const Written& written = pending_.front();
      acknowledged_[written.key] = written.value;
      // Earlier values of this key are lost.
      std::set<std::string>& values = possible_[written.key];
      std::erase_if(values, [&](const std::string& value) {
        return std::stoull(value) < std::stoull(written.value);
      });
      pending_.pop_front();
    }
  }

  /// Kills a backup at a random moment. The seed decides which server learns of it first, and how
  /// much later.
  void lose_one() {
    uint32_t victim = 0;
    const auto holders = rig_.manager_->replica_servers(rig_.log_->head().segment_id());
    if (!holders.empty() && random_.chance(0.7)) {
      victim = static_cast<uint32_t>(holders[random_.below(holders.size())] - 1);
    } else {
      do {
        victim = static_cast<uint32_t>(random_.below(backups_));
      } while (lost_.contains(victim));
    }
    // In the middle of a burst: the backups have different numbers of bytes.
    rig_.scheduler_.run_for(std::chrono::microseconds(random_.below(2'000)));
    note_acknowledged();
    rig_.kill_backup(victim);
    lost_.insert(victim);
    const log::LogPosition durable = rig_.log_->durable();
    const bool master_first = random_.chance(0.5);
    for (int step = 0; step < 2; ++step) {
      write_without_waiting(static_cast<int>(random_.below(4)));
      rig_.scheduler_.run_for(std::chrono::microseconds(random_.below(30'000)));
      note_acknowledged();
      if ((step == 0) == master_first) {
        rig_.tell_master();
      } else {
        rig_.tell_backups();
      }
    }
    // At the first acknowledgement after the loss the lost folder must be known to be stale.
    rig_.scheduler_.run_until([&] { return rig_.log_->durable() > durable; }, 5s);
    note_acknowledged();
    check("at the first acknowledgement", false);
  }

  void write_without_waiting(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = fmt::format("k{}", random_.below(40));
      const std::string value = fmt::format("{}:small", ++serial_);
      if (rig_.put(key, value) != StatusCode::kOk) return;
      pending_.push_back({rig_.log_->head(), key, value});
      possible_[key].insert(value);
    }
  }

  bool wait_whole() {
    const bool whole = rig_.scheduler_.run_until(
        [&] {
          note_acknowledged();
          const auto stats = rig_.manager_->stats();
          return stats.under_replicated == 0 && stats.epoch == rig_.fence_.epoch;
        },
        120s);
    EXPECT_TRUE(whole) << "seed " << seed_ << ": " << rig_.manager_->stats().under_replicated
                       << " segments stay under-replicated";
    return whole;
  }

  void take_images() {
    images_.clear();
    for (uint32_t i = 0; i < backups_; ++i) {
      images_.push_back(rig_.nodes_[i]->disk().contents("/data/frames"));
      images_.back().resize(std::max<size_t>(images_.back().size(), kSuperblockBytes));
      // To a whole frame.
      const uint64_t frames =
          (images_.back().size() - kSuperblockBytes + kFrameStride - 1) / kFrameStride;
      images_.back().resize(kSuperblockBytes + frames * kFrameStride);
    }
  }

  /// Rebuilds from all live folders, from all folders (those of lost backups are stale), and from
  /// random choices; with `one_may_miss` every choice that lacks one live folder must succeed.
  void check(const char* when, bool one_may_miss) {
    take_images();
    uint32_t all = 0, live = 0;
    for (uint32_t i = 0; i < backups_; ++i) {
      all |= 1u << i;
      if (!lost_.contains(i)) live |= 1u << i;
    }
    const bool must = replicas_ > 1 || one_may_miss;
    rebuild(when, live, must);
    rebuild(when, all, must);
    for (uint32_t i = 0; i < backups_; ++i) {
      if ((live & 1u << i) != 0) rebuild(when, live & ~(1u << i), one_may_miss);
    }
    rebuild(when, all & ~live, false);
    for (int i = 0; i < 2; ++i) {
      rebuild(when, static_cast<uint32_t>(random_.below(uint64_t{1} << backups_)), false);
    }
  }

  void rebuild(const char* when, uint32_t folders, bool must_succeed) {
    std::vector<VolumeImage> volumes;
    for (uint32_t i = 0; i < backups_; ++i) {
      if ((folders & 1u << i) != 0) volumes.push_back({fmt::format("b{}", i + 1), images_[i]});
    }
    std::map<std::string, std::string> found;
    RebuildSummary summary;
    const Status status =
        rebuild_images(volumes,
                       [&](const log::ReplayedObject& object) {
                         found[std::string(object.key)] = std::string(object.value);
                       },
                       &summary, {.fences = {{kMaster, rig_.fence_}}, .recovered = {}});
    if (must_succeed) {
      EXPECT_TRUE(status.ok()) << "seed " << seed_ << ' ' << when << ", folders " << folders << ": "
                               << status.to_string();
    }
    // Without any replica of the master the rebuild does not know it.
    if (!status.ok() || summary.masters.empty()) {
      ++refused_;
      return;
    }
    for (const auto& [key, value] : acknowledged_) {
      const auto there = found.find(key);
      ASSERT_TRUE(there != found.end() && possible_[key].contains(there->second))
          << "seed " << seed_ << ' ' << when << ", folders " << folders << ": " << key << " is "
          << (there == found.end() ? "absent" : there->second.substr(0, 12))
          << ", acknowledged was " << value.substr(0, 12);
    }
  }

  const uint64_t seed_;
  Random random_;
  ReplicationRig rig_;
  uint32_t backups_ = 0, replicas_ = 0;
  std::set<uint32_t> lost_;
  std::deque<Written> pending_;
  std::map<std::string, std::string> acknowledged_;
  std::map<std::string, std::set<std::string>> possible_;  // acknowledged, or appended after
  std::vector<std::string> images_;
  uint64_t serial_ = 0;
  uint64_t refused_ = 0;
};

class BackupLossSim : public ::testing::Test {
 protected:
  BackupLossSim() { set_log_level(std::getenv("SIM_LOG") ? LogLevel::kDebug : LogLevel::kError); }
};

TEST_F(BackupLossSim, WhatWasAcknowledgedIsInEveryRebuildThatSucceeds) {
  uint64_t refused = 0, fenced = 0, sent_by_others = 0;
  uint64_t from = 1, count = testing::seeds(16);
  if (const char* text = std::getenv("SIM_SEEDS")) {
    char* end = nullptr;
    from = std::strtoull(text, &end, 10);
    count = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1;
  }
  for (uint64_t seed = from; seed < from + count; ++seed) {
    BackupLoss loss(seed);
    loss.run();
    if (HasFailure()) FAIL() << "replay with SIM_SEEDS=" << seed << ":1";
    refused += loss.refused_rebuilds();
    fenced += loss.fenced();
    sent_by_others += loss.sent_by_others();
  }
  if (count < 16) return;
  // The interesting cases were reached.
  EXPECT_GT(refused, 20u);
  EXPECT_GT(fenced, 12u);
  EXPECT_GT(sent_by_others, 100u);
}

TEST_F(BackupLossSim, WhenNoBackupIsLeftTheLastOnesDiskHasEverything) {
  for (uint64_t seed = 1; seed <= 4; ++seed) BackupLoss(seed).run_out();
}

TEST_F(BackupLossSim, SameSeedSameEvents) {
  const auto hash = [](uint64_t seed) {
    BackupLoss loss(seed);
    loss.run();
    return loss.event_hash();
  };
  const uint64_t third = hash(3);
  EXPECT_EQ(hash(3), third);
  const uint64_t fourth = hash(4);
  EXPECT_EQ(hash(4), fourth);
  EXPECT_NE(third, fourth);
}

}  // namespace
}  // namespace ramcloud
