// Many operations in one message: multi-read, multi-write, multi-delete (paper §3.1). They are done
// in their order, a slice at a time, so that a large message does not hold up the single operations
// of others. A message that is done within its first slice is answered at once; of others the rest
// is copied and continued turn by turn, all of them in rotation.
#pragma once

#include <deque>
#include <string>
#include <unordered_set>

#include "base/metrics.h"
#include "master/held_replies.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"
#include "store/object_store.h"

namespace ramcloud::master {

class MultiService final : public TurnHook {
 public:
  /// A slice ends after so many operations, or so many bytes of keys and values: about 20 us, at 6
  /// million reads or 2 million changes a second.
  static constexpr uint32_t kSliceReads = 128;
  static constexpr uint32_t kSliceChanges = 40;
  static constexpr uint64_t kSliceBytes = 64 << 10;
  /// Of the results in one reply, except that one operation is always answered.
  static constexpr uint32_t kMaxReplyBytes = 1 << 20;
  /// Of the messages that wait for their next slice; what comes above that is answered after its
  /// first slice, and its sender sends the rest again.
  static constexpr uint64_t kMaxWaitingBytes = 64 << 20;

  /// Registers its handlers; until attach() everything is answered RETRY.
  MultiService(ServiceRegistry& registry, Reactor& reactor, HeldReplies& replies,
               MetricsRegistry& metrics);
  ~MultiService() override;

  void attach(store::ObjectStore& store) { store_ = &store; }
  bool on_turn() override;
  /// Messages that are not done yet.
  size_t waiting() const { return jobs_.size(); }

 private:
  struct Operation {
    uint64_t table_id = 0;
    wire::RejectRules reject{};
    ByteView key, value;
    uint64_t hash = 0;  // of the key
  };
  /// One message under way.
  struct Job {
    ReplyHandle handle;
    wire::Opcode opcode = wire::Opcode::kInvalid;
    Time deadline = kNever;
    uint32_t left = 0;  // operations not done yet
    uint32_t done = 0;
    uint32_t max_bytes = 0;
    uint32_t retry_after_us = 0;
    std::string body;     // of the operations that are left, from offset on
    size_t offset = 0;    // into body
    std::string results;  // {MultiResult, value} of those that are done
    log::LogPosition depends_on;
    /// Hashes of the keys whose change was refused as UNKNOWN_TABLET.
    std::unordered_set<uint64_t> refused;
  };
  enum class Step : uint8_t { kDone, kStop };

  void handle(const Request& request);
  /// False: lengths do not fit.
  static bool take_operation(wire::Opcode opcode, ByteView& rest, Operation& operation);
  static bool well_formed(wire::Opcode opcode, uint32_t count, ByteView rest);
  /// Does a slice's worth of `rest`, from which it takes what is done. True: answer now.
  bool run_slice(Job& job, ByteView& rest);
  /// Does some of `rest` and takes it off. False: the job is to be answered as it is.
  bool run_group(Job& job, ByteView& rest, uint32_t at_most, uint64_t& bytes);
  Step read(Job& job, const Operation& operation);
  Step change(Job& job, const Operation& operation);
  void answer(Job& job);

  Transport& transport_;
  Reactor& reactor_;
  HeldReplies& replies_;
  store::ObjectStore* store_ = nullptr;
  std::deque<Job> jobs_;
  uint64_t waiting_bytes_ = 0;
  std::string spare_;  // the memory of results that were sent, for the next ones
  Counter& reads_;
  Counter& writes_;
  Counter& deletes_;
  Counter& errors_;
};

}  // namespace ramcloud::master
