// Tables and the servers their tablets are on. Each update is written before any server gets an
// order, so that a later leader can finish it [Ousterhout15 §9].
#pragma once

#include <map>
#include <optional>

#include "coordinator/core/changes.h"
#include "coordinator/core/notifier.h"
#include "coordinator/metadata/ledger.h"
#include "coordinator/metadata/table_writer.h"

namespace ramcloud {

class Tables {
 public:
  Tables(Reactor& reactor, ClusterState& state, Ledger& ledger, TableWriter& writer,
         Notifier& notifier, Changes& changes)
      : reactor_(reactor),
        state_(state),
        ledger_(ledger),
        writer_(writer),
        notifier_(notifier),
        changes_(changes),
        changed_(reactor),
        scope_(reactor) {}

  /// Continues what an earlier leader began.
  void resume();
  /// Servers enlisted or crashed.
  void membership_changed() { wake_waiting(); }

  /// The id of the table once all its servers have taken their tablets. EXISTS with another span;
  /// INVALID_ARGUMENT; DEADLINE_EXCEEDED (creation continues, or was not begun); UNAVAILABLE (no
  /// server).
  Task<Result<uint64_t>> create(std::string name, uint32_t span, Time deadline);
  /// OK once no server that is UP has the table. NOT_FOUND; DEADLINE_EXCEEDED (dropping continues,
  /// or was not begun).
  Task<Status> drop(std::string name, Time deadline);

 private:
  Status check_span(uint32_t span) const;
  TableRecord plan(std::string name, uint32_t span) const;
  Task<Result<uint64_t>> begin_create(std::string name, uint32_t span, Time deadline);
  Task<Result<uint64_t>> begin_drop(const std::string& name, Time deadline);
  Task<Status> write(const AsyncMutex::Lock& lock, TableRecord record,
                     Ledger::Objection objection = nullptr);
  Task<void> sweep(uint64_t id);
  bool creating(uint64_t id) const;
  Task<void> finish_create(uint64_t id);
  /// By first hash: the creation position of a tablet in its server's log.
  using Positions = std::map<uint64_t, uint64_t>;
  Task<std::optional<Positions>> tell_servers_to_take(uint64_t id);
  Task<bool> place(uint64_t id);
  Task<void> finish_drop(uint64_t id);
  void wake_waiting();

  Reactor& reactor_;
  ClusterState& state_;
  Ledger& ledger_;
  TableWriter& writer_;
  Notifier& notifier_;
  Changes& changes_;
  Event changed_;  // pulsed when a table or the membership changes
  TaskScope scope_;
};

}  // namespace ramcloud
