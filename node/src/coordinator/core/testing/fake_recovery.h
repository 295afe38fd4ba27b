// The recovery part of a fake server: its backup reports made-up replicas, and it pretends to
// replay them. It records requests that no coordinator may make.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rpc/rpc.h"
#include "wire/control_messages.h"
#include "wire/recovery_messages.h"

namespace ramcloud::testing {

class FakeRecovery {
 public:
  /// Answers UNSUPPORTED while it is not enabled, like servers of earlier versions.
  FakeRecovery(Reactor& reactor, Transport& transport, ServiceRegistry& registry);

  bool enabled = false;
  // As a backup:
  std::map<uint64_t, std::vector<wire::RecoveryReplica>> replicas;  // by master
  uint64_t former_server_id = 0;
  size_t page = 512;
  bool keeps_silent = false;                        // does not answer queries
  Status query_fails;                               // the answer to queries, unless it is OK
  Duration query_takes{};                           // delay of answers to queries
  bool scans_nothing = false;                       // does not scan closed replicas, even if asked
  std::map<uint64_t, Time> frozen;                  // time of the freeze, by master
  std::map<uint64_t, std::vector<uint64_t>> scans;  // scan_closed_from of queries, by master
  std::map<uint64_t, std::vector<uint32_t>> pages;  // first_frame of queries, by master
  // As a recovery master:
  Duration replay = std::chrono::milliseconds(20);
  bool hold_orders = false;                           // does not answer RECOVER
  bool busy = false;                                  // answers it RETRY
  bool tells_no_state = false;                        // does not answer GET_RECOVERY_STATE
  std::optional<wire::RecoveryPhase> stuck_in;        // stays in this phase
  std::vector<std::pair<StatusCode, uint64_t>> fail;  // errors of the next parts, and the segment
  std::map<uint64_t, uint64_t> table_bytes;           // of all hashes of a table; else next to none
  uint64_t framed_bytes = ~uint64_t{0};               // parts with more bytes find no frames
  struct Job {
    wire::RecoverRequest order;
    std::vector<wire::HashRange> ranges;  // ranges that are not served yet
    wire::RecoveryState state;
  };
  std::map<std::pair<uint64_t, uint64_t>, Job> jobs;  // by dead master and attempt
  struct Served {
    uint64_t end_hash = 0;
    uint64_t attempt = 0;
    uint64_t safe_version = 0;
  };
  std::map<std::pair<uint64_t, uint64_t>, Served> serving;  // by table and first hash
  std::vector<wire::RecoverRequest> orders;                 // each attempt once
  std::map<uint64_t, uint64_t> aborted;                     // highest attempt, by dead master
  int lose_serves = 0;        // the number of next SERVE_RECOVERED that are lost
  bool has_lost_all = false;  // answers NOT_FOUND to SERVE_RECOVERED
  int serve_orders = 0;
  uint64_t log_head = 1000;
  /// Called for each request before it is answered.
  std::function<void(wire::Opcode)> on_call;
  /// Called for each range that is served from now on.
  std::function<void(const wire::HashRange&, uint64_t attempt)> on_serve;
  std::string violation;

 private:
  template <typename Message>
  bool take(const Request& request, wire::Opcode opcode, Message& message);
  void on_query(const Request& r);
  Task<void> answer_query(ReplyHandle handle, wire::RecoveryQueryReply reply);
  void on_recover(const Request& r);
  void on_state(const Request& r);
  void on_serve_recovered(const Request& r);
  void on_abort(const Request& r);
  void give_up(const wire::HashRange& range, uint64_t below);
  Task<void> run(uint64_t master_id, uint64_t attempt);
  uint64_t bytes_of(const Job& job) const;
  Task<void> tell(ReplyHandle handle, wire::GetRecoveryStateRequest asked);
  Reactor& reactor_;
  Transport& transport_;
  uint64_t heard_term_ = 0;
  TaskScope scope_;
};

}  // namespace ramcloud::testing
