// Where the coordinator keeps what must survive it: a small map of paths to encoded records,
// changed by transactions (paper §9 uses an external fault-tolerant key-value store in the same
// way).
#pragma once

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

/// Belongs to one reactor; tasks are resumed on it. Transactions take effect in the order in which
/// their commit() was awaited. A task destroyed while it waits leaves its transaction's outcome
/// open.
class MetadataStore {
 public:
  using Records = std::map<std::string, std::string>;

  virtual ~MetadataStore() = default;
  /// All records whose key begins with `prefix`, as of one moment. IO_ERROR or UNAVAILABLE when
  /// they cannot be read now; CORRUPT when they cannot be read at all.
  virtual Task<Result<Records>> load(std::string prefix) = 0;
  virtual Task<CommitResult> commit(MetadataTransaction transaction) = 0;
};

}  // namespace ramcloud
