#include "coordinator/core/accepted_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "coordinator/core/checks.h"
#include "coordinator/core/lost_ranges.h"
#include "log/format.h"

namespace ramcloud {
namespace {

/// The same loss of the same log has the same token under any leader. If the log's end is missing,
/// `found` is part of the token, because no remaining digest names the segments that were closed
/// later.
std::string token_of(const ClusterState& state, const LossPreview& preview,
                     const std::vector<log::SegmentEnd>& found) {
  std::string text = fmt::format("{}/{}/{}/{}", format_uuid(state.uuid), preview.server_id,
                                 preview.end_given_up, preview.newest_head);
  for (const auto& [id, bytes] : preview.loss.segments) text += fmt::format("/{}:{}", id, bytes);
  for (const log::SegmentEnd& segment : found) {
    const bool later = preview.end_given_up && segment.segment_id > preview.newest_head;
    if (later) text += fmt::format("/+{}:{}", segment.segment_id, segment.length);
  }
  return fmt::format("loss/1/{}/{:016x}", preview.server_id, key_hash(0, text));
}

/// Entries of a tablet are never below its creation position.
bool may_have_entries(const LossPreview& preview, const TabletRecord& tablet) {
  if (preview.end_given_up) return true;
  const auto& segments = preview.loss.segments;
  if (segments.empty()) return false;
  return log::LogPosition(segments.rbegin()->first, 0).value >= tablet.creation_position;
}

std::vector<LossPreview::Table> tables_of(const ClusterState& state, const LossPreview& preview,
                                          const std::vector<LostRange>& lost) {
  std::vector<LossPreview::Table> tables;
  for (const auto& [id, table] : state.tables) {
    std::vector<LostRange> ranges;
    for (const TabletRecord& tablet : table.tablets) {
      const LostRange range = range_of(id, tablet);
      if (std::ranges::find(lost, range) == lost.end()) continue;
      if (may_have_entries(preview, tablet)) ranges.push_back(range);
    }
    if (ranges.empty()) continue;
    constexpr double kAllHashes = 18446744073709551616.0;  // 2^64
    tables.push_back(
        {table.name, static_cast<uint32_t>(ranges.size()), hashes_of(ranges) / kAllHashes});
  }
  return tables;
}

}  // namespace

LossPreview preview_of(const ClusterState& state, uint64_t server_id, log::LossToAccept shown,
                       const std::vector<LostRange>& lost) {
  LossPreview preview;
  preview.server_id = server_id;
  preview.name = state.servers.at(server_id).record.name;
  preview.loss = std::move(shown.loss);
  preview.missing = std::move(shown.missing);
  preview.more = shown.more;
  preview.end_given_up = preview.loss.end_after.has_value();
  preview.newest_head = preview.loss.end_after.value_or(0);
  for (const log::SegmentEnd& segment : shown.end.segments) {
    ++preview.segments_found;
    preview.bytes_found += segment.length;
  }
  for (const auto& [id, found] : preview.loss.segments) {
    preview.bytes_lost += log::kSegmentBytes - std::min(found, log::kSegmentBytes);
  }
  preview.tables = tables_of(state, preview, lost);
  preview.token = token_of(state, preview, shown.end.segments);
  return preview;
}

std::string summary_of(const LossPreview& preview) {
  std::string text;
  if (!preview.loss.segments.empty()) {
    text = fmt::format("{} segments of the log are missing, with at most {} of data. ",
                       preview.loss.segments.size(), format_size(preview.bytes_lost));
  }
  if (preview.end_given_up) {
    text += preview.newest_head == 0 ? "The end of the log is missing, and no head segment of it "
                                       "is known: nothing of it can be recovered. "
                                     : fmt::format(
                                           "The end of the log is missing: everything after "
                                           "segment {}; its size is not known. ",
                                           preview.newest_head);
    text += fmt::format(
        "No remaining server can have told server {} that it is CRASHED: make sure that it does "
        "not run any more. ",
        preview.server_id);
  }
  if (!preview.unable.empty()) {
    text += fmt::format("Some of what is missing may still be on a device: {}. ", preview.unable);
  }
  if (preview.more) {
    text += "More is missing; it is shown after this is accepted.";
    return text;
  }
  text += fmt::format("{} segments were found, {}. ", preview.segments_found,
                      format_size(preview.bytes_found));
  if (preview.tables.empty()) return text + "No table can have had data in the missing part.";
  text +=
      "In these tables objects may be missing, may be older than what was acknowledged, or may "
      "exist although they were deleted: ";
  constexpr size_t kNamed = 20;
  for (size_t i = 0; i < std::min(preview.tables.size(), kNamed); ++i) {
    const LossPreview::Table& table = preview.tables[i];
    text += fmt::format("{}{} ({:.1f}% of its hashes)", i == 0 ? "" : ", ", quoted(table.name),
                        100 * table.share_of_table);
  }
  if (preview.tables.size() > kNamed) {
    text += fmt::format(" and {} more", preview.tables.size() - kNamed);
  }
  return text + ".";
}

log::AcceptedLoss loss_of(const AcceptedLossRecord& record) {
  log::AcceptedLoss loss;
  for (const GivenUpSegment& segment : record.segments) {
    loss.segments[segment.segment_id] = segment.found_bytes;
  }
  if (record.end_given_up) loss.end_after = record.newest_head;
  loss.later.insert(record.later.begin(), record.later.end());
  loss.version_floor = record.version_floor;
  return loss;
}

AcceptedLossRecord record_of(const LossPreview& preview) {
  AcceptedLossRecord record;
  record.server_id = preview.server_id;
  for (const auto& [id, found] : preview.loss.segments) {
    record.segments.push_back({.segment_id = id, .found_bytes = found});
  }
  record.later.assign(preview.loss.later.begin(), preview.loss.later.end());
  record.end_given_up = preview.end_given_up;
  record.newest_head = preview.newest_head;
  record.token = preview.token;
  record.summary = summary_of(preview);
  return record;
}

}  // namespace ramcloud
