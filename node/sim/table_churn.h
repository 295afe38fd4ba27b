// A client that makes tables, fills and drops them while servers die, and knows which there must
// be, with what in them.
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
  /// When nothing fails any more: acknowledged objects are there, and dropped tables are not.
  Task<bool> check();
  /// One text a line.
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
  std::set<std::string> unsure_;                                     // of an unknown outcome
  std::string wrong_;
};

}  // namespace ramcloud::sim
