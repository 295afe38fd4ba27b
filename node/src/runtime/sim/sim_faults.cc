#include "runtime/sim/sim_faults.h"

#include <algorithm>

namespace ramcloud {
namespace {
constexpr const char* kNames[] = {
    "message_lost",      "message_cut",    "message_cut_one_way", "message_slow",
    "call_repeated",     "session_broken", "process_killed",      "host_rebooted",
    "process_paused",    "disk_slow",      "sync_failed",         "write_lost",
    "write_misdirected", "clock_rate",     "clock_jumped",        "disk_damaged",
};
static_assert(std::size(kNames) == static_cast<size_t>(Fault::kCount));
}  // namespace

const char* fault_name(Fault fault) {
  return kNames[static_cast<size_t>(fault)];
}

void FaultCounts::add(Fault fault, Time now) {
  const auto kind = static_cast<size_t>(fault);
  for (size_t other = 0; other < kKinds; ++other) {
    if (other == kind || counts_[other] == 0 || now - last_[other] > kMeet) continue;
    ++pairs_[std::min(kind, other)][std::max(kind, other)];
  }
  ++counts_[kind];
  last_[kind] = now;
}

std::map<std::string, uint64_t> FaultCounts::by_kind() const {
  std::map<std::string, uint64_t> result;
  for (size_t i = 0; i < kKinds; ++i) {
    if (counts_[i] > 0) result[kNames[i]] = counts_[i];
  }
  return result;
}

std::map<std::string, uint64_t> FaultCounts::by_pair() const {
  std::map<std::string, uint64_t> result;
  for (size_t i = 0; i < kKinds; ++i) {
    for (size_t j = i + 1; j < kKinds; ++j) {
      if (pairs_[i][j] > 0) result[std::string(kNames[i]) + "+" + kNames[j]] = pairs_[i][j];
    }
  }
  return result;
}

}  // namespace ramcloud
