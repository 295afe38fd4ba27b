// A period in which replicas cannot be placed: its start and the reason. Belongs to the first
// reactor.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/status.h"

namespace ramcloud {

class Shortage {
 public:
  /// No backup can take a replica now. True if `why` is new: then it is logged.
  bool note(const Status& why, Time now) {
    if (!since_) since_ = now;
    if (why.message() == why_.message()) return false;
    why_ = why;
    return true;
  }
  /// A replica that could not be placed was placed.
  void end() {
    since_.reset();
    why_ = {};
  }
  /// How long the shortage has lasted. Precondition: note().
  Duration lasted(Time now) const { return now - *since_; }
  /// OK while there is no shortage.
  const Status& why() const { return why_; }

 private:
  std::optional<Time> since_;
  Status why_;
};

}  // namespace ramcloud
