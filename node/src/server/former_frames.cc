#include "server/former_frames.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "wire/volume_messages.h"

namespace ramcloud::server {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(2);
}  // namespace

FormerFrames::FormerFrames(RpcClient& rpc, ServerList& servers, uint64_t own_id,
                           ReplicaService& backup)
    : rpc_(rpc),
      reactor_(rpc.reactor()),
      servers_(servers),
      own_id_(own_id),
      backup_(backup),
      list_changed_(reactor_),
      list_changes_(servers.subscribe([this] { list_changed_.set(); })),
      tasks_(reactor_) {
  tasks_.spawn(run());
}

/// Returns when no former frame of a master is left; there are no new ones after the start.
Task<void> FormerFrames::run() {
  for (Duration wait = kAskFirst;; wait = std::min(2 * wait, kAskEvery)) {
    if (co_await wait_until(reactor_, list_changed_, reactor_.now() + wait)) {
      wait = kAskFirst;
      co_await reactor_.sleep(kAskFirst);
    }
    list_changed_.reset();
    if (backup_.frames().former().empty()) co_return;
    auto segments = co_await backup_.former_segments_of_up_masters();
    for (auto& [master_id, ids] : segments) co_await ask(master_id, std::move(ids));
  }
}

/// No answer, an error, or UNSUPPORTED from an earlier version frees nothing.
Task<void> FormerFrames::ask(uint64_t master_id, std::vector<uint64_t> segment_ids) {
  constexpr size_t kMost = wire::GetUnneededRequest::kMaxIdsAtOnce;
  for (size_t at = 0; at < segment_ids.size(); at += kMost) {
    const ListedServer* master = servers_.find(master_id);
    if (master == nullptr || !master->live() || !master->locator) co_return;
    const auto some = std::span(segment_ids).subspan(at, std::min(kMost, segment_ids.size() - at));
    wire::GetUnneededRequest request{.backup_id = own_id_,
                                     .list_term = servers_.term(),
                                     .list_version = servers_.version(),
                                     .segment_ids = {some.begin(), some.end()},
                                     .adoptable_ids = {}};
    // Asked with the rest, so that no copy of these begins before their turn to be adopted.
    std::ranges::copy_if(some, std::back_inserter(request.adoptable_ids),
                         [&](uint64_t id) { return backup_.adoptions().offers({master_id, id}); });
    auto answer =
        co_await rpc_.call<wire::Unneeded>(*master->locator, master_id, wire::Opcode::kGetUnneeded,
                                           request, reactor_.now() + kTimeout);
    if (!answer) {
      log_debug("backup.unneeded_not_known", {{"master", master_id}, {"error", answer.error()}});
      co_return;
    }
    // Only what was asked for.
    std::erase_if(answer->segment_ids,
                  [&](uint64_t id) { return std::ranges::find(some, id) == some.end(); });
    (void)co_await backup_.free_former(master_id, std::move(answer->segment_ids));
  }
}

}  // namespace ramcloud::server
