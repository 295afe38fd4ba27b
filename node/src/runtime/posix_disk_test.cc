#include "runtime/posix_disk.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/testing/temporary_folder.h"
#include "runtime/epoll_source.h"

namespace ramcloud {
namespace {

struct Kind {
  const char* name;
  DiskIo io;
  DirectIo direct;
};

class PosixDiskTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    auto engine = make_disk_engine(reactor, source, GetParam().io);
    if (!engine && GetParam().io == DiskIo::kUring) {
      GTEST_SKIP() << "io_uring is not supported here: " << engine.error().message();
    }
    ASSERT_TRUE(engine.has_value()) << engine.error().to_string();
    disk = std::make_unique<PosixDisk>(std::move(*engine), GetParam().direct);
    if (GetParam().direct == DirectIo::kAlways) {
      const auto file = disk->open(directory + "/file", 4096);
      if (!file) GTEST_SKIP() << file.error().message();
      std::filesystem::remove(directory + "/file");
    }
  }
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
  std::unique_ptr<PosixDisk> disk;
  const TemporaryFolder folder_;
  const std::string& directory = folder_.path();
};

INSTANTIATE_TEST_SUITE_P(
    Engines, PosixDiskTest,
    ::testing::Values(Kind{"threads", DiskIo::kThreads, DirectIo::kNever},
                      Kind{"threads_direct", DiskIo::kThreads, DirectIo::kAlways},
                      Kind{"io_uring", DiskIo::kUring, DirectIo::kNever},
                      Kind{"io_uring_direct", DiskIo::kUring, DirectIo::kAlways}),
    [](const auto& about) { return std::string(about.param.name); });

/// For direct writes.
using DirectDiskTest = PosixDiskTest;
INSTANTIATE_TEST_SUITE_P(Engines, DirectDiskTest,
                         ::testing::Values(Kind{"threads", DiskIo::kThreads, DirectIo::kAlways},
                                           Kind{"io_uring", DiskIo::kUring, DirectIo::kAlways}),
                         [](const auto& about) { return std::string(about.param.name); });

TEST_P(PosixDiskTest, ReadsWhatWasWrittenAlsoAfterReopening) {
  auto file = open();
  EXPECT_EQ(file->size(), 1u << 20);
  ASSERT_TRUE(file->write(1000, "hello").ok());
  EXPECT_EQ(read(*file, 999, 7), std::string("\0hello\0", 7));
  file.reset();
  EXPECT_EQ(read(*open(), 1000, 5), "hello");
}

TEST_P(PosixDiskTest, AllocatedRangesReadAsZero) {
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

TEST_P(PosixDiskTest, ReadsBesideTheReactorInALaterTurn) {
  const auto file = open();
  ASSERT_TRUE(file->write(4000, "some bytes").ok());
  auto to = std::make_shared<std::string>(10, '?');
  std::optional<Status> read;
  file->read_beside(4000, *to, to, [&](Status status) { read = std::move(status); });
  EXPECT_FALSE(read.has_value());
  reactor.run_until([&] { return read.has_value(); });
  EXPECT_TRUE(read->ok()) << read->to_string();
  EXPECT_EQ(*to, "some bytes");
  EXPECT_EQ(to.use_count(), 1);

  read.reset();
  file->read_beside((1 << 20) - 5, *to, to, [&](Status status) { read = std::move(status); });
  reactor.run_until([&] { return read.has_value(); });
  EXPECT_EQ(*read, StatusCode::kIoError) << "the file ends before";
  EXPECT_NE(read->message().find("read '" + directory + "/file'"), std::string::npos);
}

TEST_P(PosixDiskTest, TheHostHasABootId) {
  EXPECT_NE(disk->boot_id(), BootId{});
  EXPECT_EQ(disk->boot_id(), disk->boot_id());
}

TEST(BootIdTest, IsReadFromText) {
  const TemporaryFolder folder;
  const std::string path = folder / "boot_id";
  const auto read = [&path](const std::string& text) {
    std::ofstream(path) << text;
    return read_boot_id(path);
  };
  BootId id{};
  for (size_t i = 0; i < id.size(); ++i) id[i] = static_cast<uint8_t>(0x10 + i);
  EXPECT_EQ(read("10111213-1415-1617-1819-1a1b1c1d1e1f\n"), id);
  EXPECT_EQ(read("10111213-1415-1617-1819-1a1b1c1d1e1"), BootId{});
  EXPECT_EQ(read("10111213-1415-1617-1819-1a1b1c1d1e1x"), BootId{});
  EXPECT_EQ(read(""), BootId{});
  std::filesystem::remove(path);
  EXPECT_EQ(read_boot_id(path), BootId{});
}

TEST_P(PosixDiskTest, ASecondOpenerIsRefusedUntilTheFirstCloses) {
  auto file = open();
  const auto second = disk->open(directory + "/file", 1);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code(), StatusCode::kUnavailable);
  EXPECT_NE(second.error().message().find(directory + "/file"), std::string::npos);
  file.reset();
  open();
}

