// What each policy makes the cleaner copy: bytes copied for each byte written, in a model of a log
// in which all objects have the same size and there are no tombstones. The choice is the cleaner's
// own (log/cleaning_order.h). As in a pass, survivors are sorted by the age of their objects.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/access.h"
#include "log/cleaning_order.h"
#include "log/format.h"

namespace ramcloud::log {
namespace {

struct Options {
  std::vector<double> utilisations = {80, 90};
  uint32_t segments = 1000;
  uint32_t objects = 512;  // of a segment
  uint32_t turns = 8;      // how often all objects are overwritten, on average
  uint64_t seed = 1;
};

class Model {
 public:
  Model(const Options& options, double utilisation, Access access, CleaningPolicy policy)
      : options_(options),
        segments_(options.segments),
        ages_(options.segments),
        order_(policy, options.segments),
        random_(options.seed) {
    const auto usable = static_cast<double>((options.segments - kReserve) * options.objects);
    objects_.resize(static_cast<size_t>(utilisation / 100 * usable));
    chooser_ = std::make_unique<AccessChooser>(access, objects_.size());
    for (uint32_t i = 0; i < options.segments; ++i) free_.push_back(i);
  }

  /// Bytes copied for each byte written, in the last quarter of the run.
  double run() {
    std::vector<uint32_t> all(objects_.size());
    std::iota(all.begin(), all.end(), 0);
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random_.below(i)]);
    for (const uint32_t object : all) write(object);
    const uint64_t writes = uint64_t{options_.turns} * objects_.size();
    uint64_t copied_before = 0;
    for (uint64_t i = 0; i < writes; ++i) {
      if (i == writes / 4 * 3) copied_before = copied_;
      write(static_cast<uint32_t>(chooser_->next(random_)));
    }
    return 4 * static_cast<double>(copied_ - copied_before) / static_cast<double>(writes);
  }

 private:
  static constexpr uint32_t kReserve = 12;  // free segments at which cleaning begins
  static constexpr uint32_t kNone = ~uint32_t{0};
  struct Object {
    uint32_t segment = kNone;
    uint32_t written = 0;
  };
  struct Segment {
    uint64_t id = 0;
    std::vector<uint32_t> objects;  // those that died are there, too
    uint32_t live = 0;
    bool closed = false;
  };

  void write(uint32_t object) {
    while (free_.size() < kReserve) clean();
    if (const uint32_t old = objects_[object].segment; old != kNone) {
      --segments_[old].live;
      if (segments_[old].closed) look_at(old);
    }
    objects_[object].written = ++now_;
    put(object, head_);
  }
  void put(uint32_t object, uint32_t& into) {
    if (into == kNone) {
      into = free_.front();
      free_.pop_front();
      segments_[into].id = ++newest_;
    }
    Segment& segment = segments_[into];
    segment.objects.push_back(object);
    ++segment.live;
    objects_[object].segment = into;
    if (segment.objects.size() == options_.objects) close(into);
  }
  void close(uint32_t& segment) {
    segments_[segment].closed = true;
    look_at(segment);
    segment = kNone;
  }
  /// An object that was overwritten while the segment was the head is in its list twice.
  std::vector<uint32_t> live_of(uint32_t number) {
    std::vector<uint32_t> live;
    for (const uint32_t object : segments_[number].objects) {
      if (objects_[object].segment == number) live.push_back(object);
    }
    std::ranges::sort(live);
    live.erase(std::unique(live.begin(), live.end()), live.end());
    return live;
  }
  void look_at(uint32_t number) {
    const Segment& segment = segments_[number];
    CleaningFigures figures{.memory_bytes = kSegmentBytes,
                            .live_bytes = static_cast<uint32_t>(uint64_t{kSegmentBytes} *
                                                                segment.live / options_.objects),
                            .segment_id = segment.id};
    // Ages need a walk through the segment, so they are computed for each sixteenth that dies.
    Ages& ages = ages_[number];
    if (ages.id != segment.id || ages.live > segment.live + options_.objects / 16) {
      ages = {.id = segment.id, .live = segment.live};
      uint64_t sum = 0;
      const std::vector<uint32_t> live = live_of(number);
      for (const uint32_t object : live) {
        sum += objects_[object].written;
        ages.youngest = std::max(ages.youngest, objects_[object].written);
      }
      ages.average = live.empty() ? now_ : static_cast<uint32_t>(sum / live.size());
    }
    figures.average_s = ages.average;
    figures.youngest_s = ages.youngest;
    order_.set(number, figures);
  }
  void clean() {
    const auto victims = order_.take({.segment_id = newest_, .unix_s = now_},
                                     {.memory_bytes = uint64_t{8} * kSegmentBytes});
    std::vector<std::pair<uint32_t, uint32_t>> live;  // time, object
    for (const auto& victim : victims) {
      for (const uint32_t object : live_of(victim.segment)) {
        live.emplace_back(objects_[object].written, object);
      }
    }
    std::ranges::sort(live);
    uint32_t survivor = kNone;
    for (const auto& [written, object] : live) put(object, survivor);
    if (survivor != kNone) close(survivor);
    copied_ += live.size();
    for (const auto& victim : victims) {
      segments_[victim.segment] = {};
      free_.push_back(victim.segment);
    }
  }

  struct Ages {
    uint64_t id = 0;
    uint32_t live = 0, average = 0, youngest = 0;
  };
  const Options& options_;
  std::vector<Segment> segments_;
  std::vector<Ages> ages_;
  std::vector<Object> objects_;
  std::deque<uint32_t> free_;
  CleaningOrder order_;
  Random random_;
  std::unique_ptr<AccessChooser> chooser_;
  uint32_t head_ = kNone;
  uint32_t now_ = 0;
  uint64_t newest_ = 0, copied_ = 0;
};

int run(const Options& options) {
  constexpr std::pair<CleaningPolicy, const char*> kPolicies[] = {
      {CleaningPolicy::kCostBenefit, "cost-benefit"},
      {CleaningPolicy::kObjectAge, "object-age"},
      {CleaningPolicy::kGreedy, "greedy"},
      {CleaningPolicy::kLfs, "lfs"}};
  for (const double utilisation : options.utilisations) {
    for (size_t access = 0; access < std::size(kAccessNames); ++access) {
      fmt::print("{:3} % {:12}", utilisation, kAccessNames[access]);
      for (const auto& [policy, name] : kPolicies) {
        Model model(options, utilisation, static_cast<Access>(access), policy);
        fmt::print("  {} {:5.2f}", name, model.run());
        std::fflush(stdout);
      }
      fmt::print("\n");
    }
  }
  return 0;
}

}  // namespace
}  // namespace ramcloud::log

int main(int argc, char** argv) {
  ramcloud::log::Options options;
  CLI::App app("What each policy makes the cleaner copy, in a model.", "cleaning_cost");
  app.add_option("--utilisation", options.utilisations, "percent of the memory")
      ->check(CLI::Range(1.0, 95.0))
      ->delimiter(',');
  app.add_option("--segments", options.segments, "of the log")->check(CLI::Range(100u, 100'000u));
  app.add_option("--objects", options.objects, "of a segment")->check(CLI::Range(16u, 100'000u));
  app.add_option("--turns", options.turns, "how often all is overwritten, on average")
      ->check(CLI::Range(1u, 1'000u));
  app.add_option("--seed", options.seed, "of what is drawn");
  CLI11_PARSE(app, argc, argv);
  return ramcloud::log::run(options);
}
