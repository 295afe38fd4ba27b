#include "base/failpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>

namespace ramcloud {
namespace {

std::string error_of(std::string_view text) {
  const auto orders = parse_failpoints(text);
  return orders ? "" : orders.error().message();
}

TEST(Failpoint, OrdersAreParsed) {
  EXPECT_TRUE(parse_failpoints("")->empty());
  const auto orders = parse_failpoints(
      "backup.open.before_sync=kill,coordinator.commit.after:3=stop,master.reply.before_send=delay,"
      "backup.write.before_answer:2=delay:40");
  ASSERT_TRUE(orders.has_value()) << orders.error().to_string();
  ASSERT_EQ(orders->size(), 4u);
  EXPECT_STREQ(kFailpoints[orders->at(0).number].name, "backup.open.before_sync");
  EXPECT_EQ(orders->at(0).action, FailpointAction::kKill);
  EXPECT_EQ(orders->at(0).nth, 0u);
  EXPECT_EQ(orders->at(1).action, FailpointAction::kStop);
  EXPECT_EQ(orders->at(1).nth, 3u);
  EXPECT_EQ(orders->at(2).delay, 100ms);
  EXPECT_EQ(orders->at(3).delay, 40ms);
}

TEST(Failpoint, MistakesAreNamed) {
  const std::string unknown = error_of("backup.open=kill");
  EXPECT_NE(unknown.find("'backup.open' is no failpoint"), std::string::npos) << unknown;
  for (const Failpoint& point : kFailpoints) {
    EXPECT_NE(unknown.find(point.name), std::string::npos) << point.name;
  }
  for (const char* wrong :
       {"backup.open.before_sync", "backup.open.before_sync=", "backup.open.before_sync=die",
        "backup.open.before_sync:0=kill", "backup.open.before_sync:x=kill",
        "backup.open.before_sync=kill:3", "backup.open.before_sync=delay:0",
        "backup.open.before_sync=delay:600001", "backup.open.before_sync=kill,",
        "backup.open.before_sync=kill,backup.open.before_sync=stop"}) {
    EXPECT_NE(error_of(wrong), "") << wrong;
  }
}

TEST(Failpoint, NamesAreInOrderAndDifferent) {
  EXPECT_TRUE(std::ranges::is_sorted(kFailpoints, [](const Failpoint& a, const Failpoint& b) {
    return std::string_view(a.name) < b.name;
  }));
}

TEST(Failpoint, AHandlerSeesEachPass) {
  std::vector<size_t> seen;
  const auto before = set_failpoint_handler([&](size_t number) { seen.push_back(number); });
  for (int i = 0; i < 2; ++i) RC_FAILPOINT("backup.open.before_sync");
  RC_FAILPOINT("coordinator.commit.after");
  set_failpoint_handler(before);
  RC_FAILPOINT("coordinator.commit.after");
  EXPECT_EQ(seen, (std::vector<size_t>{failpoint_number("backup.open.before_sync"),
                                       failpoint_number("backup.open.before_sync"),
                                       failpoint_number("coordinator.commit.after")}));
}

TEST(FailpointDeathTest, TheProcessDiesAtThatPass) {
  const auto die = [] {
    arm_failpoints(*parse_failpoints("backup.open.before_sync:3=kill"));
    for (int i = 0; i < 3; ++i) {
      if (i == 2) std::fputs("two passed", stderr);
      RC_FAILPOINT("backup.open.before_sync");
    }
  };
  EXPECT_EXIT(die(), testing::KilledBySignal(SIGKILL), "two passed");
}

}  // namespace
}  // namespace ramcloud
