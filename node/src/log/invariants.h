// Re-verifies the whole state of a log; run after steps of tests and simulations.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "log/log.h"

namespace ramcloud::log {

class Invariants {
 public:
  explicit Invariants(const Log& log) : log_(log) {}

  /// The broken invariants, one text each; empty when all is well. Precondition: no appends in the
  /// meantime. Closed segments are read once per checker, because they never change.
  ///
  /// - ids rise; a segment's published bytes fit it and are a valid segment image, closed iff it
  ///   says so; heads have a digest; the newest one names exactly the segments of the log
  /// - side segments are in the log only when they are closed durable
  /// - head ordering: a segment holds data only when all before it are closed durable
  /// - durable <= published, and names a segment whose predecessors are closed durable
  /// - accounting: entry bytes are what the groups hold, live <= entry bytes
  /// - memory: what segments take is what the arena gave, below its limit, and has pages
  std::vector<std::string> check();
  /// A reader may refer to entries of this segment in its next turn: it has memory, and is in the
  /// log or may enter it.
  bool may_be_referred_to(const Segment& segment) const;

 private:
  void check_segment(const Segment& segment);
  void check_digests(const std::vector<uint64_t>& ids);
  void check_order(const std::vector<Segment*>& segments);
  void check_memory(const std::vector<Segment*>& segments);
  void require(bool holds, const Segment& segment, const std::string& what);

  const Log& log_;
  // Closed segments whose bytes were read: id, and how often it was compacted.
  std::set<std::pair<uint64_t, uint32_t>> verified_;
  std::vector<std::string> broken_;
};

}  // namespace ramcloud::log
