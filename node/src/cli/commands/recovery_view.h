// Output formats of recoveries: JSON, rows of a table, one in full, and lines and bars for --watch.
// Unknown values are null in JSON, otherwise "not known" or "?".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "coordinator/core/cluster_view.h"

namespace ramcloud::cli {

/// All recoveries of the status: running ones by id, then ended ones, the latest first. The
/// pointers are into `status`.
std::vector<const RecoveryView*> all_recoveries(const ClusterStatus& status);

/// The fields that docs/operating/failures.md explains, and those of earlier versions.
nlohmann::ordered_json recovery_json(const RecoveryView& recovery);

/// "2026-01-31T12:00:00.250Z".
std::string time_text(uint64_t unix_ms);

std::vector<std::string> recovery_header();
/// `now_ms` is Unix time.
std::vector<std::string> recovery_row(const RecoveryView& recovery, uint64_t now_ms);

/// One in full: lines, and tables of its steps, partitions and missing segments.
std::string recovery_text(const RecoveryView& recovery);

/// "server 3 (pod-3): REPLAYING, attempt 91, 1 of 3 parts, 1.0MiB of 4.0MiB (25%)".
std::string recovery_line(const RecoveryView& recovery);
/// "server 3 (pod-3)  [#######.......................]  25%  REPLAYING, 1 of 3 parts".
std::string recovery_bar(const RecoveryView& recovery);

}  // namespace ramcloud::cli
