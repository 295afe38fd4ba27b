// Interleavings of cleaning: entries of a closed segment are copied, the slots of the hash table are
// switched, the copies enter the log, and the memory of the originals is used again, while clients
// write, delete and read the same keys. Of both kinds of pass.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "model/modelled_store.h"
#include "store/cleaning_pass.h"
#include "store/compaction_pass.h"

namespace ramcloud::store {
namespace {

using model::Schedule;
using Client = ModelledStore::Client;
using Progress = log::CleaningWork::Progress;

/// Dead, and large enough that compaction frees seglets.
constexpr size_t kDeadBytes = 200'000;

/// A store with the keys "a", "b" and the deleted "c" in a closed segment.
class Cleaned : public ModelledStore {
 public:
  explicit Cleaned(Schedule& schedule)
      : ModelledStore(schedule, 6, log::test_log_options(1, 2)), victim_(log.head().segment_id()) {
    put("dead", std::string(kDeadBytes, 'd'));
    remove("dead");
    for (const std::string key : {"a", "b", "c"}) put(key, key);
    remove("c");
    (void)store.sweep();
    // Once more, because the segment before the head is not compacted.
    for (int i = 0; i < 2; ++i) roll();
    if (log.find_segment(victim_) == nullptr || !log.find_segment(victim_)->closed_durable()) {
      fail("the victim is not closed");
    }
  }

  /// An actor that cleans the closed segment, and gives its memory back as a server does: after all
  /// actors have passed.
  template <typename Pass>
  void cleaner(Schedule& schedule) {
    worker(schedule, [this](Client& client) {
      Pass pass(store, victims<Pass>());
      pass.commit_now();
      Progress progress;
      while ((progress = pass.step()) != Progress::kDone) {
        client.pass();
        if (progress == Progress::kWaits) model::yield();
      }
      while (!reclaim(client)) model::yield();
    });
  }
  /// Heads are opened where the originals were.
  void roller(Schedule& schedule) {
    worker(schedule, [this](Client& client) {
      for (int i = 0; i < 3; ++i) {
        while (log.roll_head() != StatusCode::kOk) {
          client.pass();
          model::yield();
        }
        client.write("r");
      }
    });
  }
  std::string check(Schedule& schedule) {
    std::string wrong = ModelledStore::check(schedule);
    if (wrong.empty() && !reclaimed_) wrong = "no memory was freed";
    return wrong;
  }

 private:
  template <typename Pass>
  auto victims() {
    log::Segment* victim = log.find_segment(victim_);
    if constexpr (std::is_same_v<Pass, CleaningPass>) {
      return std::vector<log::Segment*>{victim};
    } else {
      return std::ref(*victim);
    }
  }
  bool reclaim(Client& client) {
    const std::vector<log::Segment*> retired = log.take_retired();
    if (retired.empty()) return false;
    const uint64_t epoch = epochs.advance({});
    while (!epochs.passed(epoch)) {
      client.pass();
      model::yield();
    }
    epochs.forget_passed();
    log.reclaim(retired);
    return reclaimed_ = true;
  }

  // Before the actors run: the replicator is driven by hand.
  void replicate() {
    for (int i = 0; i < 8; ++i) replicator.step(log);
  }
  void put(const std::string& key, const std::string& value) {
    histories[key].note([&](model::Event& event) {
      event.kind = model::Event::Kind::kWrite;
      log::LogPosition depends_on;
      if (store.write(1, key, value, kNoRules, event.value, depends_on) != StatusCode::kOk) {
        fail("the first write fails");
      }
    });
    replicate();
  }
  void remove(const std::string& key) {
    histories[key].note([&](model::Event& event) {
      event.kind = model::Event::Kind::kRemove;
      log::LogPosition depends_on;
      if (store.remove(1, key, kNoRules, event.value, depends_on) != StatusCode::kOk) {
        fail("the first delete fails");
      }
    });
    replicate();
  }
  void roll() {
    if (log.roll_head() != StatusCode::kOk) fail("the first head is not closed");
    replicate();
  }

  uint64_t victim_;
  bool reclaimed_ = false;
};

template <typename Pass>
std::string beside_a_writer_and_a_reader(Schedule& schedule) {
  Cleaned model(schedule);
  model.cleaner<Pass>(schedule);
  model.worker(schedule, [](Client& client) {
    client.write("a");
    client.write("b");
  });
  model.worker(schedule, [](Client& client) {
    client.read("a");
    client.read("b");
    client.read("a");
  });
  return model.check(schedule);
}

template <typename Pass>
std::string beside_a_deleter(Schedule& schedule) {
  Cleaned model(schedule);
  model.cleaner<Pass>(schedule);
  model.worker(schedule, [](Client& client) {
    client.remove("a");
    client.write("c");
    client.read("a");
  });
  model.worker(schedule, [](Client& client) {
    client.remove("b");
    client.write("b");
    client.read("c");
  });
  return model.check(schedule);
}

template <typename Pass>
std::string while_its_memory_is_used_again(Schedule& schedule) {
  Cleaned model(schedule);
  model.cleaner<Pass>(schedule);
  model.roller(schedule);
  model.worker(schedule, [](Client& client) {
    for (int i = 0; i < 4; ++i) {
      client.read("a");
      client.read("b");
    }
  });
  return model.check(schedule);
}

TEST(RelocationModel, CleaningBesideAWriterAndAReader) {
  EXPECT_EQ(model::explore(1, 4'000, beside_a_writer_and_a_reader<CleaningPass>).wrong, "");
}
TEST(RelocationModel, CleaningBesideADeleter) {
  EXPECT_EQ(model::explore(1, 4'000, beside_a_deleter<CleaningPass>).wrong, "");
}
TEST(RelocationModel, CleanedMemoryIsUsedAgain) {
  EXPECT_EQ(model::explore(1, 4'000, while_its_memory_is_used_again<CleaningPass>).wrong, "");
}
TEST(RelocationModel, CompactionBesideAWriterAndAReader) {
  EXPECT_EQ(model::explore(1, 4'000, beside_a_writer_and_a_reader<CompactionPass>).wrong, "");
}
TEST(RelocationModel, CompactionBesideADeleter) {
  EXPECT_EQ(model::explore(1, 4'000, beside_a_deleter<CompactionPass>).wrong, "");
}
TEST(RelocationModel, CompactedMemoryIsUsedAgain) {
  EXPECT_EQ(model::explore(1, 4'000, while_its_memory_is_used_again<CompactionPass>).wrong, "");
}

}  // namespace
}  // namespace ramcloud::store
