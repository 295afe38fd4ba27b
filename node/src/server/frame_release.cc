#include "server/frame_release.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "wire/control_messages.h"

namespace ramcloud::server {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);

}  // namespace

FrameRelease::FrameRelease(RpcClient& rpc, std::vector<Locator> coordinators,
                           ReplicaService& backup)
    : reactor_(rpc.reactor()),
      coordinators_(rpc, std::move(coordinators)),
      backup_(backup),
      tasks_(reactor_) {
  tasks_.spawn(run());
}

Task<void> FrameRelease::run() {
  constexpr size_t kMost = wire::GetRecoveredRequest::kMaxIdsAtOnce;
  Duration wait = kAskFirst;
  std::vector<uint64_t> dead;
  for (;;) {
    co_await reactor_.sleep(wait);
    const std::vector<uint64_t> before = std::exchange(dead, co_await backup_.dead_masters());
    wait = next_wait(wait, dead == before);
    for (size_t at = 0; at < dead.size(); at += kMost) {
      const auto begin = dead.begin() + static_cast<ptrdiff_t>(at);
      const auto n = static_cast<ptrdiff_t>(std::min(kMost, dead.size() - at));
      co_await ask({begin, begin + n});
    }
  }
}

/// A full volume takes no replicas, so what is not needed goes soon.
Duration FrameRelease::next_wait(Duration wait, bool same) {
  return same ? std::min(2 * wait, kAskEvery) : kAskFirst;
}

/// Silence, an error, or an answer of a former coordinator (UNSUPPORTED) frees nothing.
Task<void> FrameRelease::ask(std::vector<uint64_t> masters) {
  const auto recovered = co_await coordinators_.try_once<wire::Recovered>(
      wire::Opcode::kGetRecovered, wire::GetRecoveredRequest{masters}, reactor_.now() + kTimeout);
  if (!recovered) {
    log_debug("backup.recovered_masters_unknown", {{"error", recovered.error()}});
    co_return;
  }
  for (const uint64_t id : recovered->master_ids) {
    // Only what was asked for.
    if (std::ranges::binary_search(masters, id)) (void)co_await backup_.free_frames_of(id);
  }
}

}  // namespace ramcloud::server
