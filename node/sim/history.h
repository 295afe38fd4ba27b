// Clients that share keys, and a record of their operations and answers, for a checker of
// linearizability: one JSON object a line (docs/design/simulation.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"
#include "client/core.h"

namespace ramcloud::sim {

/// The operations of all clients of one cluster.
class History {
 public:
  struct Operation {
    uint32_t client = 0;
    const char* kind = "";  // read, write, delete
    std::string key;
    std::string value;          // written or read; empty: absent
    Time called{}, answered{};  // answered: kNever if the outcome is unknown
  };
  void add(Operation operation) { operations_.push_back(std::move(operation)); }
  size_t size() const { return operations_.size(); }
  std::string to_json_lines() const;

 private:
  std::vector<Operation> operations_;
};

class HistoryWorker {
 public:
  HistoryWorker(ClientCore& client, uint32_t number, uint64_t table_id, uint64_t seed,
                uint32_t operations, History& history)
      : client_(client),
        number_(number),
        table_id_(table_id),
        random_(seed),
        operations_(operations),
        history_(history) {}
  Task<void> work();
  bool done() const { return done_; }
  /// Impossible answers, one text on each line.
  const std::string& wrong() const { return wrong_; }

 private:
  Task<void> operation();
  void note(History::Operation operation, const Status& status, bool changes);

  ClientCore& client_;
  uint32_t number_;
  uint64_t table_id_;
  Random random_;
  uint32_t operations_;
  History& history_;
  uint64_t serial_ = 0;
  std::string wrong_;
  bool done_ = false;
};

}  // namespace ramcloud::sim
