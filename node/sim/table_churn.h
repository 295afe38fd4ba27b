// A client that creates, fills and drops tables while servers die, and knows which must exist, with
// which objects.
#pragma once

#include <map>
#include <set>
#include <string>

#include "base/random.h"
#include "client/core.h"

namespace ramcloud::sim {

class TableChurn {
 public:
  TableChurn(ClientCore& client, uint64_t seed, uint32_t most_span)
      : client_(client), random_(seed), most_span_(most_span) {}
  Task<void> work(uint32_t rounds);
  /// Call it when all faults have ended: checks that acknowledged objects exist, and dropped tables
  /// do not.
  Task<bool> check();
  /// Errors, one text on each line.
  const std::string& wrong() const { return wrong_; }

 private:
  Task<void> make(std::string name);
  Task<void> drop(std::string name);
  Task<void> check_contents(std::string name, std::map<std::string, std::string> expected);
  void failed(const std::string& what, const std::string& name, const Status& status);

  ClientCore& client_;
  Random random_;
  uint32_t most_span_;
  std::map<std::string, std::map<std::string, std::string>> there_;  // by name, key
  std::set<std::string> unsure_;                                     // tables with unknown outcome
  std::string wrong_;
};

}  // namespace ramcloud::sim
