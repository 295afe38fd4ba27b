#include "workload/key_chooser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace ramcloud::workload {
namespace {

constexpr uint64_t kSeed = 42;

TEST(Zipfian, RanksAreAsOftenAsTheFormulaSays) {
  constexpr uint64_t kItems = 1000;
  constexpr int kDraws = 400'000;
  const double theta = 0.99;
  Random random(kSeed);
  const Zipfian zipfian(kItems, theta);
  std::vector<int> seen(kItems);
  for (int i = 0; i < kDraws; ++i) ++seen.at(zipfian.next(random));
  double zeta = 0;
  for (uint64_t i = 1; i <= kItems; ++i) zeta += std::pow(static_cast<double>(i), -theta);
  // Ranks 0 and 1 are exact; the method approximates the others, so sums over ranges are compared.
  const auto expected = [&](uint64_t from, uint64_t to) {
    double sum = 0;
    for (uint64_t rank = from; rank < to; ++rank) {
      sum += std::pow(static_cast<double>(rank + 1), -theta) / zeta;
    }
    return sum * kDraws;
  };
  const auto counted = [&](uint64_t from, uint64_t to) {
    double sum = 0;
    for (uint64_t rank = from; rank < to; ++rank) sum += seen[rank];
    return sum;
  };
  for (const auto& [from, to] : std::vector<std::pair<uint64_t, uint64_t>>{
           {0, 1}, {1, 2}, {2, 10}, {10, 100}, {100, 1000}}) {
    EXPECT_NEAR(counted(from, to) / expected(from, to), 1, 0.12) << from << " to " << to;
  }
}

TEST(Zipfian, GrowingIsTheSameAsHavingBeenLarger) {
  Zipfian grown(1, 0.5);
  while (grown.items() < 50) grown.grow();
  const Zipfian large(50, 0.5);
  Random one(kSeed), two(kSeed);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(grown.next(one), large.next(two));
}

TEST(KeyChooser, StaysInTheKeySpace) {
  for (const auto distribution :
       {Distribution::kUniform, Distribution::kZipfian, Distribution::kLatest}) {
    for (const uint64_t keys : {1, 2, 3, 17}) {
      Random random(kSeed);
      KeyChooser chooser(distribution, keys, 0.99);
      std::set<uint64_t> seen;
      for (int i = 0; i < 2000; ++i) {
        const uint64_t key = chooser.next(random);
        ASSERT_LT(key, keys) << distribution_name(distribution);
        seen.insert(key);
      }
      if (distribution != Distribution::kZipfian) {
        EXPECT_EQ(seen.size(), keys);
      }
    }
  }
}

TEST(KeyChooser, TheNewestIsTheMostPopularOfLatest) {
  Random random(kSeed);
  KeyChooser chooser(Distribution::kLatest, 100, 0.99);
  for (int inserted = 0; inserted < 2; ++inserted) {
    std::map<uint64_t, int> seen;
    for (int i = 0; i < 10'000; ++i) ++seen[chooser.next(random)];
    for (const auto& [key, count] : seen) {
      if (key != chooser.keys() - 1) {
        EXPECT_LT(count, seen[chooser.keys() - 1]) << key;
      }
    }
    EXPECT_EQ(chooser.insert(), 100u + static_cast<uint64_t>(inserted));
  }
}

TEST(KeyChooser, NamesAreReadBack) {
  for (const auto distribution :
       {Distribution::kUniform, Distribution::kZipfian, Distribution::kLatest}) {
    EXPECT_EQ(parse_distribution(distribution_name(distribution)).value(), distribution);
  }
  const auto wrong = parse_distribution("normal");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message(),
            "distribution 'normal': accepted are uniform, zipfian and latest");
}

}  // namespace
}  // namespace ramcloud::workload
