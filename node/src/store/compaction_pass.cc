#include "store/compaction_pass.h"

#include "store/cleaning_pass.h"

namespace ramcloud::store {

CompactionPass::CompactionPass(ObjectStore& store, log::Segment& victim)
    : Relocation(store,
                 store.log().may_compact(victim) ? std::vector<log::Segment*>{&victim}
                                                 : std::vector<log::Segment*>{},
                 Order::kAsTheyStand),
      size_(victim.header_length(), kGroupedBytes),
      copy_(store.log(), victim) {}

CompactionPass::~CompactionPass() {
  if (phase_ != Phase::kDone && !abort()) copy_.release();
}

/// The memory was sized for all live entries. If it does not suffice, entries that died since have
/// moved the padding: the pass fails, and a later one may succeed.
StatusCode CompactionPass::append(std::span<const log::EntrySource> entries, const char* refs[]) {
  const StatusCode status = copy_.append(entries, refs);
  return status == StatusCode::kOk ? status : StatusCode::kInvalidArgument;
}

/// The segment stays in the log, so the claim is withdrawn.
bool CompactionPass::entered() {
  for (const uint64_t id : victim_ids_) store_.cleaned().give_up(id);
  return true;
}

std::unique_ptr<log::CleaningWork> make_pass(ObjectStore& store, log::CleaningKind kind,
                                             const std::vector<log::Segment*>& victims) {
  if (kind == log::CleaningKind::kCompaction) {
    return std::make_unique<CompactionPass>(store, *victims.front());
  }
  return std::make_unique<CleaningPass>(store, victims);
}

}  // namespace ramcloud::store
