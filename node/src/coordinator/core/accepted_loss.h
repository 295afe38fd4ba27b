// The lost part of a dead master's log that an operator may give up, as it is shown before,
// and as it is recorded (docs/design/recovery.md, "Accepted losses"). Arithmetic on the
// coordinator's state, without calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/core/recovery_plan.h"
#include "coordinator/metadata/cluster_state.h"
#include "log/log_end.h"

namespace ramcloud {

/// So many segments are given up at once: their record stays below the 1.5 MiB that etcd takes.
inline constexpr size_t kMostGivenUpAtOnce = 32'768;

/// The data that would be given up, and the tablets that would be served all the same.
struct LossPreview {
  uint64_t server_id = 0;  // the crashed one
  std::string name;
  log::AcceptedLoss loss;
  std::vector<log::MissingSegment> missing;
  bool more = false;          // these are not all: the rest is asked for after them
  bool end_given_up = false;  // nobody knows what followed `newest_head`
  uint64_t newest_head = 0;   // 0: no head is known, nothing is recovered
  uint64_t segments_found = 0;
  uint64_t bytes_found = 0;  // of the log, also of entries that are not live
  /// At most, of segments that are known to be missing.
  uint64_t bytes_lost = 0;
  struct Table {
    std::string name;
    uint32_t tablets = 0;       // that the server owned, and that may have had entries there
    double share_of_table = 0;  // of the table's hashes
    bool operator==(const Table&) const = default;
  };
  std::vector<Table> tables;
  std::string token;  // of just this loss: printable, otherwise opaque
};

/// What an operator says of a loss.
struct LossRequest {
  uint64_t server_id = 0;  // the crashed one
  bool confirmed = false;  // else it is only shown
  std::string token;       // of the preview
  std::string by, reason;  // 0-255 printable bytes
};
struct LossAnswer {
  bool accepted = false;  // it is durable: now, or since an earlier call with this token
  LossPreview preview;    // unless it was accepted earlier
  std::string effect;     // for people: what is lost, and what is served
};

/// `lost`: the ranges that must be recovered.
LossPreview preview_of(const ClusterState& state, uint64_t server_id, log::LossToAccept shown,
                       const std::vector<LostRange>& lost);

/// For people: sentences, without the segments.
std::string summary_of(const LossPreview& preview);

log::AcceptedLoss loss_of(const AcceptedLossRecord& record);

/// Without the fields that say by whom, when and why it was accepted.
AcceptedLossRecord record_of(const LossPreview& preview);

}  // namespace ramcloud
