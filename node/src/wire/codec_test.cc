#include "wire/codec.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/control_messages.h"
#include "wire/message_header.h"
#include "wire/replica_messages.h"

namespace ramcloud::wire {
namespace {

EnlistReply sample() {
  EnlistReply reply;
  reply.server_id = 3;
  reply.cluster_uuid = {1, 2, 3, 4};
  reply.list.term = 5;
  reply.list.version = 6;
  for (uint64_t i = 1; i <= 3; ++i) {
    ServerListEntry entry;
    entry.server_id = i;
    entry.state = i == 2 ? ServerState::kCrashed : ServerState::kUp;
    entry.name = "server-" + std::to_string(i);
    entry.locator = "tcp:host=127.0.0.1,port=" + std::to_string(7000 + i);
    entry.disk_read_bytes_per_second = 1'000'000 * i;
    reply.list.servers.push_back(entry);
  }
  return reply;
}

struct Everything {
  bool flag = false;
  uint8_t small = 0;
  uint16_t port = 0;
  std::string text;
  std::vector<uint32_t> numbers;
  std::vector<std::string> words;
  template <class V>
  void fields(V& v) {
    v(flag, small, port, text, numbers, words);
  }
};

struct Words {
  std::vector<std::string> words;
  template <class V>
  void fields(V& v) {
    v(words);
  }
};

struct Text {
  std::string text;
  template <class V>
  void fields(V& v) {
    v(text);
  }
};

TEST(Codec, BytesAreAsDocumented) {
  Everything message{true, 0xab, 0x1234, "hi", {7}, {"x", ""}};
  const std::string expected(
      "\x01"                  // bool
      "\xab"                  // one byte
      "\x34\x12"              // little-endian
      "\x02\0\0\0hi"          // length, bytes
      "\x01\0\0\0\x07\0\0\0"  // count, elements
      "\x02\0\0\0\x01\0\0\0x\0\0\0\0",
      1 + 1 + 2 + 6 + 8 + 13);
  EXPECT_EQ(encode(message, 1), expected);
}

class CodecVersions : public ::testing::TestWithParam<uint16_t> {};
INSTANTIATE_TEST_SUITE_P(All, CodecVersions,
                         ::testing::Range<uint16_t>(kVersionMin, kVersionMax + 1));

TEST_P(CodecVersions, WhatIsEncodedDecodesToTheSame) {
  const uint16_t version = GetParam();
  const EnlistReply before = sample();
  EnlistReply after;
  ASSERT_TRUE(decode(encode(before, version), version, after));
  EXPECT_EQ(encode(after, version), encode(before, version));
  EXPECT_EQ(after.cluster_uuid, before.cluster_uuid);
  ASSERT_EQ(after.list.servers.size(), 3u);
  EXPECT_EQ(after.list.servers[1].state, ServerState::kCrashed);
  EXPECT_EQ(after.list.servers[2].locator, "tcp:host=127.0.0.1,port=7003");
}

TEST_P(CodecVersions, EveryTruncationAndEveryExtraByteIsRefused) {
  const uint16_t version = GetParam();
  const std::string bytes = encode(sample(), version);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EnlistReply out;
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size), version, out)) << size;
  }
  EnlistReply out;
  EXPECT_FALSE(decode(bytes + "x", version, out));
}

TEST(Codec, AHugeCountOrLengthFailsWithoutAllocatingForIt) {
  const std::string count("\xff\xff\xff\xff", 4);
  Words words;
  EXPECT_FALSE(decode(count, 1, words));
  EXPECT_LE(words.words.capacity(), 8u);
  Text text;
  EXPECT_FALSE(decode(count + "abc", 1, text));
  EXPECT_LE(text.text.capacity(), 64u);
}

TEST_P(CodecVersions, FlippedBytesNeverCrashAndWhatDecodesEncodesToTheSame) {
  const uint16_t version = GetParam();
  const std::string good = encode(sample(), version);
  Random random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    const auto flips = 1 + random.below(4);
    for (uint64_t i = 0; i < flips; ++i) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    }
    EnlistReply out;
    if (!decode(bytes, version, out)) continue;
    // In version 2 a length may have grown over bytes that it then hides as unknown.
    const std::string again = encode(out, version);
    if (version == 1) EXPECT_EQ(again, bytes);
    EnlistReply same;
    ASSERT_TRUE(decode(again, version, same));
    EXPECT_EQ(encode(same, version), again);
  }
}

// ---- version 2: structs that grow ---------------------------------------------------------------

