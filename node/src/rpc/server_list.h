// A server's copy of the coordinator's server list: the servers of the cluster, their addresses,
// and which of them have crashed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "wire/control_messages.h"
#include "wire/data_messages.h"
#include "wire/message_header.h"

namespace ramcloud {

/// One server of the list, with its locator parsed.
struct ListedServer {
  uint64_t server_id = 0;
  wire::ServerState state = wire::ServerState::kUp;
  std::string name;
  std::optional<Locator> locator;  // none: the text does not parse, so it cannot be reached
  /// Never empty: a server without a domain is a domain of its own.
  std::string failure_domain;
  uint64_t disk_read_bytes_per_second = 0;  // 0: not measured
  bool stopped_by_plan = false;             // it announced its stop, so it may come back soon
  bool live() const { return state == wire::ServerState::kUp; }
};

/// The copy that the other parts of a server use. On the reactor's thread only.
class ServerList {
 public:
  /// Ends the subscription when it is destroyed. May outlive the list.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(Subscription&&) = default;
    Subscription& operator=(Subscription&&) = default;

   private:
    friend class ServerList;
    explicit Subscription(std::shared_ptr<std::function<void()>> fn) : fn_(std::move(fn)) {}
    std::shared_ptr<std::function<void()>> fn_;
  };

  /// Applies a list with a higher (term, version) than this copy's; an equal one is accepted
  /// without effect. WRONG_VERSION: changes apply only to exactly their base. STALE_TERM: the list
  /// is older. INVALID_ARGUMENT: it names a server twice, or the id 0. A CRASHED server stays
  /// CRASHED, whatever a later list says, because ids are never reused.
  Status apply(const wire::ServerList& list);

  /// Checks the term of every coordinator's message that has passed the TermGate: STALE_TERM if a
  /// higher term was seen in any message before; INVALID_ARGUMENT above kMaxTerm.
  Status check_term(uint64_t term);

  /// Notes a term from the answer of a configured coordinator.
  void note_term(uint64_t term) { highest_term_ = std::max(highest_term_, term); }
  /// The highest term seen in any message, or noted.
  uint64_t highest_term() const { return highest_term_; }

  /// The details of a refusal: our highest term, above which the coordinator may have to raise its
  /// own.
  wire::ErrorDetails refusal() const {
    wire::ErrorDetails details;
    details.term = highest_term_;
    return details;
  }

  /// The whole list in the coordinator's format, for a coordinator with older metadata.
  wire::ServerList whole() const;

  /// Term and version of the list.
  uint64_t term() const { return term_; }
  uint64_t version() const { return version_; }
  /// Null if the list does not name it. Valid until the next apply().
  const ListedServer* find(uint64_t server_id) const;
  /// True if the list names it as UP.
  bool is_live(uint64_t server_id) const;
  /// All servers, by rising id.
  const std::vector<ListedServer>& servers() const { return servers_; }

  /// `fn` is called after each apply() that changed something.
  [[nodiscard]] Subscription subscribe(std::function<void()> fn);

 private:
  Result<std::vector<ListedServer>> merge(const wire::ServerList& list) const;
  void notify();
  uint64_t term_ = 0;
  uint64_t version_ = 0;
  uint64_t highest_term_ = 0;  // seen in any message
  std::vector<ListedServer> servers_;
  std::list<std::weak_ptr<std::function<void()>>> subscribers_;
};

}  // namespace ramcloud
