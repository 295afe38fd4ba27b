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

/// Times are those of Clock::lease_now(), of messages the moment before they were sent.
class ReadLease {
 public:
  /// A holder that confirmed nothing for this part of the lease (a quarter) is asked.
  static constexpr int kAskedAfter = 4;
  /// The term is written when the lease is longer by this part (a 64th): other reactors read its
  /// cache line all the time.
  static constexpr int kToldAfter = 64;

  /// `length`: L. The term outlives this.
  ReadLease(LeaseTerm& term, Duration length) : term_(term), length_(length) {}
  ReadLease(const ReadLease&) = delete;
  ReadLease& operator=(const ReadLease&) = delete;

  /// The message that makes a replica one that recovery may use was sent to this backup, for the
  /// first time. That it is a holder, too, from then on does not shorten the lease: before the
  /// message came there was nothing on which it could have given this master up.
  void hold(uint64_t server_id, Time sent);
  /// One such replica is closed there, or was refused without a trace.
  void release(uint64_t server_id);
  /// One such replica is lost. It counts until the coordinator has this epoch. When all are lost,
  /// no backup can lease: the coordinator does, whose lease suffices alone.
  void lost(uint64_t server_id, uint32_t epoch);
  /// The coordinator has the epoch durably.
  void fenced(uint32_t epoch);
  /// Its answer to the message that was sent then took this master for alive.
  void confirmed(uint64_t server_id, Time sent);

  /// Holders from which nothing came that was sent in the last quarter of L, and which were not
  /// asked in it: they are asked now, which is noted.
  std::vector<uint64_t> take_due(Time now);
  /// When the next of them is due; kNever without holders.
  Time next_due() const;
  /// kNever without holders, or if all they had is lost.
  Time until() const;
  size_t holders() const { return holders_.size(); }
  Duration length() const { return length_; }

 private:
  struct Holder {
    uint64_t server_id = 0;
    uint32_t replicas = 0;  // with those that are lost, and not behind the fence
    uint32_t lost = 0;      // of these
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
