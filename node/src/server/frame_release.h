// Asks the coordinator which dead masters with replicas here were recovered, and frees their frames
// (docs/design/recovery.md#freeing-frames).
#pragma once

#include <functional>
#include <vector>

#include "backup/replica_service.h"
#include "client/coordinator_link.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/reactor.h"

namespace ramcloud::server {

class FrameRelease {
 public:
  /// The shortest time between two questions. It applies after events that may change the answer: a
  /// change of the server list, or an open that finds no frame. Each question that changes nothing
  /// doubles the wait.
  static constexpr Duration kAskFirst = std::chrono::milliseconds(100);
  static constexpr Duration kAskEvery = std::chrono::seconds(20);
  /// How long an open that found no frame waits for an answer.
  static constexpr Duration kOpenWaits = std::chrono::milliseconds(500);

  /// Starts asking. `servers` and `backup` outlive it.
  FrameRelease(RpcClient& rpc, ServerList& servers, std::vector<Locator> coordinators,
               ReplicaService& backup);
  ~FrameRelease();
  FrameRelease(const FrameRelease&) = delete;
  FrameRelease& operator=(const FrameRelease&) = delete;

 private:
  Task<void> run();
  Task<void> ask_of_all();
  Task<void> ask(std::vector<uint64_t> masters);
  void list_changed();
  void no_frame_is_free(std::function<void()> try_again);
  Task<void> after_the_answer(std::function<void()> then);
  void ask_soon();

  Reactor& reactor_;
  CoordinatorLink coordinators_;
  ReplicaService& backup_;
  Event soon_;      // set: the next question does not wait
  Event answered_;  // set for a moment: the frames that an answer names are free
  Duration wait_ = kAskFirst;
  std::vector<uint64_t> dead_;  // dead masters at the last question
  bool looked_ = false;         // dead_ is up to date with the server list
  ServerList::Subscription list_changes_;
  TaskScope tasks_;  // last member: tasks end before what they use
};

}  // namespace ramcloud::server
