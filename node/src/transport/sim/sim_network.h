// A network in memory for the simulation: messages between nodes are the scheduler's events, with
// delays, losses, reordering and partitions that follow from the seed.
//
// Sessions are message streams, so what a real network does to packets shows as a late, lost or
// reordered message, or as a broken session; the same message never arrives twice on one session.
// An idempotent request, which its sender may repeat over another session, can arrive twice.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/sim/sim_scheduler.h"
#include "transport/transport.h"

namespace ramcloud {

class SimTransport;

struct SimNetworkOptions {
  Duration least_delay = 5us;
  Duration most_delay = 50us;
  /// Probability for each message. A lost request is never answered; the caller's deadline ends the
  /// call.
  double loss = 0;
  /// Messages of one session may overtake each other.
  bool reorder = false;
  /// Probability for each idempotent request that it arrives once more, over a separate session, up
  /// to `repeat_after` later. Its answer is dropped. This simulates a request that was waiting in
  /// the receiver's kernel when the sender opened another connection.
  double repeat = 0;
  Duration repeat_after = 3s;
  /// Time until connected peers notice a process's death.
  Duration break_delay = 100us;
};

class SimNetwork {
 public:
  SimNetwork(SimScheduler& scheduler, const SimNetworkOptions& options = {});
  SimScheduler& scheduler() { return scheduler_; }
  SimNetworkOptions& options() { return options_; }

  /// A transport for a node; create a new one after restart(). Its locators are
  /// sim:host=NAME,port=P.
  std::unique_ptr<SimTransport> make_transport(SimNode& node);

  /// Called for every request and reply that is sent.
  using Tap = std::function<void(const SimNode& from, const wire::MessageHeader& header)>;
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  /// Logs every message (level debug).
  void set_tracing(bool tracing) { tracing_ = tracing; }

  /// Drops all messages between these two until heal(); sessions stay open.
  void partition(const SimNode& a, const SimNode& b);
  /// The same only for messages from `from` to `to`.
  void partition_one_way(const SimNode& from, const SimNode& to);
  void heal(const SimNode& a, const SimNode& b);
  void heal_all() { cut_.clear(); }
  /// Adds this latency between these two; 0 ends it.
  void set_slow(const SimNode& a, const SimNode& b, Duration more);
  /// Breaks all connections that this node accepted, although all processes are alive. Returns how
  /// many.
  size_t break_sessions_to(const SimNode& node);

  uint64_t delivered() const { return delivered_; }
  uint64_t lost() const { return lost_; }

 private:
  friend class SimTransport;
  friend class SimSession;
  using Direction = std::pair<uint32_t, uint32_t>;  // from, to
  static Direction direction(const SimNode& from, const SimNode& to) {
    return {from.index(), to.index()};
  }
  bool is_cut(const SimNode& from, const SimNode& to) const {
    return cut_.contains(direction(from, to));
  }
  bool is_cut_somehow(const SimNode& a, const SimNode& b) const {
    return is_cut(a, b) || is_cut(b, a);
  }
  /// Whether a request arrives once more, and when.
  std::optional<Duration> repeat_of(const wire::MessageHeader& header);
  /// Calls the tap.
  void sent(const SimNode& from, const SimNode& to, const wire::MessageHeader& header);
  Duration delay();
  SimTransport* listener(const HostPort& address) const;
  /// Runs `fn` at the node `to`, unless the message is lost; `reliable` messages (connecting,
  /// closing) are lost only in partitions. `lane` keeps the order in one direction of a connection.
  void send(const SimNode& from, SimNode& to, Time& lane, bool reliable, std::function<void()> fn);

  SimScheduler& scheduler_;
  Tap tap_;
  bool tracing_ = false;
  SimNetworkOptions options_;
  Random random_;
  Random repeats_;  // separate, so that repeats do not change the fate of other messages
  std::set<Direction> cut_;
  std::map<Direction, Duration> slow_;
  std::vector<SimTransport*> transports_;
  std::map<HostPort, SimTransport*, decltype([](const HostPort& a, const HostPort& b) {
             return std::tie(a.host, a.port) < std::tie(b.host, b.port);
           })>
      listeners_;
  uint64_t delivered_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace ramcloud
