// The lost part of a dead master's log that an operator may give up: its preview and its record
// (docs/design/recovery.md#accepted-losses). Pure functions of the coordinator's state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/core/recovery_plan.h"
#include "coordinator/metadata/cluster_state.h"
#include "log/log_end.h"

namespace ramcloud {

/// The most segments that are given up at once: so their record stays below etcd's limit of 1.5
/// MiB.
inline constexpr size_t kMostGivenUpAtOnce = 32'768;

/// The data that would be given up, and the tablets that would then be served.
struct LossPreview {
  uint64_t server_id = 0;  // the crashed one
  std::string name;
  log::AcceptedLoss loss;
  std::vector<log::MissingSegment> missing;
  bool more = false;          // there are more missing segments, which are shown after these are
                              // accepted
  bool end_given_up = false;  // it is unknown which segments followed `newest_head`
  uint64_t newest_head = 0;   // 0: no head is known, nothing is recovered
  uint64_t segments_found = 0;
  uint64_t bytes_found = 0;  // bytes of the log, including entries that are not live
  /// An upper bound, for segments that are known to be missing.
  uint64_t bytes_lost = 0;
  struct Table {
    std::string name;
    uint32_t tablets = 0;       // tablets of the server that may have had entries in the lost part
    double share_of_table = 0;  // their share of the table's hashes
    bool operator==(const Table&) const = default;
  };
  std::vector<Table> tables;
  std::string
      unable;  // servers that are UP, may have what is missing, and cannot say so; for people
  std::string token;  // identifies exactly this loss; printable and opaque
};

/// An operator's request about a loss.
struct LossRequest {
  uint64_t server_id = 0;  // the crashed one
  bool confirmed = false;  // if false, the loss is only shown
  std::string token;       // of the preview
  std::string by, reason;  // 0-255 printable bytes
};
struct LossAnswer {
  bool accepted = false;  // it is durable, by this call or an earlier one with this token
  LossPreview preview;    // unless it was accepted earlier
  std::string effect;     // for people: what is lost, and what is served
};

/// `lost`: the ranges that must be recovered.
LossPreview preview_of(const ClusterState& state, uint64_t server_id, log::LossToAccept shown,
                       const std::vector<LostRange>& lost);

/// A text for people, without the segments.
std::string summary_of(const LossPreview& preview);

log::AcceptedLoss loss_of(const AcceptedLossRecord& record);

/// The record, without the fields by whom, when and why it was accepted.
AcceptedLossRecord record_of(const LossPreview& preview);

}  // namespace ramcloud
