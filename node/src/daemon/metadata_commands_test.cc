#include "daemon/metadata_commands.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/testing/temporary_folder.h"

namespace ramcloud::daemon {
namespace {

TEST(MetadataCommands, AnExportMakesNoStore) {
  const TemporaryFolder folder;
  MetadataOptions options;
  options.metadata.sqlite_path = folder / "none/mistyped.db";
  options.file = "-";
  const Status done = export_metadata(options);
  EXPECT_EQ(done.code(), StatusCode::kNotFound) << done.to_string();
  EXPECT_NE(done.message().find("mistyped.db"), std::string::npos) << done.to_string();
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

}  // namespace
}  // namespace ramcloud::daemon
