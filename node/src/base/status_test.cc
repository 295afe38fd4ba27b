#include "base/status.h"

#include <gtest/gtest.h>

#include <set>

namespace ramcloud {
namespace {

TEST(Status, EveryCodeHasANameOfItsOwn) {
  std::set<std::string> names;
  for (uint16_t code = 0; code <= 23; ++code) {
    const auto name = status_name(static_cast<StatusCode>(code));
    EXPECT_FALSE(name.starts_with("UNKNOWN_2") || name == "UNKNOWN") << code;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_EQ(status_name(static_cast<StatusCode>(999)), "UNKNOWN_999");
}

TEST(Status, TextAndResults) {
  EXPECT_EQ(Status().to_string(), "OK");
  EXPECT_EQ(Status(StatusCode::kNotFound, "table 'x'").to_string(), "NOT_FOUND: table 'x'");
  const Result<int> bad = fail(StatusCode::kRetry);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error(), StatusCode::kRetry);
}

}  // namespace
}  // namespace ramcloud
