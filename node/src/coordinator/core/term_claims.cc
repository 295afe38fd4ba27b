#include "coordinator/core/term_claims.h"

#include <charconv>

#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud {
namespace {

/// The term in the message of an earlier version, "term 4 is of a former coordinator; the present
/// one is 5"; 0 if the message is about something else.
uint64_t term_in(const std::string& message) {
  constexpr std::string_view kBefore = "the present one is ";
  const size_t at = message.rfind(kBefore);
  uint64_t term = 0;
  if (at == std::string::npos) return 0;
  const char* begin = message.data() + at + kBefore.size();
  std::from_chars(begin, message.data() + message.size(), term);
  return term;
}

}  // namespace

bool TermClaims::refused(uint64_t server_id, uint64_t sent_term, const RpcReply& reply) {
  if (reply.status != StatusCode::kStaleTerm) return false;
  const uint64_t term =
      reply.details.term != 0 ? reply.details.term : term_in(reply.status.message());
  if (term <= sent_term) return false;   // not about our term
  if (term <= state_.term) return true;  // our term has risen meanwhile
  ServerEntry* server = state_.up_server(server_id);
  if (server == nullptr) return true;
  if (!server->refuses_term) {
    server->refuses_term = true;
    log_error("term.claimed_higher",
              {{"server", server_id}, {"term", state_.term}, {"claimed", term}});
    changes_.server_changed(server_id);
  }
  if (term > kHighestFollowed) {
    RC_SOMETIMES("coordinator.impossible_term_is_not_followed");
    return true;
  }
  claimed_ = std::max(claimed_, term);
  if (!std::exchange(rising_, true)) scope_.spawn(rise());
  return true;
}

Task<void> TermClaims::rise() {
  while (claimed_ >= state_.term && !ledger_.fenced()) {
    const AsyncMutex::Lock lock = co_await ledger_.lock();
    const uint64_t term = std::max(claimed_, state_.term) + 1;
    const Status raised = co_await ledger_.rise_to(lock, term);
    if (!raised.ok()) break;  // another coordinator leads
    RC_SOMETIMES("coordinator.rises_above_a_claimed_term");
    log_warn("term.raised", {{"from_term", state_.term}, {"to_term", term}, {"claimed", claimed_}});
    state_.term = term;
    changes_.status_changed();
  }
  rising_ = false;
}

}  // namespace ramcloud
