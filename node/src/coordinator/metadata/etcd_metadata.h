// Metadata in etcd: each record is a key below a prefix, a transaction is an etcd transaction, the
// leader is the coordinator that created the key PREFIX/leader, which is tied to a lease. See
// docs/formats.md ("Metadata").
#pragma once

#include <memory>

#include "coordinator/metadata/etcd_options.h"
#include "coordinator/metadata/metadata_store.h"
#include "runtime/reactor.h"

namespace ramcloud {

class EtcdMetadata final : public MetadataStore {
 public:
  /// Does not wait for etcd. IO_ERROR names a certificate file that cannot be read.
  static Result<std::unique_ptr<EtcdMetadata>> open(Reactor& reactor, EtcdOptions options);
  /// Tasks that wait for it must have been destroyed. A leadership that was not resigned ends with
  /// its lease.
  ~EtcdMetadata() override;

  Task<Result<Records>> load(std::string prefix) override;
  Task<CommitResult> commit(MetadataTransaction transaction) override;
  Task<Result<Leadership>> campaign(std::string record) override;
  uint64_t leading() const override;
  Task<void> wait_for_change(uint64_t number) override;
  Task<void> resign() override;

 private:
  struct Impl;
  explicit EtcdMetadata(std::unique_ptr<Impl> impl);
  Task<void> renew_for_ever(uint64_t number);
  void lose();
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud
