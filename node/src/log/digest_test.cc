#include "log/digest.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace ramcloud::log {
namespace {

std::string encode(const std::vector<uint64_t>& ids) {
  std::string out;
  DigestEncoder encoder(out);
  for (const uint64_t id : ids) encoder.add(id);
  encoder.finish();
  return out;
}

TEST(Digest, Golden) {
  // Runs 1-3, 5, 300-301: gaps 1, 1, 294 and lengths - 1.
  const std::string bytes = encode({1, 2, 3, 5, 300, 301});
  EXPECT_EQ(bytes, std::string("\x03\0\0\0\x01\x02\x01\x00\xa6\x02\x01", 11));
}

TEST(Digest, RoundTrip) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> ids;
    uint64_t id = 0;
    for (uint64_t n = random.below(50); n > 0; --n) {
      id += 1 + (random.chance(0.7) ? 0 : random.below(uint64_t{1} << random.below(50)));
      ids.push_back(id);
    }
    const auto decoded = decode_digest(encode(ids));
    ASSERT_TRUE(decoded);
    EXPECT_EQ(*decoded, ids);
  }
}

TEST(Digest, MalformedIsRefused) {
  const std::string good = encode({1, 2, 9});
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(decode_digest(good.substr(0, n))) << n;
  EXPECT_FALSE(decode_digest(good + '\0'));
  EXPECT_FALSE(decode_digest(std::string("\x02\0\0\0\x01\x00\x00\x00", 8))) << "runs that touch";
  EXPECT_FALSE(decode_digest(std::string("\x01\0\0\0\x01\xff\xff\xff\xff\x7f", 10))) << "too many";
  EXPECT_FALSE(decode_digest(std::string("\x01\0\0\0", 4) + std::string(10, '\xff') + '\1'));
  EXPECT_FALSE(decode_digest(std::string("\xff\xff\xff\xff", 4)));
}

TEST(Digest, RandomBytesDoNoHarm) {
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    std::string bytes(4 + random.below(20), '\0');
    for (auto& c : bytes) c = static_cast<char>(random.next());
    bytes[1] = bytes[2] = bytes[3] = 0;
    const auto ids = decode_digest(bytes);
    if (ids) {
      EXPECT_LE(ids->size(), kMaxDigestSegments);
    }
  }
}

}  // namespace
}  // namespace ramcloud::log
