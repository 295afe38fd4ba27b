#pragma once

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <vector>

namespace ramcloud::bench {

/// What programs have in common that time one client's exchanges.
struct OneClientOptions {
  int64_t count = 5000;
  int64_t poll_us = 50;
  int64_t warm_up_ms = 200;
};

inline void add_options(CLI::App& app, OneClientOptions& options) {
  app.add_option("--count", options.count, "exchanges to time")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--poll-us", options.poll_us,
                 "look for so many microseconds before sleeping: 0 sleeps at once, negative never "
                 "sleeps")
      ->capture_default_str();
  app.add_option("--warm-up-ms", options.warm_up_ms, "first exchanges that are not timed")
      ->check(CLI::Range(0, 3'600'000))
      ->capture_default_str();
}

/// -1: wherever the scheduler puts it.
inline void add_cpu_option(CLI::App& app, const char* name, int& cpu, const char* what) {
  app.add_option(name, cpu, what)->check(CLI::Range(-1, CPU_SETSIZE - 1))->capture_default_str();
}

/// False if there is no such CPU to run on.
[[nodiscard]] inline bool pin(int cpu) {
  if (cpu < 0) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

/// In microseconds; `times` are nanoseconds, not empty and sorted.
inline double quantile_us(const std::vector<int64_t>& times, double q) {
  const double index = q * static_cast<double>(times.size() - 1);
  return static_cast<double>(times[static_cast<size_t>(index)]) / 1e3;
}

}  // namespace ramcloud::bench
