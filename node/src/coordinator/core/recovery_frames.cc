// Recovery: what is ordered while backups lack frames
// (docs/design/recovery.md#when-volumes-are-full).
#include <algorithm>

#include "base/sometimes.h"
#include "coordinator/core/lost_ranges.h"
#include "coordinator/core/recovery.h"
#include "coordinator/core/volumes.h"

namespace ramcloud {

/// By what backups report. A part of the least size may have found no frames with so much room: then
/// more is needed. The report may have been wrong, so it is tried again after a while all the same.
bool Recovery::may_find_frames(uint64_t server_id) const {
  const uint64_t room = room_for_copies(state_, server_id);
  if (!in_vain_ || shared_.reactor.now() >= in_vain_->until) return room > 0;
  return room > in_vain_->room;
}

/// Parts found no frames, and no server would find any now: another attempt would read the whole log
/// in vain.
bool Recovery::lacks_frames() const {
  return frames_.limited() && std::ranges::none_of(state_.servers, [this](const auto& one) {
           return one.second.up() && may_find_frames(one.first);
         });
}

void Recovery::learn_of_frames(const Running& failed) {
  RC_SOMETIMES("coordinator.recovery_finds_no_frames");
  const RecoveryPart& part = failed.part;
  frames_.lacked(failed.limit, std::max(part.planned().bytes, part.bytes_fetched()));
  if (!failed.limit.is_least()) return;
  RC_SOMETIMES("coordinator.smallest_part_finds_no_frames");
  const uint64_t room = in_vain_ ? std::max(in_vain_->room, failed.room) : failed.room;
  const Duration wait = in_vain_back_off_.next(shared_.reactor.random());
  in_vain_ = {room, shared_.reactor.now() + wait};
}

std::optional<uint64_t> RecoveryShared::room_for_all() {
  constexpr Duration kLooks = 100ms;
  const Time now = reactor.now();
  if (frame_room_at == Time{} || now - frame_room_at >= kLooks) {
    frame_room = room_for_copies(state);
    frame_room_at = now;
  }
  return frame_room;
}

/// Waits until it may begin beside the recoveries of other servers. False: it has waited, so the log
/// must be looked for again.
Task<bool> Recovery::its_turn(const FoundLog& log) {
  constexpr Duration kLooks = 100ms;
  bool waited = false;
  for (; wanted(); waited = true) {
    FrameLine& line = shared_.frame_line;
    const uint64_t left = bytes_left(log);
    line.want(master_id_, bytes_in_parts(left, parts_at_most()));
    // Without replicas it needs no frames.
    if (log.bytes == 0 ||
        line.may_begin(master_id_, shared_.room_for_all().value_or(0), frames_.limited())) {
      if (!waited) line.begin(master_id_);
      co_return !waited;
    }
    if (!waited) RC_SOMETIMES("coordinator.recovery_waits_for_its_turn");
    show(
        Phase::kWaiting,
        fmt::format("backups may not have free frames for the data of all servers that crashed: it "
                    "begins when {} is served, or more frames are free",
                    server_text(state_, line.first())));
    (void)co_await wait_until(shared_.reactor, news_, shared_.reactor.now() + kLooks);
  }
  co_return false;
}

size_t Recovery::parts_at_most() const {
  const auto up =
      std::ranges::count_if(state_.servers, [](const auto& one) { return one.second.up(); });
  return std::min<size_t>(static_cast<size_t>(up), lost().size());
}

/// As many masters as a part each can be given. A part takes a frame at least of each of its
/// backups. So a short log in many parts can take all free frames although it has little: with fewer
/// frames than that it is given to no more masters than it has segments.
size_t Recovery::masters_by_frames(const FoundLog& log, size_t masters) {
  const uint64_t left = bytes_left(log);
  const std::optional<uint64_t> room = shared_.room_for_all();
  if (log.bytes == 0 || !room || bytes_in_parts(left, masters) <= *room) return masters;
  RC_SOMETIMES("coordinator.recovery_has_fewer_parts_for_few_frames");
  return std::min<size_t>(left / log::kSegmentBytes + 1, masters);
}

void Recovery::part_was_served() {
  served_ = true;
  frames_.served();
  in_vain_.reset();
  in_vain_back_off_.reset();
}

std::string Recovery::waits_for_frames() const {
  std::string text = frames_text(state_, bytes_of(lost()));
  const bool room = std::ranges::any_of(state_.servers, [this](const auto& one) {
    return one.second.up() && room_for_copies(state_, one.first) > 0;
  });
  if (room && lacks_frames()) {
    text +=
        "; the smallest part found none, so it is tried again when more are free, or in some "
        "minutes";
  }
  return text;
}

/// Bytes on disk of so many parts: each begins a segment. With all replicas, where the room is
/// counted by those without which nothing is served.
uint64_t Recovery::bytes_in_parts(uint64_t bytes, size_t parts) const {
  const uint32_t replicas = std::max(1u, state_.servers.at(master_id_).record.replicas);
  return (bytes + parts * log::kSegmentBytes) * replicas / replicas_to_serve(replicas);
}

/// What is not served yet, estimated by the share of hashes.
uint64_t Recovery::bytes_left(const FoundLog& log) const {
  const double share = hashes_at_first_ > 0 ? hashes_of(lost()) / hashes_at_first_ : 1;
  return static_cast<uint64_t>(static_cast<double>(log.bytes) * std::min(share, 1.0));
}

/// Of the log, estimated by the share of hashes.
uint64_t Recovery::bytes_of(const std::vector<LostRange>& ranges) const {
  double hashes = 0;
  for (const LostRange& range : ranges) {
    hashes += hashes_of({range}) * weight_in(weights_, range.table_id);
  }
  const double all = static_cast<double>(state_.recoveries.at(master_id_).bytes_total);
  return static_cast<uint64_t>(std::min(all, all * hashes / std::max(hashes_at_first_, 1.0)));
}

}  // namespace ramcloud
