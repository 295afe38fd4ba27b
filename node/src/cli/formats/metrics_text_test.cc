#include "cli/formats/metrics_text.h"

#include <gtest/gtest.h>

#include "base/metrics.h"

namespace ramcloud::cli {
namespace {

TEST(MetricsText, ReadsWhatTheRegistryWrites) {
  MetricsRegistry registry;
  auto& reads = registry.histogram("ramcloud_operation_seconds", "h", {{"op", "read"}});
  auto& writes = registry.histogram("ramcloud_operation_seconds", "h", {{"op", "write"}});
  registry.gauge("ramcloud_reactor_busy_seconds_total", "h", [] { return 1.5; });
  for (int i = 0; i < 99; ++i) reads.record(1'500);
  writes.record(150'000);
  const OperationMetrics metrics = read_operation_metrics(registry.text());
  EXPECT_EQ(metrics.operations("read"), 99u);
  EXPECT_EQ(metrics.operations("write"), 1u);
  EXPECT_EQ(metrics.operations("delete"), 0u);
  EXPECT_EQ(metrics.operations(), 100u);
  EXPECT_DOUBLE_EQ(metrics.quantile(0.5), 2e-6);
  EXPECT_DOUBLE_EQ(metrics.quantile(0.99), 2e-6);
  EXPECT_DOUBLE_EQ(metrics.quantile(1), 200e-6);
  EXPECT_DOUBLE_EQ(metrics.busy_seconds, 1.5);
}

TEST(MetricsText, AnIntervalIsTheDifference) {
  MetricsRegistry registry;
  auto& reads = registry.histogram("ramcloud_operation_seconds", "h", {{"op", "read"}});
  reads.record(1'500'000'000);
  const OperationMetrics before = read_operation_metrics(registry.text());
  EXPECT_EQ(before.since(before).operations(), 0u);
  EXPECT_DOUBLE_EQ(before.since(before).quantile(0.99), 0);
  reads.record(1'500);
  const OperationMetrics change = read_operation_metrics(registry.text()).since(before);
  EXPECT_EQ(change.operations(), 1u);
  EXPECT_DOUBLE_EQ(change.quantile(0.99), 2e-6);
  // The server restarted: its counters began at 0 again.
  EXPECT_EQ(before.since(read_operation_metrics(registry.text())).operations(), 1u);
}

TEST(MetricsText, LeavesOutWhatIsMalformed) {
  const OperationMetrics metrics = read_operation_metrics(
      "# TYPE x counter\n"
      "ramcloud_operation_seconds_count{op=\"read\"} many\n"
      "ramcloud_operation_seconds_count{op=\"read\"} -1\n"
      "ramcloud_operation_seconds_count{op=\"read\"\n"
      "ramcloud_operation_seconds_bucket{op=\"read\",le=\"x\"} 4\n"
      "\n"
      "ramcloud_operation_seconds_count{op=\"read\"} 3");
  EXPECT_EQ(metrics.operations(), 3u);
  EXPECT_TRUE(metrics.at_most.empty());
}

}  // namespace
}  // namespace ramcloud::cli
