#include "server/log_resize.h"

#include <fmt/core.h>

#include <bit>

#include "base/logging.h"
#include "base/sometimes.h"
#include "base/text.h"
#include "store/object_store.h"

namespace ramcloud::server {

LogResize::LogResize(Reactor& reactor, Master& master, const FrameStore& frames, uint32_t replicas)
    : reactor_(reactor),
      master_(master),
      frames_(frames),
      replicas_(replicas),
      timer_(reactor_, [this] { on_timer(); }) {}

/// Live bytes of all tablets, including those being recovered or purged.
uint64_t LogResize::live_bytes() const {
  uint64_t bytes = 0;
  for (const auto& tablet : master_.store().tablets()) bytes += tablet.object_bytes;
  return bytes;
}

Status LogResize::set(uint64_t bytes) {
  const log::Log::Sizes before = master_.log().sizes(live_bytes());
  RC_RETURN_IF_ERROR(master_.log().resize(bytes, live_bytes()));
  const log::Log::Sizes now = master_.log().sizes(live_bytes());
  if (now.target != before.target) {
    if (now.target < before.target) RC_SOMETIMES("server.log_begins_to_shrink");
    log_info("log.resize_begins", {{"from_bytes", before.target}, {"target_bytes", now.target}});
  }
  if (!now.done() && !timer_.running()) timer_.start_after(kSlice);
  return {};
}

void LogResize::on_timer() {
  const bool more = master_.log().continue_resize();
  const log::Log::Sizes now = master_.log().sizes(live_bytes());
  if (!now.done()) return timer_.start_after(more ? kSlice : kWait);
  RC_SOMETIMES("server.log_has_its_new_size");
  log_info("log.resized", {{"bytes", now.target}});
}

wire::ResizeLogReply LogResize::state() const {
  const log::Log::Sizes now = master_.log().sizes(live_bytes());
  wire::ResizeLogReply reply;
  reply.target_bytes = now.target;
  reply.limit_bytes = now.limit;
  reply.held_bytes = now.held;
  reply.least_bytes = now.least;
  reply.most_bytes = now.most;
  note_hash_table(now.target, reply.notes);
  note_backup(now.target, reply.notes);
  return reply;
}

/// Notes if the hash table is smaller than that of a server started with so much log memory: an
/// eighth, rounded to a power of two.
void LogResize::note_hash_table(uint64_t target, std::vector<std::string>& notes) const {
  const store::HashTable& table = master_.store().table();
  const uint64_t has = table.bucket_count() * 64;
  const uint64_t usual = std::bit_floor(target / 8);
  if (has >= usual) return;
  notes.push_back(fmt::format(
      "the hash table stays {}, but a server that starts with log-memory {} has {}: with small "
      "objects lookups get slower; only a restart makes the hash table larger",
      exact_size(has), exact_size(target), exact_size(usual)));
}

/// All servers keep each other's replicas, so one server's disk space shows how much there is for
/// one log.
void LogResize::note_backup(uint64_t target, std::vector<std::string>& notes) const {
  const uint64_t has = frames_.frames_total() * log::kSegmentBytes;
  const uint64_t advised = 2 * replicas_ * target;
  if (has >= advised) return;
  notes.push_back(
      fmt::format("the backup volume has room for {} of replicas, and {} are advised for "
                  "log-memory {} on each server: cleaning begins earlier, and disks may get full",
                  exact_size(has), exact_size(advised), exact_size(target)));
}

}  // namespace ramcloud::server
