#include "sim/workload.h"

#include <fmt/core.h>

#include <bit>
#include <cstring>

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
  // Each value is unique, so that a read tells which write it saw.
  std::string value = fmt::format("{}:{}:", options_.prefix, ++serial_);
  value.append(random_.below(options_.most_value_bytes),
               static_cast<char>('a' + random_.below(26)));
  return value;
}

Task<void> Worker::work() {
  while (counts_.operations() < options_.operations) {
    Key& key = keys_[random_.below(keys_.size())];
    const uint64_t dice = random_.below(100);
    if (dice < 25) {
      co_await read(key);
    } else if (dice < 50) {
      co_await write(key);
    } else if (dice < 60) {
      co_await remove(key);
    } else if (dice < 75) {
      for (int i = 0; i < 4; ++i) co_await increment(keys_[random_.below(keys_.size())]);
    } else if (dice < 85) {
      co_await multi_read();
    } else if (dice < 95) {
      co_await multi_write();
    } else {
      co_await multi_remove();
    }
  }
  done_ = true;
}

Task<bool> Worker::read_back() {
  bool certain = true;
  for (auto& key : keys_) {
    for (int attempt = 0; attempt < 20; ++attempt) {
      after_read(key, co_await client_.read(table_id_, key.name), {});
      if (key.possible.size() == 1) break;
    }
    if (key.possible.size() == 1) continue;
    complain(key, "cannot be read at the end");
    certain = false;
  }
  co_return certain;
}

// ---- conditions ---------------------------------------------------------------------------------

wire::RejectRules Worker::random_rules(const Key& key) {
  using Rules = wire::RejectRules;
  Rules rules{};
  switch (random_.below(16)) {
    case 0:
      rules.flags = Rules::kIfAbsent;
      break;
    case 1:
      rules.flags = Rules::kIfExists;
      break;
    case 2:
      rules.flags = Rules::kIfVersionNotEqual;
      break;
    case 3:
      rules.flags = Rules::kIfVersionAtMost;
      break;
    case 4:
      rules.flags = Rules::kIfAbsent | Rules::kIfVersionAtMost;
      break;
    default:
      return rules;
  }
  ++counts_.conditional;
  rules.version = random_.chance(0.7) ? key.version : key.version + random_.below(3);
  return rules;
}

bool Worker::may_pass(const Key& key, const Value& value, const wire::RejectRules& rules) {
  using Rules = wire::RejectRules;
  if (!value) return (rules.flags & (Rules::kIfAbsent | Rules::kIfVersionNotEqual)) == 0;
  if (rules.flags & Rules::kIfExists) return false;
  if (!key.exact) return true;  // its version is not known
  if ((rules.flags & Rules::kIfVersionNotEqual) && key.version != rules.version) return false;
  return !(rules.flags & Rules::kIfVersionAtMost) || key.version > rules.version;
}

bool Worker::may_fail_so(const Key& key, const Value& value, const wire::RejectRules& rules,
                         StatusCode code) {
  using Rules = wire::RejectRules;
  switch (code) {
    case StatusCode::kNotFound:
      return !value && (rules.flags & Rules::kIfAbsent);
    case StatusCode::kExists:
      return value && (rules.flags & Rules::kIfExists);
    case StatusCode::kWrongVersion:
      if (!value) {
        return (rules.flags & Rules::kIfVersionNotEqual) && !(rules.flags & Rules::kIfAbsent);
      }
      if (!(rules.flags & (Rules::kIfVersionNotEqual | Rules::kIfVersionAtMost))) return false;
      return !key.exact || !may_pass(key, value, rules);
    default:
      return false;
  }
}

void Worker::keep_only(Key& key, const std::function<bool(const Value&)>& possible,
                       const std::string& complaint) {
  std::set<Value> left;
  for (const Value& value : key.possible) {
    if (possible(value)) left.insert(value);
  }
  if (left.empty()) return complain(key, complaint);
  key.possible = std::move(left);
}

void Worker::new_version(Key& key, uint64_t version) {
  if (version <= key.version) {
    complain(key, fmt::format("new version {} is not above {}", version, key.version));
  }
  key.version = version;
  key.exact = true;
}

// ---- outcomes -----------------------------------------------------------------------------------

