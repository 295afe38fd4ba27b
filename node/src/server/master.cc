#include "server/master.h"

#include <utility>

#include "store/invariants.h"

namespace ramcloud::server {
namespace {

/// How often it checks whether replication has released segments that left the log.
constexpr Duration kReclaimInterval = 5ms;
constexpr Duration kReclaimIntervalWhenFull = 500us;

std::unique_ptr<ReplicaManager> make_replicas(RpcClient& rpc, ServerList& servers,
                                              ReplicaManager::Options options, uint64_t master_id,
                                              LeaseTerm& lease) {
  if (options.replicas == 0) return nullptr;
  options.master_id = master_id;
  options.lease = &lease;
  return std::make_unique<ReplicaManager>(rpc, servers, std::move(options));
}

}  // namespace

Master::Master(RpcClient& rpc, ServerList& servers, Epochs& epochs, log::Arena& memory,
               store::HashTable::Memory table_memory, std::span<const LaneOf> lanes,
               Options options)
    : reactor_(rpc.reactor()),
      epochs_(epochs),
      lease_(options.replication.replicas > 0),
      replicas_(make_replicas(rpc, servers, std::move(options.replication), options.log.master_id,
                              lease_)),
      log_(memory, replicas_ ? static_cast<log::Replicator&>(*replicas_) : no_replicas_,
           options.log),
      store_(log_, rpc.reactor().clock(), {}, std::move(table_memory)),
      tasks_(reactor_),
      reclaim_timer_(reactor_, [this] { tasks_.spawn(reclaim_retired()); }) {
  if (replicas_) {
    for (const LaneOf& of : lanes) lanes_.push_back(&replicas_->add_lane(*of.rpc, *of.messages));
    replicas_->attach(log_);
  }
  lease_.set_listener(options.on_progress);
  log_.set_progress_listener(std::move(options.on_progress));
  log_.start();
}

bool Master::sweep() {
  const log::LogPosition durable = log_.durable();
  if (durable == swept_) return false;
  if (!store_.sweep(kSweptPerTurn)) swept_ = durable;
  return true;
}

void Master::reclaim() {
  if (!log_.has_retired() || reclaim_timer_.running()) return;
  const bool full = !log_.has_segment_for(log::MemoryPurpose::kWrites);
  reclaim_timer_.start_after(full ? kReclaimIntervalWhenFull : kReclaimInterval);
}

/// Nothing refers to their entries any more, except readers of the present turn: wait for a grace
/// period.
Task<void> Master::reclaim_retired() {
  const std::vector<log::Segment*> retired = log_.take_retired();
  if (retired.empty()) co_return;
  co_await epochs_.grace_period(reactor_);
  log_.reclaim(retired);
}

std::string Master::check_invariants() {
  const auto broken = store::Invariants(store_).check();
  if (!broken.empty()) return broken.front();
  return replicas_ ? replicas_->check_counts() : std::string();
}

}  // namespace ramcloud::server
