// Runs the reactors of a whole cluster in one thread on virtual time. Every step is an event with a
// time; the order of events follows from the seed alone, and event_hash() proves it
// (docs/design/simulation.md).
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "runtime/reactor.h"
#include "runtime/sim/sim_disk.h"
#include "runtime/sim/sim_faults.h"

namespace ramcloud {

class SimScheduler;

/// A node's own clock: the scheduler's, but fast or slow by some millionths, and with a wall clock
/// that can be set.
class SimNodeClock final : public Clock {
 public:
  explicit SimNodeClock(const VirtualClock& real) : real_(real) {}
  Time now() const override;
  /// Includes a pause within a turn at once, like CLOCK_BOOTTIME after a process was suspended.
  Time lease_now() const override { return own_time(std::max(real_.now(), paused_until_)); }
  uint64_t unix_ms() const override;
  /// The node is suspended until then, in the middle of a turn.
  void pause_until(Time until) { paused_until_ = until; }
  /// Sets the rate error from now on; positive: the clock is fast.
  void set_rate_error(int32_t millionths);
  int32_t rate_error() const { return millionths_; }
  void jump_wall(int64_t milliseconds) { wall_offset_ms_ += milliseconds; }
  /// The scheduler's time when this clock will show `own`.
  Time real_time(Time own) const;

 private:
  Time own_time(Time real) const;
  const VirtualClock& real_;
  Time paused_until_{};
  int32_t millionths_ = 0;
  Time real_anchor_{}, own_anchor_{};
  int64_t wall_offset_ms_ = 0;
};

/// One simulated process: a reactor and a disk. Killing drops messages in flight to it; its role
/// objects are destroyed by the test, before restart().
class SimNode final : public EventSource {
 public:
  const std::string& name() const { return name_; }
  uint32_t index() const { return index_; }
  Reactor& reactor() { return *reactor_; }  // another one after restart()
  SimDisk& disk() { return disk_; }
  SimNodeClock& clock() { return clock_; }
  bool alive() const { return alive_; }
  /// It dies at the end of its turn, and its actions until then have no effect.
  bool doomed() const { return doomed_; }
  /// No turn begins before this time, and messages of the present turn are sent then.
  Time paused_until() const { return paused_until_; }
  /// Counts kills: events for an earlier life are dropped.
  uint64_t incarnation() const { return incarnation_; }

  // The reactor's source of events.
  bool poll() override;
  void wait(Time, Time) override {}
  void wake() override {}

 private:
  friend class SimScheduler;
  SimNode(SimScheduler& scheduler, std::string name, uint32_t index, uint64_t seed);
  void start();

  SimScheduler& scheduler_;
  std::string name_;
  uint32_t index_;
  Random random_;
  SimDisk disk_;
  SimNodeClock clock_;
  std::unique_ptr<Reactor> reactor_;
  std::deque<std::function<void()>> inbox_;
  Time ready_at_ = kNever;  // time of its next turn, not considering timers and posted work
  Time busy_until_{};       // its last turn's end
  Time paused_until_{};
  bool alive_ = true;
  bool doomed_ = false;
  uint64_t incarnation_ = 0;
};

class SimScheduler {
 public:
  explicit SimScheduler(uint64_t seed);
  ~SimScheduler();
  SimScheduler(const SimScheduler&) = delete;
  SimScheduler& operator=(const SimScheduler&) = delete;

  SimNode& add_node(const std::string& name);
  const std::vector<std::unique_ptr<SimNode>>& nodes() const { return nodes_; }
  VirtualClock& clock() { return clock_; }
  Time now() const { return clock_.now(); }
  Random& random() { return random_; }

  /// Calls `fn` at that time, outside of any node (faults, the network, the test's own steps).
  void at(Time when, std::function<void()> fn);
  void after(Duration delay, std::function<void()> fn) { at(now() + delay, std::move(fn)); }
  /// Hands `fn` to a node: it runs in a turn of its reactor, unless the node was killed by then.
  void deliver(SimNode& node, Time when, std::function<void()> fn);

  /// Kills the process; its disk keeps all writes.
  void kill(SimNode& node);
  /// The machine loses power: as kill(), and the disk loses a part of the unsynced bytes.
  void power_off(SimNode& node);
  /// For the node that is in its turn: its further actions have no effect on others or on its disk.
  /// The caller kills it before its next turn.
  void doom(SimNode& node);
  /// Like SIGSTOP and, at `until`, SIGCONT. After a pause within a turn, messages of that turn are
  /// sent when the pause is over.
  void pause(SimNode& node, Time until);
  void resume(SimNode& node) {
    node.paused_until_ = {};
    node.clock_.pause_until({});
  }
  /// The node whose turn it is; null between turns.
  SimNode* turning() const { return turning_; }

  /// Creates a new reactor. Precondition: the test has destroyed everything that used the old one.
  void restart(SimNode& node);

  /// `fn` is called after every step, with the node whose turn it was, or null. It must not change
  /// anything.
  void set_observer(std::function<void(SimNode* turned)> fn) { observer_ = std::move(fn); }

  /// Runs the next event; false if there is none.
  bool step();
  void run_for(Duration duration);
  /// Runs until `done` is true (checked after every step). False if `limit` of virtual time passed
  /// first or no event is left.
  bool run_until(const std::function<bool()>& done, Duration limit);

  /// The hash of all events so far: same seed, same hash.
  uint64_t event_hash() const { return hash_.value(); }
  uint64_t events() const { return events_; }
  void mix_into_hash(uint64_t value) { hash_.add(value); }
  /// Counts of faults so far.
  const FaultCounts& faults() const { return faults_; }
  void note(Fault fault);

 private:
  struct Event {
    Time when;
    uint64_t sequence;
    std::function<void()> fn;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
    }
  };
  SimNode* next_node(Time& when) const;
  Time turn_time(const SimNode& node) const;
  Time next_time() const;
  void run_turn(SimNode& node);

  VirtualClock clock_;
  Random random_;
  HashMixer hash_;
  uint64_t events_ = 0;
  uint64_t sequence_ = 0;
  FaultCounts faults_;
  SimNode* turning_ = nullptr;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<Event> queue_;  // heap
  std::function<void(SimNode*)> observer_;
};

}  // namespace ramcloud
