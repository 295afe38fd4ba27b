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

/// A condition of a transaction: the key has exactly this value, or is absent.
struct MetadataCondition {
  std::string key;
  std::optional<std::string> value;
};

/// Atomic: all of it takes effect, or nothing. A key occurs at most once in puts and deletes.
struct MetadataTransaction {
  std::vector<MetadataCondition> conditions;
  std::vector<std::pair<std::string, std::string>> puts;
  std::vector<std::string> deletes;  // keys that may be absent
  /// Condition: the present leadership has this number. 0 (which leading() returns after the lease
  /// ended) never holds. None: no condition.
  std::optional<uint64_t> leadership = {};
};

enum class CommitOutcome : uint8_t {
  kCommitted,        // durable
  kConditionFailed,  // nothing changed
  kUnknown,          // the outcome is unknown: read again before acting
};

struct CommitResult {
  CommitOutcome outcome = CommitOutcome::kUnknown;
  std::string message;  // why unknown, for the log
};

/// The leader of the coordinators that share a store.
struct Leadership {
  uint64_t number = 0;  // higher than all before; in etcd the create revision of the leader key
  std::string record;   // the leader's own record
};

/// Belongs to one reactor; tasks are resumed on it. Transactions take effect in the order in which
/// their commit() was awaited. If a task is destroyed while it waits, the outcome of its
/// transaction is unknown.
///
/// At most one user of a store leads. Leadership is a lease that the store object renews. A user
/// that cannot renew it (dead, stopped, cut off) loses it; from then on no transaction with its
/// number takes effect.
class MetadataStore {
 public:
  using Records = std::map<std::string, std::string>;

  virtual ~MetadataStore() = default;
  /// A consistent snapshot of all records whose key begins with `prefix`. IO_ERROR or UNAVAILABLE
  /// if they cannot be read now; CORRUPT if they can never be read.
  virtual Task<Result<Records>> load(std::string prefix) = 0;
  virtual Task<CommitResult> commit(MetadataTransaction transaction) = 0;

  /// Tries once to become leader; returns the present leader, which is this store's user if
  /// leading() equals the number. A leadership that this store object still had is ended first.
  /// After an error the outcome is unknown: try again.
  virtual Task<Result<Leadership>> campaign(std::string record) = 0;
  /// The number of our leadership while our own clock proves that the lease has not ended;
  /// otherwise 0.
  virtual uint64_t leading() const = 0;
  /// For standbys: returns when the leader may not be the one with this number any more.
  virtual Task<void> wait_for_change(uint64_t number) = 0;
  /// Lets others lead without waiting for the end of the lease. leading() is 0 afterwards, even if
  /// the store could not be reached.
  virtual Task<void> resign() = 0;
  /// `fn` is called when a leadership was lost (not when it was resigned). It must not destroy the
  /// store or a task that waits for it.
  void on_lost(std::function<void()> fn) { on_lost_ = std::move(fn); }

 protected:
  std::function<void()> on_lost_;
};

}  // namespace ramcloud
