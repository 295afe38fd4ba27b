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

/// One server as the list has it, with its locator parsed.
struct ListedServer {
  uint64_t server_id = 0;
  wire::ServerState state = wire::ServerState::kUp;
  std::string name;
  std::optional<Locator> locator;  // none: the text does not parse, so it cannot be reached
  /// Never empty: a server that names none is a domain of its own.
  std::string failure_domain;
  uint64_t disk_read_bytes_per_second = 0;  // 0: not measured
  bool live() const { return state == wire::ServerState::kUp; }
};

/// What the rest of a server knows of the cluster. On the reactor's thread only.
class ServerList {
 public:
  /// Stops the calls when it is destroyed. May outlive the list.
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

  /// Takes a list over if its (term, version) is higher than that of this copy; the same one is
  /// accepted and changes nothing. Changes since a base count only on exactly that base:
  /// WRONG_VERSION. STALE_TERM if it is lower, INVALID_ARGUMENT if it names a server twice or the
  /// id 0. A server that was CRASHED stays so, whatever a later list says: ids are never reused.
  Status apply(const wire::ServerList& list);

  /// For every message of a coordinator that has passed the TermGate: STALE_TERM if its term is
  /// lower than one that was seen before, in whatever message; INVALID_ARGUMENT above kMaxTerm.
  Status check_term(uint64_t term);

  /// Heard from a configured coordinator, in answer to a question of ours.
  void note_term(uint64_t term) { highest_term_ = std::max(highest_term_, term); }
  /// Seen in any message, or noted.
  uint64_t highest_term() const { return highest_term_; }

  /// What a refusal of a coordinator's message tells it: it may have to rise above our term.
  wire::ErrorDetails refusal() const {
    wire::ErrorDetails details;
    details.term = highest_term_;
    return details;
  }

  /// As a coordinator would send it, for one whose metadata is older.
  wire::ServerList whole() const;

  /// Of the list.
  uint64_t term() const { return term_; }
  uint64_t version() const { return version_; }
  /// Null if the list does not name it. Valid until the next apply().
  const ListedServer* find(uint64_t server_id) const;
  /// True if the list names it as UP.
  bool is_live(uint64_t server_id) const;
  /// All of them, by rising id.
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
