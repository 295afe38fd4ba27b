#include "base/model_schedule.h"

#include <fmt/core.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unordered_set>

namespace ramcloud::model {
namespace {

constexpr size_t kMostActors = 16;
constexpr size_t kStackBytes = 512 * 1024;
constexpr size_t kGuardBytes = 4096;

Schedule* running = nullptr;
ucontext_t outside;
uint64_t last_now = 0;

/// The stack of the actor with this number; kept, because creating one costs more than a short
/// schedule.
char* stack_of(size_t actor) {
  static char* stacks[kMostActors];
  if (stacks[actor] == nullptr) {
    void* mapping = mmap(nullptr, kStackBytes + kGuardBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED || mprotect(mapping, kGuardBytes, PROT_NONE) != 0) std::abort();
    stacks[actor] = static_cast<char*>(mapping) + kGuardBytes;
  }
  return stacks[actor];
}

}  // namespace

struct Schedule::Actor {
  std::function<void()> body;
  State state = State::kReady;
  const void* waits_for = nullptr;
  int64_t priority = 0;
  ucontext_t context{};
};

Schedule::Schedule(Options options) : options_(options), random_(options.seed) {
  for (uint32_t i = 0; i < options.priority_changes; ++i) {
    changes_.insert(1 + random_.below(std::max<uint64_t>(options.expected_steps, 1)));
  }
}

Schedule::~Schedule() = default;

void Schedule::actor(std::function<void()> body) {
  if (actors_.size() == kMostActors) std::abort();
  auto& actor = *actors_.emplace_back(std::make_unique<Actor>());
  actor.body = std::move(body);
  actor.priority = 1 + static_cast<int64_t>(random_.below(1u << 30));
}

std::string Schedule::run() {
  if (running != nullptr || actors_.empty()) std::abort();
  for (size_t i = 0; i < actors_.size(); ++i) {
    ucontext_t& context = actors_[i]->context;
    if (getcontext(&context) != 0) std::abort();
    context.uc_stack.ss_sp = stack_of(i);
    context.uc_stack.ss_size = kStackBytes;
    context.uc_link = nullptr;
    makecontext(&context, &Schedule::enter, 0);
  }
  running = this;
  if (choose(current_)) swapcontext(&outside, &actors_[current_]->context);
  running = nullptr;
  return failure_;
}

void Schedule::enter() {
  Schedule& self = *running;
  self.actors_[self.current_]->body();
  self.actors_[self.current_]->state = State::kDone;
  self.go_on();
  std::abort();  // no actor is resumed after its end
}

/// Switches from the present actor, which is done or waits, to another one.
void Schedule::go_on() {
  size_t next = 0;
  if (choose(next)) return switch_to(next);
  std::string waiting;
  for (size_t i = 0; i < actors_.size(); ++i) {
    if (actors_[i]->state == State::kWaiting) {
      waiting += fmt::format("{}actor {}", waiting.empty() ? "" : ", ", i);
    }
  }
  if (!waiting.empty()) give_up("deadlock: what these wait for does not come: " + waiting);
  setcontext(&outside);
}

bool Schedule::choose(size_t& next) {
  size_t ready[kMostActors];
  size_t count = 0;
  for (size_t i = 0; i < actors_.size(); ++i) {
    if (actors_[i]->state == State::kReady) ready[count++] = i;
  }
  if (count == 0) return false;
  if (options_.policy == Policy::kRandom) {
    next = ready[random_.below(count)];
  } else {
    next = *std::max_element(ready, ready + count, [this](size_t a, size_t b) {
      return actors_[a]->priority < actors_[b]->priority;
    });
  }
  trace_ = (trace_ ^ (next + 1)) * 0x100000001b3;
  return true;
}

void Schedule::switch_to(size_t next) {
  if (next == current_) return;
  ucontext_t& from = actors_[current_]->context;
  current_ = next;
  swapcontext(&from, &actors_[next]->context);
}

void Schedule::step() {
  if (++steps_ > options_.most_steps) {
    give_up(fmt::format("livelock: no end after {} steps", options_.most_steps));
  }
  if (changes_.contains(steps_)) actors_[current_]->priority = --lowest_priority_;
}

void Schedule::give_up(std::string why) {
  failure_ = std::move(why);
  setcontext(&outside);
  std::abort();
}

void point() {
  if (running == nullptr) return;
  Schedule& s = *running;
  s.step();
  size_t next = s.current_;
  if (s.choose(next)) s.switch_to(next);
}

void yield() {
  if (running == nullptr) return;
  Schedule& s = *running;
  s.actors_[s.current_]->priority = --s.lowest_priority_;
  point();
}

void wait_for(const void* what) {
  if (running == nullptr) std::abort();
  Schedule& s = *running;
  s.step();
  s.actors_[s.current_]->state = Schedule::State::kWaiting;
  s.actors_[s.current_]->waits_for = what;
  s.go_on();
}

void wake(const void* what) {
  if (running == nullptr) return;
  for (const auto& actor : running->actors_) {
    if (actor->state == Schedule::State::kWaiting && actor->waits_for == what) {
      actor->state = Schedule::State::kReady;
    }
  }
}

uint64_t now() {
  return ++last_now;
}

Explored explore(uint64_t first, uint64_t count,
                 const std::function<std::string(Schedule&)>& once) {
  if (const char* text = std::getenv("MODEL_SEEDS")) {
    char* end = nullptr;
    first = std::strtoull(text, &end, 10);
    count = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1;
  }
  Explored explored;
  std::unordered_set<uint64_t> traces;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Policy policy = seed % 2 == 0 ? Policy::kPriority : Policy::kRandom;
    // Varies the options by the seed, from early to late changes, so that a seed always gives the
    // same interleaving.
    Schedule schedule(
        {.seed = seed, .policy = policy, .expected_steps = uint64_t{64} << (seed / 2 % 6)});
    explored.wrong = once(schedule);
    ++explored.schedules;
    explored.steps += schedule.steps();
    traces.insert(schedule.trace());
    if (explored.wrong.empty()) continue;
    explored.wrong += fmt::format("\nreplay with MODEL_SEEDS={}:1", seed);
    break;
  }
  explored.distinct = traces.size();
  std::printf("seeds %llu to %llu: %llu interleavings, %llu of them distinct, %llu steps\n",
              static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + explored.schedules - 1),
              static_cast<unsigned long long>(explored.schedules),
              static_cast<unsigned long long>(explored.distinct),
              static_cast<unsigned long long>(explored.steps));
  return explored;
}

}  // namespace ramcloud::model
