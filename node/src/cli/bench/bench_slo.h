// ramcloud bench --slo: finds the highest rate at which a percentile of the latency stays within a
// bound.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "cli/bench/bench_run.h"

namespace ramcloud::cli {

/// "p99.9=1ms".
struct Slo {
  std::string name;     // "p99.9"
  double quantile = 0;  // 0.999
  Duration bound{};

  std::string to_string() const;
};
/// INVALID_ARGUMENT says what is accepted.
Result<Slo> parse_slo(std::string_view text);

/// Chooses the rates to try. Doubles (or halves) the first rate until one rate keeps the bound and
/// a higher one misses it. Then takes the geometric mean of the two until they are 3 % apart. Then
/// tries the highest rate that kept the bound once again, and lowers it by 3 % until it keeps the
/// bound a second time.
class RateSearch {
 public:
  static constexpr double kPrecision = 1.03;
  static constexpr uint64_t kLowest = 1, kHighest = 100'000'000;

  explicit RateSearch(uint64_t first) : next_(first) {}
  /// Operations a second of the next trial; 0: the search is over.
  uint64_t next() const { return next_; }
  /// The outcome of that trial.
  void tried(bool kept);
  /// The highest rate that was kept twice; 0: none.
  uint64_t result() const { return result_; }

 private:
  uint64_t next_;
  uint64_t kept_ = 0;               // the highest rate that kept the bound
  uint64_t missed_ = kHighest + 1;  // the lowest rate that missed it
  bool confirming_ = false;
  uint64_t result_ = 0;
};

/// Searches on an existing, loaded table, and prints the search, the found rate and its
/// distribution (or JSON).
int bench_slo(Session& session, const BenchArguments& arguments, const Slo& slo, uint64_t table_id);

}  // namespace ramcloud::cli
