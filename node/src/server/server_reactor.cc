#include "server/server_reactor.h"

#include <string>
#include <utility>

namespace ramcloud::server {

ServerReactor::ServerReactor(Reactor& reactor, Transport& transport, MetricsRegistry& metrics,
                             Epochs& epochs, size_t index)
    : reactor_(reactor),
      index_(index),
      participant_(epochs),
      rpc_(reactor, transport),
      replica_messages_(metrics.counter("ramcloud_replication_messages_total",
                                        "Messages to backups that open or write replicas, by the "
                                        "reactor that sent them.",
                                        {{"reactor", std::to_string(index)}})),
      replica_writes_(metrics.counter("ramcloud_backup_writes_total",
                                      "Writes to replicas, by the reactor that served them.",
                                      {{"reactor", std::to_string(index)}})),
      plane_(reactor, transport, metrics) {
  reactor_.set_epochs(&participant_);
  reactor_.add_hook(this);
}

ServerReactor::~ServerReactor() {
  reactor_.remove_hook(this);
  reactor_.set_epochs(nullptr);
}

void ServerReactor::forward_to(ServerReactor& first, std::atomic<uint64_t>& bytes) {
  forwarder_.emplace(first.reactor_, first.registry(), static_cast<uint8_t>(index_), transport(),
                     bytes);
  registry().add_rest(&Forwarder::forward, &*forwarder_);
}

void ServerReactor::serve_replicas(BackupLane& lane) {
  here_.assert_here();
  lane.serve(registry(), &Forwarder::forward, &*forwarder_);
  reactor_.remove_hook(&lane);  // it is a step of this turn and needs no hook
  backup_lane_ = &lane;
}

void ServerReactor::serve(Master& master) {
  here_.assert_here();
  plane_.attach(master.store(), &master.lease());
  if (ReplicaLane* lane = master.lane(index_)) replication_ = {master.replicas(), lane};
}

void ServerReactor::make_first(Master& master, Cleaning* cleaning, Enlistment& enlistment,
                               PeerPings& peers) {
  here_.assert_here();
  first_steps_ = {&master, cleaning, &enlistment, &peers};
  // It is a step of this turn and needs no hook.
  if (master.replicas() != nullptr) reactor_.remove_hook(master.replicas());
}

bool ServerReactor::on_turn() {
  here_.assert_here();
  bool worked = plane_.reply();       // replies to what other reactors made durable since the last
                                      // turn
  worked = plane_.serve() || worked;  // requests that waited for a head, and slices of long
                                      // requests
  plane_.reply_follows();
  worked = replicate() || worked;        // sends what this turn appended
  worked = manage_replicas() || worked;  // takes the backups' answers: more may be durable
  worked = plane_.reply() || worked;
  worked = acknowledge_replicas() || worked;
  report();
  reclaim();
  worked = sweep() || worked;
  worked = clean() || worked;
  return worked;
}

/// Sends what this reactor appended in this turn; all of it is published by now. If this reactor
/// appended, a reply or an unfinished multi-operation waits for it. If neither waits, other
/// reactors appended. They send it themselves, so that the backups' answers arrive at the reactor
/// whose replies wait.
bool ServerReactor::replicate() {
  return replication_ &&
         replication_->manager->drive(*replication_->lane, plane_.wants_replication());
}

/// The first reactor: places, opens, closes, loses and repairs replicas. With one reactor it sends
/// what was appended, too.
bool ServerReactor::manage_replicas() {
  ReplicaManager* replicas = first_steps_ ? first_steps_->master->replicas() : nullptr;
  if (replicas == nullptr) return false;
  if (auto answer = first_steps_->enlistment->take_fence_answer()) {
    replicas->fence_answered(std::move(*answer));
  }
  return replicas->on_turn();
}

/// Answers writes to replicas of other masters that waited for a sync.
bool ServerReactor::acknowledge_replicas() {
  return backup_lane_ != nullptr && backup_lane_->on_turn();
}

/// The first reactor: reports what replication learned about this server and its backups, and a
/// raised epoch.
void ServerReactor::report() {
  ReplicaManager* replicas = first_steps_ ? first_steps_->master->replicas() : nullptr;
  if (replicas == nullptr) return;
  if (const auto why = replicas->condemned()) first_steps_->enlistment->leave(*why);
  if (const auto fence = replicas->take_fence_to_raise()) {
    first_steps_->enlistment->raise_epoch(*fence);
  }
  for (const uint64_t backup_id : replicas->take_broken()) {
    first_steps_->peers->connection_failed(backup_id);
  }
}

/// The first reactor: reuses memory of segments that left the log.
void ServerReactor::reclaim() {
  if (first_steps_) first_steps_->master->reclaim();
}

/// The first reactor: removes durable deletes from the hash table.
bool ServerReactor::sweep() {
  return first_steps_ && first_steps_->master->sweep();
}

/// The first reactor, if there are no threads for it: a slice of cleaning.
bool ServerReactor::clean() {
  return first_steps_ && first_steps_->cleaning != nullptr && first_steps_->cleaning->on_turn();
}

}  // namespace ramcloud::server
