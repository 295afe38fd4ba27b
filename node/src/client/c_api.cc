// The C interface (include/ramcloud/ramcloud_c.h) over the core: every operation is a task of the
// client's reactor that leaves its results in a call.
#include <fmt/core.h>

#include <bit>
#include <cstring>
#include <deque>
#include <list>
#include <optional>
#include <utility>

#include "client/blocking_client.h"
#include "ramcloud/ramcloud_c.h"

using namespace ramcloud;

namespace {

struct Work;

/// A client, and its finished calls that ramcloud_next_done() has not returned.
struct NativeClient : BlockingClient {
  using BlockingClient::BlockingClient;
  std::list<Work*> done;
};
using SharedClient = std::shared_ptr<NativeClient>;

ramcloud_result empty_result() {
  ramcloud_result result{};
  result.message = "";
  return result;
}

/// The state of a call's task; owned by the call.
struct Work {
  explicit Work(SharedClient c) : client(std::move(c)), scope(client->reactor()) {}
  ~Work() { given(); }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  void finish() {
    done = true;
    place = client->done.insert(client->done.end(), this);
  }
  /// ramcloud_next_done() must not return it any more.
  void given() {
    if (place) client->done.erase(*place);
    place.reset();
  }

  /// Keeps bytes during the lifetime of the call.
  const std::string& keep(std::string bytes) { return kept.emplace_back(std::move(bytes)); }
  void add_error(const Status& status) {
    ramcloud_result result = empty_result();
    result.status = static_cast<int>(status.code());
    result.message = keep(status.message()).c_str();
    results.push_back(result);
  }
  ramcloud_result& add() { return results.emplace_back(empty_result()); }
  void add_version(const Result<uint64_t>& version) {
    if (!version) return add_error(version.error());
    add().version = *version;
  }
  void add_object(Result<ReadResult> found) {
    if (!found) return add_error(found.error());
    const std::string& value = keep(std::move(found->value));
    ramcloud_result& result = add();
    result.version = found->version;
    result.value = value.data();
    result.value_size = value.size();
  }
  void add_table(const wire::TableInfo& table) {
    const std::string& name = keep(table.name);
    ramcloud_result& result = add();
    result.table_id = table.table_id;
    result.key = name.data();
    result.key_size = name.size();
  }
  void add_table(const Result<wire::TableInfo>& table) {
    if (!table) return add_error(table.error());
    add_table(*table);
  }

