// Interleavings of the hash table: lock-free readers, and writers that insert, replace and remove
// keys of one bucket while its chain grows.
#include <gtest/gtest.h>

#include <deque>

#include "model/history.h"
#include "store/hash_table.h"

namespace ramcloud::store {
namespace {

using model::Event;
using model::History;
using model::Schedule;

/// The target of an address in the table; immutable, like log entries.
struct Item {
  uint64_t key;
  uint64_t value;
};

/// All keys have the same bucket and the same tag.
uint64_t hash_of(uint64_t key) {
  return key << 48 | uint64_t{0x77} << 32 | 5;
}

const Item& item(const char* address) {
  return *reinterpret_cast<const Item*>(address);
}
auto is(uint64_t key) {
  return [key](const char* address) { return item(address).key == key; };
}

class Table {
 public:
  explicit Table(uint64_t fillers) : table_(8) {
    for (uint64_t i = 0; i < fillers; ++i) put(kFiller + i);
  }
  void read(uint64_t key) {
    history(key).note([&](Event& event) {
      const char* found = table_.lookup(hash_of(key), is(key));
      event.value = found == nullptr ? 0 : item(found).value;
    });
  }
  void write(uint64_t key) {
    history(key).note([&](Event& event) {
      event.kind = Event::Kind::kWrite;
      event.value = put(key);
    });
  }
  void remove(uint64_t key) {
    history(key).note([&](Event& event) {
      event.kind = Event::Kind::kRemove;
      SpinGuard guard(table_.lock_of(hash_of(key)));
      HashTable::Slot* slot = table_.find(hash_of(key), is(key));
      if (slot == nullptr) return;
      event.value = item(HashTable::address_in(*slot)).value;
      table_.clear(*slot, table_.bucket_of(hash_of(key)));
    });
  }
  std::string check(uint64_t keys) {
    for (uint64_t key = 0; key < keys; ++key) {
      read(key);  // the final state is part of the history
      if (!history(key).linearizable()) return "key " + std::to_string(key) + " has no history";
    }
    return "";
  }
  static constexpr uint64_t kFiller = 100;

 private:
  History& history(uint64_t key) { return histories_[key % kFiller]; }
  uint64_t put(uint64_t key) {
    SpinGuard guard(table_.lock_of(hash_of(key)));
    const Item& fresh = items_.emplace_back(key, ++last_value_);
    const char* address = reinterpret_cast<const char*>(&fresh);
    HashTable::Slot* slot = table_.find(hash_of(key), is(key));
    if (slot != nullptr) {
      table_.replace(*slot, hash_of(key), address);
    } else {
      table_.insert(hash_of(key), address);
    }
    return fresh.value;
  }

  HashTable table_;
  std::deque<Item> items_;
  uint64_t last_value_ = 0;
  History histories_[kFiller];
};

/// Two keys are written, removed and written again, while two threads read.
std::string overwrites_and_removes(Schedule& schedule) {
  Table table(schedule.random().below(8));
  table.write(0);
  schedule.actor([&] {
    table.write(0);
    table.remove(0);
    table.write(0);
  });
  schedule.actor([&] {
    table.write(1);
    table.remove(0);
    table.remove(1);
  });
  for (int i = 0; i < 2; ++i) {
    schedule.actor([&] {
      table.read(0);
      table.read(1);
      table.read(0);
    });
  }
  std::string wrong = schedule.run();
  return wrong.empty() ? table.check(2) : wrong;
}

/// The bucket is full; the entry that must move is read at the same time.
std::string the_chain_grows(Schedule& schedule) {
  Table table(7);
  table.write(0);  // in the last slot
  schedule.actor([&] { table.write(1); });
  schedule.actor([&] { table.write(2); });
  for (int i = 0; i < 2; ++i) {
    schedule.actor([&] {
      table.read(0);
      table.read(1);
      table.read(0);
    });
  }
  std::string wrong = schedule.run();
  return wrong.empty() ? table.check(3) : wrong;
}

TEST(HashTableModel, OverwritesAndRemoves) {
  const auto explored = model::explore(1, 150'000, overwrites_and_removes);
  EXPECT_EQ(explored.wrong, "");
}

TEST(HashTableModel, TheChainGrows) {
  const auto explored = model::explore(1, 150'000, the_chain_grows);
  EXPECT_EQ(explored.wrong, "");
}

}  // namespace
}  // namespace ramcloud::store
