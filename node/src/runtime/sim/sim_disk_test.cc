#include "runtime/sim/sim_disk.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
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
    EXPECT_TRUE(node.disk().sync_directory("/d").ok());
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

TEST_F(SimDiskTest, ReadsBesideTheReactorTakeTime) {
  auto file = open();
  ASSERT_TRUE(file->write(510, "abcd").ok());
  auto to = std::make_shared<std::string>(4, '?');
  std::optional<Status> done;
  file->read_beside(510, *to, to, [&](Status s) { done = std::move(s); });
  EXPECT_FALSE(done.has_value());
  ASSERT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
  EXPECT_TRUE(done->ok());
  EXPECT_EQ(*to, "abcd");
  done.reset();
  node.disk().fail_reads(1);
  file->read_beside(510, *to, to, [&](Status s) { done = std::move(s); });
  ASSERT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
  EXPECT_EQ(*done, StatusCode::kIoError);
  done.reset();
  node.disk().fail_with({StatusCode::kIoError, "broken"});
  file->read_beside(510, *to, to, [&](Status s) { done = std::move(s); });
  ASSERT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
  EXPECT_EQ(*done, StatusCode::kIoError);
  file->read_beside(510, *to, to, [&](Status) { ADD_FAILURE() << "its file is closed"; });
  file.reset();
  (void)sim.run_until([] { return false; }, 1s);
  EXPECT_EQ(to.use_count(), 1);
}

TEST_F(SimDiskTest, OnlyALossOfPowerChangesTheBootId) {
  const BootId first = node.disk().boot_id();
  EXPECT_NE(first, BootId{});
  sim.kill(node);
  sim.restart(node);
  EXPECT_EQ(node.disk().boot_id(), first);
  sim.power_off(node);
  sim.restart(node);
  EXPECT_NE(node.disk().boot_id(), first);
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

/// Bytes where direct writes want them.
struct Aligned {
  explicit Aligned(std::string_view fill, size_t size = 4096)
      : memory(static_cast<char*>(std::aligned_alloc(4096, size)), &std::free), length(size) {
    for (size_t i = 0; i < size; ++i) memory.get()[i] = fill[i % fill.size()];
  }
  ByteView bytes() const { return {memory.get(), length}; }
  std::shared_ptr<char> memory;
  size_t length;
};

TEST_F(SimDiskTest, ADirectWriteThatIsDoneSurvivesThePower) {
  auto file = open();
  ASSERT_EQ(file->direct_block(), 4096u);
  const Aligned a("a"), b("b", 8192);
  const DirectWrite writes[] = {{4096, a.bytes()}, {16384, b.bytes()}};
  std::optional<Status> done;
  file->write_direct(writes, a.memory, [&](Status s) { done = std::move(s); });
  EXPECT_EQ(read(*file, 4096, 1), std::string(1, '\0')) << "later";
  EXPECT_FALSE(file->write(5000, "x").ok()) << "nobody writes where a direct write is in flight";
  ASSERT_TRUE(file->write(0, "x").ok());
  ASSERT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
  ASSERT_TRUE(done->ok()) << done->to_string();
  EXPECT_EQ(read(*file, 4096, 4096), a.bytes());
  sim.power_off(node);
  file.reset();
  sim.restart(node);
  file = open();
  EXPECT_EQ(read(*file, 4096, 4096), a.bytes());
  EXPECT_EQ(read(*file, 16384, 8192), b.bytes());
}

TEST_F(SimDiskTest, ADirectWriteUnderWayIsTornByThePowerAndByTheEndOfTheProcess) {
  for (const bool power : {true, false}) {
    auto file = open();
    const Aligned a(power ? "p" : "c", 32768);
    const DirectWrite write{8192, a.bytes()};
    bool called = false;
    file->write_direct({&write, 1}, a.memory, [&](const Status&) { called = true; });
    if (power) {
      sim.power_off(node);
    } else {
      sim.kill(node);
    }
    file.reset();
    sim.restart(node);
    sim.run_for(1s);
    EXPECT_FALSE(called);
    file = open();
    int kept = 0;
    for (uint64_t i = 0; i < 64; ++i) {
      const std::string sector = read(*file, 8192 + i * 512, 512);
      EXPECT_EQ(sector, std::string(512, sector[0])) << "whole sectors";
      kept += sector[0] == a.bytes()[0];
    }
    EXPECT_GT(kept, 0);
    EXPECT_LT(kept, 64);
    file.reset();
  }
}

TEST_F(SimDiskTest, DirectWritesAreOfWholeBlocks) {
  const auto file = open();
  const Aligned a("a", 8192);
  const auto refused = [&](uint64_t offset, ByteView bytes) {
    const DirectWrite write{offset, bytes};
    std::optional<Status> done;
    file->write_direct({&write, 1}, a.memory, [&](Status s) { done = std::move(s); });
    EXPECT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
    return done->code();
  };
  EXPECT_EQ(refused(512, a.bytes()), StatusCode::kIoError);
  EXPECT_EQ(refused(0, a.bytes().substr(0, 100)), StatusCode::kIoError);
  EXPECT_EQ(refused(0, a.bytes().substr(512, 4096)), StatusCode::kIoError);
  EXPECT_EQ(refused(64 << 10, a.bytes()), StatusCode::kIoError) << "behind the end";
  EXPECT_EQ(refused(0, a.bytes()), StatusCode::kOk);
  node.disk().fail_with({StatusCode::kIoError, "bad sector"});
  EXPECT_EQ(refused(0, a.bytes()), StatusCode::kIoError);
}

TEST_F(SimDiskTest, BytesUnderWayMustNotChange) {
  const auto file = open();
  const Aligned a("a");
  const DirectWrite write{0, a.bytes()};
  std::optional<Status> done;
  file->write_direct({&write, 1}, a.memory, [&](Status s) { done = std::move(s); });
  a.memory.get()[100] = 'b';
  EXPECT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
  EXPECT_EQ(done->code(), StatusCode::kIoError);
}

TEST_F(SimDiskTest, WithoutDirectWritesTheyAreRefused) {
  node.disk().set_direct(false);
  const auto file = open();
  EXPECT_EQ(file->direct_block(), 0u);
  std::optional<Status> done;
  file->write_direct({}, nullptr, [&](Status s) { done = std::move(s); });
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->code(), StatusCode::kUnsupported);
}

