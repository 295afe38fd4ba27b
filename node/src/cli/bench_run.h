// One run of a benchmark: so many clients, in one thread, each with one operation under way at a
// time.
#pragma once

#include <string>
#include <vector>

#include "base/metrics.h"
#include "cli/session.h"
#include "workload/key_chooser.h"
#include "workload/mix.h"

namespace ramcloud::cli {

struct BenchArguments {
  const workload::Workload* workload = nullptr;
  uint32_t clients = 1;
  uint32_t batch = 80;  // keys of one multi-operation
  uint32_t size = 100;
  uint32_t key_size = 30;
  uint64_t keys = 10'000;
  workload::Distribution distribution = workload::Distribution::kUniform;
  double theta = 0.99;
  std::string duration = "10s";
  std::string warm_up = "1s";
  uint64_t ops = 0;  // not 0: so many instead of a duration
  uint64_t rate =
      0;  // not 0: operations that arrive in a second, whether earlier ones are done or not
  std::string table;
  uint32_t span = 1;
  bool json = false;
  std::string histogram_file, plot_file;  // empty: none
};

class BenchRun {
 public:
  BenchRun(Session& session, const BenchArguments& arguments, uint64_t table_id);

  /// Writes every key once, so that reads find something and overwrites overwrite.
  Task<Status> load();
  /// Runs until the duration or the operations of the arguments are over. A failed operation ends
  /// it.
  Task<Status> measure();

  /// Of each operation; with a rate, from when it was to begin, so that waiting behind slow ones
  /// counts (no coordinated omission).
  const Histogram& latencies() const { return latencies_; }
  uint64_t slowest_ns() const { return slowest_ns_; }
  /// Objects read or written: more than operations with batches.
  uint64_t objects() const { return objects_; }
  double seconds() const;

 private:
  Task<void> load_some();
  Task<void> client();
  Task<Status> operate(workload::Operation operation);
  Task<Status> write(uint64_t key);
  Task<Status> multi(bool writes);
  void record(Time begin);

  ClientCore& core_;
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
};

}  // namespace ramcloud::cli
