#include "coordinator/metadata/etcd_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/logging.h"
#include "coordinator/metadata/etcd_client.h"
#include "runtime/async_mutex.h"

namespace ramcloud {
namespace pb = etcdserverpb;
namespace {

constexpr Duration kRetry = 100ms;
const char* const kLeaderKey = "/leader";

/// The first key after all keys with this prefix. Precondition: the prefix is not empty and not all
/// 0xff.
std::string end_of_prefix(std::string prefix) {
  while (static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  ++prefix.back();
  return prefix;
}

/// Reads a small file. A folder, and a file without an end such as /dev/zero, are errors as well.
Result<std::string> read_file(const char* what, const std::string& path) {
  constexpr size_t kMostBytes = 1u << 20;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(kMostBytes + 1, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(file.gcount()));
  if (!file.is_open() || file.bad() || bytes.empty() || bytes.size() > kMostBytes) {
    return fail(StatusCode::kIoError,
                fmt::format("{} '{}' of the etcd store cannot be read or is empty", what, path));
  }
  return bytes;
}

Result<std::shared_ptr<grpc::ChannelCredentials>> credentials_of(const EtcdOptions& options) {
  if (!options.tls()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions ssl;
  const std::tuple<const char*, const std::string&, std::string&> files[] = {
      {"ca", options.ca, ssl.pem_root_certs},
      {"cert", options.cert, ssl.pem_cert_chain},
      {"key", options.key, ssl.pem_private_key}};
  for (const auto& [what, path, target] : files) {
    if (path.empty()) continue;
    auto bytes = read_file(what, path);
    if (!bytes) return fail(std::move(bytes.error()));
    target = std::move(*bytes);
  }
  return grpc::SslCredentials(ssl);
}

}  // namespace

struct EtcdMetadata::Impl {
  Reactor& reactor;
  const EtcdOptions options;
  EtcdClient client;
  AsyncMutex order;   // of transactions
  int64_t lease = 0;  // our lease, or that of a campaign with unknown outcome; 0: none
  uint64_t leading = 0;
  Time leading_until{};  // by our own lease_now(); not later than the lease in etcd
  Timer lease_timer;
  TaskScope scope;  // renewals

  Impl(Reactor& r, EtcdOptions o, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
       std::function<void()> on_lease_end)
      : reactor(r),
        options(std::move(o)),
        client(r, options, credentials),
        order(r),
        lease_timer(r, std::move(on_lease_end)),
        scope(r) {}

  std::string key_of(std::string_view key) const { return options.prefix + std::string(key); }
  std::string leader_key() const { return key_of(kLeaderKey); }
  int64_t lease_seconds() const {
    return std::max<int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options.lease).count());
  }
  /// A tenth shorter than the lease, because clocks run at slightly different rates.
  void hold_until(Time asked_at, int64_t seconds) {
    leading_until = asked_at + Duration(std::chrono::seconds(seconds)) * 9 / 10;
    lease_timer.start_after(leading_until - lease_now());
  }
  Time lease_now() const { return reactor.clock().lease_now(); }
  bool holds() const { return lease_now() < leading_until; }

