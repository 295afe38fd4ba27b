// Random operations against a model. Each worker has private keys, so that all operations on a key
// are sequential and a plain map has the possible values.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/core.h"

namespace ramcloud::sim {

/// A worker, and the possible values of its keys.
class Worker {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t keys = 20;
    uint32_t operations = 100;
    uint32_t most_value_bytes = 300;
    uint32_t most_at_once = 8;  // in one multi-operation
    std::string prefix;         // prefix of its keys, which no other worker uses
  };
  struct Counts {
    uint64_t reads = 0, writes = 0, removes = 0, conditional = 0, increments = 0, multi = 0,
             refused = 0, indeterminate = 0, failed = 0;
    /// Operations inside multi-operations are counted one by one.
    uint64_t operations() const { return reads + writes + removes + increments; }
  };

  Worker(ClientCore& client, uint64_t table_id, const Options& options);

  /// Runs the operations, one after the other.
  Task<void> work();
  bool done() const { return done_; }
  /// Reads all keys once more, after which no outcome is uncertain. False if a key could not be
  /// read; then wrong() says so.
  Task<bool> read_back();

  /// Observations that are impossible in a correct cluster, one text on each line.
  const std::string& wrong() const { return wrong_; }
  const Counts& counts() const { return counts_; }
  /// After read_back(): the objects that the table must have for this worker's keys.
  std::map<std::string, std::string> contents() const;

 private:
  /// The possible values of a key: one, unless a call's outcome is unknown. Nullopt: absent.
  struct Key {
    std::string name;
    std::set<std::optional<std::string>> possible{std::nullopt};
    uint64_t version = 0;  // the highest version returned so far: later ones must be higher
    bool exact = false;    // `version` is the present object's
  };
  /// The value after a change; none: the change fails with INVALID_ARGUMENT.
  using Value = std::optional<std::string>;
  using Change = std::function<std::optional<Value>(const Value&)>;

  Task<void> read(Key& key);
  Task<void> write(Key& key);
  Task<void> remove(Key& key);
  Task<void> increment(Key& key);
  Task<void> multi_read();
  Task<void> multi_write();
  Task<void> multi_remove();
  /// Picks some distinct keys for a multi-operation.
  std::vector<Key*> pick();
  std::vector<MultiOperation> operations_on(const std::vector<Key*>& keys);

  /// Random conditions, mostly none; some of them fail.
  wire::RejectRules random_rules(const Key& key);
  // Updates a key from an operation's outcome.
  void after_read(Key& key, const Result<ReadResult>& result, const wire::RejectRules& rules);
  void after_write(Key& key, std::string value, const Result<uint64_t>& version,
                   const wire::RejectRules& rules);
  void after_remove(Key& key, const Result<uint64_t>& version, const wire::RejectRules& rules);
  /// A change that was refused or may have happened.
  void after_failure(Key& key, const Change& change, const Status& status,
                     const wire::RejectRules& rules);
  /// True if the conditions may fail like this for a possible value.
  static bool may_fail_so(const Key& key, const Value& value, const wire::RejectRules& rules,
                          StatusCode code);
  static bool may_pass(const Key& key, const Value& value, const wire::RejectRules& rules);
  void keep_only(Key& key, const std::function<bool(const Value&)>& possible,
                 const std::string& complaint);
  void new_version(Key& key, uint64_t version);
  void complain(const Key& key, const std::string& what);
  std::string random_value();

  ClientCore& client_;
  uint64_t table_id_;
  Options options_;
  Random random_;
  std::vector<Key> keys_;
  uint64_t serial_ = 0;
  Counts counts_;
  std::string wrong_;
  bool done_ = false;
};

/// All objects of a table, by key. INTERNAL if a key is returned twice.
Task<Result<std::map<std::string, std::string>>> scan_table(ClientCore& client, uint64_t table_id);

}  // namespace ramcloud::sim
