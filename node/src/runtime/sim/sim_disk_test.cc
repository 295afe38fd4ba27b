#include "runtime/sim/sim_disk.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "runtime/sim/sim_scheduler.h"

namespace ramcloud {
namespace {

class SimDiskTest : public ::testing::Test {
 protected:
  std::unique_ptr<File> open() {
    auto file = node.disk().open("/d/f", 64 << 10);
    EXPECT_TRUE(file.has_value());
    return std::move(*file);
  }
  static std::string read(File& file, uint64_t offset, size_t size) {
    std::string bytes(size, '?');
    EXPECT_TRUE(file.read(offset, bytes.data(), size).ok());
    return bytes;
  }
  void sync(File& file) {
    std::optional<Status> done;
    file.sync([&](Status s) { done = s; });
    EXPECT_FALSE(done.has_value());
    EXPECT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
    EXPECT_TRUE(done->ok());
  }
  SimScheduler sim{1};
  SimNode& node = sim.add_node("a");
};

TEST_F(SimDiskTest, ReadsWhatWasWrittenAndZerosElsewhere) {
  const auto file = open();
  ASSERT_TRUE(file->write(510, "abcd").ok());
  EXPECT_EQ(read(*file, 509, 6), std::string("\0abcd\0", 6));
  std::optional<Status> zeroed;
  file->allocate_zeroed(511, 2, [&](Status s) { zeroed = std::move(s); });
  EXPECT_FALSE(zeroed.has_value());
  ASSERT_TRUE(sim.run_until([&] { return zeroed.has_value(); }, 1s));
  ASSERT_TRUE(zeroed->ok());
  EXPECT_EQ(read(*file, 510, 4), std::string("a\0\0d", 4));
  EXPECT_EQ(file->write(64 << 10, "x").code(), StatusCode::kIoError);
}

TEST_F(SimDiskTest, ACrashKeepsTheCacheAndReleasesTheLock) {
  auto file = open();
  EXPECT_EQ(node.disk().open("/d/f", 1).error().code(), StatusCode::kUnavailable);
  ASSERT_TRUE(file->write(0, "kept").ok());
  sim.kill(node);
  file.reset();
  sim.restart(node);
  EXPECT_EQ(read(*open(), 0, 4), "kept");
}

TEST_F(SimDiskTest, PowerLossKeepsWhatWasSyncedAndSomeOfTheRest) {
  auto file = open();
  constexpr int kSectors = 64;
  ASSERT_TRUE(file->write(0, std::string(kSectors * 512, 's')).ok());
  sync(*file);
  for (int i = 0; i < kSectors / 2; ++i) {
    ASSERT_TRUE(file->write(static_cast<uint64_t>(i) * 512, std::string(512, 'u')).ok());
  }
  sim.power_off(node);
  file.reset();
  sim.restart(node);
  file = open();
  std::multiset<char> fates;
  for (int i = 0; i < kSectors; ++i) {
    const std::string sector = read(*file, static_cast<uint64_t>(i) * 512, 512);
    EXPECT_EQ(sector, std::string(512, sector[0]));  // whole sectors
    if (i >= kSectors / 2) EXPECT_EQ(sector[0], 's');
    if (i < kSectors / 2) fates.insert(sector[0]);
  }
  EXPECT_GT(fates.count('u'), 0u);
  EXPECT_GT(fates.count('s'), 0u);
}

TEST_F(SimDiskTest, ASyncCoversOnlyWhatWasWrittenBeforeIt) {
  auto file = open();
  int done = 0;
  ASSERT_TRUE(file->write(0, "a").ok());
  file->sync([&](Status) { ++done; });
  for (uint64_t i = 1; i < 60; ++i) ASSERT_TRUE(file->write(i * 512, "b").ok());
  ASSERT_TRUE(sim.run_until([&] { return done == 1; }, 1s));
  sim.power_off(node);
  file.reset();
  sim.restart(node);
  file = open();
  EXPECT_EQ(read(*file, 0, 1), "a");
  int kept = 0;
  for (uint64_t i = 1; i < 60; ++i) kept += read(*file, i * 512, 1) == "b";
  EXPECT_LT(kept, 59);
}

TEST_F(SimDiskTest, FailuresAreReportedAndClosingDropsPendingSyncs) {
  auto file = open();
  node.disk().fail_with({StatusCode::kNoSpace, "full"});
  EXPECT_EQ(file->write(0, "x").code(), StatusCode::kNoSpace);
  std::optional<Status> done;
  file->sync([&](Status s) { done = s; });
  ASSERT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
  EXPECT_EQ(done->code(), StatusCode::kNoSpace);
  done.reset();
  file->sync([&](Status s) { done = s; });
  file.reset();
  sim.run_for(1s);
  EXPECT_FALSE(done.has_value());
}

}  // namespace
}  // namespace ramcloud
