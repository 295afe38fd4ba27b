#include "cli/bench/bench_report.h"

#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/text.h"
#include "cli/formats/output.h"

namespace ramcloud::cli {
namespace {

constexpr std::pair<const char*, double> kQuantiles[] = {
    {"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99.9", 0.999}};

double mean_ns(const BenchRun& run) {
  const auto count = std::max<uint64_t>(run.latencies().count(), 1);
  return static_cast<double>(run.latencies().sum()) / static_cast<double>(count);
}

void print_histogram(Session& session, const BenchRun& run) {
  struct Bar {
    uint64_t up_to_ns, count;
  };
  std::vector<Bar> bars;  // one for each power of two
  uint64_t below = 0, most = 1;
  for (uint64_t bound = 1024; below < run.latencies().count() && bound < uint64_t{1} << 60;
       bound *= 2) {
    const uint64_t so_far = run.latencies().count_at_most(bound - 1);
    if (so_far > below || !bars.empty()) bars.push_back({bound, so_far - below});
    most = std::max(most, so_far - below);
    below = so_far;
  }
  for (const Bar& bar : bars) {
    session.out << fmt::format("  < {:>9}  {:>12}  {}\n",
                               format_duration(Duration(static_cast<int64_t>(bar.up_to_ns))),
                               with_thousands(bar.count), std::string(bar.count * 50 / most, '#'));
  }
}

/// Writes a file as a whole.
Status write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::trunc);
  out << text;
  out.close();
  return out ? Status() : Status(StatusCode::kIoError, "cannot write '" + path + "'");
}

/// A step of the distribution: `count` operations took at most `ns`.
struct Point {
  uint64_t ns, count;
};

std::vector<Point> distribution(const BenchRun& run) {
  std::vector<Point> points;
  const uint64_t total = run.latencies().count();
  uint64_t below = 0;
  for (int i = 0; i < Histogram::kBuckets && below < total; ++i) {
    const uint64_t bound = Histogram::upper_bound(i);
    const uint64_t so_far = run.latencies().count_at_most(bound);
    if (so_far > below) points.push_back({std::min(bound, run.slowest_ns()), so_far});
    below = so_far;
  }
  return points;
}

}  // namespace

/// A bucket's bound can be above its slowest value; a quantile must not be above the maximum.
uint64_t quantile(const BenchRun& run, double q) {
  return std::min(run.latencies().quantile(q), run.slowest_ns());
}

double throughput(const BenchRun& run) {
  return static_cast<double>(run.latencies().count()) / run.seconds();
}

nlohmann::ordered_json bench_json(const BenchArguments& arguments, const BenchRun& run) {
  nlohmann::ordered_json json = {
      {"workload", arguments.workload->name},
      {"distribution", workload::distribution_name(arguments.distribution)},
      {"clients", arguments.clients},
      {"connections", arguments.connections},
      {"value_bytes", arguments.size},
      {"key_bytes", arguments.key_size},
      {"keys", arguments.keys},
      {"operations", run.latencies().count()},
      {"seconds", run.seconds()},
      {"operations_per_second", throughput(run)},
      {"objects_per_second", static_cast<double>(run.objects()) / run.seconds()},
  };
  if (arguments.workload->batched()) json["batch"] = arguments.batch;
  if (arguments.rate > 0) json["rate"] = arguments.rate;
  nlohmann::ordered_json latency = {{"mean", mean_ns(run)}};
  for (const auto& [name, q] : kQuantiles) latency[name] = quantile(run, q);
  latency["max"] = run.slowest_ns();
  json["latency_ns"] = std::move(latency);
  auto buckets = nlohmann::ordered_json::array();
  uint64_t below = 0;
  for (int i = 0; i < Histogram::kBuckets && below < run.latencies().count(); ++i) {
    const uint64_t bound = Histogram::upper_bound(i);
    const uint64_t so_far = run.latencies().count_at_most(bound);
    if (so_far > below) buckets.push_back({{"at_most_ns", bound}, {"count", so_far - below}});
    below = so_far;
  }
  json["histogram"] = std::move(buckets);
  return json;
}

void print_bench_json(Session& session, const BenchArguments& arguments, const BenchRun& run) {
  session.out << bench_json(arguments, run).dump() << '\n';
}

int write_files(Session& session, const BenchArguments& arguments, const BenchRun& run) {
  Status written;
  if (!arguments.histogram_file.empty()) written = write_histogram(arguments.histogram_file, run);
  if (written.ok() && !arguments.plot_file.empty()) {
    written = write_plot(arguments.plot_file, arguments, run);
  }
  return written.ok() ? kExitOk : session.report(written);
}

