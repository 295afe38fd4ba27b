#include "workload/key_chooser.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace ramcloud::workload {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"uniform", "zipfian", "latest"};

/// A random number in [0, 1).
double unit(Random& random) {
  return static_cast<double>(random.next() >> 11) * 0x1.0p-53;
}

/// Scatters ranks over the key space, always in the same way (splitmix64's finisher).
uint64_t scatter(uint64_t rank) {
  rank += 0x9e3779b97f4a7c15;
  rank = (rank ^ (rank >> 30)) * 0xbf58476d1ce4e5b9;
  rank = (rank ^ (rank >> 27)) * 0x94d049bb133111eb;
  return rank ^ (rank >> 31);
}

}  // namespace

Result<Distribution> parse_distribution(std::string_view text) {
  const auto found = std::ranges::find(kNames, text);
  if (found != kNames.end()) return static_cast<Distribution>(found - kNames.begin());
  return fail(StatusCode::kInvalidArgument,
              "distribution '" + std::string(text) + "': accepted are uniform, zipfian and latest");
}

std::string_view distribution_name(Distribution distribution) {
  return kNames[static_cast<size_t>(distribution)];
}

Zipfian::Zipfian(uint64_t items, double theta) : theta_(theta) {
  for (; items_ < items; ++items_) zeta_ += std::pow(static_cast<double>(items_ + 1), -theta_);
  zeta_two_ = 1 + std::pow(2.0, -theta_);
  alpha_ = 1 / (1 - theta_);
  update();
}

void Zipfian::grow() {
  ++items_;
  zeta_ += std::pow(static_cast<double>(items_), -theta_);
  update();
}

void Zipfian::update() {
  eta_ = (1 - std::pow(2.0 / static_cast<double>(items_), 1 - theta_)) / (1 - zeta_two_ / zeta_);
}

uint64_t Zipfian::next(Random& random) const {
  const double u = unit(random);
  const double uz = u * zeta_;
  if (uz < 1 || items_ == 1) return 0;
  if (uz < zeta_two_) return 1;
  const auto rank =
      static_cast<uint64_t>(static_cast<double>(items_) * std::pow(eta_ * u - eta_ + 1, alpha_));
  return std::min(rank, items_ - 1);
}

KeyChooser::KeyChooser(Distribution distribution, uint64_t keys, double theta)
    : distribution_(distribution),
      keys_(keys),
      zipfian_(distribution == Distribution::kUniform ? 1 : keys, theta) {}

uint64_t KeyChooser::next(Random& random) const {
  switch (distribution_) {
    case Distribution::kUniform:
      return random.below(keys_);
    case Distribution::kZipfian:
      return scatter(zipfian_.next(random)) % keys_;
    case Distribution::kLatest:
      return keys_ - 1 - zipfian_.next(random);
  }
  return 0;
}

uint64_t KeyChooser::insert() {
  if (distribution_ != Distribution::kUniform) zipfian_.grow();
  return keys_++;
}

}  // namespace ramcloud::workload
