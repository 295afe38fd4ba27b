#include "server/coordinator_lease.h"

#include <algorithm>
#include <utility>

#include "base/sometimes.h"

namespace ramcloud::server {
namespace {

/// How often a lease is renewed while it lasts.
constexpr int kRenewalsPerLease = 4;

}  // namespace

CoordinatorLease::CoordinatorLease(Reactor& reactor, LeaseTerm& term, Duration length, Ask ask,
                                   Condemned condemned)
    : reactor_(reactor),
      term_(term),
      length_(length),
      ask_(std::move(ask)),
      condemned_(std::move(condemned)),
      tasks_(reactor) {
  tasks_.spawn(ask_while_needed());
}

Task<void> CoordinatorLease::ask_while_needed() {
  // With replicas the first head is opened within a turn or two, and then its backups lease.
  co_await reactor_.sleep(term_.appends_prove() ? length_ / kRenewalsPerLease : Duration{});
  for (;;) {
    const Time began = reactor_.now();
    if (term_.needs_grant()) {
      const Time sent = reactor_.clock().lease_now();
      const Status granted = co_await ask_(began + length_);
      // A coordinator without support for leases never recovers a server, so its answer is enough.
      if (granted.ok() || granted == StatusCode::kUnsupported) {
        RC_SOMETIMES("server.coordinator_grants_a_lease");
        term_.grant_until(sent + length_);
      } else if (granted == StatusCode::kCrashed) {
        term_.end();
        condemned_(granted);
        co_return;
      }
    }
    const Duration left = began + length_ / kRenewalsPerLease - reactor_.now();
    // A standby answers at once that it does not lead; then the next coordinator is asked.
    constexpr Duration kLeastPause = 10ms;
    co_await reactor_.sleep(std::max(left, kLeastPause));
  }
}

}  // namespace ramcloud::server
