#include "sim/overwriter.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/hash.h"

namespace ramcloud::sim {

std::string Overwriter::name_of(size_t key) const {
  return fmt::format("overwritten {}", key);
}

/// The length depends on the number of the write: one in four values is small.
std::string Overwriter::value_of(size_t key, uint64_t write) const {
  Random random(options_.seed ^ write << 20 ^ key);
  const uint64_t length = random.below(random.chance(0.25) ? 500 : options_.most_value_bytes);
  std::string value = fmt::format("{} of {} ", write, name_of(key));
  value.resize(std::max<uint64_t>(value.size(), length), static_cast<char>('a' + write % 26));
  return value;
}

void Overwriter::complain(size_t key, const std::string& what) {
  if (wrong_.size() < 2'000) wrong_ += fmt::format("{}: {}\n", name_of(key), what);
}

Task<void> Overwriter::work(uint64_t table_id) {
  table_id_ = table_id;
  while (bytes_ < options_.bytes && wrong_.empty()) {
    const size_t key = random_.below(keys_.size());
    const uint64_t dice = random_.below(10);
    if (dice < 8) {
      co_await write(key);
    } else if (dice < 9) {
      co_await remove(key);
    } else {
      co_await read(key);
    }
  }
}

Task<bool> Overwriter::check() {
  for (size_t key = 0; key < keys_.size() && table_id_ != 0; ++key) co_await read(key);
  co_return wrong_.empty();
}

Task<void> Overwriter::write(size_t key) {
  const uint64_t write = ++writes_;
  const std::string value = value_of(key, write);
  bytes_ += value.size();
  const auto written = co_await client_.write(table_id_, name_of(key), value);
  auto& may_be = keys_[key].may_be;
  if (written) {
    may_be = {write};
  } else if (written.error() == StatusCode::kIndeterminate) {
    may_be.push_back(write);
  } else {
    complain(key, "write: " + written.error().to_string());
  }
}

Task<void> Overwriter::remove(size_t key) {
  const auto removed = co_await client_.remove(table_id_, name_of(key));
  auto& may_be = keys_[key].may_be;
  if (removed) {
    may_be = {kAbsent};
  } else if (removed.error() == StatusCode::kIndeterminate) {
    may_be.push_back(kAbsent);
  } else {
    complain(key, "delete: " + removed.error().to_string());
  }
}

Task<void> Overwriter::read(size_t key) {
  const auto found = co_await client_.read(table_id_, name_of(key));
  auto& may_be = keys_[key].may_be;
  if (!found && found.error() != StatusCode::kNotFound) {
    complain(key, "read: " + found.error().to_string());
    co_return;
  }
  const auto is_it = [&](uint64_t write) {
    return found ? write != kAbsent && value_of(key, write) == found->value : write == kAbsent;
  };
  const auto which = std::ranges::find_if(may_be, is_it);
  if (which == may_be.end()) {
    complain(key, fmt::format("read {}, expected write {} or one of {} others",
                              found ? found->value.substr(0, 40) : "(absent)", may_be.front(),
                              may_be.size() - 1));
    co_return;
  }
  may_be = {*which};
}

}  // namespace ramcloud::sim
