// An event source without events: for reactors that a test or the simulation steps.
#pragma once

#include "runtime/reactor.h"

namespace ramcloud {

class ManualSource final : public EventSource {
 public:
  bool poll() override { return false; }
  void wait(Time, Time) override {}
  void wake() override {}
};

}  // namespace ramcloud
