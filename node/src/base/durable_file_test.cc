#include "base/durable_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/testing/temporary_folder.h"

namespace ramcloud {
namespace {

TEST(DurableFile, ReplacesTheWholeFileAndLeavesNothingBeside) {
  const TemporaryFolder folder;
  const std::string path = folder / "f";
  for (const std::string& text :
       {std::string("first, and longer"), std::string(), std::string("x")}) {
    ASSERT_TRUE(replace_file(path, text).ok());
    std::ifstream in(path, std::ios::binary);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
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
  std::ifstream in(folder / "f", std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "new");
  EXPECT_FALSE(std::filesystem::exists(folder / "part"));
  const Status absent = replace_file_by(folder / "f", folder / "part");
  EXPECT_EQ(absent.code(), StatusCode::kIoError);
  EXPECT_NE(absent.message().find("part"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder / "f"));
  write_part();
  EXPECT_FALSE(replace_file_by(folder / "f.folder", folder / "part").ok());
  EXPECT_FALSE(std::filesystem::exists(folder / "part"));
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
