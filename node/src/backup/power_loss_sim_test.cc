// With durability "synced" all machines lose their power at once while writes of real size are in
// flight. Their sectors land in any order, on every replica. All acknowledged writes are there;
// holes behind them must not make the log unreadable.
#include <fmt/format.h>

#include <cstdlib>

#include "backup/testing/replication_rig.h"
#include "base/logging.h"
#include "base/testing/sanitizer.h"

namespace ramcloud {
namespace {

using testing::kMaster;
using testing::ReplicationRig;

class PowerLoss {
 public:
  PowerLoss(uint64_t seed, bool direct) : seed_(seed), random_(seed), rig_(seed) {
    rig_.direct_ = direct;
    rig_.reactors_ = seed % 2 == 0 ? 3 : 1;
    rig_.service_options_.synced = true;
  }

  void run() {
    rig_.start(3, 2 + static_cast<uint32_t>(seed_ % 2));
    // Near the end of a segment for some seeds, so that heads are switched in the last moment.
    const uint64_t before = random_.below(100);
    for (uint64_t i = 0; i < before; ++i) put(fmt::format("k{}", i), 100'000);
    ASSERT_TRUE(rig_.all_durable());
    for (int i = 0; i < 80; ++i) {
      put(fmt::format("late{}", i), 200 + random_.below(60'000));
      if (random_.chance(0.3)) {
        rig_.scheduler_.run_for(std::chrono::microseconds(random_.below(400)));
      }
    }
    rig_.scheduler_.run_for(std::chrono::microseconds(random_.below(3'000)));
    cut_and_rebuild();
  }

  /// Replicas with a hole: valid groups behind an invalid one.
  uint32_t holes() const { return holes_; }

 private:
  struct Written {
    log::LogPosition end;
    std::string key, value;
  };

  void put(const std::string& key, uint64_t size) {
    const std::string value = fmt::format("{}:{}", ++serial_, std::string(size, 'v'));
    rig_.must_put(key, value);
    written_.push_back({rig_.log_->head(), key, value});
  }

  void cut_and_rebuild() {
    const log::LogPosition durable = rig_.log_->durable();
    std::vector<std::string> images;
    for (SimNode* node : rig_.nodes_) {
      node->disk().power_loss();
      std::string& image = images.emplace_back(node->disk().contents("/data/frames"));
      const uint64_t bytes = std::max<uint64_t>(image.size(), kSuperblockBytes) - kSuperblockBytes;
      image.resize(kSuperblockBytes + (bytes + kFrameStride - 1) / kFrameStride * kFrameStride);
    }
    std::vector<VolumeImage> volumes;
    for (const std::string& image : images) {
      volumes.push_back({fmt::format("b{}", volumes.size() + 1), image});
      const auto dumped = dump_image(
          image, [&](const ReplicaDump& replica) { holes_ += replica.scan.groups_after_hole > 0; });
      ASSERT_TRUE(dumped.has_value()) << dumped.error().to_string();
    }
    std::map<std::string, std::string> found;
    const Status status =
        rebuild_images(volumes,
                       [&](const log::ReplayedObject& object) {
                         found[std::string(object.key)] = std::string(object.value);
                       },
                       nullptr, {.fences = {{kMaster, rig_.fence_}}, .recovered = {}});
    ASSERT_TRUE(status.ok()) << "seed " << seed_ << ": " << status.to_string();
    for (const Written& written : written_) {
      if (written.end > durable) continue;
      ASSERT_EQ(found[written.key].substr(0, 20), written.value.substr(0, 20))
          << "seed " << seed_ << ": " << written.key << " was acknowledged";
    }
  }

  const uint64_t seed_;
  Random random_;
  ReplicationRig rig_;
  std::vector<Written> written_;  // each key once
  uint64_t serial_ = 0;
  uint32_t holes_ = 0;
};

class PowerLossSim : public ::testing::TestWithParam<bool> {
 protected:
  PowerLossSim() { set_log_level(LogLevel::kError); }
};
INSTANTIATE_TEST_SUITE_P(Ways, PowerLossSim, ::testing::Bool(), [](const auto& about) {
  return std::string(about.param ? "direct" : "cached");
});

TEST_P(PowerLossSim, HolesInWritesInFlightCostNothingThatWasAcknowledged) {
  uint32_t holes = 0;
  const uint64_t count = testing::seeds(8);
  for (uint64_t seed = 1; seed <= count; ++seed) {
    PowerLoss loss(seed, GetParam());
    loss.run();
    if (HasFailure()) FAIL() << "seed " << seed;
    holes += loss.holes();
  }
  EXPECT_GE(holes, count / 2) << "the interesting case was not reached";
}

}  // namespace
}  // namespace ramcloud
