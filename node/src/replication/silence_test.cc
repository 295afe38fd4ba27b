#include "replication/silence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramcloud {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Time at(Duration since_begin) {
  return Time(10s) + since_begin;
}

TEST(Silence, ItTakesTheTimeAndThreeMessages) {
  Silence silence(1s);
  silence.unanswered(1, at(0ms));
  silence.unanswered(1, at(900ms));
  EXPECT_THAT(silence.take_silent(at(5s)), IsEmpty()) << "two";
  silence.unanswered(1, at(910ms));
  EXPECT_THAT(silence.take_silent(at(999ms)), IsEmpty());
  EXPECT_THAT(silence.take_silent(at(1s)), ElementsAre(1));
  EXPECT_THAT(silence.take_silent(at(5s)), IsEmpty()) << "it was taken";
}

TEST(Silence, AnAnswerEndsIt) {
  Silence silence(1s);
  for (const Duration sent : {0ms, 100ms, 200ms}) silence.unanswered(1, at(sent));
  for (const Duration sent : {0ms, 100ms, 200ms}) silence.unanswered(2, at(sent));
  silence.heard(1);
  EXPECT_THAT(silence.take_silent(at(2s)), ElementsAre(2));
}

TEST(Silence, WhatAProcessThatStoodMeasuredDoesNotCount) {
  Silence silence(1s);
  for (const Duration sent : {0ms, 100ms, 200ms}) silence.unanswered(1, at(sent));
  silence.discard(at(3s));
  EXPECT_THAT(silence.take_silent(at(3s)), IsEmpty());
  // They were sent before, and end now.
  for (const Duration sent : {300ms, 400ms, 500ms}) silence.unanswered(1, at(sent));
  EXPECT_THAT(silence.take_silent(at(10s)), IsEmpty());
  for (const Duration sent : {3000ms, 3100ms, 3200ms}) silence.unanswered(1, at(sent));
  EXPECT_THAT(silence.take_silent(at(4s)), ElementsAre(1));
}

TEST(Silence, ThoseThatLeftAreForgotten) {
  Silence silence(1s);
  for (const uint64_t id : {1, 2, 3}) silence.unanswered(id, at(0ms));
  silence.forget_unless([](uint64_t id) { return id == 2; });
  EXPECT_EQ(silence.size(), 1u);
  for (const uint64_t id : {1, 2}) {
    for (const Duration sent : {100ms, 200ms}) silence.unanswered(id, at(sent));
  }
  EXPECT_THAT(silence.take_silent(at(2s)), ElementsAre(2));
}

TEST(Silence, WithoutALimitItIsForEver) {
  Silence silence(0s);
  for (const Duration sent : {0ms, 100ms, 200ms}) silence.unanswered(1, at(sent));
  EXPECT_THAT(silence.take_silent(at(1000s)), IsEmpty());
}

}  // namespace
}  // namespace ramcloud
