#include "runtime/sim/sim_scheduler.h"

#include <algorithm>

#include "base/logging.h"

namespace ramcloud {
namespace {
/// Every turn takes time, so that a busy node does not stop the clock.
constexpr Duration kTurnTime = 1us;
}  // namespace

// ---- SimNodeClock

Time SimNodeClock::now() const {
  return own_time(real_.now());
}

Time SimNodeClock::own_time(Time real) const {
  if (millionths_ == 0 && own_anchor_ == real_anchor_) return real;
  const Duration passed = real - real_anchor_;
  return own_anchor_ + passed + passed / 1'000'000 * millionths_;
}

uint64_t SimNodeClock::unix_ms() const {
  return real_.unix_ms() + static_cast<uint64_t>(wall_offset_ms_);
}

void SimNodeClock::set_rate_error(int32_t millionths) {
  own_anchor_ = now();
  real_anchor_ = real_.now();
  millionths_ = millionths;
}

Time SimNodeClock::real_time(Time own) const {
  if (own == kNever || (millionths_ == 0 && own_anchor_ == real_anchor_)) return own;
  const Duration passed = own - own_anchor_;
  // Rounded up: a turn before the timer is due would find nothing to do.
  return real_anchor_ + passed - passed / (1'000'000 + millionths_) * millionths_ + 1us;
}

// ---- SimNode

SimNode::SimNode(SimScheduler& scheduler, std::string name, uint32_t index, uint64_t seed)
    : scheduler_(scheduler),
      name_(std::move(name)),
      index_(index),
      random_(seed),
      disk_(random_.next()),
      clock_(scheduler.clock()) {
  disk_.set_observer([this](Fault fault) { scheduler_.note(fault); });
  start();
}

void SimNode::start() {
  reactor_ = std::make_unique<Reactor>(clock_, *this, random_.next(), Reactor::Options{});
  disk_.attach(*reactor_);
  alive_ = true;
  doomed_ = false;
  paused_until_ = {};
  clock_.pause_until({});
  ready_at_ = scheduler_.now();
}

bool SimNode::poll() {
  // Messages that arrive during this turn wait for the next.
  for (size_t n = inbox_.size(); n > 0; --n) {
    const auto fn = std::move(inbox_.front());
    inbox_.pop_front();
    fn();
    if (n == 1) return true;
  }
  return false;
}

// ---- SimScheduler

SimScheduler::SimScheduler(uint64_t seed) : random_(seed) {
  hash_.add(seed);
}

SimScheduler::~SimScheduler() = default;

SimNode& SimScheduler::add_node(const std::string& name) {
  const auto index = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(std::unique_ptr<SimNode>(new SimNode(*this, name, index, random_.next())));
  return *nodes_.back();
}

void SimScheduler::at(Time when, std::function<void()> fn) {
  queue_.push_back({std::max(when, now()), ++sequence_, std::move(fn)});
  std::ranges::push_heap(queue_, Later{});
}

void SimScheduler::deliver(SimNode& node, Time when, std::function<void()> fn) {
  at(when, [this, &node, life = node.incarnation_, fn = std::move(fn)]() mutable {
    if (!node.alive_ || node.incarnation_ != life) return;
    node.inbox_.push_back(std::move(fn));
    node.ready_at_ = std::min(node.ready_at_, now());
  });
}

void SimScheduler::kill(SimNode& node) {
  if (node.alive_) note(Fault::kProcessKilled);
  node.alive_ = false;
  ++node.incarnation_;
  node.inbox_.clear();
  node.ready_at_ = kNever;
  node.disk_.crash();
}

void SimScheduler::power_off(SimNode& node) {
  kill(node);
  node.disk_.power_loss();
}

void SimScheduler::note(Fault fault) {
  faults_.add(fault, now());
  log_debug("sim.fault", {{"kind", fault_name(fault)}});
}

void SimScheduler::doom(SimNode& node) {
  node.doomed_ = true;
  node.disk_.freeze();
}

void SimScheduler::pause(SimNode& node, Time until) {
  if (!node.alive_ || until <= now()) return;
  node.paused_until_ = std::max(node.paused_until_, until);
  if (turning_ == &node) node.clock_.pause_until(node.paused_until_);
  note(Fault::kProcessPaused);
}

void SimScheduler::restart(SimNode& node) {
  if (node.alive_) kill(node);
  node.start();
}

Time SimScheduler::turn_time(const SimNode& node) const {
  if (!node.alive_) return kNever;
  const Time wanted =
      node.reactor_->has_pending()
          ? now()
          : std::min(node.ready_at_, node.clock_.real_time(node.reactor_->next_deadline()));
  return wanted == kNever ? kNever
                          : std::max({wanted, node.busy_until_, node.paused_until_, now()});
}

SimNode* SimScheduler::next_node(Time& when) const {
  SimNode* next = nullptr;
  when = kNever;
  for (const auto& node : nodes_) {
    const Time turn = turn_time(*node);
    if (turn < when) {
      when = turn;
      next = node.get();
    }
  }
  return next;
}

Time SimScheduler::next_time() const {
  Time node_time;
  next_node(node_time);
  return queue_.empty() ? node_time : std::min(node_time, queue_.front().when);
}

bool SimScheduler::step() {
  Time turn;
  SimNode* node = next_node(turn);
  if (!queue_.empty() && queue_.front().when <= turn) {
    std::ranges::pop_heap(queue_, Later{});
    const Event event = std::move(queue_.back());
    queue_.pop_back();
    clock_.advance_to(event.when);
    hash_.add(event.sequence);
    hash_.add(static_cast<uint64_t>(event.when.time_since_epoch().count()));
    ++events_;
    event.fn();
    if (observer_) observer_(nullptr);
    return true;
  }
  if (node == nullptr) return false;
  clock_.advance_to(turn);
  run_turn(*node);
  if (observer_) observer_(node);
  return true;
}

void SimScheduler::run_turn(SimNode& node) {
  ++events_;
  hash_.add(node.index_);
  hash_.add(static_cast<uint64_t>(now().time_since_epoch().count()));
  node.ready_at_ = kNever;
  const uint64_t life = node.incarnation_;
  turning_ = &node;
  const bool worked = node.reactor_->turn();
  turning_ = nullptr;
  // Work of a turn may leave more (hooks): look again until a turn finds nothing.
  if (node.incarnation_ == life && worked) node.ready_at_ = std::min(node.ready_at_, now());
  node.busy_until_ = now() + kTurnTime;
}

void SimScheduler::run_for(Duration duration) {
  const Time end = now() + duration;
  while (next_time() <= end && step()) {
  }
  clock_.advance_to(end);
}

bool SimScheduler::run_until(const std::function<bool()>& done, Duration limit) {
  const Time end = now() + limit;
  while (!done()) {
    if (now() > end || !step()) return false;
  }
  return true;
}

}  // namespace ramcloud
