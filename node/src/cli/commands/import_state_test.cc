#include "cli/commands/import_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "base/random.h"
#include "base/testing/temporary_folder.h"

namespace ramcloud::cli {
namespace {

using testing::HasSubstr;

TEST(AckedPrefix, IsWhatEverythingBeforeIsAcknowledgedOf) {
  AckedPrefix prefix({10, 1});
  const uint64_t a = prefix.started({20, 2}), b = prefix.started({30, 3}),
                 c = prefix.started({40, 4});
  prefix.done(b);
  EXPECT_EQ(prefix.acked().bytes, 10u);
  EXPECT_EQ(prefix.records(), 0u);
  prefix.done(a);
  EXPECT_EQ(prefix.acked().bytes, 30u);
  EXPECT_EQ(prefix.acked().lines, 3u);
  const uint64_t d = prefix.started({50, 5});
  prefix.done(d);
  EXPECT_EQ(prefix.acked().bytes, 30u);
  prefix.done(c);
  EXPECT_EQ(prefix.acked().bytes, 50u);
  EXPECT_EQ(prefix.records(), 4u);
}

TEST(AckedPrefix, NeverPassesAnUnacknowledgedRecord) {
  Random random(3);
  AckedPrefix prefix({});
  std::vector<std::pair<uint64_t, uint64_t>> open;  // ticket, number of the record
  for (uint64_t made = 0; made < 2000 || !open.empty();) {
    if (made < 2000 && (open.size() < 64 && random.chance(0.6))) {
      ++made;
      open.emplace_back(prefix.started({made, made}), made);
    } else if (!open.empty()) {
      const size_t pick = random.below(open.size());
      prefix.done(open[pick].first);
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(pick));
    }
    uint64_t first_open = made + 1;
    for (const auto& [ticket, number] : open) first_open = std::min(first_open, number);
    ASSERT_EQ(prefix.acked().bytes, first_open - 1);
  }
}

class ImportStateTest : public testing::Test {
 protected:
  ImportStateTest() { write(file, std::string(200'000, 'a') + std::string(200'000, 'b')); }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ImportIdentity identity() const {
    ImportIdentity id;
    EXPECT_TRUE(identify_file(file, id).ok());
    id.cluster = "c";
    id.table = "t";
    id.table_id = 3;
    id.format = "jsonl";
    return id;
  }
  ImportState state_at(uint64_t offset) const {
    return {.identity = identity(),
            .acked = {offset, 7},
            .prefix_hash = prefix_hash(file, offset).value(),
            .imported = 6};
  }
  const TemporaryFolder folder;
  const std::string file = folder / "data.csv";
};

TEST_F(ImportStateTest, IsReadAsItWasWritten) {
  const std::string path = folder / "state";
  EXPECT_FALSE(load_state(path).value().has_value());
  const ImportState state = state_at(300'000);
  ASSERT_TRUE(save_state(path, state).ok());
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  const auto loaded = load_state(path).value();
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->acked.bytes, 300'000u);
  EXPECT_EQ(loaded->acked.lines, 7u);
  EXPECT_EQ(loaded->imported, 6u);
  EXPECT_FALSE(loaded->whole);
  EXPECT_EQ(check_same_import(*loaded, identity()).to_string(), "OK");
}

TEST_F(ImportStateTest, AFolderIsNoState) {
  const auto loaded = load_state(folder.path());
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(loaded.error().message(), HasSubstr("'" + folder.path() + "' is not a plain file"));
}

TEST_F(ImportStateTest, AnotherImportIsRefusedByName) {
  const ImportState state = state_at(300'000);
  auto other = identity();
  other.table = "u";
  EXPECT_THAT(check_same_import(state, other).message(),
              HasSubstr("the table 't', and this is 'u'"));
  other = identity();
  other.table_id = 4;
  EXPECT_THAT(check_same_import(state, other).message(), HasSubstr("dropped and re-created"));
  other = identity();
  other.format = "csv key,value";
  EXPECT_THAT(check_same_import(state, other).message(), HasSubstr("'jsonl', and this is 'csv"));
  other = identity();
  other.cluster = "d";
  EXPECT_THAT(check_same_import(state, other).message(), HasSubstr("the cluster 'c'"));
}

TEST_F(ImportStateTest, AnotherFileIsRefused) {
  const ImportState state = state_at(300'000);
  write(file, std::string(200'000, 'a') + std::string(200'001, 'b'));
  EXPECT_THAT(check_same_import(state, identity()).message(),
              HasSubstr("400000', and this is '400001'"));
  write(file, "x" + std::string(199'999, 'a') + std::string(200'000, 'b'));  // at its head
  EXPECT_THAT(check_same_import(state, identity()).message(), HasSubstr("has other contents"));
  write(file,
        std::string(200'000, 'a') + std::string(99'999, 'b') + "x" + std::string(100'000, 'b'));
  EXPECT_THAT(check_same_import(state, identity()).message(), HasSubstr("has other contents"));
  // A user may have corrected the part after the acknowledged one meanwhile.
  write(file, std::string(200'000, 'a') + std::string(199'999, 'b') + "x");
  EXPECT_TRUE(check_same_import(state, identity()).ok());
}

TEST_F(ImportStateTest, OnlyPlainFilesAndOwnStates) {
  ImportIdentity id;
  EXPECT_THAT(identify_file(folder.path(), id).message(), HasSubstr("is not a plain file"));
  EXPECT_THAT(identify_file(folder / "none", id).message(), HasSubstr("No such file"));
  const std::string path = folder / "state";
  for (const char* text : {"", "hello", "[]", "{\"file\":\"x\"}"}) {
    write(path, text);
    EXPECT_THAT(load_state(path).error().message(), HasSubstr("is not the state of an import"))
        << text;
  }
  write(path, "{\"ramcloud_import\":2}");
  EXPECT_THAT(load_state(path).error().message(), HasSubstr("another version"));
  write(path, "{\"ramcloud_import\":1,\"file\":7}");
  EXPECT_THAT(load_state(path).error().message(), HasSubstr("is damaged"));
  EXPECT_THAT(save_state(folder / "none/state", state_at(0)).message(), HasSubstr("cannot create"));
}

}  // namespace
}  // namespace ramcloud::cli
