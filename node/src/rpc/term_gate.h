// Which terms of coordinators a server accepts: a term, or a revision of the metadata, that is
// higher than the highest it knows is accepted only when one of its configured coordinators
// confirms it. So a stray or made-up message cannot make a server refuse the real leader for good
// (docs/design/coordinator.md, "Terms that cannot be poisoned").
#pragma once

#include <list>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"

namespace ramcloud {

/// On the reactor of the registry. Messages of the opcodes wire::kFirstOfCoordinator to
/// wire::kLastOfCoordinator begin with the term; those that change a table then have a revision.
class TermGate {
 public:
  /// Installs itself. Everything outlives it.
  TermGate(ServiceRegistry& registry, RpcClient& rpc, ServerList& servers,
           const std::vector<Locator>& coordinators, MetricsRegistry& metrics);

  /// Messages that wait for a confirmation, of all that may.
  static constexpr size_t kMaxParked = 64;
  static constexpr size_t kMaxParkedBytes = 16u << 20;
  size_t parked() const { return parked_.size(); }

 private:
  struct Claim {
    uint64_t term = 0;
    uint64_t revision = 0;
  };
  struct Parked {
    ReplyHandle reply;
    wire::MessageHeader header;
    std::string body;
    Claim claim;
    uint64_t round;  // the first that was begun after it came
  };
  static bool gate(void* object, const Request& request) {
    return static_cast<TermGate*>(object)->take(request);
  }
  bool take(const Request& request);
  bool known(const Claim& claim) const;
  Task<void> confirm();
  Task<void> ask(Locator coordinator, uint64_t round);
  void heard(const wire::ClusterInfo& info);
  void release(const wire::ClusterInfo& info);
  bool waits_for_round() const;
  bool refuse_rest();
  void say_refused(const wire::MessageHeader& header, const Claim& claim);

  ServiceRegistry& registry_;
  RpcClient& rpc_;
  Reactor& reactor_;
  ServerList& servers_;
  const std::vector<Locator>& coordinators_;
  uint64_t revision_ = 0;  // confirmed
  std::list<Parked> parked_;
  size_t parked_bytes_ = 0;
  uint64_t round_ = 0;     // that was begun last
  size_t unanswered_ = 0;  // questions of that round
  bool asking_ = false;
  Event settled_;  // nobody waits for that round any more
  Counter& impossible_;
  Counter& unconfirmed_;
  Time say_again_{};  // any sender can cause it: one log line a second at most
  TaskScope scope_;
};

}  // namespace ramcloud
