// One run of a benchmark: a number of clients in one thread, each with one operation in flight,
// over one or more connections to each server.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "cli/session.h"
#include "workload/key_chooser.h"
#include "workload/mix.h"

namespace ramcloud::cli {

struct BenchArguments {
  const workload::Workload* workload = nullptr;
  uint32_t clients = 0;  // 0: resolved_clients()
  uint32_t connections = 1;
  uint32_t batch = 80;  // keys in one multi-operation
  uint32_t size = 100;
  uint32_t key_size = 30;
  uint64_t keys = 10'000;
  workload::Distribution distribution = workload::Distribution::kUniform;
  double theta = 0.99;
  std::string duration = "10s";
  std::string warm_up = "1s";
  uint64_t ops = 0;  // not 0: the number of operations, instead of a duration
  /// Not 0: open loop; this many operations begin in a second, even if earlier ones are not done.
  uint64_t rate = 0;
  std::string table;
  uint32_t span = 1;
  std::string slo;  // empty: no search; see bench_slo.h
  bool json = false;
  std::string histogram_file, plot_file;  // empty: none
};

/// The default of --clients: one for each connection; with --slo so many that operations rarely
/// wait for a client.
uint32_t default_clients(const BenchArguments& arguments);

class BenchRun {
 public:
  /// `arguments.clients` is not 0, and at least the connections.
  BenchRun(Session& session, const BenchArguments& arguments, uint64_t table_id);

  /// Writes every key once, so that reads and overwrites find an object.
  Task<Status> load();
  /// Runs for the duration or the number of operations of the arguments. A failed operation ends
  /// the run.
  Task<Status> measure();
  /// Call it before measure(): ends the run as soon as more than `share` of all planned operations
  /// took longer than `bound`, because the rest cannot change that result.
  void give_up_above(Duration bound, double share);
  bool gave_up() const { return gave_up_; }

  /// The latency of each operation; with a rate, measured from its planned start, so that waiting
  /// for slow operations counts (no coordinated omission).
  const Histogram& latencies() const { return latencies_; }
  uint64_t slowest_ns() const { return slowest_ns_; }
  /// Objects read or written: more than operations with batches.
  uint64_t objects() const { return objects_; }
  double seconds() const;

 private:
  Task<void> load_some();
  Task<void> client(ClientCore& core);
  Task<void> greet(ClientCore& core);
  Task<Status> operate(ClientCore& core, workload::Operation operation);
  Task<Status> write(ClientCore& core, uint64_t key);
  Task<Status> multi(ClientCore& core, bool writes);
  void record(Time begin);
  ClientCore& core_of(uint32_t connection) {
    return connection == 0 ? core_ : *more_[connection - 1];
  }

  ClientCore& core_;
  std::vector<std::unique_ptr<ClientCore>> more_;  // each with its own connections
  const Clock& clock_;
  const BenchArguments& arguments_;
  const uint64_t table_id_;
  const std::string value_;
  workload::KeyChooser chooser_;
  uint64_t loaded_ = 0, started_ = 0, objects_ = 0;
  Time measure_from_{}, end_{}, last_done_{};
  Time next_arrival_{};
  Status status_;
  Histogram latencies_;
  uint64_t slowest_ns_ = 0;
  uint64_t bound_ns_ = ~uint64_t{0}, misses_ = 0, most_misses_ = ~uint64_t{0};
  bool gave_up_ = false;
};

}  // namespace ramcloud::cli
