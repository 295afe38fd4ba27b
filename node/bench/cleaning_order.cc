// What a choice of segments to clean costs, with as many segments as a log of --segments has
// (log/cleaning_order.h): figures that change, and passes that take some, beside a search through
// all of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "base/random.h"
#include "log/cleaning_order.h"
#include "log/format.h"

namespace ramcloud::log {
namespace {

constexpr uint64_t kNewest = 1'000'000;  // id of a segment

struct Options {
  uint32_t segments = 100'000;
  uint32_t rounds = 1'000;
  uint32_t taken = 8;  // by a pass
  bool json = false;
};

CleaningFigures draw(Random& random) {
  return {.memory_bytes = kSegmentBytes,
          .live_bytes = static_cast<uint32_t>(random.below(kSegmentBytes)),
          .segment_id = kNewest - random.below(kNewest)};
}

template <typename F>
double ns_each(uint32_t times, F&& f) {
  const auto start = std::chrono::steady_clock::now();
  for (uint32_t i = 0; i < times; ++i) f(i);
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / times;
}

int run(const Options& options) {
  Random random(1);
  CleaningOrder order(CleaningPolicy::kCostBenefit, options.segments);
  std::vector<CleaningFigures> all(options.segments);
  for (uint32_t i = 0; i < options.segments; ++i) order.set(i, all[i] = draw(random));
  const double set = ns_each(options.rounds * 100, [&](uint32_t) {
    const auto segment = static_cast<uint32_t>(random.below(options.segments));
    order.set(segment, all[segment] = draw(random));
  });
  const double take = ns_each(options.rounds, [&](uint32_t i) {
    const auto taken = order.take({.segment_id = kNewest + i},
                                  {.memory_bytes = uint64_t{options.taken} * kSegmentBytes});
    for (const auto& chosen : taken) order.set(chosen.segment, chosen.figures);
  });
  double highest = 0;
  const double naive = ns_each(std::max(options.rounds / 100, 1u), [&](uint32_t i) {
    for (const CleaningFigures& f : all) {
      if (!f.worth_cleaning()) continue;
      highest = std::max(
          highest, cleaning_score(CleaningPolicy::kCostBenefit, f, {.segment_id = kNewest + i}));
    }
  });
  if (options.json) {
    fmt::print(
        "{{\"segments\": {}, \"set_ns\": {:.0f}, \"take_ns\": {:.0f}, \"naive_ns\": {:.0f}}}\n",
        options.segments, set, take, naive);
  } else {
    fmt::print(
        "{} segments: figures change {:.0f} ns, a pass takes {} in {:.0f} ns; one search "
        "through all {:.0f} ns (best score {:.0f})\n",
        options.segments, set, options.taken, take, naive, highest);
  }
  return 0;
}

}  // namespace
}  // namespace ramcloud::log

int main(int argc, char** argv) {
  ramcloud::log::Options options;
  CLI::App app("What a choice of segments to clean costs.", "cleaning_order");
  app.add_option("--segments", options.segments, "of the log")->check(CLI::Range(1u, 10'000'000u));
  app.add_option("--rounds", options.rounds, "passes that are timed")
      ->check(CLI::Range(1u, 1'000'000u));
  app.add_option("--taken", options.taken, "segments a pass takes")->check(CLI::Range(1u, 1'000u));
  app.add_flag("--json", options.json, "figures as JSON");
  CLI11_PARSE(app, argc, argv);
  return ramcloud::log::run(options);
}
