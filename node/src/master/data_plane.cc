#include "master/data_plane.h"

#include <utility>

namespace ramcloud::master {

DataPlane::DataPlane(Reactor& reactor, Transport& transport, MetricsRegistry& metrics)
    : reactor_(reactor),
      registry_(transport),
      replies_(reactor, transport, metrics),
      parked_(reactor, registry_, metrics),
      data_(registry_, replies_, metrics),
      multi_(registry_, reactor, replies_, metrics) {}

void DataPlane::attach(store::ObjectStore& store, LeaseTerm* lease) {
  log_ = &store.log();
  replies_.attach(*log_, lease);
  parked_.attach(*log_);
  data_.attach(store, &parked_);
  multi_.attach(store, &parked_);
}

bool DataPlane::serve() {
  const bool released = parked_.on_turn();
  return multi_.on_turn() || released;
}

bool DataPlane::has_appended() {
  if (!replies_.waits_for_log() && multi_.waiting() == 0) return false;
  const log::LogPosition head = log_->head();
  return std::exchange(seen_, head) != head;
}

}  // namespace ramcloud::master
