// A client that overwrites and deletes values of many sizes until servers must clean, and knows the
// possible value of each of its keys.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/core.h"

namespace ramcloud::sim {

class Overwriter {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t keys = 40;
    uint32_t most_value_bytes = 600'000;
    uint64_t bytes = 100u << 20;  // total bytes of values to write
  };
  Overwriter(ClientCore& client, const Options& options)
      : client_(client), options_(options), random_(options.seed), keys_(options.keys) {}

  /// Runs until so much was written, or something is wrong. No other client uses the table.
  Task<void> work(uint64_t table_id);
  /// Call it when all faults have ended: reads every key once.
  Task<bool> check();
  /// Errors, one text on each line.
  const std::string& wrong() const { return wrong_; }

 private:
  /// A value is named by the number of its write; kAbsent: no object.
  static constexpr uint64_t kAbsent = 0;
  struct Key {
    std::vector<uint64_t> may_be{kAbsent};
  };
  std::string name_of(size_t key) const;
  std::string value_of(size_t key, uint64_t write) const;
  Task<void> write(size_t key);
  Task<void> remove(size_t key);
  Task<void> read(size_t key);
  void complain(size_t key, const std::string& what);

  ClientCore& client_;
  const Options options_;
  Random random_;
  std::vector<Key> keys_;
  uint64_t table_id_ = 0;
  uint64_t writes_ = 0;
  uint64_t bytes_ = 0;
  std::string wrong_;
};

}  // namespace ramcloud::sim
