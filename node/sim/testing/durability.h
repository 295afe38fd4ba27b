// Names of the cases that run with each durability: `…/buffered` and `…/synced`.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace ramcloud::sim {

/// The parameter says whether replicas are `synced`.
inline std::string durability(const ::testing::TestParamInfo<bool>& about) {
  return about.param ? "synced" : "buffered";
}

}  // namespace ramcloud::sim
