// A scheduler that explores interleavings. Actors are fibers of one thread. At every switch point
// (each access of an Atomic, each SpinLock) a seed decides which actor continues. The same seed
// gives the same interleaving. Only in builds with the preset `model`.
//
// There are two policies. One picks any actor at every point; it finds bugs that take many
// switches. The other uses random priorities that change at a few random points (PCT, Burckhardt et
// al., ASPLOS 2010); it finds a bug that takes d orderings with a known probability, in long runs
// too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"

namespace ramcloud::model {

enum class Policy : uint8_t { kRandom, kPriority };

class Schedule {
 public:
  struct Options {
    uint64_t seed = 1;
    Policy policy = Policy::kRandom;
    uint32_t priority_changes = 3;  // of kPriority
    uint64_t expected_steps = 200;  // for kPriority: the changes happen within this many steps
    uint64_t most_steps = 200'000;  // a run with more counts as a livelock
  };
  explicit Schedule(Options options);
  ~Schedule();
  Schedule(const Schedule&) = delete;
  Schedule& operator=(const Schedule&) = delete;

  /// Adds an actor. Before run(); at most 16.
  void actor(std::function<void()> body);
  /// Runs all actors to their ends, once. Returns an empty string, or, after a deadlock, a text
  /// that says which actor waits for what. Then the actors are abandoned without cleaning up.
  std::string run();
  uint64_t steps() const { return steps_; }
  /// A hash of the interleaving: different interleavings have (almost certainly) different numbers.
  uint64_t trace() const { return trace_; }
  Random& random() { return random_; }

 private:
  friend void point();
  friend void yield();
  friend void wait_for(const void* what);
  friend void wake(const void* what);
  friend uint64_t now();
  enum class State : uint8_t { kReady, kWaiting, kDone };
  struct Actor;

  static void enter();
  void step();
  /// Chooses the next actor. False: no actor is ready.
  bool choose(size_t& next);
  void go_on();
  void switch_to(size_t next);
  [[noreturn]] void give_up(std::string why);

  Options options_;
  Random random_;
  std::vector<std::unique_ptr<Actor>> actors_;
  size_t current_ = 0;
  uint64_t steps_ = 0;
  uint64_t trace_ = 0;
  int64_t lowest_priority_ = 0;
  std::set<uint64_t> changes_;
  std::string failure_;
};

/// @name For actors; outside of a schedule they do nothing
/// @{
/// Another actor may run from here on.
void point();
/// The same for an actor that spins until other actors have done something.
void yield();
/// Waits until wake() of the same address. Aborts outside of a schedule, because it would wait for
/// ever.
void wait_for(const void* what);
void wake(const void* what);
/// A number that rises with every call.
uint64_t now();
/// @}

/// The result of explore().
struct Explored {
  uint64_t schedules = 0;
  uint64_t distinct = 0;  // interleavings
  uint64_t steps = 0;
  std::string wrong;  // the first failing seed, and how to replay it
};

/// Calls `once` for each seed from `first` on; it adds actors, runs them, and returns what is
/// wrong. Every second seed uses priorities. MODEL_SEEDS=FROM:COUNT in the environment overrides
/// the seeds.
Explored explore(uint64_t first, uint64_t count, const std::function<std::string(Schedule&)>& once);

}  // namespace ramcloud::model
