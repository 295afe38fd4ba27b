#include "sim/workload.h"

#include <fmt/core.h>

namespace ramcloud::sim {

Worker::Worker(ClientCore& client, uint64_t table_id, const Options& options)
    : client_(client), table_id_(table_id), options_(options), random_(options.seed) {
  for (uint32_t i = 0; i < options.keys; ++i) {
    keys_.emplace_back().name = fmt::format("{}-{}", options.prefix, i);
  }
}

void Worker::complain(const Key& key, const std::string& what) {
  wrong_ += fmt::format("key {}: {}\n", key.name, what);
}

std::string Worker::random_value() {
  // Each value once, so that a read tells which write it saw.
  std::string value = fmt::format("{}:{}:", options_.prefix, ++serial_);
  value.append(random_.below(options_.most_value_bytes),
               static_cast<char>('a' + random_.below(26)));
  return value;
}

Task<void> Worker::work() {
  for (uint32_t i = 0; i < options_.operations; ++i) {
    Key& key = keys_[random_.below(keys_.size())];
    const uint64_t dice = random_.below(100);
    if (dice < 40) {
      co_await read(key);
    } else if (dice < 75) {
      co_await write(key);
    } else if (dice < 85) {
      co_await write_if(key);
    } else {
      co_await remove(key);
    }
  }
  done_ = true;
}

Task<void> Worker::settle() {
  for (auto& key : keys_) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      co_await read(key);
      if (key.possible.size() == 1) break;
    }
    if (key.possible.size() != 1) complain(key, "cannot be read at the end");
  }
}

/// The outcome is not known: the value may be there now. Anything but INDETERMINATE and UNAVAILABLE
/// (never executed) is not expected of a call without conditions.
void Worker::uncertain(Key& key, std::optional<std::string> value, const Status& status) {
  if (status == StatusCode::kIndeterminate) {
    ++counts_.indeterminate;
    key.possible.insert(std::move(value));
  } else if (status == StatusCode::kUnavailable || status == StatusCode::kDeadlineExceeded ||
             status == StatusCode::kRetry || status == StatusCode::kOutOfMemory) {
    ++counts_.failed;
  } else {
    complain(key, "unexpected answer " + status.to_string());
  }
}

Task<void> Worker::read(Key& key) {
  ++counts_.reads;
  auto result = co_await client_.read(table_id_, key.name);
  if (!result && !(result.error() == StatusCode::kNotFound)) {
    uncertain(key, std::nullopt, result.error());
    if (result.error() == StatusCode::kIndeterminate) complain(key, "a read is INDETERMINATE");
    co_return;
  }
  std::optional<std::string> seen;
  if (result) seen = result->value;
  if (!key.possible.contains(seen)) {
    complain(key, fmt::format("read {}, possible were {} others, for example {}",
                              seen.value_or("(absent)").substr(0, 40), key.possible.size(),
                              key.possible.begin()->value_or("(absent)").substr(0, 40)));
  }
  if (result && result->version < key.version) {
    complain(key, fmt::format("version went back from {} to {}", key.version, result->version));
  }
  if (result) key.version = result->version;
  key.possible = {seen};
}

Task<void> Worker::write(Key& key) {
  ++counts_.writes;
  std::string value = random_value();
  auto version = co_await client_.write(table_id_, key.name, value);
  if (!version) co_return uncertain(key, std::move(value), version.error());
  if (*version <= key.version) {
    complain(key, fmt::format("new version {} is not above {}", *version, key.version));
  }
  key.version = *version;
  key.possible = {std::move(value)};
}

/// Writes only if the object exists: refused exactly when it is absent.
Task<void> Worker::write_if(Key& key) {
  ++counts_.conditional;
  std::string value = random_value();
  wire::RejectRules rules{};
  rules.flags = wire::RejectRules::kIfAbsent;
  auto version = co_await client_.write(table_id_, key.name, value, rules);
  if (version) {
    if (key.possible.size() == 1 && !*key.possible.begin()) complain(key, "written though absent");
    if (*version <= key.version) complain(key, "conditional write's version is not above");
    key.version = *version;
    key.possible = {std::move(value)};
  } else if (version.error() == StatusCode::kNotFound) {
    if (!key.possible.contains(std::nullopt)) complain(key, "refused as absent though it exists");
    key.possible = {std::nullopt};
  } else {
    uncertain(key, std::move(value), version.error());
  }
}

Task<void> Worker::remove(Key& key) {
  ++counts_.removes;
  auto version = co_await client_.remove(table_id_, key.name);
  if (!version) co_return uncertain(key, std::nullopt, version.error());
  if (*version == 0 && !key.possible.contains(std::nullopt)) {
    complain(key, "removing found nothing though it exists");
  }
  if (*version != 0 && key.possible.size() == 1 && !*key.possible.begin()) {
    complain(key, "removed though absent");
  }
  key.version = std::max(key.version, *version);
  key.possible = {std::nullopt};
}

std::map<std::string, std::string> Worker::contents() const {
  std::map<std::string, std::string> all;
  for (const auto& key : keys_) {
    if (*key.possible.begin()) all[key.name] = **key.possible.begin();
  }
  return all;
}

}  // namespace ramcloud::sim
