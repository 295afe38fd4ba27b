// A pass of compaction [Rumble14 §4]: live entries of one closed segment are copied into less
// memory, under the same segment id. Its replicas do not change, so compaction needs no disk writes
// and no new head. docs/design/log.md#compaction.
#pragma once

#include <memory>
#include <vector>

#include "log/compacted_segment.h"
#include "store/relocation.h"

namespace ramcloud::store {

class CompactionPass final : public Relocation {
 public:
  /// If the victim may not be compacted (any more), it is left as it is, and the pass is done.
  CompactionPass(ObjectStore& store, log::Segment& victim);
  /// As ~CleaningPass().
  ~CompactionPass() override;

  void commit_now() override {}  // compaction needs no head

 private:
  void found(uint32_t length) override { size_.add(length); }
  StatusCode begin_copies() override { return copy_.open(size_.seglets()); }
  StatusCode append(std::span<const log::EntrySource> entries, const char* refs[]) override;
  void close_copies(log::LogPosition judged) override { copy_.close(judged); }
  bool may_be_seen(log::LogPosition) override { return true; }
  void died(const log::Segment&, const log::Segment&, const DeadCopy&) override {}
  void enter() override { copy_.replace(); }
  bool entered() override;
  void drop_copies() override { copy_.abort(); }

  log::CompactedSize size_;
  log::CompactedSegment copy_;
};

/// Creates the pass that a Cleaner runs (log/cleaner.h).
std::unique_ptr<log::CleaningWork> make_pass(ObjectStore& store, log::CleaningKind kind,
                                             const std::vector<log::Segment*>& victims);

}  // namespace ramcloud::store
