// Output for people: aligned tables, printable byte strings, the progress line.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"

namespace ramcloud::cli {

/// Columns aligned by their widest cell; the header in capitals by convention.
void print_table(std::ostream& out, const std::vector<std::string>& header,
                 const std::vector<std::vector<std::string>>& rows);

/// Keeps valid UTF-8 without control characters; other bytes become \xNN, \n, \t and so on.
std::string printable(std::string_view bytes);

/// "1,234,567".
std::string with_thousands(uint64_t n);

/// A progress line on a terminal; no output elsewhere.
class Progress {
 public:
  /// `total` 0: not known. `enabled` is whether `out` is a terminal.
  Progress(std::ostream& out, bool enabled, std::string what, uint64_t total, const Clock& clock);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// `done` in the unit of `total`; `count` items so far. Draws at most ten times a second.
  void update(uint64_t done, uint64_t count);
  /// Removes the line.
  void finish();

 private:
  std::ostream& out_;
  bool enabled_;
  std::string what_;
  uint64_t total_;
  const Clock& clock_;
  Time started_, drawn_{};
  bool visible_ = false;
};

}  // namespace ramcloud::cli
