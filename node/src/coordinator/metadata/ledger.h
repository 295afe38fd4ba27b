// Commits every change to the metadata store. One change at a time; each is conditional on our
// leadership and on the change before it, so that an unknown outcome can be settled by reading, a
// retry cannot take effect twice, and a former leader changes nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "coordinator/metadata/cluster_state.h"
#include "coordinator/metadata/metadata_store.h"
#include "runtime/async_mutex.h"

namespace ramcloud {

/// The writes of one transaction. The ledger encodes the records when it builds the transaction,
/// because it knows the format.
class MetadataChange {
 public:
  template <typename Record>
  MetadataChange& put(std::string key, const Record& record) {
    puts_.emplace_back(std::move(key),
                       [record](uint16_t format) { return encode_record(record, format); });
    return *this;
  }
  MetadataChange& remove(std::string key) {
    transaction_.deletes.push_back(std::move(key));
    return *this;
  }
  /// The number of operations, without the one on '/term'.
  size_t size() const { return puts_.size() + transaction_.deletes.size(); }

 private:
  friend class Ledger;
  MetadataTransaction in_format(uint16_t format) const {
    MetadataTransaction transaction = transaction_;
    for (const auto& [key, encode] : puts_) transaction.puts.emplace_back(key, encode(format));
    return transaction;
  }
  std::vector<std::pair<std::string, std::function<std::string(uint16_t format)>>> puts_;
  MetadataTransaction transaction_;  // without these
};

/// Decodes the record '/cluster'. INVALID_ARGUMENT: the cluster has another name (an empty
/// `wanted_name` accepts any); UNSUPPORTED: another format; CORRUPT.
Result<ClusterRecord> read_cluster_record(const std::string& bytes, const std::string& wanted_name);

/// Decodes all records of a cluster, including '/term' and '/cluster'. CORRUPT, UNSUPPORTED.
Result<ClusterState> read_cluster_state(const MetadataStore::Records& records);

/// `co_await` returns a lock, which is not held if the deadline passed first.
class LockUntil {
 public:
  LockUntil(Reactor& reactor, AsyncMutex& mutex, Time deadline)
      : waiter_(new Waiter(mutex.lock())),
        deadline_(deadline),
        timer_(reactor, [this] { on_deadline(); }) {}
  bool await_ready() { return waiter_->await_ready(); }
  void await_suspend(std::coroutine_handle<> handle) {
    waiting_ = handle;
    waiter_->await_suspend(handle);
    timer_.start_at(deadline_);
  }
  AsyncMutex::Lock await_resume() {
    timer_.stop();
    return waiter_ ? waiter_->await_resume() : AsyncMutex::Lock();
  }

 private:
  using Waiter = decltype(std::declval<AsyncMutex&>().lock());
  void on_deadline() {
    waiter_.reset();  // leaves the queue
    waiting_.resume();
  }
  std::unique_ptr<Waiter> waiter_;
  Time deadline_;
  Timer timer_;
  std::coroutine_handle<> waiting_{};
};

class Ledger {
 public:
  Ledger(Reactor& reactor, MetadataStore& store)
      : reactor_(reactor), store_(store), mutex_(reactor) {}

  /// Loads everything (creating the cluster, named `name`, in an empty store) and raises the term
  /// to the number of our leadership, durably. An empty `name` accepts the stored one ("ramcloud"
  /// in an empty store). Retries while the store does not answer. INVALID_ARGUMENT: the stored
  /// cluster has another name; UNSUPPORTED: another format; CORRUPT: a record, which is named, does
  /// not decode; NOT_LEADER: the leadership was lost meanwhile.
  Task<Result<ClusterState>> open(std::string name, uint64_t leadership);

  /// The lock must be held from reading the state until the change is applied to it.
  auto lock() { return mutex_.lock(); }
  /// The lock is not held if the deadline passed first: then answer too_late().
  LockUntil lock(Time deadline) { return {reactor_, mutex_, deadline}; }
  /// DEADLINE_EXCEEDED: nothing was changed, and nothing will be.
  static Status too_late();
  /// The revision of the next commit; fixed while the lock is held.
  uint64_t next_revision() const { return current_.revision + 1; }
  /// The revision of the last change.
  uint64_t revision() const { return current_.revision; }
  uint64_t term() const { return current_.term; }
  /// OK while a change is wanted; otherwise why it must be withdrawn.
  using Objection = std::function<Status()>;
  /// An objection that returns too_late() after the deadline.
  Objection until(Time deadline);

  /// Durable when OK. Takes as long as the store needs to give a definite answer. NOT_LEADER: we no
  /// longer lead; nothing was changed or ever will be. INDETERMINATE: we no longer lead, and the
  /// change may have been made. `objection` is called before each try; its error is returned if
  /// nothing was changed or ever will be.
  Task<Status> commit(const AsyncMutex::Lock& lock, MetadataChange change,
                      Objection objection = nullptr);

  /// Proves that we lead, and raises our term to `term`. Errors as commit().
  Task<Status> rise_to(const AsyncMutex::Lock& lock, uint64_t term);
  /// Raises the number of the last change to this; the numbers in between are never used. Errors as
  /// commit().
  Task<Status> pass_revision(const AsyncMutex::Lock& lock, uint64_t revision);
  /// Sets the format of all records that are written from now on. `cluster` has the format, and is
  /// durable when this is OK. Errors as commit().
  Task<Status> raise_format(const AsyncMutex::Lock& lock, ClusterRecord cluster,
                            Objection objection = nullptr);

  /// `fn` is called when we know that we no longer lead.
  void on_fenced(std::function<void()> fn) { on_fenced_ = std::move(fn); }
  /// The change that is being committed has failed at least once and has not succeeded since.
  bool failing() const { return failing_; }
  /// True once the leadership is lost; stays true.
  bool fenced() const { return fenced_ || store_.leading() != leadership_; }

 private:
  Task<Result<MetadataStore::Records>> load_patiently(std::string prefix);
  Task<Status> raise_term(std::optional<std::string> before, uint64_t term, MetadataChange change);
  Status replaced(bool unknown);
  void fence();
  class Failing;
  struct Attempt;
  void adopt(const Attempt& made);
  Attempt attempt(MetadataChange change, uint64_t revisions, uint64_t term) const;
  struct Step {
    uint64_t term;
    uint64_t revisions;
  };
  Task<Status> commit_at(Step step, const AsyncMutex::Lock& lock, MetadataChange change,
                         Objection objection);
  Reactor& reactor_;
  MetadataStore& store_;
  AsyncMutex mutex_;
  uint64_t leadership_ = 0;
  uint16_t format_ = kMetadataFormatMin;
  TermOffsetRecord offset_;
  TermRecord current_;
  std::string current_bytes_;  // its bytes in the store
  bool fenced_ = false;
  bool failing_ = false;
  std::function<void()> on_fenced_;
};

}  // namespace ramcloud
