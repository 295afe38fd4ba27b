#include "store/cleaning_pass.h"

#include "base/logging.h"

namespace ramcloud::store {

CleaningPass::CleaningPass(ObjectStore& store, const std::vector<log::Segment*>& victims)
    : Relocation(store, victims, Order::kOldestFirst),
      side_(store.log(), log::MemoryPurpose::kSurvivors) {}

CleaningPass::~CleaningPass() {
  if (phase_ == Phase::kDone || abort()) return;
  (void)store_.log().withdraw(change_);
  (void)side_.release();  // slots point at its entries
}

void CleaningPass::drop_copies() {
  side_.abort();
}

void CleaningPass::commit_now() {
  if (phase_ == Phase::kEnter) store_.log().hurry(change_);
  now_ = true;
}

StatusCode CleaningPass::append(std::span<const log::EntrySource> entries, const char* refs[]) {
  const StatusCode status = side_.append(entries, refs);
  return status == StatusCode::kOk ? status : StatusCode::kOutOfMemory;
}

void CleaningPass::close_copies(log::LogPosition) {
  side_.close();
  for (const log::Segment* survivor : side_.segments()) {
    result_.seglets += survivor->memory_bytes() / log::kSegletBytes;
  }
}

/// Nobody may see a survivor before it is durable. Entries appended until `judged` may be the
/// reason why an older object was not copied. A crash or power cut must not lose both versions. So
/// the log must be synced up to `judged`: on devices, as the survivors are.
bool CleaningPass::may_be_seen(log::LogPosition judged) {
  log::Log& log = store_.log();
  if (log.durable() < judged) return false;
  log.want_synced(judged);
  return log.synced() >= judged && side_.all_durable();
}

/// The tombstone of the object names the victim, not the survivor.
void CleaningPass::died(const log::Segment& victim, const log::Segment& survivor,
                        const DeadCopy& copy) {
  store_.cleaned().note_dead_copy(victim.id(), survivor.id(), copy);
}

void CleaningPass::enter() {
  change_.enter = side_.segments();
  change_.leave = victims_;
  if (store_.log().commit(change_, log::Roll::kNext) != StatusCode::kOk) {
    fatal("store.cleaning_is_not_committed", {{"survivors", change_.enter.size()}});
  }
  if (now_) store_.log().hurry(change_);
}

bool CleaningPass::entered() {
  if (!change_.done()) return false;
  (void)side_.release();
  for (const uint64_t id : victim_ids_) store_.cleaned().segment_left(id);
  return true;
}

}  // namespace ramcloud::store