TEST_P(PosixDiskTest, SyncsCompleteInALaterTurnOnTheReactor) {
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

TEST_P(PosixDiskTest, AClosedFilesSyncsCallNobody) {
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

TEST_P(PosixDiskTest, TheDiskMayGoBeforeItsFilesAndSyncs) {
  const auto file = open();
  file->sync([](const Status&) {});
  disk.reset();
  EXPECT_TRUE(file->write(0, "x").ok());
}

TEST_P(PosixDiskTest, ErrorsNameTheFile) {
  const auto absent = disk->open(directory + "/no/such", 1);
  ASSERT_FALSE(absent.has_value());
  EXPECT_NE(absent.error().message().find("/no/such"), std::string::npos);
  ASSERT_TRUE(disk->make_directories(directory + "/no").ok());
  EXPECT_TRUE(disk->exists(directory + "/no"));
  EXPECT_TRUE(disk->open(directory + "/no/such", 1).has_value());
  char byte;
  EXPECT_EQ(open()->read(1 << 20, &byte, 1).code(), StatusCode::kIoError);
}

TEST_P(PosixDiskTest, OnlyBlockDevicesHaveADevicesSize) {
  EXPECT_EQ(disk->device_bytes(directory), 0u);
  EXPECT_EQ(disk->device_bytes(directory + "/none"), 0u);
  EXPECT_EQ(disk->measure_read_speed(directory + "/none"), 0u) << "cannot be measured";
}

TEST_P(PosixDiskTest, MeasuringLeavesNothingBehind) {
  (void)disk->measure_read_speed(directory);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
}

TEST_P(PosixDiskTest, TheEngineIsTheOneThatWasAskedFor) {
  EXPECT_STREQ(disk->engine(), GetParam().io == DiskIo::kUring ? "io_uring" : "threads");
  EXPECT_EQ(open()->direct_block(), GetParam().direct == DirectIo::kAlways ? 4096u : 0u);
}

TEST_P(PosixDiskTest, ManyAllocationsAndSyncsAtOnceAllEnd) {
  const auto file = open();
  int done = 0;
  const auto count = [&](const Status& status) {
    EXPECT_TRUE(status.ok()) << status.to_string();
    ++done;
  };
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(file->write(i * 4096, "x").ok());
    file->allocate_zeroed(i * 4096, 4096, count);
    file->sync(count);
  }
  reactor.run_until([&] { return done == 400; });
  EXPECT_EQ(read(*file, 0, 1 << 20), std::string(1 << 20, '\0'));
}

/// Blocks of one letter each, at an address that direct writes want.
class Blocks {
 public:
  explicit Blocks(std::string_view letters)
      : memory_(static_cast<char*>(std::aligned_alloc(kBlock, kBlock * letters.size())),
                &std::free) {
    for (size_t i = 0; i < letters.size(); ++i) {
      std::memset(memory_.get() + i * kBlock, letters[i], kBlock);
    }
  }
  ByteView block(size_t i, size_t count = 1) const {
    return {memory_.get() + i * kBlock, count * kBlock};
  }
  std::shared_ptr<const void> memory() const { return memory_; }
  static constexpr size_t kBlock = 4096;

 private:
  std::shared_ptr<char> memory_;
};

TEST_P(DirectDiskTest, DirectWritesAreReadBack) {
  const auto file = open();
  bool allocated = false;
  file->allocate_zeroed(0, 1 << 20, [&](const Status& s) { allocated = s.ok(); });
  reactor.run_until([&] { return allocated; });
  const Blocks blocks("abcde");
  // One alone, then neighbours and others, of which some were read into the cache before.
  std::optional<Status> done;
  const auto write = [&](std::initializer_list<DirectWrite> writes) {
    done.reset();
    file->write_direct(std::span(writes.begin(), writes.size()), blocks.memory(),
                       [&](Status s) { done = std::move(s); });
    EXPECT_FALSE(done.has_value()) << "in a later turn";
    reactor.run_until([&] { return done.has_value(); });
    EXPECT_TRUE(done->ok()) << done->to_string();
  };
  write({{8192, blocks.block(0)}});
  EXPECT_EQ(read(*file, 8191, 4098), '\0' + std::string(4096, 'a') + '\0');
  EXPECT_EQ(read(*file, 65536, 8192), std::string(8192, '\0'));
  write({{8192, blocks.block(1)}, {12288, blocks.block(2, 2)}, {65536, blocks.block(4)}});
  EXPECT_EQ(read(*file, 8192, 4 * 4096), std::string(4096, 'b') + std::string(4096, 'c') +
                                             std::string(4096, 'd') + std::string(4096, '\0'));
  EXPECT_EQ(read(*file, 65536, 8192), std::string(4096, 'e') + std::string(4096, '\0'));
}

TEST_P(DirectDiskTest, ManyPlacesAtOnce) {
  const auto file = open();
  const Blocks blocks("ab");
  std::vector<DirectWrite> writes;
  for (uint64_t i = 0; i < 128; ++i) writes.push_back({i * 8192, blocks.block(i % 2)});
  std::optional<Status> done;
  file->write_direct(writes, blocks.memory(), [&](Status s) { done = std::move(s); });
  writes.clear();
  reactor.run_until([&] { return done.has_value(); });
  ASSERT_TRUE(done->ok()) << done->to_string();
  for (uint64_t i = 0; i < 128; ++i) {
    EXPECT_EQ(read(*file, i * 8192, 8192),
              std::string(blocks.block(i % 2)) + std::string(4096, '\0'));
  }
}

TEST_P(DirectDiskTest, TheBytesOutliveTheFileAndTheDisk) {
  const std::string path = directory + "/file";
  std::weak_ptr<const void> bytes;
  {
    auto file = open();
    const Blocks blocks(std::string(256, 'z'));
    bytes = blocks.memory();
    const DirectWrite write{0, blocks.block(0, 256)};
    file->write_direct({&write, 1}, blocks.memory(), [](const Status&) { ADD_FAILURE(); });
  }
  disk.reset();  // waits for jobs that have begun
  reactor.turn();
  EXPECT_TRUE(bytes.expired());
}

TEST_P(DirectDiskTest, ErrorsOfDirectWritesNameTheFile) {
  const auto file = open();
  const Blocks blocks("ab");
  const DirectWrite crooked{100, blocks.block(0)};
  std::optional<Status> done;
  file->write_direct({&crooked, 1}, blocks.memory(), [&](Status s) { done = std::move(s); });
  reactor.run_until([&] { return done.has_value(); });
  // A file system that takes any offset (tmpfs) has written it.
  if (done->ok()) GTEST_SKIP() << "this file system takes direct writes of any place";
  EXPECT_EQ(done->code(), StatusCode::kIoError);
  EXPECT_NE(done->message().find("write '" + directory + "/file'"), std::string::npos)
      << done->message();
}

TEST(DiskEngine, AutoIsAlwaysSomething) {
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 1, {});
  EXPECT_TRUE(make_disk_engine(reactor, source, DiskIo::kAuto).has_value());
}

TEST(DiskEngine, WhoeverInsistsOnIoUringHearsWhyNot) {
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer)
  GTEST_SKIP()
      << "the sanitizer looks at memory by a pipe, and takes it for invalid without descriptors";
#endif
#endif
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 1, {});
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  rlimit none = files;
  none.rlim_cur = 0;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto engine = make_disk_engine(reactor, source, DiskIo::kUring);
  const auto instead = make_disk_engine(reactor, source, DiskIo::kAuto);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code(), StatusCode::kUnsupported);
  EXPECT_NE(engine.error().message().find("io_uring"), std::string::npos);
  ASSERT_TRUE(instead.has_value());
  EXPECT_STREQ((*instead)->name(), "threads");
}

}  // namespace
}  // namespace ramcloud
