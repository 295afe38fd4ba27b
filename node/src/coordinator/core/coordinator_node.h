// A coordinator without its process: it leads, or is a standby that names the leader. `ramcloudd
// coordinator` runs it on TCP and etcd or SQLite; simulation runs the same code on virtual ones.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/core/coordinator.h"

namespace ramcloud {

/// Called when this coordinator begins and ends to lead. On the reactor.
class LeadershipListener {
 public:
  virtual ~LeadershipListener() = default;
  virtual void on_leading(Coordinator& coordinator) = 0;
  /// The Coordinator object is destroyed after this call and must not be used any more. `why` is
  /// NOT_LEADER and names the leader if it is known.
  virtual void on_leadership_lost(const Status& why) = 0;
};

class CoordinatorNode final : public RequestHandler {
 public:
  /// The arguments outlive the node. `on_fatal` is called at most once, from a later turn: this
  /// coordinator can never lead (the error is that of Coordinator::start()), and its process must
  /// end.
  CoordinatorNode(RpcClient& rpc, Transport& transport, MetadataStore& store,
                  MetricsRegistry& metrics, Coordinator::Options options,
                  std::function<void(Status)> on_fatal);
  ~CoordinatorNode() override;

  /// How others reach this coordinator; before start().
  void set_addresses(LeaderRecord self);
  void set_listener(LeadershipListener* listener) { listener_ = listener; }
  /// Starts to campaign for the leadership.
  void start();
  /// Resigns, so that another coordinator may lead at once; then calls `done`.
  void shut_down(std::function<void()> done);

  // The functions below run on the reactor, unless marked "any thread".
  Reactor& reactor() { return reactor_; }
  /// The coordinator while it leads and is ready, else null.
  Coordinator* leading();
  /// The answer of a standby: NOT_LEADER with the leader's address for callers of `side`.
  Status redirect(Side side) const;
  /// The address of the leader's admin API; empty if it is not known.
  std::string leader_admin_address(Side side) const;
  /// A standby that has not reached the metadata store for this long does not know who leads,
  /// because the leader may have changed.
  static constexpr Duration kStoreSilence = 10s;
  /// True if it leads, or is a standby and knows the leader. Any thread.
  bool serves_or_redirects() const { return serves_or_redirects_; }
  /// Leads and is ready. Any thread.
  bool is_leading() const { return is_leading_; }

  void on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                  ByteView body) override;

 private:
  /// Empty if it is not known, or not reachable from that side.
  std::string leader_locator(Side side) const;
  Task<void> run();
  Task<Status> learn_cluster();
  Task<void> stand_by(Leadership leader);
  Task<Status> serve_as_leader(uint64_t leadership);
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
  std::optional<LeaderRecord> leader_;      // the leader that a standby knows
  std::optional<Time> store_silent_since_;  // none: the last request was answered
  bool knows_cluster_ = false;
  uint16_t format_ = kMetadataFormatMin;  // format of the leader's record
  Counter& elected_;
  Counter& lost_;
  Counter& redirected_;
  std::shared_ptr<std::atomic<bool>> leading_gauge_;  // shared with the metrics, which outlive us
  std::atomic<bool> serves_or_redirects_{false};
  std::atomic<bool> is_leading_{false};
  std::unique_ptr<ServiceRegistry> registry_;  // services of coordinator_
  std::unique_ptr<Coordinator> coordinator_;   // only while we lead
  Event deposed_;
  TaskScope scope_;
};

}  // namespace ramcloud
