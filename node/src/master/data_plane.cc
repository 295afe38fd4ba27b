#include "master/data_plane.h"

namespace ramcloud::master {

DataPlane::DataPlane(Reactor& reactor, Transport& transport, MetricsRegistry& metrics,
                     Reactor* driver)
    : reactor_(reactor),
      driver_(driver),
      registry_(transport),
      replies_(reactor, transport, metrics),
      data_(registry_, replies_, metrics),
      multi_(registry_, reactor, replies_, metrics),
      parked_(reactor, registry_, metrics) {
  // Behind the hooks of those that append, too.
  reactor_.add_hook(this);
}

DataPlane::~DataPlane() {
  reactor_.remove_hook(this);
}

void DataPlane::attach(store::ObjectStore& store) {
  log_ = &store.log();
  replies_.attach(*log_);
  data_.attach(store);
  multi_.attach(store);
  parked_.attach(*log_);
}

bool DataPlane::on_turn() {
  if (driver_ == nullptr || log_ == nullptr) return false;
  // What this thread appended in this turn is published by now, and moved the head since it was
  // looked at last. What others appended counts too: one nudge more than needed does no harm.
  const log::LogPosition head = log_->head();
  if (head == told_) return false;
  told_ = head;
  driver_->nudge();
  return false;
}

}  // namespace ramcloud::master
