#include "coordinator/core/suspicion.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace ramcloud {
namespace {

bool is_refusal(wire::PeerState state) {
  return state == wire::PeerState::kRefused || state == wire::PeerState::kStranger;
}

}  // namespace

void Suspicion::answered(Time now) {
  const Time watched = watched_since_;
  *this = Suspicion(now, true);
  watched_since_ = watched;
  reached_ = true;
}

void Suspicion::vouched(Time now) {
  heard_ = silent_since_ = now;
  reached_ = true;
  refusals_ = 0;
  peer_failed_ = peer_refused_ = false;
}

void Suspicion::failed(wire::PeerState state, std::string error) {
  ++failures_;
  refusals_ = is_refusal(state) ? refusals_ + 1 : 0;
  if (refusals_ == 0) peer_refused_ = false;
  error_ = std::move(error);
}

void Suspicion::peer_failed(wire::PeerState state, std::string peer) {
  peer_failed_ = true;
  peer_refused_ = is_refusal(state);
  peer_ = std::move(peer);
}

void Suspicion::discard(Time now) {
  silent_since_ = now;
  failures_ = refusals_ = 0;
  peer_failed_ = peer_refused_ = false;
}

Evidence Suspicion::evidence(Time now, const Thresholds& t, std::optional<Time> sound_since,
                             uint32_t observers) const {
  if (accounted_dead(t)) return Evidence::kRefused;
  if (!sound_since || failures_ < t.failures) return Evidence::kNone;
  const Duration enough = reached_ ? t.silence : std::max(t.silence, t.silence_at_first);
  if (now - std::max(silent_since_, *sound_since) < enough) return Evidence::kNone;
  if (observers > 0 && !peer_failed_) return Evidence::kNone;
  return Evidence::kSilent;
}

std::string Suspicion::describe(Evidence evidence, Time now) const {
  const std::string asked =
      peer_.empty() ? "no other server could be asked" : "nor the probe of " + peer_;
  switch (evidence) {
    case Evidence::kRefused:
      return fmt::format(
          "refused {} connections of the coordinator in a row, and the connection of {} ({})",
          refusals_, peer_, error_);
    case Evidence::kSilent:
      return fmt::format("did not answer {} probes of the coordinator in a row for {}; {} ({})",
                         failures_, format_duration(now - silent_since_), asked, error_);
    case Evidence::kNone:
      break;
  }
  return {};
}

}  // namespace ramcloud
