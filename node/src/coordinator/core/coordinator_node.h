// A coordinator without its process: it leads, or stands by and names the leader.
// `ramcloudd coordinator` runs it on TCP and etcd or SQLite, simulation runs the same on virtual
// ones.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/core/coordinator.h"

namespace ramcloud {

/// Told when this coordinator begins and ends to lead. On the reactor.
class LeadershipListener {
 public:
  virtual ~LeadershipListener() = default;
  virtual void on_leading(Coordinator& coordinator) = 0;
  /// The coordinator is destroyed after this; nothing of it may be used any more. `why` is
  /// NOT_LEADER and names the leader if it is known.
  virtual void on_leadership_lost(const Status& why) = 0;
};

class CoordinatorNode final : public RequestHandler {
 public:
  /// The arguments outlive the node. `on_fatal` is called at most once, from a later turn: this
  /// coordinator can never lead (Coordinator::start() says why), and its process must end.
  CoordinatorNode(RpcClient& rpc, Transport& transport, MetadataStore& store,
                  MetricsRegistry& metrics, Coordinator::Options options,
                  std::function<void(Status)> on_fatal);
  ~CoordinatorNode() override;

  /// How others reach this coordinator; before start().
  void set_addresses(LeaderRecord self);
  void set_listener(LeadershipListener* listener) { listener_ = listener; }
  /// Begins to campaign.
  void start();
  /// Stops leading in good order: another may lead at once. Then `done` is called.
  void shut_down(std::function<void()> done);

  // The rest on the reactor, unless it says otherwise.
  Reactor& reactor() { return reactor_; }
  /// The coordinator while it leads and is ready, else null.
  Coordinator* leading();
  /// While this one stands by: NOT_LEADER, naming the leader's address for callers of `side`.
  Status redirect(Side side) const;
  /// Where the leader's admin API is; empty if that is not known.
  std::string leader_admin_address(Side side) const;
  /// A standby that has not reached the metadata store for so long cannot say who leads: it would
  /// not have heard of another leader.
  static constexpr Duration kStoreSilence = 10s;
  /// Leads, or stands by and can say who leads. Any thread.
  bool useful() const { return useful_; }
  /// Leads and is ready. Any thread.
  bool is_leading() const { return is_leading_; }

  void on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                  ByteView body) override;

 private:
  /// Empty if it is not known, or cannot be reached from there.
  std::string leader_locator(Side side) const;
  Task<void> run();
  Task<Status> learn_cluster();
  Task<void> stand_by(Leadership leader);
  Task<Status> lead(uint64_t leadership);
  Task<void> give_up(std::function<void()> done);
  void end_leadership();
  void note_store(bool answers);
  void show();

  Reactor& reactor_;
  RpcClient& rpc_;
  Transport& transport_;
  MetadataStore& store_;
  MetricsRegistry& metrics_;
  Coordinator::Options options_;
  std::function<void(Status)> on_fatal_;
  LeadershipListener* listener_ = nullptr;
  LeaderRecord self_;
  std::optional<LeaderRecord> leader_;      // as known while standing by
  std::optional<Time> store_silent_since_;  // none: it answered when it was asked last
  bool knows_cluster_ = false;
  uint16_t format_ = kMetadataFormatMin;  // of the record of a leader
  Counter& elected_;
  Counter& lost_;
  Counter& redirected_;
  std::shared_ptr<std::atomic<bool>> leading_gauge_;  // shared with the metrics, which outlive us
  std::atomic<bool> useful_{false};
  std::atomic<bool> is_leading_{false};
  std::unique_ptr<ServiceRegistry> registry_;  // of coordinator_
  std::unique_ptr<Coordinator> coordinator_;   // only while we lead
  Event deposed_;
  TaskScope scope_;
};

}  // namespace ramcloud