void Worker::after_failure(Key& key, const Change& change, const Status& status,
                           const wire::RejectRules& rules) {
  switch (status.code()) {
    case StatusCode::kNotFound:
    case StatusCode::kExists:
    case StatusCode::kWrongVersion:
      ++counts_.refused;
      return keep_only(
          key, [&](const Value& v) { return may_fail_so(key, v, rules, status.code()); },
          "refused though it should not be: " + status.to_string());
    case StatusCode::kInvalidArgument:  // an increment of a value that is not a number
      ++counts_.refused;
      return keep_only(
          key, [&](const Value& v) { return may_pass(key, v, rules) && !change(v); },
          "refused though it is a number: " + status.to_string());
    case StatusCode::kIndeterminate: {
      ++counts_.indeterminate;
      const std::set<Value> before = key.possible;
      for (const Value& value : before) {
        if (!may_pass(key, value, rules)) continue;
        if (auto changed = change(value)) key.possible.insert(std::move(*changed));
      }
      key.exact = false;
      return;
    }
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kOutOfMemory:
      ++counts_.failed;
      return;
    default:
      complain(key, "unexpected answer " + status.to_string());
  }
}

void Worker::after_read(Key& key, const Result<ReadResult>& result,
                        const wire::RejectRules& rules) {
  ++counts_.reads;
  if (!result) {
    const Status& status = result.error();
    if (status == StatusCode::kNotFound) {
      // Also without a condition, unless one on the version failed first.
      key.exact = false;
      return keep_only(
          key,
          [&](const Value& v) {
            return !v && ((rules.flags & wire::RejectRules::kIfAbsent) ||
                          !(rules.flags & wire::RejectRules::kIfVersionNotEqual));
          },
          "read as absent");
    }
    if (status == StatusCode::kIndeterminate) complain(key, "a read is INDETERMINATE");
    return after_failure(key, [](const Value& v) { return std::optional(v); }, status, rules);
  }
  const Value seen = result->value;
  if (!key.possible.contains(seen)) {
    complain(key, fmt::format("read {}, possible were {} others, for example {}",
                              seen->substr(0, 40), key.possible.size(),
                              key.possible.begin()->value_or("(absent)").substr(0, 40)));
  }
  if (!may_pass(key, seen, rules)) complain(key, "read though a condition does not hold");
  if (result->version < key.version || (key.exact && result->version != key.version)) {
    complain(key, fmt::format("version went from {} to {}", key.version, result->version));
  }
  key.version = result->version;
  key.exact = true;
  key.possible = {seen};
}

void Worker::after_write(Key& key, std::string value, const Result<uint64_t>& version,
                         const wire::RejectRules& rules) {
  ++counts_.writes;
  if (!version) {
    return after_failure(
        key, [&](const Value&) { return std::optional(Value(value)); }, version.error(), rules);
  }
  keep_only(
      key, [&](const Value& v) { return may_pass(key, v, rules); },
      "written though a condition does not hold");
  new_version(key, *version);
  key.possible = {std::move(value)};
}

void Worker::after_remove(Key& key, const Result<uint64_t>& version,
                          const wire::RejectRules& rules) {
  ++counts_.removes;
  if (!version) {
    return after_failure(
        key, [](const Value&) { return std::optional(Value()); }, version.error(), rules);
  }
  const bool existed = *version != 0;
  keep_only(
      key, [&](const Value& v) { return v.has_value() == existed && may_pass(key, v, rules); },
      existed ? "removed though absent or a condition does not hold"
              : "removing found nothing though it exists");
  if (existed && key.exact && *version != key.version) complain(key, "another version was removed");
  key.version = std::max(key.version, *version);
  key.exact = false;
  key.possible = {std::nullopt};
}

// ---- operations ---------------------------------------------------------------------------------

Task<void> Worker::read(Key& key) {
  const wire::RejectRules rules = random_rules(key);
  after_read(key, co_await client_.read(table_id_, key.name, rules), rules);
}

Task<void> Worker::write(Key& key) {
  const wire::RejectRules rules = random_rules(key);
  std::string value = random_.chance(0.3) ? std::string(8, '\0') : random_value();
  const auto version = co_await client_.write(table_id_, key.name, value, rules);
  after_write(key, std::move(value), version, rules);
}

