#include "wire/hello.h"

#include <gtest/gtest.h>

namespace ramcloud::wire {
namespace {

using Uuid = std::array<uint8_t, 16>;
constexpr Uuid kOurs{1, 2, 3};
constexpr Uuid kOther{9};

StatusCode answered(const Hello& asked, uint64_t own_id = 7) {
  const Hello answer = answer_hello(asked, kOurs, own_id);
  EXPECT_TRUE(is_hello(answer));
  EXPECT_EQ(answer.server_id, own_id);
  EXPECT_EQ(check_answer(asked, answer).code(), static_cast<StatusCode>(answer.status));
  return static_cast<StatusCode>(answer.status);
}

TEST(Hello, AcceptsAnyoneOrTheOneAskedFor) {
  EXPECT_EQ(answered(make_hello({}, 0)), StatusCode::kOk);
  EXPECT_EQ(answered(make_hello(kOurs, 0)), StatusCode::kOk);
  EXPECT_EQ(answered(make_hello(kOurs, 7)), StatusCode::kOk);
}

TEST(Hello, RefusesAnotherClusterOrServer) {
  EXPECT_EQ(answered(make_hello(kOther, 7)), StatusCode::kWrongCluster);
  EXPECT_EQ(answered(make_hello(kOurs, 8)), StatusCode::kWrongServer);
  EXPECT_EQ(answered(make_hello({}, 8), 0), StatusCode::kWrongServer);
}

TEST(Hello, OneThatDoesNotKnowItsClusterYetIsUnavailableNotWrong) {
  const Hello asked = make_hello(kOurs, 0);
  EXPECT_EQ(check_answer(asked, answer_hello(asked, {}, 0)), StatusCode::kUnavailable);
}

TEST(Hello, PicksTheHighestCommonVersionOrRefuses) {
  Hello newer = make_hello({}, 0);
  newer.version_max = kVersionMax + 5;
  const Hello answer = answer_hello(newer, kOurs, 7);
  EXPECT_EQ(answer.version_min, kVersionMax);
  EXPECT_EQ(answer.version_max, kVersionMax);
  newer.version_min = kVersionMax + 1;
  EXPECT_EQ(answered(newer), StatusCode::kUnsupported);
  Hello older = make_hello({}, 0);
  older.version_min = older.version_max = kVersionMin - 1;
  EXPECT_EQ(answered(older), StatusCode::kUnsupported);
  Hello flags = make_hello({}, 0);
  flags.flags = 1;
  EXPECT_EQ(answered(flags), StatusCode::kUnsupported);
}

TEST(Hello, AnAnswerThatIsNotForUsIsAProtocolError) {
  const Hello asked = make_hello(kOurs, 7);
  const Hello good = answer_hello(asked, kOurs, 7);
  EXPECT_TRUE(check_answer(asked, good).ok());
  Hello bad = good;
  bad.magic[0] = 'X';
  EXPECT_EQ(check_answer(asked, bad).code(), StatusCode::kProtocolError);
  bad = good;
  bad.server_id = 8;
  EXPECT_EQ(check_answer(asked, bad).code(), StatusCode::kProtocolError);
  bad = good;
  bad.cluster_uuid[0] ^= 1;
  EXPECT_EQ(check_answer(asked, bad).code(), StatusCode::kProtocolError);
  bad = good;
  bad.version_max = 9;
  EXPECT_EQ(check_answer(asked, bad).code(), StatusCode::kProtocolError);
  bad = good;
  bad.status = 999;
  EXPECT_EQ(check_answer(asked, bad).code(), StatusCode::kProtocolError);
}

TEST(MessageHeader, OnlyTheRightKindWithinLimitsIsValid) {
  MessageHeader header{};
  header.kind = Kind::kRequest;
  EXPECT_TRUE(is_valid_header(header, Kind::kRequest));
  EXPECT_FALSE(is_valid_header(header, Kind::kReply));
  header.body_length = kMaxBodyBytes;
  EXPECT_TRUE(is_valid_header(header, Kind::kRequest));
  header.body_length = kMaxBodyBytes + 1;
  EXPECT_FALSE(is_valid_header(header, Kind::kRequest));
  header.body_length = 0;
  header.flags = 1;
  EXPECT_FALSE(is_valid_header(header, Kind::kRequest));
}

}  // namespace
}  // namespace ramcloud::wire
