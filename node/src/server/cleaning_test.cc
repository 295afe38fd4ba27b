#include "server/cleaning.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "log/log_test_support.h"
#include "log/side_log.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/sim/sim_transport.h"

namespace ramcloud::server {
namespace {

constexpr uint32_t kSegments = 8;

/// A master without replicas, whose first reactor cleans.
class CleaningTest : public ::testing::Test {
 protected:
  CleaningTest() {
    Master::Options options;
    options.log.cluster_uuid = {1, 2, 3};
    options.log.master_id = 7;
    options.log.cleaner_segments = 1;
    options.replication.replicas = 0;
    options.on_progress = [this] {
      if (cleaning_) cleaning_->on_log_progress();
    };
    master_ =
        std::make_unique<Master>(rpc_, servers_, epochs_, arena_, store::HashTable::Memory(1 << 12),
                                 std::span<const Master::LaneOf>{}, std::move(options));
    node_.reactor().set_epochs(&participant_);
    EXPECT_TRUE(master_->store().take_tablet(1, 0, ~uint64_t{0}).ok());
  }
  ~CleaningTest() override { node_.reactor().set_epochs(nullptr); }
  void clean() {
    cleaning_ = std::make_unique<Cleaning>(node_.reactor(), epochs_, *master_, metrics_,
                                           Cleaning::Options{.threads = 0, .cleaner = {}});
    cleaning_->start();
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) {
      node_.reactor().turn();
      if (cleaning_) cleaning_->on_turn();
      master_->sweep();
      master_->reclaim();
    }
  }
  /// Repeats until the answer is not RETRY.
  StatusCode until_taken(const std::function<StatusCode()>& change) {
    StatusCode code = StatusCode::kRetry;
    for (int tries = 0; tries < 100'000; ++tries) {
      code = change();
      const bool again = code == StatusCode::kRetry ||
                         (code == StatusCode::kOutOfMemory && master_->log().cleaning_helps());
      if (!again) break;
      turns(1);
      sim_.run_for(100us);
    }
    return code;
  }
  StatusCode write(int key, int round) {
    return until_taken([&] {
      uint64_t version = 0;
      log::LogPosition depends_on;
      return master_->store().write(1, "key " + std::to_string(key), value(key, round), {}, version,
                                    depends_on);
    });
  }
  StatusCode remove(int key) {
    return until_taken([&] {
      uint64_t version = 0;
      log::LogPosition depends_on;
      return master_->store().remove(1, "key " + std::to_string(key), {}, version, depends_on);
    });
  }
  std::string say() {
    const auto memory = master_->log().memory();
    const auto state = cleaning_->state();
    return state.why + " total " + std::to_string(memory.total_seglets) + " free " +
           std::to_string(memory.free_seglets) + " leaving " +
           std::to_string(memory.leaving_seglets) + " kept " +
           std::to_string(master_->log().must_stay_free(log::MemoryPurpose::kWrites)) + " runs " +
           std::to_string(state.combined_runs) + " failed " + std::to_string(state.failed_runs);
  }
  static std::string value(int key, int round) {
    return std::string(10'000, static_cast<char>('a' + (key + round) % 26));
  }

  SimScheduler sim_{1};
  SimNetwork network_{sim_};
  SimNode& node_ = sim_.add_node("m");
  std::unique_ptr<SimTransport> transport_ = network_.make_transport(node_);
  RpcClient rpc_{node_.reactor(), *transport_};
  ServerList servers_;
  Epochs epochs_;
  Epochs::Participant participant_{epochs_};
  MetricsRegistry metrics_;
  log::Arena arena_{uint64_t{kSegments} * log::kSegmentBytes,
                    {.try_huge_pages = false,
                     .prefault = false,
                     .most_bytes = uint64_t{2 * kSegments} * log::kSegmentBytes}};
  std::unique_ptr<Master> master_;
  std::unique_ptr<Cleaning> cleaning_;
};

TEST_F(CleaningTest, MemoryOfOverwrittenObjectsIsUsedAgain) {
  clean();
  constexpr int kKeys = 400, kRounds = 12;  // 40 of 84 MB; 480 MB are written
  for (int round = 0; round < kRounds; ++round) {
    for (int key = 0; key < kKeys; ++key) {
      ASSERT_EQ(write(key, round), StatusCode::kOk)
          << "round " << round << ", key " << key << ": " << say();
    }
    ASSERT_EQ(master_->check_invariants(), "");
  }
  for (int key = 0; key < kKeys; ++key) {
    store::ReadResult read;
    ASSERT_EQ(master_->store().read(1, "key " + std::to_string(key), {}, read), StatusCode::kOk);
    EXPECT_EQ(read.version, static_cast<uint64_t>(kRounds)) << key;
    ASSERT_EQ(read.value_length, value(key, 0).size());
  }
  EXPECT_GT(cleaning_->state().combined_runs, 0u);
}

/// A pass begins only with memory for its survivors, so a worker may have slept for want of it. A
/// recovery takes memory without a new head.
TEST_F(CleaningTest, WhatGivesItWorkEndsTheSleep) {
  clean();
  int key = 0;
  const auto ends_the_sleep = [&](const std::function<void()>& what) {
    ASSERT_EQ(write(1, 0), StatusCode::kOk);
    for (int ms = 0; ms < 3'000; ++ms) {
      turns(2);
      sim_.run_for(1ms);
    }
    sim_.run_for(1ms);
    const Time sleeps_until = node_.reactor().next_deadline();
    cleaning_->on_turn();
    ASSERT_EQ(node_.reactor().next_deadline(), sleeps_until);
    what();
    cleaning_->on_turn();
    EXPECT_NE(node_.reactor().next_deadline(), sleeps_until);
  };
  ends_the_sleep([&] { master_->log().reclaim({}); });
  ends_the_sleep([&] {
    log::SideLog recovered(master_->log());
    const log::TestObject object(1, 1, "key", "v");
    const char* ref = nullptr;
    ASSERT_EQ(recovered.append(std::span(&object.source, 1), &ref), StatusCode::kOk);
  });
  ends_the_sleep([&] {
    const uint64_t head = master_->log().head().segment_id();
    while (master_->log().head().segment_id() == head) {
      ASSERT_EQ(write(++key, 0), StatusCode::kOk);
    }
  });
}

/// A log that shrinks needs the cleaner, although nothing is written.
TEST_F(CleaningTest, AnotherSizeEndsTheSleep) {
  clean();
  ASSERT_EQ(write(1, 0), StatusCode::kOk);
  log::Log& log = master_->log();
  ASSERT_TRUE(log.resize(uint64_t{2 * kSegments} * log::kSegmentBytes, 0).ok());
  while (log.continue_resize()) {
  }
  for (int ms = 0; ms < 3'000; ++ms) {
    turns(2);
    sim_.run_for(1ms);
  }
  const std::string before = cleaning_->state().why;
  ASSERT_TRUE(log.resize(uint64_t{kSegments} * log::kSegmentBytes, 0).ok());
  cleaning_->on_turn();
  EXPECT_NE(cleaning_->state().why, before) << "it would sleep for a second";
}

TEST_F(CleaningTest, AnIdleLogIsLookedAtSeldom) {
  clean();
  ASSERT_EQ(write(1, 0), StatusCode::kOk);
  turns(10);
  sim_.run_for(1s);
  const auto looks_in_a_second = [this](bool writes) {
    int looks = 0;
    for (int ms = 0; ms < 1'000; ++ms) {
      if (writes) EXPECT_EQ(write(1, ms), StatusCode::kOk);
      const Time before = node_.reactor().next_deadline();
      turns(2);  // a timer, and the look that it ends
      if (node_.reactor().next_deadline() != before) ++looks;
      sim_.run_for(1ms);
    }
    return looks;
  };
  (void)looks_in_a_second(false);
  EXPECT_LE(looks_in_a_second(false), 2);
  (void)looks_in_a_second(true);
  EXPECT_GE(looks_in_a_second(true), 14);
}

/// A full log takes deletes, and what they free is used.
TEST_F(CleaningTest, DeletesMakeRoomInAFullLog) {
  clean();
  int keys = 0;
  while (write(keys, 0) == StatusCode::kOk) ASSERT_LT(++keys, 10'000);
  EXPECT_GT(keys, 500);
  for (int round = 1; round < 4; ++round) {
    for (int key = round; key < keys; key += 4) {
      ASSERT_EQ(remove(key), StatusCode::kOk)
          << "round " << round << ", key " << key << ": " << say();
    }
    for (int key = round; key < keys; key += 4) {
      ASSERT_EQ(write(key, round), StatusCode::kOk)
          << "round " << round << ", key " << key << ": " << say();
    }
  }
}

TEST_F(CleaningTest, WithoutItMemoryIsFullForGood) {
  StatusCode code = StatusCode::kOk;
  for (int round = 0; round < 12 && code == StatusCode::kOk; ++round) {
    for (int key = 0; key < 400 && code == StatusCode::kOk; ++key) code = write(key, round);
  }
  EXPECT_EQ(code, StatusCode::kOutOfMemory);
}

TEST_F(CleaningTest, ItSaysWhatItDid) {
  clean();
  const std::string text = metrics_.text();
  for (const char* name :
       {"ramcloud_cleaner_runs_total{kind=\"combined\"} 0", "ramcloud_cleaner_mode 0",
        "ramcloud_cleaner_bytes_total{kind=\"read\"} 0",
        "ramcloud_cleaner_runs_total{kind=\"compaction\"} 0",
        "ramcloud_cleaner_bytes_total{kind=\"compacted\"} 0", "ramcloud_cleaner_write_cost 1"}) {
    EXPECT_NE(text.find(name), std::string::npos) << name << " in\n" << text;
  }
}

}  // namespace
}  // namespace ramcloud::server
