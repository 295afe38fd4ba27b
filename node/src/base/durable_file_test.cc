#include "base/durable_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/testing/temporary_folder.h"

namespace {

/// What was synced, and whether the file that is to be replaced had its new bytes by then.
struct Synced {
  std::string path;
  bool replaced = false;
  bool operator==(const Synced&) const = default;
};
std::string watched, new_bytes;
std::vector<Synced> syncs;

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

/// In the place of the C library's, which it does not call.
extern "C" int fsync(int fd) {
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd));
  syncs.push_back({path, bytes_of(watched) == new_bytes});
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace ramcloud {
namespace {

TEST(DurableFile, ReplacesTheWholeFileAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  const std::string path = folder / "f";
  for (const std::string& text :
       {std::string("first, and longer"), std::string(), std::string("x")}) {
    ASSERT_TRUE(replace_file(path, text).ok());
    EXPECT_EQ(bytes_of(path), text);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(DurableFile, TakesTheBytesOfAFileThatWasWrittenBeside) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "f.folder/full");
  std::ofstream(folder / "f") << "former";
  const auto write_part = [&] { std::ofstream(folder / "part") << "new"; };
  write_part();
  ASSERT_TRUE(replace_file_by(folder / "f", folder / "part").ok());
  EXPECT_EQ(bytes_of(folder / "f"), "new");
  EXPECT_FALSE(std::filesystem::exists(folder / "part"));
  const Status absent = replace_file_by(folder / "f", folder / "part");
  EXPECT_EQ(absent.code(), StatusCode::kIoError);
  EXPECT_NE(absent.message().find("part"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder / "f"));
  write_part();
  EXPECT_FALSE(replace_file_by(folder / "f.folder", folder / "part").ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "part"));
}

/// After a crash the file has its former bytes or the new ones, and after success the new ones: the
/// bytes are on the device before the name leads to them, and then the name.
TEST(DurableFile, TheBytesAreSyncedBeforeTheNameAndThenTheName) {
  const TemporaryFolder folder;
  const std::string path = folder / "f", part = folder / "part";
  watched = path, new_bytes = "new", syncs.clear();
  ASSERT_TRUE(replace_file(path, "new").ok());
  EXPECT_EQ(syncs, (std::vector<Synced>{{path + ".tmp", false}, {folder.path(), true}}));
  new_bytes = "newer", syncs.clear();
  std::ofstream(part) << "newer";
  ASSERT_TRUE(replace_file_by(path, part).ok());
  EXPECT_EQ(syncs, (std::vector<Synced>{{part, false}, {folder.path(), true}}));
}

TEST(DurableFile, ErrorsNameTheFileAndLeaveTheFormerOne) {
  const Status absent = replace_file("/no/such/folder/f", "x");
  EXPECT_EQ(absent.code(), StatusCode::kIoError);
  EXPECT_NE(absent.message().find("/no/such/folder/f"), std::string::npos);
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "f/full");
  EXPECT_FALSE(replace_file(folder / "f", "x").ok()) << "a folder is no file";
  EXPECT_FALSE(std::filesystem::exists(folder / "f.tmp"));
}

/// Like a device: a process of root could replace /dev/stdout by a file.
TEST(DurableFile, WhatIsNoPlainFileStays) {
  const TemporaryFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const Status refused = replace_file(pipe, "x");
  EXPECT_EQ(refused.to_string(), "IO_ERROR: '" + pipe + "' is not a plain file");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

}  // namespace
}  // namespace ramcloud
