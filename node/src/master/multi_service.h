// Many operations in one message: multi-read, multi-write, multi-delete [Ousterhout15 §3.1].
// Operations run in order and in slices, so that a large message does not delay other clients'
// single operations. A message that is done within its first slice is answered at once. Otherwise
// the rest is copied and continued in later turns, all messages in rotation.
//
// Memory. The rest of a request and its results are charged to the request's connection
// (Transport::charge). If the next result has no room, the message is answered with what is done.
// If nothing is done yet, the first result is sent directly from the log, like that of a single
// read. So a job never waits for memory while it holds some. The reply tells the client how many
// operations were done, and it sends the rest again.
//
// A large value is copied over several turns. No reference to the log is kept in between: the key
// is read again in each turn, and if its version has changed, copying starts over.
#pragma once

#include <deque>
#include <string>
#include <unordered_set>

#include "base/metrics.h"
#include "master/held_replies.h"
#include "master/memory_full.h"
#include "master/parked_requests.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"
#include "store/object_store.h"

namespace ramcloud::master {

class MultiService {
 public:
  /// A slice ends after this many operations, or this many bytes of keys and values. That is about
  /// 20 us, at 6 million reads or 2 million changes a second.
  static constexpr uint32_t kSliceReads = 128;
  static constexpr uint32_t kSliceChanges = 40;
  static constexpr uint64_t kSliceBytes = 32 << 10;
  /// How often the copying of a value may start over; after that the value is copied in one turn.
  static constexpr uint32_t kMostRestarts = 3;
  /// Bytes of the results in one reply, except that one operation is always answered.
  static constexpr uint32_t kMaxReplyBytes = 1 << 20;
  /// Bytes of the messages that wait for their next slice. A message above that is answered after
  /// its first slice, and its sender sends the rest again.
  static constexpr uint64_t kMaxWaitingBytes = 64 << 20;

  /// Registers its handlers; until attach() everything is answered RETRY.
  MultiService(ServiceRegistry& registry, Reactor& reactor, HeldReplies& replies,
               MetricsRegistry& metrics);
  MultiService(const MultiService&) = delete;
  MultiService& operator=(const MultiService&) = delete;

  /// `parked`: holds a message whose first change found no room, until the next head; null: such a
  /// message is answered RETRY.
  void attach(store::ObjectStore& store, ParkedRequests* parked = nullptr) {
    store_ = &store;
    parked_ = parked;
  }
  /// A step of the turn: the next slices. True if anything was done.
  bool on_turn();
  /// Messages that are not done yet.
  size_t waiting() const { return jobs_.size(); }

 private:
  struct Operation {
    uint64_t table_id = 0;
    wire::RejectRules reject{};
    ByteView key, value;
    uint64_t hash = 0;  // of the key
  };
  /// One message in progress.
  struct Job {
    ReplyHandle handle;
    wire::Opcode opcode = wire::Opcode::kInvalid;
    Time deadline = kNever;
    uint32_t left = 0;  // operations not done yet
    uint32_t done = 0;
    uint32_t max_bytes = 0;
    uint32_t retry_after_us = 0;
    std::string body;     // the remaining operations begin at `offset`
    size_t offset = 0;    // into body
    std::string results;  // {MultiResult, value} of finished operations, and a part of the next
    size_t whole = 0;     // bytes of `results` that belong to finished operations
    size_t results_charged = 0;
    size_t body_charged = 0;
    // The value that is being copied:
    uint32_t copied = 0;
    uint64_t version = 0;
    uint32_t restarts = 0;
    // There is no room for the first result: it is sent directly from the log.
    bool by_reference = false;
    store::ReadResult first;
    log::LogPosition depends_on;
    bool only_appends = true;  // Reply::appended
    /// Hashes of the keys whose change was refused as UNKNOWN_TABLET.
    std::unordered_set<uint64_t> refused;
  };
  /// kPart: a slice of a large value was copied, and more of it remains.
  enum class Step : uint8_t { kDone, kPart, kStop };

  void handle(const Request& request);
  /// False: the lengths are not valid.
  static bool take_operation(wire::Opcode opcode, ByteView& rest, Operation& operation);
  static bool well_formed(wire::Opcode opcode, uint32_t count, ByteView rest);
  /// Runs one slice of `rest` and removes the finished operations from it. True: answer now.
  bool run_slice(Job& job, ByteView& rest);
  /// Runs some operations and removes them from `rest`. False: answer the job as it is.
  bool run_group(Job& job, ByteView& rest, uint32_t at_most, uint64_t& bytes);
  Step read(Job& job, const Operation& operation);
  Step copy_value(Job& job, const store::ReadResult& result);
  /// Makes room for so many more bytes of results; false if the connection has none.
  bool make_room(Job& job, size_t bytes);
  /// Sets the bytes that are charged for the results.
  void charge_results(Job& job, size_t bytes);
  void charge_body(Job& job, size_t bytes);
  Step change(Job& job, const Operation& operation);
  void answer(Job& job);
  void forget(Job& job);

  Transport& transport_;
  Reactor& reactor_;
  HeldReplies& replies_;
  store::ObjectStore* store_ = nullptr;
  ParkedRequests* parked_ = nullptr;
  std::deque<Job> jobs_;
  uint64_t waiting_bytes_ = 0;
  std::string spare_;  // memory of results that were sent, for reuse
  Counter& reads_;
  Counter& writes_;
  Counter& deletes_;
  Counter& errors_;
  MemoryFull memory_full_;
};

}  // namespace ramcloud::master
