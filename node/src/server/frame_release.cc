#include "server/frame_release.h"

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"
#include "wire/control_messages.h"

namespace ramcloud::server {
namespace {

constexpr Duration kTimeout = std::chrono::seconds(5);

}  // namespace

FrameRelease::FrameRelease(RpcClient& rpc, ServerList& servers, std::vector<Locator> coordinators,
                           ReplicaService& backup)
    : reactor_(rpc.reactor()),
      coordinators_(rpc, std::move(coordinators)),
      backup_(backup),
      soon_(reactor_),
      answered_(reactor_),
      list_changes_(servers.subscribe([this] { list_changed(); })),
      tasks_(reactor_) {
  backup_.when_no_frame_is_free(
      [this](std::function<void()> try_again) { no_frame_is_free(std::move(try_again)); });
  tasks_.spawn(run());
}

FrameRelease::~FrameRelease() {
  backup_.when_no_frame_is_free(nullptr);
}

Task<void> FrameRelease::run() {
  for (;;) {
    co_await reactor_.sleep(kAskFirst);
    if (wait_ > kAskFirst) {
      (void)co_await wait_until(reactor_, soon_, reactor_.now() + wait_ - kAskFirst);
    }
    soon_.reset();
    wait_ = std::min(2 * wait_, kAskEvery);
    co_await ask_of_all();
    answered_.set();
    answered_.reset();
  }
}

Task<void> FrameRelease::ask_of_all() {
  constexpr size_t kMost = wire::GetRecoveredRequest::kMaxIdsAtOnce;
  looked_ = true;
  const std::vector<uint64_t> before = std::exchange(dead_, co_await backup_.dead_masters());
  if (dead_ != before) wait_ = kAskFirst;
  // A copy: if the list changes meanwhile, the masters are looked up again.
  const std::vector<uint64_t> dead = dead_;
  for (size_t at = 0; at < dead.size(); at += kMost) {
    const auto begin = dead.begin() + static_cast<ptrdiff_t>(at);
    const auto n = static_cast<ptrdiff_t>(std::min(kMost, dead.size() - at));
    co_await ask({begin, begin + n});
  }
}

void FrameRelease::ask_soon() {
  wait_ = kAskFirst;
  soon_.set();
}

void FrameRelease::list_changed() {
  looked_ = false;
  ask_soon();
}

/// Only frames of dead masters can be freed by asking.
void FrameRelease::no_frame_is_free(std::function<void()> try_again) {
  if (looked_ && dead_.empty()) return try_again();
  RC_SOMETIMES("backup.asks_for_frames_that_an_open_needs");
  ask_soon();
  tasks_.spawn(after_the_answer(std::move(try_again)));
}

Task<void> FrameRelease::after_the_answer(std::function<void()> then) {
  (void)co_await wait_until(reactor_, answered_, reactor_.now() + kOpenWaits);
  then();
}

/// No answer, an error, or UNSUPPORTED from a coordinator of an earlier version frees nothing.
Task<void> FrameRelease::ask(std::vector<uint64_t> masters) {
  const auto recovered = co_await coordinators_.try_once<wire::Recovered>(
      wire::Opcode::kGetRecovered, wire::GetRecoveredRequest{masters}, reactor_.now() + kTimeout);
  if (!recovered) {
    log_debug("backup.recovered_masters_unknown", {{"error", recovered.error()}});
    co_return;
  }
  for (const uint64_t id : recovered->master_ids) {
    // Ignore masters that were not asked for.
    if (std::ranges::binary_search(masters, id)) (void)co_await backup_.free_frames_of(id);
  }
}

}  // namespace ramcloud::server
