// Where replicas go: randomisation with refinement [Ousterhout15 §7.1]: among a few random
// candidates it takes the one that could read its replicas back soonest after a crash. Pure
// functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/status.h"

namespace ramcloud {

/// Candidates looked at for one replica.
inline constexpr uint32_t kPlacementCandidates = 5;
/// Assumed of devices that were not measured.
inline constexpr uint64_t kDefaultReadBytesPerSecond = 100'000'000;

/// A backup as placement sees it.
struct PlacementServer {
  uint64_t server_id = 0;
  std::string failure_domain;          // not empty
  uint64_t read_bytes_per_second = 0;  // 0: not measured
  uint32_t replicas = 0;               // how many this master has there
  uint32_t primaries = 0;              // how many of them are primaries, which recovery reads first
  bool usable = true;                  // false: refused lately, or cannot be reached
};

/// Seconds that the backup would take to read what this master has there, and one replica more.
/// Primaries compete with primaries only: recovery reads no others unless one fails.
double predicted_read_seconds(const PlacementServer& server, bool primary);

/// The index of a backup for one more replica. None if no usable server is outside the `taken`
/// failure domains (those of the master itself and of the segment's other replicas).
std::optional<size_t> choose_backup(std::span<const PlacementServer> servers,
                                    std::span<const std::string> taken, bool primary,
                                    Random& random);

/// OK if `replicas` replicas can be placed: each in a failure domain of its own, none in the
/// master's. UNAVAILABLE otherwise; the message says how many domains there are and how many are
/// needed.
Status check_domains(std::span<const PlacementServer> servers, const std::string& own_domain,
                     uint32_t replicas);

}  // namespace ramcloud
