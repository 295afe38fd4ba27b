#include "base/time_trace.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

namespace ramcloud {

/// Reads both clocks several times, and takes the pair with the least delay between the two.
TimeTrace::Moment TimeTrace::Moment::now() {
  Moment best{};
  uint64_t narrowest = ~uint64_t{0};
  for (int i = 0; i < 5; ++i) {
    const uint64_t before = trace_ticks();
    const auto wall = std::chrono::system_clock::now();
    const uint64_t width = trace_ticks() - before;
    if (width >= narrowest) continue;
    narrowest = width;
    best = {before + width / 2, wall};
  }
  return best;
}

TimeTrace::TimeTrace()
    : slots_(std::make_unique<std::array<Slot, kEvents>>()), started_(Moment::now()) {}

std::vector<TraceEvent> TimeTrace::snapshot() const {
  const Moment now = Moment::now();
  const double ticks = std::max(1.0, static_cast<double>(now.ticks - started_.ticks));
  const double ns_per_tick =
      static_cast<double>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(now.wall - started_.wall).count()) /
      ticks;
  const int64_t now_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(now.wall.time_since_epoch()).count();

  const uint64_t end = next_.load(std::memory_order_acquire);
  const uint64_t begin = end > kEvents ? end - kEvents : 0;
  std::vector<TraceEvent> events;
  events.reserve(end - begin);
  for (uint64_t i = begin; i < end; ++i) {
    const Slot& slot = (*slots_)[i % kEvents];
    const auto ago = static_cast<double>(
        static_cast<int64_t>(now.ticks - slot.ticks.load(std::memory_order_relaxed)));
    events.push_back({now_ns - static_cast<int64_t>(ago * ns_per_tick),
                      slot.what.load(std::memory_order_relaxed),
                      slot.id.load(std::memory_order_relaxed),
                      slot.value.load(std::memory_order_relaxed)});
  }
  // Drop events that were overwritten while we read, because they may mix two events, and the slot
  // after the last published one, which may be half written.
  std::atomic_thread_fence(std::memory_order_acquire);
  const uint64_t after = next_.load(std::memory_order_relaxed) + 1;
  const uint64_t oldest_whole = after > kEvents ? after - kEvents : 0;
  if (oldest_whole > begin) {
    const auto torn = std::min<uint64_t>(oldest_whole - begin, events.size());
    events.erase(events.begin(), events.begin() + static_cast<ptrdiff_t>(torn));
  }
  return events;
}

std::string TimeTrace::json_of(const std::vector<const TimeTrace*>& traces) {
  std::vector<TraceEvent> events;
  for (const TimeTrace* trace : traces) {
    // Each ring is in order; of events at the same time those of the earlier ring come first.
    std::vector<TraceEvent> merged;
    std::ranges::merge(events, trace->snapshot(), std::back_inserter(merged), {},
                       &TraceEvent::unix_ns, &TraceEvent::unix_ns);
    events = std::move(merged);
  }
  std::string out = "{\"events\":[";
  const char* separator = "\n";
  for (const TraceEvent& event : events) {
    // `what` is a string literal, so it needs no escaping.
    out += fmt::format("{}{{\"unix_ns\":{},\"what\":\"{}\",\"id\":{},\"value\":{}}}", separator,
                       event.unix_ns, event.what, event.id, event.value);
    separator = ",\n";
  }
  return out + "]}\n";
}

}  // namespace ramcloud
