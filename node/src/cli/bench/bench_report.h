// The output of a benchmark, on the terminal and in files.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/bench/bench_run.h"

namespace ramcloud::cli {

/// Operations a second that were done.
double throughput(const BenchRun& run);
/// Of the latencies, in ns.
uint64_t quantile(const BenchRun& run, double q);

nlohmann::ordered_json bench_json(const BenchArguments& arguments, const BenchRun& run);
void print_bench_json(Session& session, const BenchArguments& arguments, const BenchRun& run);
void print_bench_text(Session& session, const BenchArguments& arguments, const BenchRun& run);

/// What --histogram and --plot ask for; the exit code.
int write_files(Session& session, const BenchArguments& arguments, const BenchRun& run);
/// The latencies' percentiles in the text format of HdrHistogram, in microseconds.
Status write_histogram(const std::string& path, const BenchRun& run);
/// The share of operations that took at most so long, as an SVG curve over a logarithmic axis.
Status write_plot(const std::string& path, const BenchArguments& arguments, const BenchRun& run);

}  // namespace ramcloud::cli
