#include "daemon/daemon_runtime.h"

#include <fmt/core.h>
#include <malloc.h>

#include <algorithm>
#include <future>

#include "base/random.h"
#include "base/text.h"

namespace ramcloud::daemon {
namespace {
/// How long a turn of a reactor may take before /healthz reports it.
constexpr Duration kStuckAfter = 10s;

/// Each reactor gets a share of the memory limit, so that no shared counter is needed. A share has
/// room for at least two of the largest messages.
TcpOptions share_of(TcpOptions limits, uint32_t reactors) {
  limits.max_buffered_bytes =
      std::max<uint64_t>(limits.max_buffered_bytes / reactors, 2 * wire::kMaxBodyBytes);
  return limits;
}
}  // namespace

DaemonRuntime::Lane::Lane(Clock& clock, MetricsRegistry& m, Duration poll_for,
                          const TcpOptions& limits, uint32_t index)
    : metrics(m),
      turns(m.histogram("ramcloud_reactor_turn_seconds",
                        "Processor time of the reactor's turns that did work, system calls "
                        "included.",
                        {{"reactor", std::to_string(index)}}),
            &thread_cpu_ns),
      reactor(clock, events, entropy_seed(), {.poll_for = poll_for}),
      transport(reactor, events, limits, &metrics) {
  reactor.set_trace(&trace);
  reactor.set_meter(&turns);
}

DaemonRuntime::DaemonRuntime(Duration poll_for, const TcpOptions& limits, uint32_t reactors)
    : watches_(reactors) {
  for (uint32_t i = 0; i < reactors; ++i) {
    MetricsRegistry& metrics = i == 0 ? metrics_ : metrics_.add_shard();
    lanes_.push_back(
        std::make_unique<Lane>(clock_, metrics, poll_for, share_of(limits, reactors), i));
    lanes_.back()->transport.on_memory_freed([this] { trim_heap(); });
  }
}

DaemonRuntime::~DaemonRuntime() {
  stop();
  // Connections that other reactors took over post to the first reactor when they close.
  while (!lanes_.empty()) lanes_.pop_back();
}

std::string DaemonRuntime::trace_json() const {
  std::vector<const TimeTrace*> traces;
  for (const auto& lane : lanes_) traces.push_back(&lane->trace);
  return TimeTrace::json_of(traces);
}

void DaemonRuntime::trim_heap() {
  if (trimming_.exchange(true)) return;
  // The previous thread has ended.
  trimmer_ = Thread("trim", [this] {
    malloc_trim(0);
    trimming_ = false;
  });
}

void DaemonRuntime::start(const std::string& name) {
  for (size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i]->thread = Thread(i == 0 ? name : fmt::format("{}-{}", name, i),
                               [lane = lanes_[i].get()] { lane->reactor.run(); });
  }
}

void DaemonRuntime::on_reactor(const std::function<void()>& fn) {
  std::promise<void> done;
  reactor().post([&] {
    fn();
    done.set_value();
  });
  done.get_future().wait();
}

void DaemonRuntime::stop() {
  for (size_t i = lanes_.size(); i-- > 0;) {
    lanes_[i]->reactor.stop();
    lanes_[i]->thread.join();
  }
}

std::string DaemonRuntime::check_turns() {
  const std::lock_guard guard(watch_mutex_);
  std::string stuck;
  for (size_t i = 0; i < lanes_.size() && stuck.empty(); ++i) stuck = check_turns_of(i);
  return stuck;
}

std::string DaemonRuntime::check_turns_of(size_t i) {
  const Time now = clock_.now();
  Watch& watch = watches_[i];
  const uint64_t turns = lanes_[i]->reactor.turns();
  if (turns != watch.seen_turns) {
    watch.seen_turns = turns;
    watch.seen_at = now;
  } else {
    lanes_[i]->reactor.post([] {});  // wakes a sleeping reactor, so that it runs a turn
  }
  if (watch.seen_at == Time{} || now - watch.seen_at <= kStuckAfter) return {};
  return fmt::format("reactor {} is stuck: no turn for {}", i,
                     format_duration(now - watch.seen_at));
}

}  // namespace ramcloud::daemon