  SharedClient client;
  bool done = false;
  std::optional<std::list<Work*>::iterator> place;  // its place in the client's list of finished
                                                    // calls
  ramcloud_call* call = nullptr;                    // the call that owns this
  std::deque<std::string> kept;
  std::vector<ramcloud_result> results;
  Task<void> unstarted;
  TaskScope scope;  // last member: its task uses the others
};

Timeout timeout_of(int64_t timeout_ms) {
  if (timeout_ms == 0) return {};
  return timeout_ms < 0 ? Duration::zero() : Duration(std::chrono::milliseconds(timeout_ms));
}

/// INVALID_ARGUMENT if this library does not support the options. Fields of a later header must be
/// 0, which means the same as their absence.
Status check_options(const ramcloud_options* options) {
  constexpr size_t kFirst = sizeof(size_t) + 2 * sizeof(int64_t);  // of ABI version 2
  constexpr size_t kMost = 1024;  // larger values are not sizes: nothing after them may be read
  static_assert(sizeof(ramcloud_options) >= kFirst && sizeof(ramcloud_options) <= kMost);
  if (options == nullptr) return {};
  if (options->size < kFirst || options->size > kMost) {
    return {StatusCode::kInvalidArgument,
            fmt::format("options.size is {}; accepted are {} to {} (RAMCLOUD_OPTIONS_INIT sets it)",
                        options->size, kFirst, kMost)};
  }
  const auto* bytes = reinterpret_cast<const char*>(options);
  for (size_t i = sizeof *options; i < options->size; ++i) {
    if (bytes[i] == 0) continue;
    return {StatusCode::kInvalidArgument,
            fmt::format("options: byte {} of {} is set; this library knows {}, accepted is 0 in "
                        "those behind them",
                        i, options->size, sizeof *options)};
  }
  return {};
}

wire::RejectRules rules_of(const ramcloud_conditions* conditions) {
  if (conditions == nullptr) return {};
  return {conditions->flags, 0, conditions->version};
}

ByteView view(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

// ---- the tasks ----------------------------------------------------------------------------------

Task<void> finish_version(Work& work, Task<Result<uint64_t>> task) {
  work.add_version(co_await std::move(task));
  work.finish();
}

Task<void> finish_read(Work& work, Task<Result<ReadResult>> task) {
  work.add_object(co_await std::move(task));
  work.finish();
}

Task<void> finish_sum(Work& work, bool is_double, Task<Result<Incremented>> task) {
  const auto sum = co_await std::move(task);
  if (!sum) {
    work.add_error(sum.error());
  } else {
    ramcloud_result& result = work.add();
    result.version = sum->version;
    if (is_double) result.number = std::bit_cast<double>(sum->bits);
    if (!is_double) result.integer = static_cast<int64_t>(sum->bits);
  }
  work.finish();
}

Task<void> finish_table(Work& work, Task<Result<wire::TableInfo>> task) {
  work.add_table(co_await std::move(task));
  work.finish();
}

Task<void> finish_drop(Work& work, Task<Status> task) {
  const Status status = co_await std::move(task);
  if (status.ok()) work.add();
  if (!status.ok()) work.add_error(status);
  work.finish();
}

Task<void> finish_list(Work& work, Task<Result<std::vector<wire::TableInfo>>> task) {
  const auto tables = co_await std::move(task);
  if (!tables) {
    work.add_error(tables.error());
  } else {
    for (const wire::TableInfo& table : *tables) work.add_table(table);
  }
  work.finish();
}

Task<void> finish_reads(Work& work, Task<ClientCore::Reads> task) {
  auto reads = co_await std::move(task);
  for (auto& found : reads) work.add_object(std::move(found));
  work.finish();
}

Task<void> finish_versions(Work& work, Task<ClientCore::Versions> task) {
  const auto versions = co_await std::move(task);
  for (const auto& version : versions) work.add_version(version);
  work.finish();
}

void add_page(Work& work, ScanPage page, bool keys_only) {
  while (const auto object = page.next()) {
    const std::string& key = work.keep(std::string(object->key));
    const std::string& value = work.keep(std::string(object->value));
    ramcloud_result& result = work.add();
    result.version = object->version;
    result.key = key.data();
    result.key_size = key.size();
    result.value = keys_only ? nullptr : value.data();
    result.value_size = value.size();
  }
}

}  // namespace

struct ramcloud_client {
  SharedClient client;
};

struct ramcloud_call {
  std::shared_ptr<Work> work;
  ramcloud_result none = empty_result();  // the result of ramcloud_wait() without results
};

struct ramcloud_scan {
  SharedClient client;
  uint64_t table_id = 0;
  bool keys_only = false;
  // Shared with the page request in flight, which may outlive the scan.
  std::shared_ptr<ClientCore::ScanPosition> position = std::make_shared<ClientCore::ScanPosition>();
};

namespace {

/// `make` creates the task of the work.
template <typename Make>
ramcloud_call* start(const SharedClient& client, Make&& make) {
  auto work = std::make_shared<Work>(client);
  work->unstarted = make(*work, client->core());
  // Deferred to a turn, because the reactor's time may be that of its last turn.
  client->reactor().defer([weak = std::weak_ptr(work)] {
    const auto alive = weak.lock();
    if (alive && alive->unstarted.valid()) alive->scope.spawn(std::move(alive->unstarted));
  });
  auto* call = new ramcloud_call{.work = std::move(work)};
  call->work->call = call;
  return call;
}

std::vector<MultiOperation> operations_of(const ramcloud_operation* operations, size_t count) {
  std::vector<MultiOperation> all;
  all.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const ramcloud_operation& o = operations[i];
    all.push_back({o.table_id, std::string(view(o.key, o.key_size)),
                   std::string(view(o.value, o.value_size)), rules_of(&o.conditions)});
  }
  return all;
}

Task<void> next_page(Work& work, ClientCore& core, uint64_t table_id, bool keys_only,
                     std::shared_ptr<ClientCore::ScanPosition> position, Timeout timeout) {
  while (work.results.empty() && !position->done) {
    auto page =
        co_await core.scan_page(table_id, *position, keys_only, ClientCore::kPageBytes, timeout);
    if (!page) {
      work.add_error(page.error());
    } else {
      add_page(work, std::move(*page), keys_only);
    }
  }
  work.finish();
}

ramcloud_call* increment(ramcloud_client* client, uint64_t table_id, ByteView key, bool is_double,
                         uint64_t delta, const ramcloud_conditions* conditions,
                         int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    const auto type = is_double ? wire::NumberType::kDouble : wire::NumberType::kInt64;
    return finish_sum(
        work, is_double,
        core.increment(table_id, key, type, delta, rules_of(conditions), timeout_of(timeout_ms)));
  });
}

}  // namespace

