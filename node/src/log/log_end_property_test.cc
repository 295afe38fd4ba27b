// A correct log, cut and torn in many ways: the rules for its end lose no acknowledged data.
#include "log/log_end.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/testing/sanitizer.h"
#include "log/log_test_support.h"

namespace ramcloud::log {
namespace {

using Outcome = LogEnd::Outcome;

/// A log with one to three replicas of each segment on five servers, which die in many ways.
class TrueLog {
 public:
  explicit TrueLog(uint64_t seed) : TrueLog(seed, 1 + seed % 3) {}
  TrueLog(uint64_t seed, uint32_t replica_count)
      : random_(seed), replica_count_(replica_count), log_(8, false) {
    write();
  }

  /// Draws backups whose process died, whose power failed, that are silent, or that have a flipped
  /// bit in a replica.
  void kill() {
    power_cuts_ = random_.chance(power_cut_chance_);
    for (uint64_t server = 1; server <= kServers; ++server) {
      const bool rebooted = power_cuts_ && random_.chance(random_.chance(0.5) ? 1.0 : 0.5);
      if (rebooted) rebooted_.insert(server);
      if (random_.chance(0.2)) synced_.insert(server);
      if (random_.chance(missing_chance_)) continue;
      answers.heard.insert(server);
    }
    if (first_open() != ~uint64_t{0} && random_.chance(fence_chance_))
      answers.fence = {first_open(), 1};
    // A flipped bit in the last group looks like a torn tail, so another replica is needed.
    if (!power_cuts_ && replica_count_ > 1 && random_.chance(0.5))
      flip_on_ = 1 + random_.below(kServers);
    for (const auto& replica : log_.replicator.replicas())
      describe(*replica.segment, replica.durable);
    for (uint64_t server = 1; server <= kServers; ++server) {
      if (!answers.heard.contains(server)) answers.unheard.insert(server);
    }
    answers.replica_count = replica_count_;
    if (random_.chance(0.5)) answers.expected = answers.unheard;
  }
  bool all_heard() const { return answers.heard.size() == kServers; }
  bool flipped() const { return flip_on_ != 0; }

  /// Returns an empty text, or the problem.
  std::string check(const LogEnd& end) {
    if (end.outcome == Outcome::kWaiting || end.outcome == Outcome::kBlocked) {
      if (!all_heard() || flipped()) return {};
      return "everybody was heard: " + std::string(outcome_name(end.outcome)) + ", segment " +
             std::to_string(end.missing.at(0).segment_id) + ": " + end.missing.at(0).why;
    }
    std::map<uint64_t, uint32_t> lengths;
    for (const SegmentEnd& segment : end.segments) lengths[segment.segment_id] = segment.length;
    if (std::string wrong = check_sources(end); !wrong.empty()) return wrong;
    const uint64_t newest = log_.log.durable().segment_id();
    if (end.outcome == Outcome::kTailLost && end.digest_segment < newest) {
      return "its digest is that of head " + std::to_string(end.digest_segment) + ", but head " +
             std::to_string(newest) + " took data";
    }
    bool lost = false;
    for (const auto& replica : log_.replicator.replicas()) {
      const Segment& segment = *replica.segment;
      if (segment.id() > log_.log.durable().segment_id()) break;
      const bool left = log_.log.find_segment(segment.id()) == nullptr;
      if (left && segment.entry_bytes() == 0) continue;
      const uint32_t acknowledged = segment.id() < log_.log.durable().segment_id()
                                        ? segment.published()
                                        : log_.log.durable().offset();
      if (lengths[segment.id()] >= acknowledged || lost) continue;
      if (end.outcome == Outcome::kComplete) {
        return "segment " + std::to_string(segment.id()) + " ends at " +
               std::to_string(lengths[segment.id()]) + ", acknowledged were " +
               std::to_string(acknowledged);
      }
      lost = true;  // and all that follows
      for (const uint64_t server : holders_[segment.id()]) {
        if (!rebooted_.contains(server) || synced_.contains(server)) {
          return "server " + std::to_string(server) + " has all of segment " +
                 std::to_string(segment.id()) + ", and its tail is called lost";
        }
      }
      if (lengths[segment.id()] < on_devices_[segment.id()]) return "what was synced is given up";
    }
    return {};
  }

