#include "runtime/thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

namespace ramcloud {
namespace {

int own_nice() {
  return getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
}

TEST(ThreadTest, InTheBackgroundItGivesWayAndItsMakerDoesNot) {
  const int before = own_nice();
  int background = before, normal = -100;
  Thread("background", [&] { background = own_nice(); }, Thread::Priority::kBackground).join();
  Thread("normal", [&] { normal = own_nice(); }).join();
  if (before < 10) {
    EXPECT_EQ(background, 10);
  }
  EXPECT_GE(background, before);
  EXPECT_EQ(normal, before);
  EXPECT_EQ(own_nice(), before);
}

}  // namespace
}  // namespace ramcloud
