// Decides which terms of coordinators a server accepts. A term or metadata revision above the
// highest known one is accepted only after one of its configured coordinators has confirmed it. So
// a stray or forged message cannot make a server refuse the real leader for ever
// (docs/design/coordinator.md#terms-that-cannot-be-poisoned).
#pragma once

#include <list>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"

namespace ramcloud {

/// On the reactor of the registry. Messages of the opcodes wire::kFirstOfCoordinator to
/// wire::kLastOfCoordinator begin with the term; messages that change a table then have a revision.
class TermGate {
 public:
  /// Installs itself in the registry. All arguments outlive it.
  TermGate(ServiceRegistry& registry, RpcClient& rpc, ServerList& servers,
           const std::vector<Locator>& coordinators, MetricsRegistry& metrics);

  /// The most messages that wait for a confirmation.
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
    uint64_t round;  // the first round that began after the message came
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
  uint64_t revision_ = 0;  // the confirmed revision
  std::list<Parked> parked_;
  size_t parked_bytes_ = 0;
  uint64_t round_ = 0;     // the last round that began
  size_t unanswered_ = 0;  // unanswered questions of that round
  bool asking_ = false;
  Event settled_;  // set when that round is over
  Counter& impossible_;
  Counter& unconfirmed_;
  Time say_again_{};  // at most one log line a second, because any sender can cause it
  TaskScope scope_;
};

}  // namespace ramcloud
