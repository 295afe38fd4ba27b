#include "cli/bench/bench_slo.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <vector>

#include "base/text.h"
#include "cli/bench/bench_report.h"
#include "cli/formats/output.h"

namespace ramcloud::cli {
namespace {

/// Operations a second of the first trial, at least.
constexpr uint64_t kFirstRate = 1000;
/// The least number of operations that may miss the bound in a trial: with fewer, one slow
/// operation would decide.
constexpr double kFewestMisses = 10;

struct Trial {
  uint64_t rate = 0;
  bool kept = false;
  bool ended_early = false;
  double rate_done = 0;
  uint64_t at_percentile_ns = 0;
};

uint64_t first_rate(const BenchArguments& arguments, const Slo& slo) {
  if (arguments.ops > 0) return kFirstRate;
  const double seconds =
      std::chrono::duration<double>(parse_duration(arguments.duration).value()).count();
  const double wanted = kFewestMisses / (1 - slo.quantile) / std::max(seconds, 1e-3);
  return std::clamp(static_cast<uint64_t>(wanted), kFirstRate, RateSearch::kHighest);
}

Trial outcome(const BenchRun& run, const Slo& slo, uint64_t rate) {
  Trial trial;
  trial.rate = rate;
  trial.ended_early = run.gave_up();
  trial.rate_done = throughput(run);
  trial.at_percentile_ns = quantile(run, slo.quantile);
  trial.kept = !trial.ended_early && run.latencies().count() > 0 &&
               trial.at_percentile_ns <= static_cast<uint64_t>(slo.bound.count());
  return trial;
}

std::string outcome_text(const Trial& trial, const Slo& slo) {
  if (trial.kept) return "kept";
  return trial.ended_early ? fmt::format("missed, and ended: more than {:.2g} % took longer",
                                         (1 - slo.quantile) * 100)
                           : "missed";
}

void print_trial(Session& session, const Trial& trial, const Slo& slo) {
  session.out << fmt::format(
                     "  {:>12}/s  {} {:>9}  {}\n", with_thousands(trial.rate), slo.name,
                     format_duration(Duration(static_cast<int64_t>(trial.at_percentile_ns))),
                     outcome_text(trial, slo))
              << std::flush;
}

void print_cdf(Session& session, const BenchRun& run) {
  session.out << "latency at that rate, from when each operation was to begin:\n";
  std::vector<std::vector<std::string>> rows;
  for (const double q : {0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0}) {
    rows.push_back({fmt::format("{:g} %", q * 100),
                    format_duration(Duration(static_cast<int64_t>(quantile(run, q))))});
  }
  print_table(session.out, {"SHARE", "AT MOST"}, rows);
}

nlohmann::ordered_json json_of(const std::vector<Trial>& trials) {
  auto all = nlohmann::ordered_json::array();
  for (const Trial& trial : trials) {
    all.push_back({{"rate", trial.rate},
                   {"kept", trial.kept},
                   {"ended_early", trial.ended_early},
                   {"operations_per_second", trial.rate_done},
                   {"at_percentile_ns", trial.at_percentile_ns}});
  }
  return all;
}

void print_json(Session& session, const BenchArguments& arguments, const Slo& slo,
                const std::vector<Trial>& trials, uint64_t rate, const BenchRun* best) {
  nlohmann::ordered_json json = {
      {"slo", {{"percentile", slo.quantile * 100}, {"bound_ns", slo.bound.count()}}},
      {"rate", rate},
      {"trials", json_of(trials)}};
  if (best != nullptr) {
    BenchArguments at_rate = arguments;
    at_rate.rate = rate;
    json["result"] = bench_json(at_rate, *best);
  }
  session.out << json.dump() << '\n';
}

}  // namespace

std::string Slo::to_string() const {
  return name + " <= " + format_duration(bound);
}

Result<Slo> parse_slo(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return fail(
        StatusCode::kInvalidArgument,
        fmt::format("'{}': {}; accepted is pPERCENT=DURATION, for example p99.9=1ms", text, why));
  };
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || !text.starts_with('p')) {
    return bad("it is not a percentile and a bound");
  }
  const std::string_view number = text.substr(1, equals - 1);
  double percent = 0;
  const auto [end, code] = std::from_chars(number.begin(), number.end(), percent);
  if (code != std::errc() || end != number.end() || !(percent > 0 && percent < 100)) {
    return bad("the percentile is not a number between 0 and 100");
  }
  const auto bound = parse_duration(text.substr(equals + 1));
  if (!bound) return bad("the bound: " + bound.error().message());
  if (*bound <= Duration::zero()) return bad("the bound is zero");
  return Slo{std::string(text.substr(0, equals)), percent / 100, *bound};
}

void RateSearch::tried(bool kept) {
  const uint64_t rate = next_;
  const auto lower = [](uint64_t from) {
    return std::min(from - 1, static_cast<uint64_t>(static_cast<double>(from) / kPrecision));
  };
  if (confirming_) {
    if (kept) result_ = rate;
    next_ = kept ? 0 : lower(rate);
    return;
  }
  (kept ? kept_ : missed_) = rate;
  if (!kept && kept_ == 0) {
    next_ = rate / 2;  // 0 below the lowest: none is kept
  } else if (missed_ > kHighest && kept_ < kHighest) {
    next_ = std::min(kept_ * 2, kHighest);
  } else if (const auto low = static_cast<double>(kept_), high = static_cast<double>(missed_);
             high <= low * kPrecision || missed_ - kept_ <= 1) {
    confirming_ = true;
    next_ = kept_;
  } else {
    next_ = std::clamp(static_cast<uint64_t>(std::sqrt(low * high)), kept_ + 1, missed_ - 1);
  }
}

int bench_slo(Session& session, const BenchArguments& arguments, const Slo& slo,
              uint64_t table_id) {
  const bool json = arguments.json || session.json();
  if (!json) {
    session.out << fmt::format(
        "{}: the highest rate with {}, in trials of {}\n", arguments.workload->name,
        slo.to_string(),
        arguments.ops > 0 ? with_thousands(arguments.ops) + " operations" : arguments.duration);
  }
  std::vector<Trial> trials;
  std::unique_ptr<BenchRun> best;
  BenchArguments trial_of = arguments;
  RateSearch search(first_rate(arguments, slo));
  for (bool first = true; search.next() > 0; first = false) {
    trial_of.rate = search.next();
    auto run = std::make_unique<BenchRun>(session, trial_of, table_id);
    if (first) {
      if (const Status status = session.client().run(run->load()); !status.ok()) {
        return session.report(status, "loading the keys");
      }
    }
    run->give_up_above(slo.bound, 1 - slo.quantile);
    if (const Status status = session.client().run(run->measure()); !status.ok()) {
      return session.report(status, arguments.workload->name);
    }
    trials.push_back(outcome(*run, slo, trial_of.rate));
    if (!json) print_trial(session, trials.back(), slo);
    search.tried(trials.back().kept);
    if (search.result() > 0) best = std::move(run);
  }
  if (json) print_json(session, arguments, slo, trials, search.result(), best.get());
  if (best == nullptr) {
    return session.report({StatusCode::kDeadlineExceeded,
                           fmt::format("no rate keeps {}; the lowest that was tried is {} "
                                       "operations/s",
                                       slo.to_string(), trials.back().rate)});
  }
  if (!json) {
    session.out << fmt::format("{} operations/s keep {}\n", with_thousands(search.result()),
                               slo.to_string());
    print_cdf(session, *best);
  }
  return write_files(session, trial_of, *best);
}

}  // namespace ramcloud::cli
