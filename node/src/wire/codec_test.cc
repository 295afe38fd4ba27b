#include "wire/codec.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "wire/control_messages.h"

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
  EXPECT_EQ(encode(message), expected);
}

TEST(Codec, WhatIsEncodedDecodesToTheSame) {
  const EnlistReply before = sample();
  EnlistReply after;
  ASSERT_TRUE(decode(encode(before), after));
  EXPECT_EQ(encode(after), encode(before));
  EXPECT_EQ(after.cluster_uuid, before.cluster_uuid);
  ASSERT_EQ(after.list.servers.size(), 3u);
  EXPECT_EQ(after.list.servers[1].state, ServerState::kCrashed);
  EXPECT_EQ(after.list.servers[2].locator, "tcp:host=127.0.0.1,port=7003");
}

TEST(Codec, EveryTruncationAndEveryExtraByteIsRefused) {
  const std::string bytes = encode(sample());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EnlistReply out;
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size), out)) << size;
  }
  EnlistReply out;
  EXPECT_FALSE(decode(bytes + "x", out));
}

TEST(Codec, AHugeCountOrLengthFailsWithoutAllocatingForIt) {
  const std::string count("\xff\xff\xff\xff", 4);
  Words words;
  EXPECT_FALSE(decode(count, words));
  EXPECT_LE(words.words.capacity(), 8u);
  Text text;
  EXPECT_FALSE(decode(count + "abc", text));
  EXPECT_LE(text.text.capacity(), 64u);
}

TEST(Codec, FlippedBytesNeverCrashAndWhatDecodesEncodesToTheSame) {
  const std::string good = encode(sample());
  Random random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good;
    const auto flips = 1 + random.below(4);
    for (uint64_t i = 0; i < flips; ++i) {
      bytes[random.below(bytes.size())] = static_cast<char>(random.next());
    }
    EnlistReply out;
    if (decode(bytes, out)) EXPECT_EQ(encode(out), bytes);
  }
}

}  // namespace
}  // namespace ramcloud::wire
