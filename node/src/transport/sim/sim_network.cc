#include "transport/sim/sim_network.h"

#include "transport/sim/sim_transport.h"

namespace ramcloud {

SimNetwork::SimNetwork(SimScheduler& scheduler, const SimNetworkOptions& options)
    : scheduler_(scheduler), options_(options), random_(scheduler.random().fork()) {}

std::unique_ptr<SimTransport> SimNetwork::make_transport(SimNode& node) {
  return std::make_unique<SimTransport>(*this, node);
}

void SimNetwork::partition(const SimNode& a, const SimNode& b) {
  cut_.insert(pair_of(a, b));
}

void SimNetwork::heal(const SimNode& a, const SimNode& b) {
  cut_.erase(pair_of(a, b));
}

Duration SimNetwork::delay() {
  const auto range = static_cast<uint64_t>((options_.most_delay - options_.least_delay).count());
  return options_.least_delay + Duration(static_cast<int64_t>(random_.below(range + 1)));
}

SimTransport* SimNetwork::listener(const HostPort& address) const {
  const auto found = listeners_.find(address);
  return found == listeners_.end() || !found->second->node().alive() ? nullptr : found->second;
}

void SimNetwork::send(const SimNode& from, SimNode& to, Time& lane, bool reliable,
                      std::function<void()> fn) {
  // Both are drawn whatever happens: a cut does not change the fate of later messages.
  const Duration delayed = delay();
  const bool unlucky = random_.chance(options_.loss);
  if (is_cut(from, to) || (unlucky && !reliable)) {
    ++lost_;
    return;
  }
  Time when = scheduler_.now() + delayed;
  if (!options_.reorder || reliable) when = std::max(when, lane);
  lane = std::max(lane, when);
  ++delivered_;
  scheduler_.deliver(to, when, std::move(fn));
}

}  // namespace ramcloud
