// The public API (include/ramcloud/ramcloud.h) over the core.
#include <bit>
#include <optional>
#include <type_traits>
#include <utility>

#include "client/blocking_client.h"
#include "ramcloud/ramcloud.h"

namespace ramcloud {
inline namespace v1 {
namespace {

constexpr bool same(ErrorCode mine, StatusCode theirs) {
  return static_cast<uint16_t>(mine) == static_cast<uint16_t>(theirs);
}
static_assert(same(ErrorCode::kNotFound, StatusCode::kNotFound));
static_assert(same(ErrorCode::kExists, StatusCode::kExists));
static_assert(same(ErrorCode::kWrongVersion, StatusCode::kWrongVersion));
static_assert(same(ErrorCode::kInvalidArgument, StatusCode::kInvalidArgument));
static_assert(same(ErrorCode::kOutOfMemory, StatusCode::kOutOfMemory));
static_assert(same(ErrorCode::kUnavailable, StatusCode::kUnavailable));
static_assert(same(ErrorCode::kDeadlineExceeded, StatusCode::kDeadlineExceeded));
static_assert(same(ErrorCode::kIndeterminate, StatusCode::kIndeterminate));
static_assert(same(ErrorCode::kCancelled, StatusCode::kCancelled));
static_assert(same(ErrorCode::kWrongCluster, StatusCode::kWrongCluster));
static_assert(same(ErrorCode::kUnsupported, StatusCode::kUnsupported));
static_assert(same(ErrorCode::kProtocolError, StatusCode::kProtocolError));
static_assert(same(ErrorCode::kCorrupt, StatusCode::kCorrupt));
static_assert(same(ErrorCode::kNoSpace, StatusCode::kNoSpace));
static_assert(same(ErrorCode::kIoError, StatusCode::kIoError));
static_assert(same(ErrorCode::kInternal, StatusCode::kInternal));

std::unexpected<Error> error(const Status& status) {
  return std::unexpected<Error>(Error{static_cast<ErrorCode>(status.code()), status.message()});
}

Result<wire::RejectRules> rules_of(const Conditions& conditions) {
  wire::RejectRules rules{};
  if (conditions.if_absent_fail) rules.flags |= wire::RejectRules::kIfAbsent;
  if (conditions.if_exists_fail) rules.flags |= wire::RejectRules::kIfExists;
  if (conditions.only_version != 0 && conditions.only_newer_than != 0) {
    return fail(StatusCode::kInvalidArgument,
                "conditions: only_version and only_newer_than are both set; accepted is one");
  }
  if (conditions.only_version != 0) {
    rules.flags |= wire::RejectRules::kIfVersionNotEqual;
    rules.version = conditions.only_version;
  }
  if (conditions.only_newer_than != 0) {
    rules.flags |= wire::RejectRules::kIfVersionAtMost;
    rules.version = conditions.only_newer_than;
  }
  return rules;
}

Timeout timeout_of(const CallOptions& options) {
  return options.timeout ? Timeout(*options.timeout) : Timeout();
}

// ---- one coroutine an operation, from the core's terms to the API's. They own what they need.

Task<Expected<Object>> do_read(ClientCore& core, uint64_t table_id, std::string key,
                               Conditions conditions, Timeout timeout) {
  const auto rules = rules_of(conditions);
  if (!rules) co_return error(rules.error());
  auto found = co_await core.read(table_id, key, *rules, timeout);
  if (!found) co_return error(found.error());
  co_return Object{std::move(key), std::move(found->value), found->version};
}

Task<Expected<uint64_t>> version_of(Task<Result<uint64_t>> task) {
  auto version = co_await std::move(task);
  if (!version) co_return error(version.error());
  co_return *version;
}

Task<Expected<uint64_t>> refused(Status status) {
  co_return error(status);
}

Task<Expected<uint64_t>> do_write(ClientCore& core, uint64_t table_id, std::string_view key,
                                  std::string_view value, const Conditions& conditions,
                                  Timeout timeout) {
  const auto rules = rules_of(conditions);
  if (!rules) return refused(rules.error());
  return version_of(core.write(table_id, key, value, *rules, timeout));
}

Task<Expected<uint64_t>> do_remove(ClientCore& core, uint64_t table_id, std::string_view key,
                                   const Conditions& conditions, Timeout timeout) {
  const auto rules = rules_of(conditions);
  if (!rules) return refused(rules.error());
  return version_of(core.remove(table_id, key, *rules, timeout));
}

template <typename N>
Task<Expected<Sum<N>>> do_increment(ClientCore& core, uint64_t table_id, std::string key, N delta,
                                    Conditions conditions, Timeout timeout) {
  const auto rules = rules_of(conditions);
  if (!rules) co_return error(rules.error());
  constexpr auto type =
      std::is_same_v<N, double> ? wire::NumberType::kDouble : wire::NumberType::kInt64;
  auto sum =
      co_await core.increment(table_id, key, type, std::bit_cast<uint64_t>(delta), *rules, timeout);
  if (!sum) co_return error(sum.error());
  co_return Sum<N>{std::bit_cast<N>(sum->bits), sum->version};
}

/// The operations with valid conditions; for the others, the error at their place.
struct Prepared {
  std::vector<MultiOperation> operations;
  std::vector<std::optional<Status>> refused;  // by place; none: the next one in `operations`
};
template <typename M>
Prepared prepare(std::vector<M> items) {
  Prepared prepared;
  for (M& item : items) {
    const auto rules = rules_of(item.conditions);
    prepared.refused.push_back(rules ? std::nullopt : std::optional(rules.error()));
    if (!rules) continue;
    MultiOperation operation{item.table_id, std::move(item.key), {}, *rules};
    if constexpr (std::is_same_v<M, MultiObject>) operation.value = std::move(item.value);
    prepared.operations.push_back(std::move(operation));
  }
  return prepared;
}

/// The outcomes in the order of the items: f(index in operations) for those that were executed.
template <typename T, typename F>
std::vector<Expected<T>> in_order(const Prepared& prepared, F&& f) {
  std::vector<Expected<T>> all;
  size_t done = 0;
  for (const auto& status : prepared.refused) {
    if (status) {
      all.push_back(error(*status));
    } else {
      all.push_back(f(done++));
    }
  }
  return all;
}

Task<Expected<std::vector<Expected<Object>>>> do_multi_read(ClientCore& core,
                                                            std::vector<MultiKey> keys,
                                                            Timeout timeout) {
  Prepared prepared = prepare(std::move(keys));
  auto found = co_await core.multi_read(prepared.operations, timeout);
  co_return in_order<Object>(prepared, [&](size_t i) -> Expected<Object> {
    if (!found[i]) return error(found[i].error());
    return Object{std::move(prepared.operations[i].key), std::move(found[i]->value),
                  found[i]->version};
  });
}

template <typename M>
Task<Expected<std::vector<Expected<uint64_t>>>> do_multi_change(ClientCore& core,
                                                                std::vector<M> items,
                                                                Timeout timeout) {
  Prepared prepared = prepare(std::move(items));
  ClientCore::Versions versions;
  if constexpr (std::is_same_v<M, MultiObject>) {
    versions = co_await core.multi_write(std::move(prepared.operations), timeout);
  } else {
    versions = co_await core.multi_remove(std::move(prepared.operations), timeout);
  }
  co_return in_order<uint64_t>(prepared, [&](size_t i) -> Expected<uint64_t> {
    if (!versions[i]) return error(versions[i].error());
    return *versions[i];
  });
}

Table table_of(wire::TableInfo info) {
  Table table{info.table_id, std::move(info.name), {}};
  table.tablets.reserve(info.tablets.size());
  for (wire::TabletInfo& tablet : info.tablets) {
    table.tablets.push_back({tablet.start_hash, tablet.end_hash, tablet.server_id,
                             tablet.state != wire::TabletState::kUnavailable,
                             std::move(tablet.locator)});
  }
  return table;
}

}  // namespace

std::string Error::name() const {
  return status_name(static_cast<StatusCode>(code));
}

std::string Error::to_string() const {
  return Status(static_cast<StatusCode>(code), message).to_string();
}

// ---- calls ------------------------------------------------------------------------------------

template <typename T>
struct Call<T>::State {
  explicit State(std::shared_ptr<BlockingClient> c)
      : client(std::move(c)), scope(client->reactor()) {}
  static Task<void> keep(Task<Expected<T>> task, std::optional<Expected<T>>& result) {
    result.emplace(co_await std::move(task));
  }
  std::shared_ptr<BlockingClient> client;
  std::optional<Expected<T>> result;
  Task<void> unstarted;
  TaskScope scope;  // last member: its task uses the others
};

template <typename T>
Call<T>::Call(std::shared_ptr<State> state) : state_(std::move(state)) {}
template <typename T>
Call<T>::Call(Call&&) noexcept = default;
template <typename T>
Call<T>& Call<T>::operator=(Call&&) noexcept = default;
template <typename T>
Call<T>::~Call() = default;

template <typename T>
bool Call<T>::done() {
  if (!state_->result) state_->client->reactor().run_ready();
  return state_->result.has_value();
}

template <typename T>
Expected<T> Call<T>::get() {
  state_->client->reactor().run_until([this] { return state_->result.has_value(); });
  return std::move(*state_->result);
}

template <typename T>
void Call<T>::cancel() {
  if (state_->result) return;
  state_->scope.cancel_all();
  state_->unstarted = {};
  state_->result = error({StatusCode::kCancelled, "cancelled by the caller"});
}

template class Call<Object>;
template class Call<uint64_t>;
template class Call<Sum<int64_t>>;
template class Call<Sum<double>>;
template class Call<std::vector<Expected<Object>>>;
template class Call<std::vector<Expected<uint64_t>>>;

struct Client::Impl {
  explicit Impl(BlockingClient::Options options)
      : client(std::make_shared<BlockingClient>(std::move(options))), blocking(*client) {}

  template <typename T>
  Call<T> start(Task<Expected<T>> task) {
    auto state = std::make_shared<typename Call<T>::State>(client);
    state->unstarted = Call<T>::State::keep(std::move(task), state->result);
    // Deferred to a turn, because the reactor's time may be that of its last turn.
    blocking.reactor().defer([weak = std::weak_ptr(state)] {
      const auto alive = weak.lock();
      if (alive && alive->unstarted.valid()) alive->scope.spawn(std::move(alive->unstarted));
    });
    return Call<T>(std::move(state));
  }

  std::shared_ptr<BlockingClient> client;  // shared with calls that outlive the Client
  BlockingClient& blocking;
};

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Expected<Client> Client::connect(std::string_view cluster) {
  return connect(cluster, Options{});
}

Expected<Client> Client::connect(std::string_view cluster, Options options) {
  auto coordinators = parse_cluster(cluster);
  if (!coordinators) return error(coordinators.error());
  return Client(std::make_unique<Impl>(BlockingClient::Options{
      .coordinators = std::move(*coordinators),
      .timeout = options.timeout,
      .poll_for = options.poll,
  }));
}

Expected<Table> Client::create_table(std::string_view name, uint32_t span) {
  auto& blocking = impl_->blocking;
  auto table = blocking.run(blocking.core().create_table(std::string(name), span));
  if (!table) return error(table.error());
  return table_of(std::move(*table));
}

Expected<Table> Client::open_table(std::string_view name) {
  auto& blocking = impl_->blocking;
  auto table = blocking.run(blocking.core().open_table(std::string(name)));
  if (!table) return error(table.error());
  return table_of(std::move(*table));
}

Expected<std::vector<Table>> Client::list_tables() {
  auto& blocking = impl_->blocking;
  auto list = blocking.run(blocking.core().list_tables());
  if (!list) return error(list.error());
  std::vector<Table> tables;
  for (auto& info : *list) tables.push_back(table_of(std::move(info)));
  return tables;
}

Expected<void> Client::drop_table(std::string_view name) {
  auto& blocking = impl_->blocking;
  const Status status = blocking.run(blocking.core().drop_table(std::string(name)));
  if (!status.ok()) return error(status);
  return {};
}

// ---- objects ------------------------------------------------------------------------------------

Call<Object> Client::read_async(uint64_t table_id, std::string_view key,
                                const Conditions& conditions, const CallOptions& options) {
  return impl_->start(
      do_read(impl_->blocking.core(), table_id, std::string(key), conditions, timeout_of(options)));
}

Call<uint64_t> Client::write_async(uint64_t table_id, std::string_view key, std::string_view value,
                                   const Conditions& conditions, const CallOptions& options) {
  return impl_->start(
      do_write(impl_->blocking.core(), table_id, key, value, conditions, timeout_of(options)));
}

Call<uint64_t> Client::remove_async(uint64_t table_id, std::string_view key,
                                    const Conditions& conditions, const CallOptions& options) {
  return impl_->start(
      do_remove(impl_->blocking.core(), table_id, key, conditions, timeout_of(options)));
}

Call<Sum<int64_t>> Client::increment_async(uint64_t table_id, std::string_view key, int64_t delta,
                                           const Conditions& conditions,
                                           const CallOptions& options) {
  return impl_->start(do_increment(impl_->blocking.core(), table_id, std::string(key), delta,
                                   conditions, timeout_of(options)));
}

Call<Sum<double>> Client::increment_double_async(uint64_t table_id, std::string_view key,
                                                 double delta, const Conditions& conditions,
                                                 const CallOptions& options) {
  return impl_->start(do_increment(impl_->blocking.core(), table_id, std::string(key), delta,
                                   conditions, timeout_of(options)));
}

Call<std::vector<Expected<Object>>> Client::multi_read_async(std::vector<MultiKey> keys,
                                                             const CallOptions& options) {
  return impl_->start(do_multi_read(impl_->blocking.core(), std::move(keys), timeout_of(options)));
}

Call<std::vector<Expected<uint64_t>>> Client::multi_write_async(std::vector<MultiObject> objects,
                                                                const CallOptions& options) {
  return impl_->start(
      do_multi_change(impl_->blocking.core(), std::move(objects), timeout_of(options)));
}

Call<std::vector<Expected<uint64_t>>> Client::multi_remove_async(std::vector<MultiKey> keys,
                                                                 const CallOptions& options) {
  return impl_->start(
      do_multi_change(impl_->blocking.core(), std::move(keys), timeout_of(options)));
}

Expected<Object> Client::read(uint64_t table_id, std::string_view key, const Conditions& conditions,
                              const CallOptions& options) {
  return read_async(table_id, key, conditions, options).get();
}

Expected<uint64_t> Client::write(uint64_t table_id, std::string_view key, std::string_view value,
                                 const Conditions& conditions, const CallOptions& options) {
  return write_async(table_id, key, value, conditions, options).get();
}

Expected<uint64_t> Client::remove(uint64_t table_id, std::string_view key,
                                  const Conditions& conditions, const CallOptions& options) {
  return remove_async(table_id, key, conditions, options).get();
}

Expected<Sum<int64_t>> Client::increment(uint64_t table_id, std::string_view key, int64_t delta,
                                         const Conditions& conditions, const CallOptions& options) {
  return increment_async(table_id, key, delta, conditions, options).get();
}

Expected<Sum<double>> Client::increment_double(uint64_t table_id, std::string_view key,
                                               double delta, const Conditions& conditions,
                                               const CallOptions& options) {
  return increment_double_async(table_id, key, delta, conditions, options).get();
}

std::vector<Expected<Object>> Client::multi_read(std::vector<MultiKey> keys,
                                                 const CallOptions& options) {
  return *multi_read_async(std::move(keys), options).get();
}

std::vector<Expected<uint64_t>> Client::multi_write(std::vector<MultiObject> objects,
                                                    const CallOptions& options) {
  return *multi_write_async(std::move(objects), options).get();
}

std::vector<Expected<uint64_t>> Client::multi_remove(std::vector<MultiKey> keys,
                                                     const CallOptions& options) {
  return *multi_remove_async(std::move(keys), options).get();
}

std::chrono::microseconds Client::poll() {
  return std::chrono::ceil<std::chrono::microseconds>(impl_->blocking.reactor().run_ready());
}

int Client::event_fd() const {
  return impl_->blocking.descriptor();
}

// ---- scan ---------------------------------------------------------------------------------------

struct Scan::Impl {
  BlockingClient& blocking;
  uint64_t table_id;
  bool keys_only;
  Timeout timeout{};
  ClientCore::ScanPosition position{};
  ScanPage page{};
  Object object{};
};

Scan::Scan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scan::Scan(Scan&&) noexcept = default;
Scan& Scan::operator=(Scan&&) noexcept = default;
Scan::~Scan() = default;

Scan Client::scan(uint64_t table_id, bool keys_only, const CallOptions& options) {
  return Scan(
      std::make_unique<Scan::Impl>(impl_->blocking, table_id, keys_only, timeout_of(options)));
}

Expected<const Object*> Scan::next() {
  std::optional<ScannedObject> found;
  while (!(found = impl_->page.next())) {
    if (impl_->position.done) return nullptr;
    auto page = impl_->blocking.run(
        impl_->blocking.core().scan_page(impl_->table_id, impl_->position, impl_->keys_only,
                                         ClientCore::kPageBytes, impl_->timeout));
    if (!page) return error(page.error());
    impl_->page = std::move(*page);
  }
  impl_->object = {std::string(found->key), std::string(found->value), found->version};
  return &impl_->object;
}

}  // namespace v1
}  // namespace ramcloud