Task<void> Worker::remove(Key& key) {
  const wire::RejectRules rules = random_rules(key);
  after_remove(key, co_await client_.remove(table_id_, key.name, rules), rules);
}

Task<void> Worker::increment(Key& key) {
  ++counts_.increments;
  const wire::RejectRules rules = random_rules(key);
  const bool is_double = random_.chance(0.3);
  const uint64_t delta =
      is_double ? std::bit_cast<uint64_t>(0.5 * static_cast<double>(1 + random_.below(1000)))
                : 1 + random_.below(1'000'000);
  const Change change = [=](const Value& value) -> std::optional<Value> {
    uint64_t bits = 0;
    if (value && value->size() != sizeof bits) return std::nullopt;
    if (value) std::memcpy(&bits, value->data(), sizeof bits);
    bits = is_double
               ? std::bit_cast<uint64_t>(std::bit_cast<double>(bits) + std::bit_cast<double>(delta))
               : bits + delta;
    return Value(std::string(bytes_of(bits)));
  };
  const auto type = is_double ? wire::NumberType::kDouble : wire::NumberType::kInt64;
  const auto sum = co_await client_.increment(table_id_, key.name, type, delta, rules);
  if (!sum) co_return after_failure(key, change, sum.error(), rules);
  const Value now = std::string(bytes_of(sum->bits));
  keep_only(
      key,
      [&](const Value& v) {
        const std::optional<Value> changed = change(v);
        return may_pass(key, v, rules) && changed && *changed == now;
      },
      "incremented to a sum that cannot be");
  new_version(key, sum->version);
  key.possible = {now};
}

std::vector<Worker::Key*> Worker::pick() {
  std::set<Key*> chosen;
  std::vector<Key*> keys;
  const uint64_t wanted = 1 + random_.below(options_.most_at_once);
  for (uint64_t i = 0; i < wanted; ++i) {
    Key& key = keys_[random_.below(keys_.size())];
    if (chosen.insert(&key).second) keys.push_back(&key);
  }
  ++counts_.multi;
  return keys;
}

std::vector<MultiOperation> Worker::operations_on(const std::vector<Key*>& keys) {
  std::vector<MultiOperation> operations;
  for (const Key* key : keys) {
    operations.push_back({table_id_, key->name, {}, random_rules(*key)});
  }
  return operations;
}

Task<void> Worker::multi_read() {
  const std::vector<Key*> keys = pick();
  const std::vector<MultiOperation> operations = operations_on(keys);
  const auto results = co_await client_.multi_read(operations);
  for (size_t i = 0; i < keys.size(); ++i) after_read(*keys[i], results[i], operations[i].reject);
}

Task<void> Worker::multi_write() {
  const std::vector<Key*> keys = pick();
  std::vector<MultiOperation> operations = operations_on(keys);
  for (MultiOperation& operation : operations) operation.value = random_value();
  const auto versions = co_await client_.multi_write(operations);
  for (size_t i = 0; i < keys.size(); ++i) {
    after_write(*keys[i], std::move(operations[i].value), versions[i], operations[i].reject);
  }
}

Task<void> Worker::multi_remove() {
  const std::vector<Key*> keys = pick();
  const std::vector<MultiOperation> operations = operations_on(keys);
  const auto versions = co_await client_.multi_remove(operations);
  for (size_t i = 0; i < keys.size(); ++i) {
    after_remove(*keys[i], versions[i], operations[i].reject);
  }
}

std::map<std::string, std::string> Worker::contents() const {
  std::map<std::string, std::string> all;
  for (const auto& key : keys_) {
    if (*key.possible.begin()) all[key.name] = **key.possible.begin();
  }
  return all;
}

Task<Result<std::map<std::string, std::string>>> scan_table(ClientCore& client, uint64_t table_id) {
  std::map<std::string, std::string> all;
  ClientCore::ScanPosition position;
  while (!position.done) {
    auto page = co_await client.scan_page(table_id, position, false, 4096);
    if (!page) co_return fail(std::move(page.error()));
    while (const auto object = page->next()) {
      if (!all.emplace(object->key, object->value).second) {
        co_return fail(StatusCode::kInternal,
                       "scan gave key '" + std::string(object->key) + "' twice");
      }
    }
  }
  co_return all;
}

}  // namespace ramcloud::sim
