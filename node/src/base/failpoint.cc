#include "base/failpoint.h"

#ifdef RAMCLOUD_COUNT_SOMETIMES

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <thread>

#include "base/logging.h"

namespace ramcloud {

std::atomic<bool> failpoint::watched[kFailpointCount];

namespace {

constexpr uint32_t kMostDelayMs = 600'000;
constexpr Duration kUsualDelay = 100ms;

/// The action of this process at a failpoint.
struct Armed {
  FailpointOrder order;
  bool any = false;
  std::atomic<uint32_t> passes{0};
};
std::array<Armed, kFailpointCount> armed;

FailpointHandler& handler() {
  static FailpointHandler instance;
  return instance;
}

std::string known_names() {
  std::string names;
  for (const Failpoint& point : kFailpoints) names += fmt::format(" {}", point.name);
  return names;
}

Status bad(std::string_view item, const std::string& why) {
  return {StatusCode::kInvalidArgument, fmt::format("RAMCLOUD_FAILPOINTS: '{}': {}", item, why)};
}

bool parse_number(std::string_view text, uint32_t most, uint32_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 1 && number <= most;
}

/// Removes the part after the first `separator` from `text` and returns it; empty if there is none.
std::string_view cut_behind(std::string_view& text, char separator, bool& found) {
  const size_t at = text.find(separator);
  found = at != text.npos;
  if (!found) return {};
  const std::string_view rest = text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

Result<FailpointOrder> parse_item(std::string_view item) {
  FailpointOrder order;
  std::string_view place = item;
  bool has_action = false, has_nth = false, has_delay = false;
  std::string_view action = cut_behind(place, '=', has_action);
  if (!has_action) return fail(bad(item, "accepted is NAME[:nth]=kill|stop|delay[:ms]"));
  const std::string_view nth = cut_behind(place, ':', has_nth);
  const std::string_view delay = cut_behind(action, ':', has_delay);
  while (order.number < kFailpointCount && place != kFailpoints[order.number].name) ++order.number;
  if (order.number == kFailpointCount) {
    return fail(bad(item, fmt::format("'{}' is no failpoint; there are:{}", place, known_names())));
  }
  if (has_nth && !parse_number(nth, UINT32_MAX, order.nth)) {
    return fail(bad(item, fmt::format("pass '{}': accepted is a number from 1", nth)));
  }
  uint32_t ms = static_cast<uint32_t>(kUsualDelay / 1ms);
  if (action == "kill") {
    order.action = FailpointAction::kKill;
  } else if (action == "stop") {
    order.action = FailpointAction::kStop;
  } else if (action == "delay") {
    order.action = FailpointAction::kDelay;
  } else {
    return fail(bad(item, fmt::format("action '{}': accepted are kill, stop, delay[:ms]", action)));
  }
  if (has_delay &&
      (order.action != FailpointAction::kDelay || !parse_number(delay, kMostDelayMs, ms))) {
    return fail(
        bad(item, fmt::format("'{}': accepted is delay:ms with 1 to {} ms", delay, kMostDelayMs)));
  }
  order.delay = std::chrono::milliseconds(ms);
  return order;
}

/// Acts on the present thread, which does not continue.
void act(const FailpointOrder& order) {
  switch (order.action) {
    case FailpointAction::kKill:
      ::kill(::getpid(), SIGKILL);
      break;
    case FailpointAction::kStop:
      ::kill(::getpid(), SIGSTOP);
      break;
    case FailpointAction::kDelay:
      std::this_thread::sleep_for(order.delay);
      break;
  }
}

}  // namespace

Result<std::vector<FailpointOrder>> parse_failpoints(std::string_view text) {
  std::vector<FailpointOrder> orders;
  while (!text.empty()) {
    std::string_view item = text;
    bool more = false;
    text = cut_behind(item, ',', more);
    auto order = parse_item(item);
    if (!order) return fail(std::move(order.error()));
    for (const FailpointOrder& other : orders) {
      if (other.number == order->number) return fail(bad(item, "this place is named twice"));
    }
    orders.push_back(*order);
    if (more && text.empty()) return fail(bad(text, "nothing follows the last comma"));
  }
  return orders;
}

void arm_failpoints(const std::vector<FailpointOrder>& orders) {
  for (const FailpointOrder& order : orders) {
    armed[order.number].order = order;
    armed[order.number].any = true;
    failpoint::watched[order.number] = true;
  }
}

FailpointHandler set_failpoint_handler(FailpointHandler fn) {
  for (size_t i = 0; i < kFailpointCount; ++i) {
    failpoint::watched[i] = static_cast<bool>(fn) || armed[i].any;
  }
  return std::exchange(handler(), std::move(fn));
}

void failpoint::reached(size_t number) {
  if (handler()) return handler()(number);
  Armed& place = armed[number];
  const uint32_t pass = ++place.passes;
  const bool each = place.order.nth == 0 && place.order.action == FailpointAction::kDelay;
  if (!each && pass != std::max(place.order.nth, 1u)) return;
  log_warn("failpoint.reached", {{"name", kFailpoints[number].name}, {"pass", pass}});
  act(place.order);
}

}  // namespace ramcloud

#endif
