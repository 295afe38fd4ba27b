// After an import, the metadata may be older than the servers' state. Every live server is asked
// what it owns, and the metadata is corrected before any order is sent. Until then the leader
// answers nothing that could be wrong. docs/design/coordinator.md#imports.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "coordinator/core/changes.h"
#include "coordinator/core/notifier.h"
#include "coordinator/core/restatement.h"
#include "coordinator/core/term_claims.h"
#include "coordinator/metadata/ledger.h"
#include "coordinator/metadata/table_writer.h"
#include "rpc/rpc.h"

namespace ramcloud {

class ImportReconciliation {
 public:
  struct Options {
    /// For this long no server is given up and none enlists, so that servers that the metadata does
    /// not know can report. (A server that hears nothing for 5 s asks for the list.)
    Duration grace = 10s;
    Duration timeout = 1s;  // of one try
  };
  /// `on_list_changed` is called after every change of the server list, `on_done` when live servers
  /// have restated what they own and all of it is durable.
  ImportReconciliation(RpcClient& rpc, ClusterState& state, Ledger& ledger, TableWriter& writer,
                       TermClaims& term_claims, Notifier& notifier, Changes& changes,
                       std::function<void()> on_list_changed, std::function<void()> on_done,
                       Options options)
      : reactor_(rpc.reactor()),
        rpc_(rpc),
        state_(state),
        ledger_(ledger),
        writer_(writer),
        term_claims_(term_claims),
        notifier_(notifier),
        changes_(changes),
        on_list_changed_(std::move(on_list_changed)),
        on_done_(std::move(on_done)),
        options_(options),
        scope_(reactor_) {}

  /// Starts if there was an import; otherwise returns false.
  bool start();
  /// Records a server that the metadata may not know.
  void note(uint64_t server_id, const std::string& locator);

  /// RETRY until all live servers have restated what they own.
  Status check() const;
  /// RETRY until unknown servers have had time to report, so that their ids are not assigned again.
  Status check_enlisting() const;

 private:
  bool grace_is_over() const { return reactor_.now() >= grace_ends_; }
  Task<void> run();
  void ask_those_who_are_up();
  bool all_said() const;
  Task<void> ask(uint64_t server_id, Locator at);
  Task<bool> heard(uint64_t server_id, wire::Restatement said);
  Task<bool> add_silent();
  Task<bool> write(const AsyncMutex::Lock& lock, std::vector<ServerRecord> servers);
  Task<bool> finish(const AsyncMutex::Lock& lock);
  bool answered(uint64_t server_id) const;
  std::vector<ServerRecord> unaccounted() const;
  ReplicationEpochRecord fence_of(uint64_t server_id) const;
  std::vector<ReplicationEpochRecord> restated_epochs() const;
  Task<bool> pass_what_was_heard(const AsyncMutex::Lock& lock);
  Task<bool> write_epochs(const AsyncMutex::Lock& lock);
  Task<bool> write_tables(const AsyncMutex::Lock& lock, std::vector<TableRecord> tables);

  Reactor& reactor_;
  RpcClient& rpc_;
  ClusterState& state_;
  Ledger& ledger_;
  TableWriter& writer_;
  TermClaims& term_claims_;
  Notifier& notifier_;
  Changes& changes_;
  std::function<void()> on_list_changed_;
  std::function<void()> on_done_;
  Options options_;
  Time grace_ends_{};
  Restatements said_;
  ServerIds outlived_export_;  // UP at some time since the export
  std::set<uint64_t> asked_;
  std::map<uint64_t, wire::ServerListEntry> unknown_;  // listed as UP, but no answer yet
  TaskScope scope_;
};

}  // namespace ramcloud
