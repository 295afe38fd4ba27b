// The coordinator's durable state: a small map of paths to encoded records,
// changed by transactions ([Ousterhout15 §9] uses an external fault-tolerant key-value store in
// the same way).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "runtime/task.h"

namespace ramcloud {

/// What must hold for a transaction to take effect: the key has exactly this value, or is absent.
struct MetadataCondition {
  std::string key;
  std::optional<std::string> value;
};

/// All of it takes effect, or nothing. A key is named at most once among puts and deletes.
struct MetadataTransaction {
  std::vector<MetadataCondition> conditions;
  std::vector<std::pair<std::string, std::string>> puts;
  std::vector<std::string> deletes;  // of keys that may be absent
  /// Must be the present one: 0, what leading() says of a lapsed lease, never is. None: under any
  /// leader.
  std::optional<uint64_t> leadership = {};
};

enum class CommitOutcome : uint8_t {
  kCommitted,        // durable
  kConditionFailed,  // nothing changed
  kUnknown,          // it may have happened, or not: read again before acting on either
};

struct CommitResult {
  CommitOutcome outcome = CommitOutcome::kUnknown;
  std::string message;  // why unknown, for the log
};

/// The leader of the coordinators that share a store.
struct Leadership {
  uint64_t number = 0;  // higher than of all before; in etcd the create revision of the leader key
  std::string record;   // what the leader says of itself
};

/// Belongs to one reactor; tasks are resumed on it. Transactions take effect in the order in which
/// their commit() was awaited. A task destroyed while it waits leaves its transaction's outcome
/// open.
///
/// At most one user of a store leads. Leadership is a lease: the store renews it by itself, and a
/// user that cannot (dead, stopped, cut off) loses it; from then on no transaction that names it
/// takes effect.
class MetadataStore {
 public:
  using Records = std::map<std::string, std::string>;

  virtual ~MetadataStore() = default;
  /// All records whose key begins with `prefix`, as of one moment. IO_ERROR or UNAVAILABLE when
  /// they cannot be read now; CORRUPT when they cannot be read at all.
  virtual Task<Result<Records>> load(std::string prefix) = 0;
  virtual Task<CommitResult> commit(MetadataTransaction transaction) = 0;

  /// One try to lead; returns the present leader. That is this store's user if leading() is the
  /// number. A leadership that this store still had ends first. An error leaves it open: try again.
  virtual Task<Result<Leadership>> campaign(std::string record) = 0;
  /// The number of our leadership as long as our own clock proves that the lease runs, else 0.
  virtual uint64_t leading() const = 0;
  /// For standbys: ends when the leader may be another than the one with this number.
  virtual Task<void> wait_for_change(uint64_t number) = 0;
  /// Lets others lead without waiting for the lease to run out. Whether it is heard or not,
  /// leading() is 0 afterwards.
  virtual Task<void> resign() = 0;
  /// `fn` is called when a leadership was lost (not when it was resigned). It must not destroy the
  /// store or a task that waits for it.
  void on_lost(std::function<void()> fn) { on_lost_ = std::move(fn); }

 protected:
  std::function<void()> on_lost_;
};

}  // namespace ramcloud
