#include "master/data_plane.h"

#include <utility>

#include "master/reply.h"

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

void DataPlane::refuse_operations() {
  // Replaces the gate that parks requests; requests that are parked already are answered the same.
  const auto refuse = [](void* self, const Request& request) {
    if (!is_data_opcode(request.header.opcode)) return false;
    auto& plane = *static_cast<DataPlane*>(self);
    plane.refused_.fetch_add(1, std::memory_order_relaxed);
    reply_error(plane.registry_.transport(), request.reply,
                {StatusCode::kUnknownTablet,
                 "this server is stopping: other servers will serve its tablets"});
    return true;
  };
  registry_.set_gate(refuse, this);
}

bool DataPlane::serve() {
  const bool released = parked_.on_turn();
  return multi_.on_turn() || released;
}

bool DataPlane::wants_replication() {
  if (!replies_.waits_for_log() && multi_.waiting() == 0) return false;
  const log::LogPosition head = log_->head();
  return std::exchange(seen_, head) != head;
}

}  // namespace ramcloud::master
