// Options that several benchmarks have.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>

namespace ramcloud::bench {

/// A whole number from `low` to `high`; `value` is its default.
inline CLI::Option* add_number(CLI::App& app, const char* name, int64_t& value, int64_t low,
                               int64_t high, const char* what) {
  return app.add_option(name, value, what)->check(CLI::Range(low, high))->capture_default_str();
}

}  // namespace ramcloud::bench