void print_bench_text(Session& session, const BenchArguments& arguments, const BenchRun& run) {
  session.out << fmt::format(
      "{}: {} clients{}, {} operations in {:.2f} s, {} operations/s{}\n"
      "keys: {} of {} bytes, {}; values of {} bytes\n",
      arguments.workload->name, arguments.clients,
      arguments.connections > 1 ? fmt::format(" on {} connections", arguments.connections) : "",
      with_thousands(run.latencies().count()), run.seconds(),
      with_thousands(static_cast<uint64_t>(throughput(run))),
      arguments.workload->batched()
          ? fmt::format(", {} objects/s", with_thousands(static_cast<uint64_t>(
                                              static_cast<double>(run.objects()) / run.seconds())))
          : "",
      with_thousands(arguments.keys), arguments.key_size,
      workload::distribution_name(arguments.distribution), arguments.size);
  std::vector<std::string> header, row;
  const auto add = [&](const char* name, double ns) {
    header.emplace_back(name);
    row.push_back(format_duration(Duration(static_cast<int64_t>(ns))));
  };
  add("MEAN", mean_ns(run));
  for (const auto& [name, q] : kQuantiles) add(name, static_cast<double>(quantile(run, q)));
  add("MAX", static_cast<double>(run.slowest_ns()));
  print_table(session.out, header, {row});
  print_histogram(session, run);
}

Status write_histogram(const std::string& path, const BenchRun& run) {
  std::string text = fmt::format("{:>12} {:>14} {:>10} {:>14}\n\n", "Value", "Percentile",
                                 "TotalCount", "1/(1-Percentile)");
  const auto total = static_cast<double>(run.latencies().count());
  for (const Point& point : distribution(run)) {
    const double share = static_cast<double>(point.count) / total;
    text +=
        fmt::format("{:12.3f} {:2.12f} {:10} {:14}\n", static_cast<double>(point.ns) / 1e3, share,
                    point.count, share < 1 ? fmt::format("{:.2f}", 1 / (1 - share)) : "inf");
  }
  text +=
      fmt::format("#[Mean    = {:12.3f}, StdDeviation   = {:>12}]\n", mean_ns(run) / 1e3, "n/a");
  text += fmt::format("#[Max     = {:12.3f}, Total count    = {:12}]\n",
                      static_cast<double>(run.slowest_ns()) / 1e3, run.latencies().count());
  return write_file(path, text);
}

Status write_plot(const std::string& path, const BenchArguments& arguments, const BenchRun& run) {
  constexpr double kLeft = 60, kTop = 40, kWidth = 560, kHeight = 260;
  const std::vector<Point> points = distribution(run);
  if (points.empty()) return Status(StatusCode::kInternal, "nothing was measured to be drawn");
  // Whole decades around the measured values, so that plots of several runs are easily compared.
  const double first =
      std::floor(std::log10(static_cast<double>(std::max<uint64_t>(points.front().ns, 1))));
  const double last =
      std::max(first + 1, std::ceil(std::log10(static_cast<double>(points.back().ns))));
  const auto x = [&](double log_ns) { return kLeft + (log_ns - first) / (last - first) * kWidth; };
  const auto y = [&](double share) { return kTop + (1 - share) * kHeight; };
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 350" font-family="Helvetica, Arial, sans-serif" font-size="12">
<rect width="640" height="350" fill="#fff"/>
<text x="60" y="24" font-size="14">{}: {} clients, {}-byte values, {} operations</text>
)",
      arguments.workload->name, arguments.clients, arguments.size,
      with_thousands(run.latencies().count()));
  for (int decade = static_cast<int>(first); decade <= static_cast<int>(last); ++decade) {
    svg += fmt::format(
        R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1:.1f}" y2="{2:.1f}" stroke="#ddd"/><text x="{0:.1f}" y="{3:.1f}" text-anchor="middle">{4}</text>
)",
        x(decade), kTop, kTop + kHeight, kTop + kHeight + 18,
        format_duration(Duration(static_cast<int64_t>(std::pow(10, decade)))));
  }
  for (const double share : {0.0, 0.5, 0.9, 0.99}) {
    svg += fmt::format(
        R"(<line x1="{0:.1f}" x2="{1:.1f}" y1="{2:.1f}" y2="{2:.1f}" stroke="#ddd"/><text x="{3:.1f}" y="{4:.1f}" text-anchor="end">{5:.0f} %</text>
)",
        kLeft, kLeft + kWidth, y(share), kLeft - 6, y(share) + 4, share * 100);
  }
  const auto total = static_cast<double>(run.latencies().count());
  std::string curve;
  for (const Point& point : points) {
    curve +=
        fmt::format("{:.1f},{:.1f} ", x(std::log10(std::max(1.0, static_cast<double>(point.ns)))),
                    y(static_cast<double>(point.count) / total));
  }
  svg += fmt::format(R"(<polyline points="{}" fill="none" stroke="#3b6fb6" stroke-width="2"/>
<text x="340" y="340" text-anchor="middle">latency: share of operations that took at most so long</text>
</svg>
)",
                     curve);
  return write_file(path, svg);
}

}  // namespace ramcloud::cli
