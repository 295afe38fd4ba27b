// The output of a benchmark, on the terminal and in files.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/bench/bench_run.h"

namespace ramcloud::cli {

/// Completed operations a second.
double throughput(const BenchRun& run);
/// A quantile of the latencies, in ns.
uint64_t quantile(const BenchRun& run, double q);

nlohmann::ordered_json bench_json(const BenchArguments& arguments, const BenchRun& run);
void print_bench_json(Session& session, const BenchArguments& arguments, const BenchRun& run);
void print_bench_text(Session& session, const BenchArguments& arguments, const BenchRun& run);

/// Writes the files of --histogram and --plot; returns the exit code.
int write_files(Session& session, const BenchArguments& arguments, const BenchRun& run);
/// The latencies' percentiles in the text format of HdrHistogram, in microseconds.
Status write_histogram(const std::string& path, const BenchRun& run);
/// The cumulative distribution of latencies, as an SVG curve over a logarithmic axis.
Status write_plot(const std::string& path, const BenchArguments& arguments, const BenchRun& run);

}  // namespace ramcloud::cli
