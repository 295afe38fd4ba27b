#include "runtime/posix_disk.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <optional>

#include "runtime/epoll_source.h"

namespace ramcloud {
namespace {

class PosixDiskTest : public ::testing::Test {
 protected:
  PosixDiskTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "ramcloud-disk-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    directory = pattern;
  }
  ~PosixDiskTest() override { std::filesystem::remove_all(directory); }
  std::unique_ptr<File> open() {
    auto file = disk->open(directory + "/file", 1 << 20);
    EXPECT_TRUE(file.has_value()) << file.error().to_string();
    return std::move(*file);
  }
  static std::string read(File& file, uint64_t offset, size_t size) {
    std::string bytes(size, '?');
    EXPECT_TRUE(file.read(offset, bytes.data(), size).ok());
    return bytes;
  }
  SystemClock clock;
  EpollSource source;
  Reactor reactor{clock, source, 1, {}};
  std::unique_ptr<PosixDisk> disk = std::make_unique<PosixDisk>(reactor);
  std::string directory;
};

TEST_F(PosixDiskTest, ReadsWhatWasWrittenAlsoAfterReopening) {
  auto file = open();
  EXPECT_EQ(file->size(), 1u << 20);
  ASSERT_TRUE(file->write(1000, "hello").ok());
  EXPECT_EQ(read(*file, 999, 7), std::string("\0hello\0", 7));
  file.reset();
  EXPECT_EQ(read(*open(), 1000, 5), "hello");
}

TEST_F(PosixDiskTest, AllocatedRangesReadAsZero) {
  const auto file = open();
  ASSERT_TRUE(file->write(0, std::string(300'000, 'x')).ok());
  std::optional<Status> zeroed;
  file->allocate_zeroed(4096, 200'000, [&](const Status& status) { zeroed = status; });
  EXPECT_FALSE(zeroed.has_value()) << "in a later turn";
  reactor.run_until([&] { return zeroed.has_value(); });
  ASSERT_TRUE(zeroed->ok()) << zeroed->to_string();
  EXPECT_EQ(read(*file, 4095, 3), std::string("x\0\0", 3));
  EXPECT_EQ(read(*file, 4096 + 200'000 - 2, 3), std::string("\0\0x", 3));
}

TEST_F(PosixDiskTest, ASecondOpenerIsRefusedUntilTheFirstCloses) {
  auto file = open();
  const auto second = disk->open(directory + "/file", 1);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.error().message().find(directory + "/file"), std::string::npos);
  file.reset();
  open();
}

TEST_F(PosixDiskTest, SyncsCompleteInALaterTurnOnTheReactor) {
  const auto file = open();
  int done = 0;
  for (int i = 0; i < 10; ++i) {
    file->sync([&](const Status& status) {
      EXPECT_TRUE(status.ok());
      ++done;
    });
  }
  EXPECT_EQ(done, 0);
  reactor.run_until([&] { return done == 10; });
}

TEST_F(PosixDiskTest, AClosedFilesSyncsCallNobody) {
  auto gone = open();
  bool called = false;
  gone->sync([&](const Status&) { called = true; });
  gone.reset();
  const auto file = open();  // the lock was released although the sync may still run
  bool done = false;
  file->sync([&](const Status&) { done = true; });
  reactor.run_until([&] { return done; });
  EXPECT_FALSE(called);
}

TEST_F(PosixDiskTest, TheDiskMayGoBeforeItsFilesAndSyncs) {
  const auto file = open();
  file->sync([](const Status&) {});
  disk.reset();
  EXPECT_TRUE(file->write(0, "x").ok());
}

TEST_F(PosixDiskTest, ErrorsNameTheFile) {
  const auto absent = disk->open(directory + "/no/such", 1);
  ASSERT_FALSE(absent.has_value());
  EXPECT_NE(absent.error().message().find("/no/such"), std::string::npos);
  ASSERT_TRUE(disk->make_directories(directory + "/no").ok());
  EXPECT_TRUE(disk->exists(directory + "/no"));
  EXPECT_TRUE(disk->open(directory + "/no/such", 1).has_value());
  char byte;
  EXPECT_EQ(open()->read(1 << 20, &byte, 1).code(), StatusCode::kIoError);
}

TEST_F(PosixDiskTest, OnlyBlockDevicesHaveADevicesSize) {
  EXPECT_EQ(disk->device_bytes(directory), 0u);
  EXPECT_EQ(disk->device_bytes(directory + "/none"), 0u);
  EXPECT_EQ(disk->measure_read_speed(directory + "/none"), 0u) << "cannot be measured";
}

TEST_F(PosixDiskTest, MeasuringLeavesNothingBehind) {
  (void)disk->measure_read_speed(directory);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

}  // namespace
}  // namespace ramcloud