  /// For an accepted loss: the used bytes are correct, only the shown loss is given up, and no
  /// version is assigned twice.
  std::string check_accepted(const LogEnd& end, const AcceptedLoss& loss) {
    if (end.outcome != Outcome::kLossAccepted) return outcome_name(end.outcome);
    if (std::string wrong = check_sources(end); !wrong.empty()) return wrong;
    if (end.safe_version <= version_) return "versions are assigned twice";
    std::map<uint64_t, uint32_t> lengths;
    for (const SegmentEnd& segment : end.segments) lengths[segment.segment_id] = segment.length;
    for (const auto& [id, found] : loss.segments) {
      if (lengths[id] < found) return "less is taken than is there";
    }
    return {};
  }
  /// Another backup dies with its replicas.
  void lose_one() {
    if (answers.replicas.empty()) return;
    const uint64_t gone = answers.replicas[random_.below(answers.replicas.size())].server_id;
    for (size_t i = answers.replicas.size(); i-- > 0;) {
      if (answers.replicas[i].server_id != gone) continue;
      answers.replicas.erase(answers.replicas.begin() + static_cast<std::ptrdiff_t>(i));
      described_.erase(described_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    answers.heard.erase(gone);
    answers.unheard.insert(gone);
  }

  LogAnswers answers;
  double missing_chance_ = 0;
  double power_cut_chance_ = 0.6;
  double fence_chance_ = 0.3;

 private:
  static constexpr uint64_t kServers = 5;

  void write() {
    const int appends = static_cast<int>(20 + random_.below(100));
    for (int i = 0; i < appends; ++i) {
      const std::string value(random_.below(60'000), 'v');
      const StatusCode code = append_object(log_.log, 1, ++version_, "key", value);
      if (code != StatusCode::kOk || random_.chance(0.3)) (void)log_.replicator.step(random_);
      if (random_.chance(0.05)) (void)log_.log.roll_head();
      if (random_.chance(0.02)) roll_empty_heads();
      // Mostly heads are opened and closed soon.
      for (int n = 0; n < 3 && random_.chance(0.5); ++n) (void)log_.replicator.step(random_);
    }
  }

  /// They leave the log again, at the step at which the master dies, too.
  void roll_empty_heads() {
    for (uint64_t n = 2 + random_.below(3); n > 0; --n) {
      (void)log_.log.roll_head();
      if (n > 1) log_.replicator.finish_all();
    }
    log_.log.reclaim(log_.log.take_retired());
  }

  /// Each holder has the durable bytes, and perhaps more. If the fence was told, another one was left
  /// behind before that, also in segments that were closed since: its list names former holders.
  void describe(const Segment& segment, uint32_t durable) {
    std::vector<uint64_t> servers;
    for (uint64_t server = 1; server <= kServers; ++server) servers.push_back(server);
    while (servers.size() > replica_count_) {
      servers.erase(servers.begin() + static_cast<std::ptrdiff_t>(random_.below(servers.size())));
    }
    holders_[segment.id()] = servers;
    for (const uint64_t server : servers) {
      uint32_t held = durable;
      while (held < segment.published() && random_.chance(0.5)) held = segment.chunk_end(held, 1);
      add(segment, server, held, answers.fence.epoch, servers);
    }
    if (answers.fence.epoch == 0) return;
    const uint64_t other = 1 + random_.below(kServers);
    if (std::ranges::find(servers, other) != servers.end()) return;
    if (random_.chance(0.5)) servers.back() = other;
    uint32_t held = segment.header_length();
    while (held < durable && random_.chance(0.7)) held = segment.chunk_end(held, 1);
    if (segment.closed_durable() && held == segment.published()) return;
    add(segment, other, held, 0, servers);
  }
  uint64_t first_open() const {
    for (const auto& replica : log_.replicator.replicas()) {
      if (!replica.segment->closed_durable()) return replica.segment->id();
    }
    return ~uint64_t{0};
  }

  void add(const Segment& segment, uint64_t server, uint32_t held, uint32_t epoch,
           const std::vector<uint64_t>& named) {
    std::string bytes = image_of(segment, held);
    const bool synced = synced_.contains(server);
    const bool cut = rebooted_.contains(server) && !synced;
    // The metadata follows the sync of all bytes.
    const bool closed =
        held == segment.published() && segment.closed_durable() && random_.chance(0.5);
    uint32_t on_device = held;
    if (cut && !closed) {
      on_device = segment.header_length();
      while (on_device < held && random_.chance(0.9)) on_device = segment.chunk_end(on_device, 1);
      tear(bytes, on_device);
    }
    auto& most = on_devices_[segment.id()];
    if (epoch >= answers.fence.epoch || closed) most = std::max(most, on_device);
    if (server == flip_on_ && !closed && !bytes.empty() && random_.chance(0.7)) {
      bytes[random_.below(bytes.size())] ^= 0x40;
    }
    images_.push_back(bytes);
    if (!answers.heard.contains(server)) return;
    FoundReplica replica;
    replica.server_id = server;
    replica.segment_id = segment.id();
    replica.epoch = epoch;
    replica.power_safe = !cut;
    replica.holders = named;
    KnownOfSegment known;
    if (closed) known.closed_length = held;
    bytes.resize(bytes.size() + 64, '\0');
    describe_scan(
        scan_segment({kTestCluster, kTestMaster, segment.id()}, SegmentBytes(bytes), known), known,
        replica);
    if (closed) {
      replica.closed = true;
      replica.power_safe = true;
    }
    answers.replicas.push_back(std::move(replica));
    described_.push_back(bytes);
  }

  /// Some of the sectors behind the synced bytes are not there.
  void tear(std::string& bytes, uint32_t from) {
    for (size_t at = (from + 511) / 512 * 512; at < bytes.size(); at += 512) {
      if (random_.chance(0.5))
        bytes.replace(at, std::min<size_t>(512, bytes.size() - at),
                      std::min<size_t>(512, bytes.size() - at), '\0');
    }
  }

  /// Also a segment that left, but is in the digest of a head that may decide.
  const Segment& segment_of(uint64_t id) const {
    const auto& all = log_.replicator.replicas();
    return *std::ranges::find(all, id, [](const auto& one) { return one.segment->id(); })->segment;
  }

  /// A source must have the correct bytes up to the length.
  std::string check_sources(const LogEnd& end) {
    for (const SegmentEnd& segment : end.segments) {
      if (segment.sources.empty())
        return "segment " + std::to_string(segment.segment_id) + " without a source";
      const std::string truth = image_of(segment_of(segment.segment_id), segment.length);
      for (const size_t i : segment.sources) {
        if (described_[i].substr(0, segment.length) != truth) {
          return "a source of segment " + std::to_string(segment.segment_id) +
                 " is not what was written";
        }
      }
    }
    return {};
  }

  Random random_;
  uint32_t replica_count_;
  TestLog log_;
  uint64_t version_ = 0;
  bool power_cuts_ = false;
  uint64_t flip_on_ = 0;
  std::set<uint64_t> rebooted_, synced_;
  std::map<uint64_t, std::vector<uint64_t>> holders_;
  std::map<uint64_t, uint32_t> on_devices_;
  std::vector<std::string> images_, described_;  // the second as answers.replicas
};

TEST(LogEndProperty, NoAcknowledgedGroupIsLost) {
  std::map<Outcome, int> outcomes;
  const uint64_t seeds = ramcloud::testing::seeds(1200);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    TrueLog log(seed);
    log.missing_chance_ = seed % 3 == 0 ? 0.4 : 0;
    log.kill();
    const LogEnd end = decide_log_end(log.answers);
    ++outcomes[end.outcome];
    ASSERT_EQ(log.check(end), "") << "seed " << seed;
  }
  // All of them occur.
  for (const Outcome outcome :
       {Outcome::kComplete, Outcome::kTailLost, Outcome::kWaiting, Outcome::kBlocked}) {
    EXPECT_GT(outcomes[outcome], 5) << outcome_name(outcome);
  }
}

/// The same when most logs have replicas that were left behind, or lost their close with the power.
TEST(LogEndProperty, NoAcknowledgedGroupIsLostThatOnlySilentServersHave) {
  int lost = 0;
  const uint64_t seeds = ramcloud::testing::seeds(600);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    TrueLog log(20'000 + seed, 1 + seed % 2);
    log.missing_chance_ = 0.3;
    log.power_cut_chance_ = log.fence_chance_ = 1;
    log.kill();
    log.answers.expected.clear();
    const LogEnd end = decide_log_end(log.answers);
    lost += end.outcome == Outcome::kTailLost ? 1 : 0;
    ASSERT_EQ(log.check(end), "") << "seed " << seed;
  }
  EXPECT_GT(lost, 5);
}

/// The same when the coordinator's fence is that of an export, from before a holder was left behind.
TEST(LogEndProperty, NoAcknowledgedGroupIsLostBehindAnOldFence) {
  std::map<Outcome, int> outcomes;
  int fenced = 0;
  const uint64_t seeds = ramcloud::testing::seeds(200);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    TrueLog log(10'000 + seed, 3);
    log.missing_chance_ = seed % 2 == 0 ? 0.4 : 0;
    log.kill();
    fenced += log.answers.fence.epoch != 0 ? 1 : 0;
    log.answers.fence = {};
    log.answers.fence_of_export = true;
    const LogEnd end = decide_log_end(log.answers);
    ++outcomes[end.outcome];
    ASSERT_EQ(log.check(end), "") << "seed " << seed;
  }
  if (seeds < 200) return;
  EXPECT_GT(fenced, 20);
  for (const Outcome outcome : {Outcome::kComplete, Outcome::kWaiting, Outcome::kBlocked}) {
    EXPECT_GT(outcomes[outcome], 5) << outcome_name(outcome);
  }
}

bool covers(const AcceptedLoss& accepted, const AcceptedLoss& loss) {
  AcceptedLoss both = accepted;
  both.add(loss);
  return both == accepted;
}

/// For any loss: only the accepted loss is given up, and if more is lost later, it must be accepted
/// again.
TEST(LogEndProperty, AnAcceptedLossIsNoLargerThanWhatWasShown) {
  int accepted = 0, ends = 0, grew = 0;
  const uint64_t seeds = ramcloud::testing::seeds(600);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    TrueLog log(seed);
    log.missing_chance_ = 0.3 + 0.1 * static_cast<double>(seed % 5);
    log.kill();
    log.answers.expected.clear();
    log.answers.accepted.version_floor = uint64_t{1} << 40;
    if (decide_log_end(log.answers).outcome != Outcome::kBlocked) continue;
    const LossToAccept shown = loss_to_accept(log.answers, 1000);
    log.answers.accepted.add(shown.loss);
    ASSERT_EQ(log.check_accepted(decide_log_end(log.answers), shown.loss), "") << "seed " << seed;
    ++accepted;
    ends += shown.loss.end_after ? 1 : 0;

    log.lose_one();
    LogAnswers without = log.answers;
    without.accepted = {.version_floor = uint64_t{1} << 40};
    const LossToAccept larger = loss_to_accept(without, 1000);
    const LogEnd later = decide_log_end(log.answers);
    if (covers(log.answers.accepted, larger.loss)) continue;
    ASSERT_EQ(later.outcome, Outcome::kBlocked) << "seed " << seed;
    ++grew;
  }
  if (seeds < 600) return;
  EXPECT_GT(accepted, 50);
  EXPECT_GT(ends, 10);
  EXPECT_GT(grew, 10);
}

}  // namespace
}  // namespace ramcloud::log
