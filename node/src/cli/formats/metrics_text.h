// The values that `ramcloud top` uses from a server's /metrics.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace ramcloud::cli {

/// Sums since a server started, or, by since(), of an interval.
struct OperationMetrics {
  std::map<std::string, uint64_t> count_by_op;
  /// By bound in seconds: how many operations, of all kinds, took at most so long.
  std::map<double, uint64_t> at_most;
  double busy_seconds = 0;

  uint64_t operations() const;
  uint64_t operations(const std::string& op) const;
  /// Upper bound in seconds of the bucket in which the q-th quantile lies; 0 without operations.
  double quantile(double q) const;
  /// The difference to `earlier`; all values if the server restarted in between.
  OperationMetrics since(const OperationMetrics& earlier) const;
};

/// Reads Prometheus' text format; lines of other metrics, and malformed lines, are skipped.
OperationMetrics read_operation_metrics(std::string_view text);

}  // namespace ramcloud::cli
