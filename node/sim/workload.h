// Random operations against a model. Each worker has keys of its own, so that per key all
// operations follow each other and a plain map tells what may be read.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/core.h"

namespace ramcloud::sim {

/// What one worker knows of its keys.
class Worker {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t keys = 20;
    uint32_t operations = 100;
    uint32_t most_value_bytes = 300;
    std::string prefix;  // of its keys: no other worker's
  };
  struct Counts {
    uint64_t reads = 0, writes = 0, removes = 0, conditional = 0, indeterminate = 0, failed = 0;
  };

  Worker(ClientCore& client, uint64_t table_id, const Options& options);

  /// Does the operations, one after the other.
  Task<void> work();
  bool done() const { return done_; }
  /// Reads all keys once more, after which nothing is uncertain.
  Task<void> settle();

  /// What was seen and may not be, one text a line.
  const std::string& wrong() const { return wrong_; }
  const Counts& counts() const { return counts_; }
  /// After settle(): what the table must hold of this worker's keys.
  std::map<std::string, std::string> contents() const;

 private:
  /// The values a key may have: one, unless a call's outcome is not known. Nullopt: absent.
  struct Key {
    std::string name;
    std::set<std::optional<std::string>> possible{std::nullopt};
    uint64_t version = 0;  // the highest that was told: later ones must be above
  };
  Task<void> read(Key& key);
  Task<void> write(Key& key);
  Task<void> write_if(Key& key);
  Task<void> remove(Key& key);
  void uncertain(Key& key, std::optional<std::string> value, const Status& status);
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

}  // namespace ramcloud::sim
