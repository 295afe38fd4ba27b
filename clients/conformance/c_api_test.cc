// Runs c_api_test.c, which is C, against a real `ramcloudd dev`.
#include <gtest/gtest.h>

#include "daemon/testing/dev_cluster.h"

extern "C" int c_api_test(const char* cluster, char* where, size_t where_size);

namespace ramcloud {
namespace {

TEST(CApi, FromC) {
  daemon::DevCluster cluster({"--servers", "2", "--log-memory", "64MiB"});
  char where[300] = "";
  EXPECT_EQ(c_api_test(cluster.address().c_str(), where, sizeof where), 0) << where;
}

}  // namespace
}  // namespace ramcloud
