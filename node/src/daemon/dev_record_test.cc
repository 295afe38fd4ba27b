#include "daemon/dev_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/testing/temporary_folder.h"

namespace ramcloud::daemon {
namespace {

using testing::HasSubstr;

class DevRecord : public testing::Test {
 protected:
  uint32_t replicas(uint32_t servers, std::optional<uint32_t> asked = {}) {
    auto resolved = resolve_replicas(dir_.path(), servers, asked);
    EXPECT_TRUE(resolved.has_value()) << resolved.error().to_string();
    return resolved.value_or(99);
  }
  std::string refused(uint32_t servers, std::optional<uint32_t> asked = {}) {
    auto resolved = resolve_replicas(dir_.path(), servers, asked);
    return resolved ? std::string("nothing") : resolved.error().to_string();
  }
  const TemporaryFolder dir_;
};

TEST_F(DevRecord, ReplicasAreChosenWhenTheClusterIsCreated) {
  EXPECT_EQ(default_replicas(1), 0u);
  EXPECT_EQ(default_replicas(3), 2u);
  EXPECT_EQ(default_replicas(9), 3u);
  EXPECT_EQ(replicas(3), 2u);
  EXPECT_EQ(replicas(3), 2u);
}

TEST_F(DevRecord, MoreOrFewerServersDoNotChangeThem) {
  EXPECT_EQ(replicas(3), 2u);
  EXPECT_EQ(replicas(9), 2u);
  EXPECT_THAT(refused(2), AllOf(HasSubstr("created with 2 replicas"), HasSubstr("3 or more")));
  EXPECT_EQ(replicas(3), 2u);
}

TEST_F(DevRecord, WhatIsAskedForIsRecorded) {
  EXPECT_EQ(replicas(9, 1), 1u);
  EXPECT_EQ(replicas(9), 1u);
  EXPECT_EQ(replicas(9, 4), 4u);
  EXPECT_EQ(replicas(9), 4u);
  EXPECT_EQ(replicas(9, 0), 0u);
  EXPECT_EQ(replicas(9), 0u);
}

TEST_F(DevRecord, AFileThatSaysSomethingElseIsRefused) {
  for (const char* text : {"", "[]", "{}", "{\"replicas\":-1}", "{\"replicas\":8}",
                           "{\"replicas\":1.5}", "{\"replicas\":\"2\"}"}) {
    std::ofstream(dir_ / "dev.json") << text;
    EXPECT_THAT(refused(3), AllOf(HasSubstr("dev.json"), HasSubstr("accepted is"))) << text;
  }
}

}  // namespace
}  // namespace ramcloud::daemon
