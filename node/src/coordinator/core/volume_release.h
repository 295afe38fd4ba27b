// Says whether the volume of a server may be wiped, and gives the token for it. Nothing may be
// inferred from silence, names or pods: the metadata must say that no server uses the volume, and
// every live master must say that it needs nothing there.
// docs/design/coordinator.md, "Releasing a volume".
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
    Duration again = 50ms;  // until one that could not answer yet is asked again
    Duration valid = 30s;   // a token
  };
  VolumeReleases(RpcClient& rpc, ClusterState& state, Ledger& ledger, Options options)
      : reactor_(rpc.reactor()), rpc_(rpc), state_(state), ledger_(ledger), options_(options) {}

  /// Each question is decided again, whatever was answered before. A yes is durable: under any
  /// leader no server enlists with the volume before the token expires. Errors are those of
  /// Ledger::commit(), and DEADLINE_EXCEEDED; each of them means no.
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
