// The public API (include/ramcloud/ramcloud.h) over the core.
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
static_assert(same(ErrorCode::kWrongCluster, StatusCode::kWrongCluster));
static_assert(same(ErrorCode::kUnsupported, StatusCode::kUnsupported));
static_assert(same(ErrorCode::kProtocolError, StatusCode::kProtocolError));
static_assert(same(ErrorCode::kNoSpace, StatusCode::kNoSpace));
static_assert(same(ErrorCode::kIoError, StatusCode::kIoError));
static_assert(same(ErrorCode::kInternal, StatusCode::kInternal));

std::unexpected<Error> error(const Status& status) {
  return std::unexpected<Error>(Error{static_cast<ErrorCode>(status.code()), status.message()});
}

wire::RejectRules rules_of(const Conditions& conditions, Status& refused) {
  wire::RejectRules rules{};
  if (conditions.if_absent_fail) rules.flags |= wire::RejectRules::kIfAbsent;
  if (conditions.if_exists_fail) rules.flags |= wire::RejectRules::kIfExists;
  if (conditions.only_version != 0) {
    rules.flags |= wire::RejectRules::kIfVersionNotEqual;
    rules.version = conditions.only_version;
  }
  if (conditions.only_newer_than != 0) {
    if (conditions.only_version != 0) {
      refused =
          Status(StatusCode::kInvalidArgument,
                 "conditions: only_version and only_newer_than are both set; accepted is one");
    }
    rules.flags |= wire::RejectRules::kIfVersionAtMost;
    rules.version = conditions.only_newer_than;
  }
  return rules;
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

struct Client::Impl {
  explicit Impl(BlockingClient::Options options) : blocking(std::move(options)) {}
  BlockingClient blocking;
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

Expected<Object> Client::read(uint64_t table_id, std::string_view key,
                              const Conditions& conditions) {
  Status refused;
  const wire::RejectRules rules = rules_of(conditions, refused);
  if (!refused.ok()) return error(refused);
  auto& blocking = impl_->blocking;
  auto found = blocking.run(blocking.core().read(table_id, key, rules));
  if (!found) return error(found.error());
  return Object{std::string(key), std::move(found->value), found->version};
}

Expected<uint64_t> Client::write(uint64_t table_id, std::string_view key, std::string_view value,
                                 const Conditions& conditions) {
  Status refused;
  const wire::RejectRules rules = rules_of(conditions, refused);
  if (!refused.ok()) return error(refused);
  auto& blocking = impl_->blocking;
  auto version = blocking.run(blocking.core().write(table_id, key, value, rules));
  if (!version) return error(version.error());
  return *version;
}

Expected<uint64_t> Client::remove(uint64_t table_id, std::string_view key,
                                  const Conditions& conditions) {
  Status refused;
  const wire::RejectRules rules = rules_of(conditions, refused);
  if (!refused.ok()) return error(refused);
  auto& blocking = impl_->blocking;
  auto version = blocking.run(blocking.core().remove(table_id, key, rules));
  if (!version) return error(version.error());
  return *version;
}

// ---- scan ---------------------------------------------------------------------------------------

struct Scan::Impl {
  BlockingClient& blocking;
  uint64_t table_id;
  bool keys_only;
  ClientCore::ScanPosition position{};
  ScanPage page{};
  Object object{};
};

Scan::Scan(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scan::Scan(Scan&&) noexcept = default;
Scan& Scan::operator=(Scan&&) noexcept = default;
Scan::~Scan() = default;

Scan Client::scan(uint64_t table_id, bool keys_only) {
  return Scan(std::make_unique<Scan::Impl>(impl_->blocking, table_id, keys_only));
}

Expected<const Object*> Scan::next() {
  ScannedObject found;
  while (!impl_->page.next(found)) {
    if (impl_->position.done) return nullptr;
    auto page = impl_->blocking.run(
        impl_->blocking.core().scan_page(impl_->table_id, impl_->position, impl_->keys_only));
    if (!page) return error(page.error());
    impl_->page = std::move(*page);
  }
  impl_->object = {std::string(found.key), std::string(found.value), found.version};
  return &impl_->object;
}

}  // namespace v1
}  // namespace ramcloud
