// The evidence about servers that may be dead, and when it is enough for a verdict: the rules of
// failure detection, without any messages (docs/design/coordinator.md#failure-detection).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "wire/control_messages.h"

namespace ramcloud {

/// Whether enough servers are accounted for, so that silence may condemn one.
struct Accounts {
  uint32_t accounted = 0;  // servers that answer, or are known to be dead
  uint32_t expected = 0;   // servers that are listed as UP, including those with a pending verdict
  /// With fewer than half, probably the coordinator is cut off. True if no server is expected.
  bool enough() const { return 2 * uint64_t{accounted} >= expected; }
};

/// The evidence that a verdict needs.
struct Thresholds {
  uint32_t failures = 3;            // rounds of probes in a row that failed
  Duration silence = 5s;            // time without a sign of life, unless its port refuses
                                    // connections
  Duration silence_at_first = 60s;  // for a server that never answered this leader
};

/// The reason for a verdict.
enum class Evidence : uint8_t { kNone, kRefused, kSilent };

/// The evidence about one server under this leadership.
class Suspicion {
 public:
  /// `now`: the start of the watch. `heard`: the server has just sent a message.
  Suspicion(Time now, bool heard) : silent_since_(now), watched_since_(now) {
    if (heard) heard_ = now;
  }

  /// @name Evidence
  /// @{
  void answered(Time now);
  /// It answered a peer that was asked to probe it.
  void vouched(Time now);
  /// A round of our probes failed; `state` tells how.
  void failed(wire::PeerState state, std::string error);
  /// The failed probe of a peer that answers us; it began after the last sign of life.
  void peer_failed(wire::PeerState state, std::string peer);
  /// Measurements up to now do not count: our own timers ran late.
  void discard(Time now);
  /// @}

  /// It counts as alive: its last sign of life is younger than half of `silence`.
  bool accounted_alive(Time now, const Thresholds& t) const {
    return heard_ && now - *heard_ <= t.silence / 2;
  }
  /// Its port refuses us and a peer that answers us: it is dead.
  bool accounted_dead(const Thresholds& t) const {
    return refusals_ >= t.failures && peer_refused_;
  }
  /// Whether the evidence is enough for a verdict. `sound_since`: the time since when enough
  /// servers are accounted for; none: there are not enough. `observers`: peers that could be asked
  /// to probe, whether or not they answer.
  Evidence evidence(Time now, const Thresholds& t, std::optional<Time> sound_since,
                    uint32_t observers) const;
  /// The reason as text for people.
  std::string describe(Evidence evidence, Time now) const;

  uint32_t failures() const { return failures_; }
  /// How long there was no sign of life; if there never was one, how long it is watched.
  Duration unheard(Time now) const { return now - heard_.value_or(watched_since_); }
  bool peer_refused() const { return peer_refused_; }
  const std::string& error() const { return error_; }

 private:
  std::optional<Time> heard_;  // the last sign of life
  Time silent_since_;          // start of the silence
  Time watched_since_;
  bool reached_ = false;   // it answered a probe, not only enlisted
  uint32_t failures_ = 0;  // failed rounds in a row
  uint32_t refusals_ = 0;  // the last ones of these that were refused, or answered by another
                           // server
  bool peer_failed_ = false;
  bool peer_refused_ = false;
  std::string error_;  // error of our last probe
  std::string peer_;   // the peer that reported a failed probe
};

}  // namespace ramcloud
