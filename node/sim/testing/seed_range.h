// The seeds of a test. A few in `make test`; SEEDS=A..B chooses others, as for `make sim`; `make
// soak` runs many.
#pragma once

#include <gtest/gtest.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/testing/sanitizer.h"

namespace ramcloud::sim {

struct SeedRange {
  uint64_t first = 1;
  uint64_t last = 1;  // included
};

/// SEEDS (A..B, both included, or one seed), otherwise the first `count`, fewer with a sanitizer.
/// An invalid range fails the test.
inline SeedRange seed_range(uint64_t count) {
  const char* given = std::getenv("SEEDS");
  if (given == nullptr || *given == '\0') return {.first = 1, .last = testing::seeds(count)};
  const std::string_view text = given;
  const auto number = [](std::string_view of, uint64_t& into) {
    const auto [end, error] = std::from_chars(of.data(), of.data() + of.size(), into);
    return error == std::errc() && end == of.data() + of.size();
  };
  SeedRange range;
  const size_t dots = text.find("..");
  const std::string_view first = text.substr(0, dots);
  const std::string_view last = dots == std::string_view::npos ? first : text.substr(dots + 2);
  if (!number(first, range.first) || !number(last, range.last) || range.first > range.last) {
    ADD_FAILURE() << "SEEDS is \"" << text << "\"; it must be A..B with A <= B, or one number";
    return {.first = 1, .last = 0};
  }
  return range;
}

}  // namespace ramcloud::sim
