#include "cli/bench/bench_run.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "runtime/when_all.h"

namespace ramcloud::cli {
namespace {

/// Key number i: its digits, padded with zeros to the key size.
std::string key_of(const BenchArguments& arguments, uint64_t i) {
  return fmt::format("{:0{}}", i, arguments.key_size);
}

}  // namespace

uint32_t default_clients(const BenchArguments& arguments) {
  constexpr uint32_t kOfASearch = 64;
  return arguments.slo.empty() ? arguments.connections
                               : std::max(arguments.connections, kOfASearch);
}

BenchRun::BenchRun(Session& session, const BenchArguments& arguments, uint64_t table_id)
    : core_(session.core()),
      clock_(session.clock),
      arguments_(arguments),
      table_id_(table_id),
      value_(arguments.size, 'v'),
      chooser_(arguments.distribution, arguments.keys, arguments.theta) {
  for (uint32_t i = 1; i < arguments.connections; ++i) {
    more_.push_back(session.client().another_core());
  }
}

double BenchRun::seconds() const {
  return std::max(std::chrono::duration<double>(last_done_ - measure_from_).count(), 1e-9);
}

Task<Status> BenchRun::load() {
  constexpr uint32_t kLoaders = 8;
  std::vector<Task<void>> loaders;
  for (uint32_t i = 0; i < kLoaders; ++i) loaders.push_back(load_some());
  co_await when_all(std::move(loaders));
  co_return status_;
}

Task<void> BenchRun::load_some() {
  constexpr uint64_t kBatch = 256;
  while (status_.ok() && loaded_ < arguments_.keys) {
    std::vector<MultiOperation> batch;
    for (; batch.size() < kBatch && loaded_ < arguments_.keys; ++loaded_) {
      batch.push_back({table_id_, key_of(arguments_, loaded_), value_});
    }
    for (auto& version : co_await core_.multi_write(std::move(batch))) {
      if (!version) status_ = std::move(version.error());
    }
  }
}

Task<Status> BenchRun::measure() {
  std::vector<Task<void>> greetings;
  for (const auto& core : more_) greetings.push_back(greet(*core));
  co_await when_all(std::move(greetings));
  if (!status_.ok()) co_return status_;
  measure_from_ = clock_.now() + parse_duration(arguments_.warm_up).value();
  end_ = arguments_.ops > 0 ? kNever : measure_from_ + parse_duration(arguments_.duration).value();
  next_arrival_ = clock_.now();
  std::vector<Task<void>> clients;
  for (uint32_t i = 0; i < arguments_.clients; ++i) {
    clients.push_back(client(core_of(i % arguments_.connections)));
  }
  co_await when_all(std::move(clients));
  co_return status_;
}

/// Gets the map and connects before the measurement.
Task<void> BenchRun::greet(ClientCore& core) {
  auto found = co_await core.read(table_id_, key_of(arguments_, 0));
  if (!found && found.error() != StatusCode::kNotFound) status_ = std::move(found.error());
}

void BenchRun::give_up_above(Duration bound, double share) {
  const double seconds =
      std::chrono::duration<double>(parse_duration(arguments_.duration).value()).count();
  const double planned = arguments_.ops > 0 ? static_cast<double>(arguments_.ops)
                                            : static_cast<double>(arguments_.rate) * seconds;
  bound_ns_ = static_cast<uint64_t>(bound.count());
  most_misses_ = static_cast<uint64_t>(planned * share) + 1;
}

Task<void> BenchRun::client(ClientCore& core) {
  while (status_.ok() && !gave_up_) {
    Time begin = clock_.now();
    if (arguments_.rate > 0) {
      begin = next_arrival_;
      next_arrival_ += Duration(1'000'000'000 / static_cast<int64_t>(arguments_.rate));
    }
    // Decided before it sleeps, so that it does not wait for an operation that will not count.
    const bool counts = begin >= measure_from_;
    if (begin >= end_ || (arguments_.ops > 0 && counts && started_ >= arguments_.ops)) co_return;
    if (counts) ++started_;
    // A sleep is relative to the reactor's time, which may be behind the clock.
    const Duration early = begin - core_.reactor().now();
    if (arguments_.rate > 0 && early > Duration::zero()) {
      co_await core_.reactor().sleep(early);
      if (gave_up_) co_return;
    }
    Status done = co_await operate(core, arguments_.workload->next(core_.reactor().random()));
    if (!done.ok()) status_ = std::move(done);
    if (!counts) continue;
    record(begin);
    objects_ += arguments_.workload->batched() ? arguments_.batch : 1;
  }
}

Task<Status> BenchRun::write(ClientCore& core, uint64_t key) {
  auto version = co_await core.write(table_id_, key_of(arguments_, key), value_);
  co_return version ? Status() : std::move(version.error());
}

Task<Status> BenchRun::operate(ClientCore& core, workload::Operation operation) {
  using enum workload::Operation;
  Random& random = core_.reactor().random();
  if (operation == kMultiRead || operation == kMultiWrite) {
    co_return co_await multi(core, operation == kMultiWrite);
  }
  if (operation == kInsert) co_return co_await write(core, chooser_.insert());
  const uint64_t key = chooser_.next(random);
  if (operation == kUpdate) co_return co_await write(core, key);
  auto found = co_await core.read(table_id_, key_of(arguments_, key));
  if (!found) {
    // A key that another client is inserting may not exist yet: NOT_FOUND is a valid answer.
    const bool inserts = arguments_.distribution == workload::Distribution::kLatest;
    if (found.error() != StatusCode::kNotFound || !inserts) co_return std::move(found.error());
  }
  co_return operation == kModify ? co_await write(core, key) : Status();
}

Task<Status> BenchRun::multi(ClientCore& core, bool writes) {
  std::vector<MultiOperation> batch;
  batch.reserve(arguments_.batch);
  for (uint32_t i = 0; i < arguments_.batch; ++i) {
    const uint64_t key = chooser_.next(core_.reactor().random());
    batch.push_back({table_id_, key_of(arguments_, key), writes ? value_ : std::string()});
  }
  if (writes) {
    for (auto& version : co_await core.multi_write(std::move(batch))) {
      if (!version) co_return std::move(version.error());
    }
  } else {
    for (auto& found : co_await core.multi_read(std::move(batch))) {
      if (!found) co_return std::move(found.error());
    }
  }
  co_return Status();
}

void BenchRun::record(Time begin) {
  last_done_ = clock_.now();
  const auto ns = static_cast<uint64_t>((last_done_ - begin).count());
  latencies_.record(ns);
  slowest_ns_ = std::max(slowest_ns_, ns);
  if (ns > bound_ns_ && ++misses_ > most_misses_) gave_up_ = true;
}

}  // namespace ramcloud::cli
