#include "sim/table_churn.h"

#include <fmt/core.h>

namespace ramcloud::sim {
namespace {
constexpr uint32_t kKeys = 6;
constexpr const char* kNamePrefix = "churn";
}  // namespace

void TableChurn::failed(const std::string& what, const std::string& name, const Status& status) {
  unsure_.insert(name);
  there_.erase(name);
  if (status == StatusCode::kIndeterminate) return;
  wrong_ += fmt::format("{} {}: {}\n", what, name, status.to_string());
}

Task<void> TableChurn::work(uint32_t rounds) {
  for (uint32_t i = 0; i < rounds; ++i) {
    const std::string name = kNamePrefix + std::to_string(i);
    co_await make(name);
    if (there_.empty() || !random_.chance(0.5)) continue;
    auto victim = there_.begin();
    std::advance(victim, static_cast<std::ptrdiff_t>(random_.below(there_.size())));
    co_await drop(victim->first);
  }
}

Task<void> TableChurn::make(std::string name) {
  const auto span = static_cast<uint32_t>(1 + random_.below(most_span_));
  auto made = co_await client_.create_table(name, span);
  if (!made && made.error() == StatusCode::kInvalidArgument) co_return;  // too few servers are up
  if (!made) {
    failed("create", name, made.error());
    co_return;
  }
  auto& contents = there_[name];
  for (uint32_t i = 0; i < kKeys; ++i) {
    const std::string key = fmt::format("key{}", i), value = fmt::format("{} of {}", i, name);
    const auto written = co_await client_.write(made->table_id, key, value);
    if (!written) {
      failed("write to", name, written.error());
      co_return;
    }
    contents[key] = value;
  }
}

Task<void> TableChurn::drop(std::string name) {
  const Status dropped = co_await client_.drop_table(name);
  if (!dropped.ok()) {
    failed("drop", name, dropped);
    co_return;
  }
  there_.erase(name);
}

Task<bool> TableChurn::check() {
  auto tables = co_await client_.list_tables();
  if (!tables) {
    wrong_ += "list: " + tables.error().to_string() + "\n";
    co_return false;
  }
  std::set<std::string> listed;
  for (const auto& table : *tables) {
    if (!table.name.starts_with(kNamePrefix) || unsure_.contains(table.name)) continue;
    listed.insert(table.name);
    if (!there_.contains(table.name)) wrong_ += table.name + " is there, and was dropped\n";
  }
  for (const auto& [name, contents] : there_) {
    if (!listed.contains(name)) {
      wrong_ += name + " is not listed\n";
      continue;
    }
    co_await check_contents(name, contents);
  }
  co_return true;
}

Task<void> TableChurn::check_contents(std::string name,
                                      std::map<std::string, std::string> expected) {
  auto table = co_await client_.open_table(name);
  if (!table) {
    wrong_ += fmt::format("open {}: {}\n", name, table.error().to_string());
    co_return;
  }
  for (const auto& [key, value] : expected) {
    const auto found = co_await client_.read(table->table_id, key);
    if (!found || found->value != value) {
      wrong_ += fmt::format("{}, {}: {}, expected {}\n", name, key,
                            found ? found->value : found.error().to_string(), value);
    }
  }
}

}  // namespace ramcloud::sim
