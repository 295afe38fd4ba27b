// The cases that run with each durability: `…/buffered` and `…/synced`.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/testing/sanitizer.h"

namespace ramcloud::sim {

/// Both; with a sanitizer, which makes a case four times slower, only `buffered`. What `synced` does
/// otherwise, syncs of devices, is below these suites, and tests of single layers run it there.
inline auto durabilities() {
  return ::testing::ValuesIn(testing::kSanitized ? std::vector{false} : std::vector{false, true});
}

/// The parameter says whether replicas are `synced`.
inline std::string durability(const ::testing::TestParamInfo<bool>& about) {
  return about.param ? "synced" : "buffered";
}

}  // namespace ramcloud::sim
