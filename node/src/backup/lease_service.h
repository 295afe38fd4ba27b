// A backup's part in read leases (docs/design/recovery.md#leases): it confirms that it has not
// frozen a master.
#pragma once

#include "backup/replica_table.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"

namespace ramcloud {

class LeaseService {
 public:
  /// Registers kRenewLease. All arguments outlive this. On the first reactor.
  LeaseService(ServiceRegistry& registry, const ServerList& servers, const ReplicaTable& replicas)
      : transport_(registry.transport()), servers_(servers), replicas_(replicas) {
    registry.add(wire::Opcode::kRenewLease, &call_member<&LeaseService::on_renew, LeaseService>,
                 this);
  }
  LeaseService(const LeaseService&) = delete;
  LeaseService& operator=(const LeaseService&) = delete;

  /// Does not use the device: a backup whose device failed still knows which masters it froze.
  void on_renew(const Request& request);

 private:
  Status judge(uint64_t master_id) const;

  Transport& transport_;
  const ServerList& servers_;
  const ReplicaTable& replicas_;
};

}  // namespace ramcloud
