// A pass of combined cleaning [Ousterhout15 §4.3]: live entries of some closed segments (the
// victims) are copied into survivors, sorted by age. The survivors replace the victims in the log,
// in memory and on disk. docs/design/log.md#cleaning.
//
//   wait   until every survivor is closed on its replicas
//   enter  with a head that is opened anyway, or with one of its own
#pragma once

#include <vector>

#include "log/log.h"
#include "log/side_log.h"
#include "store/relocation.h"

namespace ramcloud::store {

class CleaningPass final : public Relocation {
 public:
  CleaningPass(ObjectStore& store, const std::vector<log::Segment*>& victims);
  /// Aborts the pass if that is still possible. Once slots point at survivors, precondition: the
  /// pass is done, or the log is never used again (the process ends).
  ~CleaningPass() override;

  void commit_now() override;

 private:
  void found(uint32_t) override {}
  StatusCode begin_copies() override { return StatusCode::kOk; }
  StatusCode append(std::span<const log::EntrySource> entries, const char* refs[]) override;
  void close_copies(log::LogPosition judged) override;
  bool may_be_seen(log::LogPosition judged) override;
  void died(const log::Segment& victim, const log::Segment& survivor,
            const DeadCopy& copy) override;
  void enter() override;
  bool entered() override;
  void drop_copies() override;

  log::SideLog side_;
  log::SegmentChange change_;
  bool now_ = false;
};

}  // namespace ramcloud::store