extern "C" {

uint32_t ramcloud_abi_version(void) {
  return RAMCLOUD_ABI_VERSION;
}

const char* ramcloud_status_name(int status) {
  constexpr int kCodes = 64;
  static const auto names = [] {
    std::vector<std::string> all;
    for (int i = 0; i < kCodes; ++i) all.push_back(status_name(static_cast<StatusCode>(i)));
    return all;
  }();
  return status < 0 || status >= kCodes ? "UNKNOWN" : names[static_cast<size_t>(status)].c_str();
}

ramcloud_client* ramcloud_connect(const char* cluster, const ramcloud_options* options,
                                  char* message, size_t message_size) {
  auto coordinators = parse_cluster(cluster);
  const Status status = coordinators ? check_options(options) : coordinators.error();
  if (!status.ok()) {
    if (message != nullptr && message_size > 0) {
      const std::string& text = status.message();
      const size_t size = std::min(message_size - 1, text.size());
      std::memcpy(message, text.data(), size);
      message[size] = '\0';
    }
    return nullptr;
  }
  BlockingClient::Options chosen{.coordinators = std::move(*coordinators)};
  if (options != nullptr) {
    chosen.timeout = timeout_of(options->timeout_ms).value_or(chosen.timeout);
    chosen.poll_for = std::chrono::microseconds(options->poll_us);
  }
  return new ramcloud_client{std::make_shared<NativeClient>(std::move(chosen))};
}

void ramcloud_close(ramcloud_client* client) {
  delete client;
}

int ramcloud_event_fd(const ramcloud_client* client) {
  return client->client->descriptor();
}

int64_t ramcloud_poll(ramcloud_client* client) {
  return std::chrono::ceil<std::chrono::microseconds>(client->client->reactor().run_ready())
      .count();
}

int ramcloud_done(const ramcloud_call* call) {
  return call->work->done ? 1 : 0;
}

ramcloud_call* ramcloud_next_done(ramcloud_client* client) {
  if (client->client->done.empty()) return nullptr;
  Work& work = *client->client->done.front();
  work.given();
  return work.call;
}

const ramcloud_result* ramcloud_wait(ramcloud_call* call) {
  Work& work = *call->work;
  work.client->reactor().run_until([&work] { return work.done; });
  return work.results.empty() ? &call->none : &work.results.front();
}

size_t ramcloud_count(const ramcloud_call* call) {
  return call->work->done ? call->work->results.size() : 0;
}

const ramcloud_result* ramcloud_at(const ramcloud_call* call, size_t index) {
  return &call->work->results[index];
}

void ramcloud_cancel(ramcloud_call* call) {
  Work& work = *call->work;
  if (work.done) return;
  work.scope.cancel_all();
  work.unstarted = {};
  work.results.clear();
  work.add_error({StatusCode::kCancelled, "cancelled by the caller"});
  work.finish();
}

void ramcloud_free(ramcloud_call* call) {
  delete call;
}

ramcloud_call* ramcloud_create_table(ramcloud_client* client, const char* name, size_t name_size,
                                     uint32_t span, int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_table(
        work, core.create_table(std::string(name, name_size), span, timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_open_table(ramcloud_client* client, const char* name, size_t name_size,
                                   int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_table(work,
                        core.open_table(std::string(name, name_size), timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_drop_table(ramcloud_client* client, const char* name, size_t name_size,
                                   int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_drop(work, core.drop_table(std::string(name, name_size), timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_list_tables(ramcloud_client* client, int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_list(work, core.list_tables(timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_read(ramcloud_client* client, uint64_t table_id, const void* key,
                             size_t key_size, const ramcloud_conditions* conditions,
                             int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_read(work, core.read(table_id, view(key, key_size), rules_of(conditions),
                                       timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_write(ramcloud_client* client, uint64_t table_id, const void* key,
                              size_t key_size, const void* value, size_t value_size,
                              const ramcloud_conditions* conditions, int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_version(work, core.write(table_id, view(key, key_size), view(value, value_size),
                                           rules_of(conditions), timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_remove(ramcloud_client* client, uint64_t table_id, const void* key,
                               size_t key_size, const ramcloud_conditions* conditions,
                               int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_version(work, core.remove(table_id, view(key, key_size), rules_of(conditions),
                                            timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_increment(ramcloud_client* client, uint64_t table_id, const void* key,
                                  size_t key_size, int64_t delta,
                                  const ramcloud_conditions* conditions, int64_t timeout_ms) {
  return increment(client, table_id, view(key, key_size), false, static_cast<uint64_t>(delta),
                   conditions, timeout_ms);
}

ramcloud_call* ramcloud_increment_double(ramcloud_client* client, uint64_t table_id,
                                         const void* key, size_t key_size, double delta,
                                         const ramcloud_conditions* conditions,
                                         int64_t timeout_ms) {
  return increment(client, table_id, view(key, key_size), true, std::bit_cast<uint64_t>(delta),
                   conditions, timeout_ms);
}

ramcloud_call* ramcloud_multi_read(ramcloud_client* client, const ramcloud_operation* operations,
                                   size_t count, int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_reads(work,
                        core.multi_read(operations_of(operations, count), timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_multi_write(ramcloud_client* client, const ramcloud_operation* operations,
                                    size_t count, int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_versions(
        work, core.multi_write(operations_of(operations, count), timeout_of(timeout_ms)));
  });
}

ramcloud_call* ramcloud_multi_remove(ramcloud_client* client, const ramcloud_operation* operations,
                                     size_t count, int64_t timeout_ms) {
  return start(client->client, [&](Work& work, ClientCore& core) {
    return finish_versions(
        work, core.multi_remove(operations_of(operations, count), timeout_of(timeout_ms)));
  });
}

ramcloud_scan* ramcloud_scan_begin(ramcloud_client* client, uint64_t table_id, int keys_only) {
  return new ramcloud_scan{
      .client = client->client, .table_id = table_id, .keys_only = keys_only != 0};
}

ramcloud_call* ramcloud_scan_next(ramcloud_scan* scan, int64_t timeout_ms) {
  return start(scan->client, [&](Work& work, ClientCore& core) {
    return next_page(work, core, scan->table_id, scan->keys_only, scan->position,
                     timeout_of(timeout_ms));
  });
}

void ramcloud_scan_end(ramcloud_scan* scan) {
  delete scan;
}

}  // extern "C"
