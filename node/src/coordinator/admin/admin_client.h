// A blocking client of the admin API for command-line programs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "coordinator/core/accepted_loss.h"
#include "coordinator/core/cluster_view.h"
#include "coordinator/core/volume_release.h"

namespace ramcloud {

class AdminClient {
 public:
  /// `timeout` limits each call, including connecting.
  AdminClient(const HostPort& address, Duration timeout);
  ~AdminClient();
  AdminClient(const AdminClient&) = delete;
  AdminClient& operator=(const AdminClient&) = delete;

  // Errors: UNAVAILABLE (no answer), DEADLINE_EXCEEDED, and the coordinator's errors. If the call
  // did not reach a coordinator, the message names the address.
  Result<ClusterStatus> status();
  /// Ordered by id.
  Result<std::vector<ServerView>> servers();
  struct Condemnation {
    bool condemned = false;  // it is CRASHED now, or was not UP before
    bool answers = false;
    std::string effect;  // for people
  };
  /// Without `confirmed` only tells what would happen. NOT_FOUND; INVALID_ARGUMENT when the server
  /// answers and `force` is not given.
  Result<Condemnation> condemn(uint64_t server_id, bool confirmed, bool force,
                               const std::string& reason);
  /// Sets the memory of a server's log without a restart; 0: only reports it. Errors as
  /// Coordinator::resize_log().
  Result<wire::ResizeLogReply> set_log_memory(uint64_t server_id, uint64_t bytes);
  /// Whether this server's volume may be wiped, or why that could not be decided.
  Result<VolumeRelease> volume_release(uint64_t server_id);
  /// Shows what is missing of a crashed server's log, or gives it up. Errors as
  /// Coordinator::accept_loss(); UNAVAILABLE while the preview is not ready.
  Result<LossAnswer> accept_loss(const LossRequest& wanted);
  /// By server, then by time. Without their version floors.
  Result<std::vector<AcceptedLossRecord>> accepted_losses();
  /// The coordinator probes this server at once.
  Status hint(uint64_t server_id);
  /// Ordered by id; one when `name` is given (NOT_FOUND if absent). Locators are left empty.
  Result<std::vector<wire::TableInfo>> tables(const std::string& name = {});
  /// Upgrades the metadata to the newest format, and returns it.
  Result<uint32_t> upgrade_metadata();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ramcloud
