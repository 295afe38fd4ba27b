// An object store whose clients' answers are checked, with its replicator, for interleavings.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "log/log_test_support.h"
#include "model/history.h"
#include "model/replicating.h"
#include "runtime/epoch.h"
#include "store/invariants.h"

namespace ramcloud::store {

inline constexpr wire::RejectRules kNoRules{};

class ModelledStore {
 public:
  /// One actor that works on the store. What it holds of shared memory, it holds within one operation.
  class Client {
   public:
    explicit Client(ModelledStore& model) : model_(model), participant_(model.epochs) {}
    void write(const std::string& key) {
      noted(key, [&](model::Event& event) {
        event.kind = model::Event::Kind::kWrite;
        log::LogPosition depends_on;
        StatusCode status;
        while ((status = model_.store.write(1, key, key, kNoRules, event.value, depends_on)) ==
               StatusCode::kRetry) {
          pass();
          model::yield();
        }
        if (status != StatusCode::kOk) model_.fail("write answers another code");
        return depends_on;
      });
    }
    void remove(const std::string& key) {
      noted(key, [&](model::Event& event) {
        event.kind = model::Event::Kind::kRemove;
        log::LogPosition depends_on;
        StatusCode status;
        while ((status = model_.store.remove(1, key, kNoRules, event.value, depends_on)) ==
               StatusCode::kRetry) {
          pass();
          model::yield();
        }
        if (status != StatusCode::kOk) model_.fail("remove answers another code");
        return depends_on;
      });
    }
    void read(const std::string& key) {
      noted(key, [&](model::Event& event) {
        ReadResult result;
        const StatusCode status = model_.store.read(1, key, kNoRules, result);
        if (status != StatusCode::kOk && status != StatusCode::kNotFound) {
          model_.fail("read answers another code");
        }
        event.value = status == StatusCode::kOk ? result.version : 0;
        if (status == StatusCode::kOk) check_bytes(key, result);
        return result.depends_on;
      });
    }
    /// Nothing of shared memory is held here.
    void pass() { participant_.pass(); }

   private:
    /// The memory of what was read is not used for anything else within the operation.
    void check_bytes(const std::string& key, const ReadResult& result) {
      model::yield();
      std::string value(result.value_length, '\0');
      if (result.entry.verify())
        result.entry.read(result.value_offset, value.data(), result.value_length);
      if (value != key) model_.fail("what was read is overwritten");
    }
    /// An operation's reply leaves when the log is durable up to its dependency.
    template <typename Op>
    void noted(const std::string& key, Op&& op) {
      model_.histories[key].note([&](model::Event& event) {
        const log::LogPosition depends_on = op(event);
        pass();
        while (model_.log.durable() < depends_on) {
          pass();
          model::yield();
        }
        if (!model_.replicator.holds(depends_on)) model_.fail("answered, and not on the replica");
      });
    }

    ModelledStore& model_;
    Epochs::Participant participant_;
  };

  /// `segments` of memory. Its replicator, which sweeps deletes as well, is one of the actors.
  ModelledStore(model::Schedule& schedule, uint32_t segments, const log::LogOptions& options)
      : arena(uint64_t{segments} * log::kSegmentBytes,
              {.try_huge_pages = false, .prefault = false}),
        log(arena, replicator, options),
        store(log, clock, {.buckets = 8, .max_pending_deletes = 128}) {
    log.start();
    replicator.step(log);
    if (!store.take_tablet(1, 0, ~uint64_t{0}).ok()) fail("the tablet is not taken");
    schedule.actor([this] {
      Epochs::Participant participant(epochs);
      while (working > 0 || log.durable() < log.head() || !log.ready()) {
        replicator.step(log);
        store.sweep();
        participant.pass();
        model::yield();
      }
      store.sweep();
    });
  }
  void worker(model::Schedule& schedule, std::function<void(Client&)> body) {
    ++working;
    schedule.actor([this, body = std::move(body)] {
      Client client(*this);
      body(client);
      --working;
    });
  }
  void fail(const std::string& what) { wrong = what; }
  /// Runs all actors. What is wrong, or nothing.
  std::string check(model::Schedule& schedule) {
    const std::string stuck = schedule.run();
    if (!stuck.empty()) return stuck;
    if (!replicator.wrong().empty()) return replicator.wrong();
    if (!wrong.empty()) return wrong;
    if (store.pending_deletes() != 0) return "a durable delete was not swept";
    const auto broken = Invariants(store).check();
    if (!broken.empty()) return broken.front();
    for (auto& [key, history] : histories) {
      history.add({model::Event::Kind::kRead, version_of(key), kEnd, kEnd});
      if (!history.linearizable()) return "what key " + key + " answered has no explanation";
    }
    return "";
  }

  /// At the end; 0: there is none.
  uint64_t version_of(const std::string& key) {
    ReadResult result;
    return store.read(1, key, kNoRules, result) == StatusCode::kOk ? result.version : 0;
  }

  static constexpr uint64_t kEnd = ~uint64_t{0};
  VirtualClock clock;
  Epochs epochs;
  log::Arena arena;
  log::CheckingReplicator replicator;
  log::Log log;
  ObjectStore store;
  int working = 0;
  std::map<std::string, model::History> histories;
  std::string wrong;
};

}  // namespace ramcloud::store
