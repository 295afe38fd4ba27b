// Decides whether the volume of a server may be wiped, and issues the token for it. Silence, names
// or pods prove nothing: by the metadata no server may use the volume, and every live master must
// answer that it needs nothing there. docs/design/coordinator.md#releasing-a-volume.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coordinator/metadata/cluster_state.h"
#include "coordinator/metadata/ledger.h"
#include "rpc/rpc.h"

namespace ramcloud {

struct VolumeRelease {
  bool releasable = false;
  std::string reason;          // a sentence or several
  std::string token;           // printable, otherwise opaque; empty unless releasable
  uint64_t expires_at_ms = 0;  // Unix time
};

class VolumeReleases {
 public:
  struct Options {
    Duration timeout = 2s;  // for all masters together to answer
    Duration again = 50ms;  // before a master that could not answer yet is asked again
    Duration valid = 30s;   // how long a token is valid
  };
  VolumeReleases(RpcClient& rpc, ClusterState& state, Ledger& ledger, Options options)
      : reactor_(rpc.reactor()), rpc_(rpc), state_(state), ledger_(ledger), options_(options) {}

  /// Every call decides again, independent of earlier answers. A yes is durable: under any leader,
  /// no server enlists with the volume before the token expires. Errors are those of
  /// Ledger::commit(), and DEADLINE_EXCEEDED; after an error the volume must not be wiped.
  Task<Result<VolumeRelease>> ask(uint64_t server_id, Time deadline);

 private:
  Task<std::string> ask_master(uint64_t master_id, uint64_t server_id, std::vector<uint64_t> ids,
                               Time deadline);
  std::vector<std::string> not_asked(const std::vector<uint64_t>& asked) const;
  std::string token_of(uint64_t server_id, uint64_t expires_at_ms) const;

  Reactor& reactor_;
  RpcClient& rpc_;
  ClusterState& state_;
  Ledger& ledger_;
  Options options_;
};

}  // namespace ramcloud
