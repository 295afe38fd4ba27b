// Interleavings of the object store: writes, deletes and reads of two keys while the log becomes
// durable and deletes are swept, and while a tablet is dropped.
#include <gtest/gtest.h>

#include "model/modelled_store.h"

namespace ramcloud::store {
namespace {

using log::LogPosition;
using model::Schedule;

using Client = ModelledStore::Client;

std::string writes_deletes_and_reads(Schedule& schedule) {
  ModelledStore model(schedule, 2, log::test_log_options());
  model.worker(schedule, [](Client& client) {
    client.write("a");
    client.remove("a");
    client.write("a");
  });
  model.worker(schedule, [](Client& client) {
    client.remove("a");
    client.write("b");
    client.remove("b");
  });
  model.worker(schedule, [](Client& client) {
    client.read("a");
    client.read("b");
    client.read("a");
  });
  return model.check(schedule);
}

/// No read is answered from a tablet that is being purged, and no object of it remains.
std::string a_tablet_is_dropped(Schedule& schedule) {
  ModelledStore model(schedule, 2, log::test_log_options());
  const auto take_turns = [&](const std::string& key) {
    uint64_t version = 0;
    LogPosition depends_on;
    ReadResult result;
    for (int i = 0; i < 2; ++i) {
      const StatusCode written = model.store.write(1, key, key, kNoRules, version, depends_on);
      const StatusCode read = model.store.read(1, key, kNoRules, result);
      const bool gone = written == StatusCode::kUnknownTablet;
      if (!gone && written != StatusCode::kOk) model.fail("write answers another code");
      if (gone && read != StatusCode::kUnknownTablet) model.fail("read from a tablet that is gone");
    }
  };
  model.worker(schedule, [&](Client&) { take_turns("a"); });
  model.worker(schedule, [&](Client&) { take_turns("b"); });
  model.worker(schedule, [&](Client&) {
    if (!model.store.drop_table(1).ok()) model.fail("there is nothing to drop");
    model.store.may_purge(model.store.drops());  // writers check the state under the stripe lock
    while (model.store.purge_step()) model::yield();
  });
  std::string wrong = model.check(schedule);
  if (wrong.empty() && model.store.table().entries() != 0) wrong = "an object was left behind";
  return wrong;
}

TEST(StoreModel, WritesDeletesAndReads) {
  EXPECT_EQ(model::explore(1, 30'000, writes_deletes_and_reads).wrong, "");
}

TEST(StoreModel, ATabletIsDropped) {
  EXPECT_EQ(model::explore(1, 20'000, a_tablet_is_dropped).wrong, "");
}

}  // namespace
}  // namespace ramcloud::store
