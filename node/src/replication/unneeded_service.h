// Answers backups that ask a master which replicas of their earlier incarnations are not needed
// (docs/design/recovery.md#former-frames-of-masters-that-live).
#pragma once

#include "replication/replica_manager.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "wire/volume_messages.h"

namespace ramcloud {

class UnneededService {
 public:
  /// Registers kGetUnneeded, on the reactor of `replicas`. All arguments outlive this.
  UnneededService(ServiceRegistry& registry, const ServerList& servers, ReplicaManager& replicas);
  UnneededService(const UnneededService&) = delete;
  UnneededService& operator=(const UnneededService&) = delete;

 private:
  void on_get_unneeded(const Request& request);
  Status check(const wire::GetUnneededRequest& asked) const;

  Transport& transport_;
  const ServerList& servers_;
  ReplicaManager& replicas_;
};

}  // namespace ramcloud
