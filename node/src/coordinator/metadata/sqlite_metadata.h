// Metadata in one SQLite file beside the coordinator. Each transaction is on the device before it
// counts as committed. A separate thread uses the database; results are posted to the reactor.
#pragma once

#include <memory>

#include "coordinator/metadata/metadata_store.h"
#include "runtime/reactor.h"

namespace ramcloud {

class SqliteMetadata final : public MetadataStore {
 public:
  /// Opens or creates the file (its folder must exist) and locks it: UNAVAILABLE while another
  /// process has it, CORRUPT if it is not our database, otherwise IO_ERROR; all name the path.
  static Result<std::unique_ptr<SqliteMetadata>> open(Reactor& reactor, const std::string& path);
  /// Finishes transactions that have begun; must not outlive the reactor.
  ~SqliteMetadata() override;

  Task<Result<Records>> load(std::string prefix) override;
  Task<CommitResult> commit(MetadataTransaction transaction) override;
  /// The process that has the file locked leads; each call counts as a new leadership.
  Task<Result<Leadership>> campaign(std::string record) override;
  uint64_t leading() const override { return leading_; }
  Task<void> wait_for_change(uint64_t number) override;
  Task<void> resign() override;

 private:
  class Database;
  class Worker;
  SqliteMetadata(Reactor& reactor, std::unique_ptr<Database> database);
  Reactor& reactor_;
  uint64_t leading_ = 0;
  std::unique_ptr<Database> database_;
  std::unique_ptr<Worker> worker_;
};

}  // namespace ramcloud
