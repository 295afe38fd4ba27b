// Which backups lease a master the right to answer from memory, and for how long
// (docs/design/recovery.md, "Leases"): the bookkeeping, without clock, call or lock. A *holder* is
// a backup with a replica that recovery could take the log's digest from. ReplicaManager says what
// was sent and answered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "replication/lease_term.h"

namespace ramcloud {

/// Times are those of Clock::lease_now(), the time of a message is taken just before it is sent.
class ReadLease {
 public:
  /// A holder is asked if it confirmed nothing for so long. If it does not answer, there is time to
  /// ask once more.
  static constexpr Duration ask_after(Duration length) { return length / 3; }
  /// Whoever would be asked so soon afterwards is asked with it. Half the time between two questions:
  /// so an idle master soon wakes once for all its holders, whenever they were asked first.
  static constexpr Duration asked_together(Duration length) { return ask_after(length) / 2; }
  /// The term is written only when the lease has grown by 1 / kTellFraction of its length, because
  /// other reactors read its cache line all the time.
  static constexpr int kTellFraction = 64;

  /// `length`: L. The term outlives this.
  ReadLease(LeaseTerm& term, Duration length) : term_(term), length_(length) {}
  ReadLease(const ReadLease&) = delete;
  ReadLease& operator=(const ReadLease&) = delete;

  /// The message that makes a replica one that recovery may use was sent to this backup, for the
  /// first time. A new holder does not shorten the lease: until the message arrived, recovery could
  /// not have used a replica there.
  void hold(uint64_t server_id, Time sent);
  /// One such replica is closed there, or the backup refused it and wrote nothing.
  void release(uint64_t server_id);
  /// One such replica is lost. It counts until the coordinator has this epoch. When all are lost,
  /// no backup can lease. Then the coordinator leases, and its lease alone is enough.
  void lost(uint64_t server_id, uint32_t epoch);
  /// The coordinator has the epoch durably.
  void fenced(uint32_t epoch);
  /// The backup answered a message that was sent at `sent`, and treated this master as alive.
  void confirmed(uint64_t server_id, Time sent);

  /// Holders that must be asked now: those that for ask_after() have neither confirmed a message nor
  /// been asked, and those for which that will be true within asked_together(). They are noted as
  /// asked.
  std::vector<uint64_t> take_due(Time now);
  /// When the next of them is due; kNever without holders.
  Time next_due() const;
  /// The end of the lease. kNever without holders, or if all their replicas are lost.
  Time until() const;
  size_t holders() const { return holders_.size(); }
  Duration length() const { return length_; }

 private:
  struct Holder {
    uint64_t server_id = 0;
    uint32_t replicas = 0;  // includes lost ones until the fence holds
    uint32_t lost = 0;      // how many of `replicas` are lost
    Time confirmed{};
    Time asked{};
  };
  struct Lost {
    uint64_t server_id = 0;
    uint32_t epoch = 0;
  };
  Holder* find(uint64_t server_id);
  Time due(const Holder& holder) const;
  void tell();

  LeaseTerm& term_;
  const Duration length_;
  std::vector<Holder> holders_;  // a few
  std::vector<Lost> lost_;
  Time told_ = kNever;
};

}  // namespace ramcloud
