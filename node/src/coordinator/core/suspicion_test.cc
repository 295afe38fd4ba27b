#include "coordinator/core/suspicion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramcloud {
namespace {

using ::testing::HasSubstr;
using wire::PeerState;

constexpr Time at(Duration d) {
  return Time{} + d;
}

const Thresholds kDefaults;

/// A server that answered at second 0 and fails from then on.
Suspicion failing(PeerState state, uint32_t rounds) {
  Suspicion s(at(0s), false);
  s.answered(at(0s));
  for (uint32_t i = 0; i < rounds; ++i) s.failed(state, "why");
  return s;
}

TEST(Accounts, HalfOfAllMustBeAccountedFor) {
  const auto enough = [](uint32_t accounted, uint32_t expected) {
    return Accounts{accounted, expected}.enough();
  };
  EXPECT_TRUE(enough(0, 0)) << "nobody is missed";
  EXPECT_TRUE(enough(1, 1));
  EXPECT_FALSE(enough(0, 1)) << "the only server is never condemned by silence";
  EXPECT_TRUE(enough(1, 2)) << "one of two is half";
  EXPECT_FALSE(enough(0, 2));
  EXPECT_TRUE(enough(2, 3));
  EXPECT_FALSE(enough(1, 3)) << "two of three must be accounted for";
  EXPECT_TRUE(enough(2, 4));
  EXPECT_FALSE(enough(1, 4));
  EXPECT_TRUE(enough(500, 1000));
  EXPECT_FALSE(enough(499, 1000));
}

TEST(Suspicion, SilenceNeedsProbesTimeAPeerAndASoundCluster) {
  const auto seen = [](uint32_t rounds, bool peer, Duration now, std::optional<Time> sound,
                       uint32_t observers) {
    Suspicion s = failing(PeerState::kSilent, rounds);
    if (peer) s.peer_failed(PeerState::kSilent, "server 2");
    return s.evidence(at(now), kDefaults, sound, observers);
  };
  EXPECT_EQ(seen(3, true, 5s, at(0s), 2), Evidence::kSilent);
  EXPECT_EQ(seen(2, true, 5s, at(0s), 2), Evidence::kNone) << "three probes";
  EXPECT_EQ(seen(3, true, 4999ms, at(0s), 2), Evidence::kNone) << "five seconds";
  EXPECT_EQ(seen(3, false, 5s, at(0s), 2), Evidence::kNone) << "an indirect probe";
  EXPECT_EQ(seen(3, false, 5s, at(0s), 0), Evidence::kSilent) << "nobody could be asked";
  EXPECT_EQ(seen(9, true, 1h, std::nullopt, 2), Evidence::kNone) << "too little is heard";
  EXPECT_EQ(seen(9, true, 7999ms, at(3s), 2), Evidence::kNone) << "counted from when it is sound";
  EXPECT_EQ(seen(9, true, 8s, at(3s), 2), Evidence::kSilent);
}

TEST(Suspicion, ARefusalIsEvidenceOnceAPeerSeesItToo) {
  Suspicion s = failing(PeerState::kRefused, 2);
  s.peer_failed(PeerState::kRefused, "server 2");
  EXPECT_EQ(s.evidence(at(0s), kDefaults, std::nullopt, 1), Evidence::kNone);
  s.failed(PeerState::kRefused, "why");
  EXPECT_EQ(s.evidence(at(0s), kDefaults, std::nullopt, 1), Evidence::kRefused)
      << "whatever is heard of the others";
  EXPECT_TRUE(s.accounted_dead(kDefaults));
  EXPECT_THAT(
      s.describe(Evidence::kRefused, at(0s)),
      HasSubstr(
          "refused 3 connections of the coordinator in a row, and the connection of server 2"));

  Suspicion alone = failing(PeerState::kRefused, 100);
  EXPECT_EQ(alone.evidence(at(0s), kDefaults, at(0s), 0), Evidence::kNone);
  alone.peer_failed(PeerState::kSilent, "server 2");
  EXPECT_FALSE(alone.accounted_dead(kDefaults)) << "to the peer it is only silent";
  EXPECT_EQ(alone.evidence(at(5s), kDefaults, at(0s), 1), Evidence::kSilent);
}

TEST(Suspicion, SignsOfLifeAndOurOwnLatenessBeginItAgain) {
  for (int how = 0; how < 3; ++how) {
    Suspicion s = failing(PeerState::kRefused, 3);
    s.peer_failed(PeerState::kRefused, "server 2");
    ASSERT_EQ(s.evidence(at(9s), kDefaults, at(0s), 1), Evidence::kRefused);
    if (how == 0) s.answered(at(9s));
    if (how == 1) s.vouched(at(9s));
    if (how == 2) s.discard(at(9s));
    EXPECT_EQ(s.evidence(at(9s), kDefaults, at(0s), 1), Evidence::kNone) << how;
    // Only a sign of life ends the suspicion.
    EXPECT_EQ(s.accounted_alive(at(9s), kDefaults), how != 2) << how;
  }
}

TEST(Suspicion, WhoOnlyEnlistedIsGivenTimeToBecomeReachable) {
  Suspicion s(at(0s), true);
  EXPECT_TRUE(s.accounted_alive(at(2s), kDefaults));
  for (int i = 0; i < 3; ++i) s.failed(PeerState::kSilent, "no such name yet");
  s.peer_failed(PeerState::kSilent, "server 2");
  EXPECT_FALSE(s.accounted_alive(at(3s), kDefaults));
  EXPECT_EQ(s.evidence(at(59s), kDefaults, at(0s), 1), Evidence::kNone);
  EXPECT_EQ(s.evidence(at(60s), kDefaults, at(0s), 1), Evidence::kSilent);
}

/// Servers that stopped together are no longer accounted for before the first can be condemned.
TEST(Suspicion, WhoIsCondemnedIsNotAccountedForLongBefore) {
  const Suspicion s = failing(PeerState::kSilent, 3);
  EXPECT_TRUE(s.accounted_alive(at(2500ms), kDefaults));
  EXPECT_FALSE(s.accounted_alive(at(2501ms), kDefaults));
}

}  // namespace
}  // namespace ramcloud
