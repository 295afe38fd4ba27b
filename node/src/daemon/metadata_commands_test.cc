#include "daemon/metadata_commands.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace ramcloud::daemon {
namespace {

TEST(MetadataCommands, AnExportMakesNoStore) {
  const std::filesystem::path folder =
      ::testing::TempDir() + "metadata-commands-" + std::to_string(getpid());
  MetadataOptions options;
  options.metadata.sqlite_path = folder / "mistyped.db";
  options.file = "-";
  const Status done = export_metadata(options);
  EXPECT_EQ(done.code(), StatusCode::kNotFound) << done.to_string();
  EXPECT_NE(done.message().find("mistyped.db"), std::string::npos) << done.to_string();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

}  // namespace
}  // namespace ramcloud::daemon
