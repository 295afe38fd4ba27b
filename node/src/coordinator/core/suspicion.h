// The evidence about servers that may be dead, and when it suffices for a verdict: the arithmetic
// of failure detection, without any message (docs/design/coordinator.md, "Failure detection").
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "wire/control_messages.h"

namespace ramcloud {

/// Whether enough of the cluster is accounted for that silence may condemn.
struct Accounts {
  uint32_t accounted = 0;  // answer, or are known to be dead
  uint32_t expected = 0;   // are listed UP; those whose verdict is pending are
  /// With fewer than half, it is rather the coordinator that is cut off. Nobody of nobody is half.
  bool enough() const { return 2 * uint64_t{accounted} >= expected; }
};

/// The evidence that a verdict needs.
struct Thresholds {
  uint32_t failures = 3;            // rounds of probes in a row that failed
  Duration silence = 5s;            // without a sign of life, unless its port refuses
  Duration silence_at_first = 60s;  // for a server that never answered this leader
};

/// Why a server is given up.
enum class Evidence : uint8_t { kNone, kRefused, kSilent };

/// The evidence about one server under this leadership.
class Suspicion {
 public:
  /// `now`: from then on it is watched. `heard`: it has just sent something itself.
  Suspicion(Time now, bool heard) : silent_since_(now), watched_since_(now) {
    if (heard) heard_ = now;
  }

  /// @name Evidence
  /// @{
  void answered(Time now);
  /// It answered a peer that we had asked to ping it, if not us.
  void vouched(Time now);
  /// A round of our probes failed; the state says how.
  void failed(wire::PeerState state, std::string error);
  /// What a peer that answers us saw of it, in a look that began after our last sign of life.
  void peer_failed(wire::PeerState state, std::string peer);
  /// Measurements up to now do not count: our own timers ran late.
  void discard(Time now);
  /// @}

  /// It may be counted as alive: it gave a sign of life within half of what condemns.
  bool accounted_alive(Time now, const Thresholds& t) const {
    return heard_ && now - *heard_ <= t.silence / 2;
  }
  /// Its port refuses us and a peer that answers: it is dead, whatever else we do not know.
  bool accounted_dead(const Thresholds& t) const {
    return refusals_ >= t.failures && peer_refused_;
  }
  /// Enough for a verdict? `sound_since`: since when enough of the cluster is accounted for; none:
  /// it is not. `observers`: others that could be asked to look, whether they answer or not.
  Evidence evidence(Time now, const Thresholds& t, std::optional<Time> sound_since,
                    uint32_t observers) const;
  /// For people: why.
  std::string describe(Evidence evidence, Time now) const;

  uint32_t failures() const { return failures_; }
  /// Since when there was no sign of life; since it is watched, if there never was one.
  Duration unheard(Time now) const { return now - heard_.value_or(watched_since_); }
  bool peer_refused() const { return peer_refused_; }
  const std::string& error() const { return error_; }

 private:
  std::optional<Time> heard_;  // the last sign of life
  Time silent_since_;          // silence is counted from then
  Time watched_since_;
  bool reached_ = false;   // it answered, and did not only enlist
  uint32_t failures_ = 0;  // rounds in a row
  uint32_t refusals_ = 0;  // of these, the last ones: refused, or a stranger was there
  bool peer_failed_ = false;
  bool peer_refused_ = false;
  std::string error_;  // of our last probe
  std::string peer_;   // the peer that reported it
};

}  // namespace ramcloud