struct OldInner {
  uint16_t a = 0;
  std::string rest = {};
  template <class V>
  void fields(V& v) {
    v(a);
    v.unknown(rest);
  }
};
struct NewInner {
  uint16_t a = 0;
  std::string added = {};
  template <class V>
  void fields(V& v) {
    v(a);
    v.since(2, added);
  }
};
template <typename Inner>
struct Outer {
  Inner one;
  std::vector<Inner> many;
  uint8_t last = 0;
  template <class V>
  void fields(V& v) {
    v(one, many, last);
  }
};
struct NewOuter : Outer<NewInner> {
  uint64_t more = 77, most = 78;
  template <class V>
  void fields(V& v) {
    v(one, many, last);
    v.since(2, more, most);
  }
};

TEST(CodecExtensible, PutsALengthBeforeEachStruct) {
  const Outer<OldInner> message{{0x0102, {}}, {{3, {}}}, 9};
  const std::string expected(
      "\x11\0\0\0"          // the message: 17 bytes
      "\x02\0\0\0\x02\x01"  // nested
      "\x01\0\0\0"
      "\x02\0\0\0\x03\0"  // count, element
      "\x09",
      21);
  EXPECT_EQ(encode(message, 2), expected);
  EXPECT_EQ(encode(message, 1).size(), 9u);
  EXPECT_EQ(encode(Empty(), 1), "");
  EXPECT_EQ(encode(Empty(), 2), std::string(4, '\0'));
}

TEST(CodecExtensible, AnOlderReaderSkipsWhatANewerWriterAdded) {
  NewOuter sent;
  sent.one = {1, "x"};
  sent.many = {{2, "yy"}, {3, ""}};
  sent.last = 4;
  Outer<OldInner> got;
  ASSERT_TRUE(decode(encode(sent, 2), 2, got));
  EXPECT_EQ(got.one.a, 1);
  ASSERT_EQ(got.many.size(), 2u);
  EXPECT_EQ(got.many[1].a, 3);
  EXPECT_EQ(got.last, 4);
}

TEST(CodecExtensible, ANewerReaderKeepsDefaultsOfWhatAnOlderWriterDoesNotHave) {
  const Outer<OldInner> sent{{1, {}}, {{2, {}}}, 4};
  NewOuter got;
  got.one.added = "default";
  ASSERT_TRUE(decode(encode(sent, 2), 2, got));
  EXPECT_EQ(got.one.added, "default");
  EXPECT_EQ(got.last, 4);
  EXPECT_EQ(got.more, 77u);
  EXPECT_EQ(got.most, 78u);
}

TEST(CodecExtensible, AFieldThatIsThereInPartIsRefused) {
  std::string bytes = encode(NewOuter(), 2);
  bytes.resize(bytes.size() - 1);  // of the last number
  bytes[0] = static_cast<char>(bytes.size() - 4);
  NewOuter got;
  EXPECT_FALSE(decode(bytes, 2, got));
}

TEST(CodecExtensible, VersionOneHasNothingThatWasAdded) {
  NewOuter sent;
  sent.one = {1, "x"};
  sent.many = {{2, "yy"}};
  const Outer<OldInner> as_before{{1, {}}, {{2, {}}}, 0};
  EXPECT_EQ(encode(sent, 1), encode(as_before, 1));
  NewOuter got;
  ASSERT_TRUE(decode(encode(as_before, 1), 1, got));
  EXPECT_EQ(got.more, 77u);
}

TEST(CodecExtensible, WhatIsUnknownIsWrittenBackByWhoKeepsIt) {
  NewOuter sent;
  sent.one = {1, "x"};
  sent.many = {{2, "yy"}, {3, ""}};
  Outer<OldInner> kept;
  ASSERT_TRUE(decode(encode(sent, 2), 2, kept));
  kept.many[0].a = 20;
  NewOuter got;
  ASSERT_TRUE(decode(encode(kept, 2), 2, got));
  EXPECT_EQ(got.one.added, "x");
  EXPECT_EQ(got.many[0].a, 20);
  EXPECT_EQ(got.many[0].added, "yy");
}

TEST(PackedExtension, IsTakenOffOrRefused) {
  std::string_view rest("segment"), extension;
  EXPECT_TRUE(take_extension(0, rest, extension));
  EXPECT_EQ(rest, "segment");
  const std::string with = encode(Text{"new"}, 2) + "segment";
  rest = with;
  ASSERT_TRUE(take_extension(kExtended, rest, extension));
  EXPECT_EQ(rest, "segment");
  Text text;
  ASSERT_TRUE(decode(extension, 2, text));
  EXPECT_EQ(text.text, "new");
  for (size_t size = 0; size < with.size() - 7; ++size) {
    rest = std::string_view(with).substr(0, size);
    EXPECT_FALSE(take_extension(kExtended, rest, extension)) << size;
  }
}

}  // namespace
}  // namespace ramcloud::wire
