#include "master/data_plane.h"

namespace ramcloud::master {

DataPlane::DataPlane(Reactor& reactor, Transport& transport, MetricsRegistry& metrics)
    : reactor_(reactor),
      registry_(transport),
      replies_(reactor, transport, metrics),
      parked_(reactor, registry_, metrics),
      data_(registry_, replies_, metrics),
      multi_(registry_, reactor, replies_, metrics) {
  // Behind the hooks of those that append, too.
  reactor_.add_hook(this);
}

DataPlane::~DataPlane() {
  reactor_.remove_hook(this);
}

void DataPlane::attach(store::ObjectStore& store, std::optional<Replication> replication) {
  log_ = &store.log();
  replication_ = replication;
  replies_.attach(*log_);
  parked_.attach(*log_);
  data_.attach(store, &parked_);
  multi_.attach(store, &parked_);
  if (!replication_) {
    // Behind the hook of the replica manager, which is there now.
    reactor_.remove_hook(this);
    reactor_.add_hook(this);
  }
}

bool DataPlane::on_turn() {
  if (!replication_) return replies_.on_turn();  // of what became durable in this turn
  // What this thread appended in this turn is published by now; a reply waits for it, or a message
  // of many operations that is not done yet. Without either it was others who appended, and they
  // drive it themselves, so that the answers of backups come to where replies wait for them. (With
  // either it may have been others, too: one position cannot tell.)
  bool appended = false;
  if (replies_.waiting() || multi_.waiting() > 0) {
    const log::LogPosition head = log_->head();
    appended = head != driven_;
    driven_ = head;
  }
  if (!replication_->manager->drive(*replication_->lane, appended)) return false;
  (void)replies_.on_turn();  // what is durable now is answered in this turn
  return true;
}

}  // namespace ramcloud::master
