#include "coordinator/core/coordinator_node.h"

#include <fmt/format.h>

#include "base/logging.h"

namespace ramcloud {
namespace {
constexpr Duration kRetry = 200ms;
constexpr uint32_t kRetryAfterUs = 50'000;
}  // namespace

CoordinatorNode::CoordinatorNode(RpcClient& rpc, Transport& transport, MetadataStore& store,
                                 MetricsRegistry& metrics, Coordinator::Options options,
                                 std::function<void(Status)> on_fatal)
    : reactor_(rpc.reactor()),
      rpc_(rpc),
      transport_(transport),
      store_(store),
      metrics_(metrics),
      options_(std::move(options)),
      on_fatal_(std::move(on_fatal)),
      elected_(metrics.counter("ramcloud_coordinator_elected_total",
                               "Times that this coordinator became the leader")),
      lost_(metrics.counter("ramcloud_coordinator_leadership_lost_total",
                            "Times that this coordinator lost its leadership unasked")),
      redirected_(metrics.counter("ramcloud_coordinator_redirected_total",
                                  "Calls that were told to ask the leader")),
      leading_gauge_(std::make_shared<std::atomic<bool>>(false)),
      deposed_(reactor_),
      scope_(reactor_) {
  metrics.gauge("ramcloud_coordinator_leading", "1 while this coordinator leads, 0 on standby",
                [leading = leading_gauge_] { return *leading ? 1.0 : 0.0; });
  store_.on_lost([this] { deposed_.set(); });
}

CoordinatorNode::~CoordinatorNode() {
  store_.on_lost(nullptr);
  if (coordinator_ != nullptr && listener_ != nullptr) {
    listener_->on_leadership_lost({StatusCode::kNotLeader, "the coordinator is stopping"});
  }
  *leading_gauge_ = false;
}

void CoordinatorNode::set_addresses(LeaderRecord self) {
  options_.admin_address = self.admin_address;
  options_.admin_address_outside = self.admin_address_outside;
  self_ = std::move(self);
}

void CoordinatorNode::start() {
  scope_.spawn(run());
}

// ---- electing -----------------------------------------------------------------------------------

Task<void> CoordinatorNode::run() {
  for (;;) {
    Status known = co_await learn_cluster();
    if (!known.ok()) {
      note_store(false);
    } else {
      auto leader = co_await store_.campaign(encode_record(self_, format_));
      note_store(leader.has_value());
      const uint64_t leadership = store_.leading();  // read once: it may end a moment later
      if (!leader) {
        known = std::move(leader.error());
      } else if (leadership != 0) {
        known = co_await serve_as_leader(leadership);
      } else {
        co_await stand_by(std::move(*leader));
      }
    }
    if (known == StatusCode::kInvalidArgument || known == StatusCode::kUnsupported ||
        known == StatusCode::kCorrupt || known == StatusCode::kInternal) {
      co_await store_.resign();
      reactor_.defer([this, known = std::move(known)] { on_fatal_(known); });
      co_return;
    }
    if (!known.ok()) log_warn("leadership.not_acquired", {{"error", known}});
    if (!known.ok()) co_await reactor_.sleep(kRetry);
  }
}

/// Checks before the first campaign that the store belongs to our cluster, and learns its uuid, for
/// which connecting clients ask.
Task<Status> CoordinatorNode::learn_cluster() {
  if (knows_cluster_) co_return StatusCode::kOk;
  const auto records = co_await store_.load(kClusterKey);
  if (!records) co_return records.error();
  const auto found = records->find(kClusterKey);
  if (found == records->end())
    co_return StatusCode::kOk;  // a new store: the leader will create
                                // the cluster
  const auto cluster = read_cluster_record(found->second, options_.cluster_name);
  if (!cluster) co_return cluster.error();
  transport_.set_identity({cluster->uuid, 0});
  format_ = cluster->format;
  knows_cluster_ = true;
  co_return StatusCode::kOk;
}

/// Follows a leader; returns when the leader may have changed.
Task<void> CoordinatorNode::stand_by(Leadership leader) {
  LeaderRecord record;
  const bool decoded = decode_record(leader.record, record);
  if (decoded && (!leader_ || leader_->locator != record.locator)) {
    log_info("leadership.standing_by", {{"leader", record.locator}, {"leadership", leader.number}});
  }
  leader_ = decoded ? std::optional(std::move(record)) : std::nullopt;
  show();
  if (knows_cluster_) {
    co_await store_.wait_for_change(leader.number);
  } else {
    co_await reactor_.sleep(kRetry);  // the leader is creating the cluster
  }
}

/// Leads until the leadership is lost. Errors as Coordinator::start().
Task<Status> CoordinatorNode::serve_as_leader(uint64_t leadership) {
  deposed_.reset();
  leader_.reset();
  show();
  registry_ = std::make_unique<ServiceRegistry>(transport_);
  coordinator_ = std::make_unique<Coordinator>(rpc_, *registry_, store_, metrics_, options_);
  coordinator_->on_fenced([this] { deposed_.set(); });
  log_info("leadership.elected", {{"leadership", leadership}, {"address", self_.locator}});
  Status started = co_await coordinator_->start(leadership);
  if (started.ok()) {
    knows_cluster_ = true;
    elected_.add();
    if (listener_ != nullptr) listener_->on_leading(*coordinator_);
    show();
    if (store_.leading() == leadership) co_await deposed_;
    lost_.add();
    log_warn("leadership.lost", {{"leadership", leadership}});
  }
  end_leadership();
  co_return started == StatusCode::kNotLeader ? Status() : started;
}

void CoordinatorNode::end_leadership() {
  if (coordinator_ == nullptr) return;
  const Status why = redirect(Side::kInside);
  if (listener_ != nullptr) listener_->on_leadership_lost(why);
  coordinator_->abandon(why);
  coordinator_.reset();
  registry_.reset();
  show();
}

void CoordinatorNode::shut_down(std::function<void()> done) {
  scope_.cancel_all();
  end_leadership();
  serves_or_redirects_ = false;
  scope_.spawn(give_up(std::move(done)));
}

Task<void> CoordinatorNode::give_up(std::function<void()> done) {
  co_await store_.resign();
  done();
}

/// Redirects still name the last known leader, because only this coordinator may be cut off. Only
/// readiness ends.
void CoordinatorNode::note_store(bool answers) {
  if (answers) {
    store_silent_since_.reset();
  } else if (!store_silent_since_) {
    store_silent_since_ = reactor_.now();
  }
  show();
}

void CoordinatorNode::show() {
  is_leading_ = coordinator_ != nullptr && coordinator_->ready();
  *leading_gauge_ = is_leading_.load();
  const bool silent = store_silent_since_ && reactor_.now() - *store_silent_since_ >= kStoreSilence;
  serves_or_redirects_ = is_leading_ || (leader_ && !silent);
}

// ---- answering ----------------------------------------------------------------------------------

Coordinator* CoordinatorNode::leading() {
  return coordinator_ != nullptr && coordinator_->ready() ? coordinator_.get() : nullptr;
}

std::string CoordinatorNode::leader_locator(Side side) const {
  if (!leader_) return {};
  return side == Side::kOutside ? leader_->locator_outside : leader_->locator;
}

Status CoordinatorNode::redirect(Side side) const {
  const std::string locator = leader_locator(side);
  if (locator.empty()) {
    return {StatusCode::kNotLeader,
            "this coordinator is not the leader, and knows of no leader that the caller can reach"};
  }
  return {StatusCode::kNotLeader,
          fmt::format("this coordinator is a standby; the leader is {}", locator)};
}

std::string CoordinatorNode::leader_admin_address(Side side) const {
  if (!leader_) return {};
  return side == Side::kOutside ? leader_->admin_address_outside : leader_->admin_address;
}

void CoordinatorNode::on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                                 ByteView body) {
  if (coordinator_ != nullptr) return registry_->on_request(handle, header, body);
  wire::ErrorDetails details;
  if (!leader_ || leader_locator(handle.side).empty()) details.retry_after_us = kRetryAfterUs;
  if (!leader_) {
    return reply_error(transport_, handle,
                       {StatusCode::kRetry, "the coordinators are electing a leader"},
                       kRetryAfterUs, details);
  }
  redirected_.add();
  (handle.side == Side::kOutside ? details.leader_outside : details.leader) =
      leader_locator(handle.side);
  reply_error(transport_, handle, redirect(handle.side), 0, details);
}

}  // namespace ramcloud
