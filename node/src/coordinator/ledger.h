// The way of every change into the metadata store. One change at a time; each is conditional on the
// term and on the change before it, so that an ambiguous outcome can be settled by reading, a retry
// cannot take effect twice, and a coordinator that was replaced changes nothing.
#pragma once

#include <string>

#include "coordinator/cluster_state.h"
#include "coordinator/metadata_store.h"
#include "runtime/async_mutex.h"

namespace ramcloud {

/// What one transaction writes.
class Change {
 public:
  template <typename Record>
  Change& put(std::string key, const Record& record) {
    transaction_.puts.emplace_back(std::move(key), wire::encode(record));
    return *this;
  }
  Change& remove(std::string key) {
    transaction_.deletes.push_back(std::move(key));
    return *this;
  }

 private:
  friend class Ledger;
  MetadataTransaction transaction_;
};

class Ledger {
 public:
  Ledger(Reactor& reactor, MetadataStore& store)
      : reactor_(reactor), store_(store), mutex_(reactor) {}

  /// Loads everything (creating the cluster, named `name`, in an empty store) and raises the term,
  /// durably. An empty `name` takes what is stored ("ramcloud" in an empty store). Waits as long as
  /// the store does not answer. INVALID_ARGUMENT: the store is of a cluster of another name;
  /// UNSUPPORTED: of another format; CORRUPT: a record does not decode (named).
  Task<Result<ClusterState>> open(std::string name);

  /// Held from looking at the state until the change is applied to it.
  auto lock() { return mutex_.lock(); }
  /// The revision that the next commit gives; fixed while the lock is held.
  uint64_t next_revision() const { return current_.revision + 1; }
  /// Durable when OK. Takes as long as the store needs to give a definite answer. NOT_LEADER:
  /// another coordinator has taken over; nothing was changed, now or ever after.
  Task<Status> commit(const AsyncMutex::Lock& held, Change change);

  bool fenced() const { return fenced_; }

 private:
  Task<Result<MetadataStore::Records>> load_patiently(std::string prefix);
  Task<Status> raise_term(const std::optional<std::string>& before, Change change);
  Reactor& reactor_;
  MetadataStore& store_;
  AsyncMutex mutex_;
  TermRecord current_;
  bool fenced_ = false;
};

}  // namespace ramcloud