TEST_F(SimDiskTest, AfterAFailedSyncTheBytesAreCleanAndNotOnTheDevice) {
  auto file = open();
  ASSERT_TRUE(file->write(0, "lost").ok());
  node.disk().fail_syncs(1);
  std::optional<Status> done;
  file->sync([&](Status s) { done = std::move(s); });
  ASSERT_TRUE(sim.run_until([&] { return done.has_value(); }, 1s));
  EXPECT_EQ(done->code(), StatusCode::kIoError);
  sync(*file);  // has nothing to write, and succeeds
  EXPECT_EQ(read(*file, 0, 4), "lost") << "the cache has it";
  sim.power_off(node);
  file.reset();
  sim.restart(node);
  EXPECT_EQ(read(*open(), 0, 4), std::string(4, '\0'));
  EXPECT_EQ(sim.faults().of(Fault::kSyncFailed), 1u);
}

TEST_F(SimDiskTest, LostAndMisdirectedWritesAreToldAsDone) {
  auto file = open();
  ASSERT_TRUE(file->write(0, "first").ok());
  sync(*file);
  node.disk().lose_writes(1);
  ASSERT_TRUE(file->write(4096, "second").ok());
  sync(*file);
  node.disk().misdirect_writes(1);
  ASSERT_TRUE(file->write(8192, "third").ok());
  sync(*file);
  sim.power_off(node);
  file.reset();
  sim.restart(node);
  file = open();
  EXPECT_EQ(read(*file, 0, 5), "third") << "the only sector there was";
  EXPECT_EQ(read(*file, 4096, 6), std::string(6, '\0'));
  EXPECT_EQ(read(*file, 8192, 5), std::string(5, '\0'));
  EXPECT_EQ(sim.faults().of(Fault::kWriteLost), 1u);
  EXPECT_EQ(sim.faults().of(Fault::kWriteMisdirected), 1u);
}

TEST_F(SimDiskTest, DamageFlipsOneBitOfWhatIsThere) {
  const auto file = open();
  ASSERT_TRUE(file->write(0, std::string(512, 'x')).ok());
  EXPECT_EQ(node.disk().damage(3), 1u) << "there is one sector";
  const std::string damaged = read(*file, 0, 512);
  size_t differing = 0;
  for (const char c : damaged)
    differing += static_cast<size_t>(__builtin_popcount(static_cast<unsigned char>(c ^ 'x')));
  EXPECT_EQ(differing, 1u);
  EXPECT_EQ(sim.faults().of(Fault::kDiskDamaged), 1u);
}

TEST_F(SimDiskTest, FrozenNothingChanges) {
  auto file = open();
  ASSERT_TRUE(file->write(0, "kept").ok());
  node.disk().freeze();
  ASSERT_TRUE(file->write(0, "gone").ok());
  bool done = false;
  file->sync([&](const Status&) { done = true; });
  sim.run_for(1s);
  EXPECT_FALSE(done);
  sim.kill(node);
  file.reset();
  sim.restart(node);
  EXPECT_EQ(read(*open(), 0, 4), "kept");
}

}  // namespace
}  // namespace ramcloud
