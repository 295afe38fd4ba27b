#include "cli/commands/memory_view.h"

#include <gtest/gtest.h>

namespace ramcloud::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

wire::ServerStats server(uint64_t used, uint64_t live) {
  wire::ServerStats stats;
  stats.log_bytes_total = 256 * kMiB;
  stats.log_bytes_used = used;
  stats.log_bytes_live = live;
  stats.hash_table_bytes = 32 * kMiB;
  return stats;
}

TEST(MemoryView, LiveObjectsAreShownBesideWhatIsInUse) {
  const wire::ServerStats stats = server(192 * kMiB, 64 * kMiB);
  EXPECT_EQ(live_text(stats), "64.0 MiB");
  EXPECT_EQ(live_share(stats), 0.25);
  EXPECT_EQ(log_text(stats), "192.0 MiB / 256.0 MiB");
}

TEST(MemoryView, AServerWithoutDataHasNone) {
  EXPECT_EQ(live_text(server(0, 0)), "0 B");
  EXPECT_EQ(live_share(server(0, 0)), 0.0);
}

// The two values are read one after the other, while clients write.
TEST(MemoryView, LiveObjectsTakeNoMoreThanIsInUse) {
  EXPECT_EQ(live_bytes(server(64 * kMiB, 65 * kMiB)), 64 * kMiB);
}

TEST(MemoryView, AServerOfAnEarlierVersionDoesNotTell) {
  wire::ServerStats former = server(192 * kMiB, 0);
  former.hash_table_bytes = 0;
  EXPECT_EQ(live_bytes(former), std::nullopt);
  EXPECT_EQ(live_text(former), "-");
  EXPECT_EQ(live_share(former), std::nullopt);
  EXPECT_EQ(log_text(former), "192.0 MiB / 256.0 MiB");
}

TEST(MemoryView, AResizeIsShownUntilItIsDone) {
  wire::ServerStats stats = server(192 * kMiB, 64 * kMiB);
  stats.log_bytes_target = stats.log_bytes_held = 512 * kMiB;
  EXPECT_EQ(log_text(stats), "192.0 MiB / 256.0 MiB -> 512.0 MiB");
  stats.log_bytes_total = 512 * kMiB;
  EXPECT_EQ(log_text(stats), "192.0 MiB / 512.0 MiB");
}

TEST(MemoryView, OneWithoutALogIsNotDividedBy) {
  wire::ServerStats stats;
  stats.hash_table_bytes = 1;
  EXPECT_EQ(live_share(stats), 0.0);
}

}  // namespace
}  // namespace ramcloud::cli
