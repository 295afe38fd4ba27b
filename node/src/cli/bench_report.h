// What a benchmark prints and writes to files.
#pragma once

#include "cli/bench_run.h"

namespace ramcloud::cli {

void print_bench_json(Session& session, const BenchArguments& arguments, const BenchRun& run);
void print_bench_text(Session& session, const BenchArguments& arguments, const BenchRun& run);

/// The latencies' percentiles in the text format of HdrHistogram, in microseconds.
Status write_histogram(const std::string& path, const BenchRun& run);
/// The share of operations that took at most so long, as an SVG curve over a logarithmic axis.
Status write_plot(const std::string& path, const BenchArguments& arguments, const BenchRun& run);

}  // namespace ramcloud::cli
