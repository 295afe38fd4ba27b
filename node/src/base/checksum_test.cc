#include "base/checksum.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace ramcloud {
namespace {

TEST(Checksum, KnownVector) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // RFC 3720, appendix B.4
  EXPECT_EQ(crc32c(""), 0u);
}

TEST(Checksum, ContinuesAcrossPieces) {
  const std::string text = "the quick brown fox";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), crc32c(text));
  }
}

TEST(Checksum, FindsEveryFlippedByte) {
  Random random(1);
  std::string bytes(300, '\0');
  for (auto& c : bytes) c = static_cast<char>(random.next());
  const uint32_t seed = 77;
  const uint32_t good = crc32c(bytes, seed);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string bad = bytes;
    bad[i] = static_cast<char>(bad[i] ^ (1 + random.below(255)));
    EXPECT_EQ(find_flipped_byte(bad, good, seed), i);
  }
}

TEST(Checksum, NothingToFindInGoodOrHopelessBytes) {
  EXPECT_EQ(find_flipped_byte("hello", crc32c("hello")), std::nullopt);
  EXPECT_EQ(find_flipped_byte("hello", crc32c("HELlo")), std::nullopt);
}

TEST(Checksum, IsTheSameForPiecesOfEverySize) {
  std::string bytes;
  for (size_t size = 0; size <= 600; ++size) {
    uint32_t by_byte = 0;
    for (const char& byte : bytes) by_byte = crc32c(ByteView(&byte, 1), by_byte);
    EXPECT_EQ(crc32c(bytes), by_byte) << size;
    const ByteView all = bytes;
    for (const size_t cut : {size / 3, size / 2, size - size / 7}) {
      EXPECT_EQ(crc32c(all.substr(cut), crc32c(all.substr(0, cut))), by_byte) << size;
      const ByteView pieces[] = {all.substr(0, cut), "", all.substr(cut)};
      EXPECT_EQ(crc32c(pieces), by_byte) << size;
      EXPECT_EQ(crc32c(std::span(pieces).last(1), crc32c(all.substr(0, cut))), by_byte) << size;
    }
    bytes.push_back(static_cast<char>(size * 37 + 11));
  }
}

#if defined(__x86_64__)
/// Which parts of the vector registers are not as at start: bit 2 the upper halves of 256 bits, bit
/// 6 those of 512.
__attribute__((target("xsave"))) uint64_t wide_registers_in_use() {
  return __builtin_ia32_xgetbv(1) & (1u << 2 | 1u << 6);
}
__attribute__((target("avx"))) void clear_wide_registers() {
  __builtin_ia32_vzeroupper();
}

/// While they are in use, all that is not AVX is slow (checksum.cc).
TEST(Checksum, LeavesNoWideRegisterInUse) {
  if (!__builtin_cpu_supports("avx") || !__builtin_cpu_supports("xsavec")) {
    GTEST_SKIP() << "this processor cannot say";
  }
  const std::string big(100'000, 'x');
  clear_wide_registers();
  if (wide_registers_in_use() != 0) GTEST_SKIP() << "this processor says more than there is";
  (void)crc32c(big);
  EXPECT_EQ(wide_registers_in_use(), 0u);
}
#endif

}  // namespace
}  // namespace ramcloud