  struct Seen {
    Leadership leader;
    int64_t revision = 0;  // of the whole store
  };
  pb::TxnRequest request_of(const MetadataTransaction& transaction) const;
  Task<Result<Seen>> read_leader();
  Task<Result<Leadership>> take(std::string record, Time asked_at);
  Task<void> revoke(int64_t id);
};

Result<std::unique_ptr<EtcdMetadata>> EtcdMetadata::open(Reactor& reactor, EtcdOptions options) {
  auto credentials = credentials_of(options);
  if (!credentials) return fail(std::move(credentials.error()));
  std::unique_ptr<EtcdMetadata> store(new EtcdMetadata(nullptr));
  store->impl_ = std::make_unique<Impl>(reactor, std::move(options), *credentials,
                                        [self = store.get()] { self->lose(); });
  return store;
}

EtcdMetadata::EtcdMetadata(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EtcdMetadata::~EtcdMetadata() = default;

// ---- records ------------------------------------------------------------------------------------

Task<Result<MetadataStore::Records>> EtcdMetadata::load(std::string prefix) {
  if (prefix.empty()) prefix = "/";
  pb::RangeRequest request;
  request.set_key(impl_->key_of(prefix));
  request.set_range_end(end_of_prefix(impl_->key_of(prefix)));
  request.set_limit(impl_->options.page);
  Records records;
  for (;;) {
    auto page = co_await impl_->client.range(request);
    if (!page) co_return fail(std::move(page.error()));
    for (const auto& kv : page->kvs()) {
      const std::string key = kv.key().substr(impl_->options.prefix.size());
      if (key != kLeaderKey) records.emplace(key, kv.value());
    }
    if (!page->more() || page->kvs().empty()) co_return records;
    // Read the next pages at the revision of the first one. Each page tells the present revision of
    // the store.
    if (request.revision() == 0) request.set_revision(page->header().revision());
    request.set_key(page->kvs().rbegin()->key() + '\0');
  }
}

pb::TxnRequest EtcdMetadata::Impl::request_of(const MetadataTransaction& transaction) const {
  pb::TxnRequest request;
  const auto created = [&](std::string key, int64_t revision) {
    auto* compare = request.add_compare();
    compare->set_target(pb::Compare::CREATE);
    compare->set_key(std::move(key));
    compare->set_create_revision(revision);
  };
  if (transaction.leadership) {
    created(leader_key(), static_cast<int64_t>(*transaction.leadership));
  }
  for (const auto& condition : transaction.conditions) {
    if (!condition.value) {
      created(key_of(condition.key), 0);
      continue;
    }
    auto* compare = request.add_compare();
    compare->set_target(pb::Compare::VALUE);
    compare->set_key(key_of(condition.key));
    compare->set_value(*condition.value);
  }
  for (const auto& [key, value] : transaction.puts) {
    auto* put = request.add_success()->mutable_request_put();
    put->set_key(key_of(key));
    put->set_value(value);
  }
  for (const auto& key : transaction.deletes) {
    request.add_success()->mutable_request_delete_range()->set_key(key_of(key));
  }
  return request;
}

Task<CommitResult> EtcdMetadata::commit(MetadataTransaction transaction) {
  // For etcd, 0 would mean that there is no leader key.
  if (transaction.leadership == 0) co_return CommitResult{CommitOutcome::kConditionFailed, {}};
  const AsyncMutex::Lock lock = co_await impl_->order.lock();
  auto response = co_await impl_->client.txn(impl_->request_of(transaction));
  if (!response) co_return CommitResult{CommitOutcome::kUnknown, response.error().message()};
  co_return CommitResult{
      response->succeeded() ? CommitOutcome::kCommitted : CommitOutcome::kConditionFailed, {}};
}

// ---- leading ------------------------------------------------------------------------------------

uint64_t EtcdMetadata::leading() const {
  return impl_->holds() ? impl_->leading : 0;
}

Task<Result<EtcdMetadata::Impl::Seen>> EtcdMetadata::Impl::read_leader() {
  pb::RangeRequest request;
  request.set_key(leader_key());
  auto found = co_await client.range(std::move(request));
  if (!found) co_return fail(std::move(found.error()));
  Seen seen;
  seen.revision = found->header().revision();
  if (!found->kvs().empty()) {
    const auto& kv = found->kvs(0);
    seen.leader = {static_cast<uint64_t>(kv.create_revision()), kv.value()};
  }
  co_return seen;
}

/// Creates the leader key, tied to our lease, if there is none.
Task<Result<Leadership>> EtcdMetadata::Impl::take(std::string record, Time asked_at) {
  pb::TxnRequest request;
  auto* absent = request.add_compare();
  absent->set_target(pb::Compare::CREATE);
  absent->set_key(leader_key());
  absent->set_create_revision(0);
  auto* put = request.add_success()->mutable_request_put();
  put->set_key(leader_key());
  put->set_value(record);
  put->set_lease(lease);
  request.add_failure()->mutable_request_range()->set_key(leader_key());
  auto response = co_await client.txn(std::move(request));
  if (!response) co_return fail(std::move(response.error()));
  if (response->succeeded()) {
    leading = static_cast<uint64_t>(response->header().revision());
    hold_until(asked_at, lease_seconds());
    co_return Leadership{leading, std::move(record)};
  }
  if (response->responses().empty() || response->responses(0).response_range().kvs().empty()) {
    co_return fail(StatusCode::kUnavailable, "the leader went away meanwhile");
  }
  const auto& kv = response->responses(0).response_range().kvs(0);
  co_return Leadership{static_cast<uint64_t>(kv.create_revision()), kv.value()};
}

Task<Result<Leadership>> EtcdMetadata::campaign(std::string record) {
  Impl& me = *impl_;
  co_await resign();
  auto seen = co_await me.read_leader();
  if (!seen) co_return fail(std::move(seen.error()));
  if (seen->leader.number != 0) co_return std::move(seen->leader);
  const Time asked_at = me.lease_now();
  const auto granted = co_await me.client.grant(me.lease_seconds());
  if (!granted) co_return fail(granted.error());
  me.lease = granted->id();
  auto leader = co_await me.take(std::move(record), asked_at);
  if (me.leading != 0) {
    me.scope.spawn(renew_for_ever(me.leading));
  } else if (leader) {
    co_await me.revoke(std::exchange(me.lease, 0));
  }
  co_return leader;
}

Task<void> EtcdMetadata::renew_for_ever(uint64_t number) {
  Impl& me = *impl_;
  const Duration interval = Duration(std::chrono::seconds(me.lease_seconds())) / 3;
  while (me.leading == number) {
    const Time asked_at = me.lease_now();
    const auto left = co_await me.client.keep_alive(me.lease);
    if (me.leading != number) break;
    if (!me.holds()) co_return lose();  // the machine was suspended, and the timer was late
    if (!left) {
      log_warn("etcd.lease_not_renewed", {{"error", left.error()}});
      co_await me.reactor.sleep(kRetry);
      continue;
    }
    if (*left <= 0) co_return lose();
    me.hold_until(asked_at, *left);
    co_await me.reactor.sleep(interval);
  }
}

void EtcdMetadata::lose() {
  impl_->lease_timer.stop();
  if (std::exchange(impl_->leading, 0) != 0 && on_lost_) on_lost_();
}

/// A watch is silent while the key does not change, and also if its endpoint vanished. So the key
/// is read again once per lease: that call gets an answer, or the next call uses the next endpoint.
Task<void> EtcdMetadata::wait_for_change(uint64_t number) {
  for (;;) {
    const auto now = co_await impl_->read_leader();
    if (!now) break;
    if (now->leader.number != number || number == 0) co_return;
    const auto changed =
        co_await impl_->client.watch(impl_->leader_key(), now->revision + 1, impl_->options.lease);
    if (!changed) {
      log_debug("etcd.watch_broken", {{"error", changed.error()}});
      break;
    }
    if (*changed) co_return;
  }
  co_await impl_->reactor.sleep(kRetry);
}

Task<void> EtcdMetadata::Impl::revoke(int64_t id) {
  const auto done = co_await client.revoke(id);
  if (!done) log_debug("etcd.lease_abandoned", {{"error", done.error()}});
}

/// Also revokes the lease of a campaign with unknown outcome.
Task<void> EtcdMetadata::resign() {
  Impl& me = *impl_;
  me.lease_timer.stop();
  me.leading = 0;
  if (me.lease != 0) co_await me.revoke(std::exchange(me.lease, 0));
}

}  // namespace ramcloud
