// ramcloud bench --slo: the highest rate at which a percentile of the latency keeps a bound.
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

/// Which rates are tried: doubling (or halving) from the first until one rate was kept and a higher
/// one was not, then in the middle between the two, as ratios, until they are 3 % apart. Then the
/// highest that was kept once is tried again, and while it is not kept a second time, one 3 %
/// lower.
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
  uint64_t kept_ = 0;               // the highest of those
  uint64_t missed_ = kHighest + 1;  // the lowest
  bool confirming_ = false;
  uint64_t result_ = 0;
};

/// Searches on a table that is there and loaded, and prints the search, the rate and the
/// distribution at it (or JSON).
int bench_slo(Session& session, const BenchArguments& arguments, const Slo& slo, uint64_t table_id);

}  // namespace ramcloud::cli
