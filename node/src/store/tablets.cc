#include "store/tablets.h"

#include <algorithm>
#include <string>

namespace ramcloud::store {
namespace {

bool starts_before(const Tablet* a, const Tablet* b) {
  return std::pair(a->table_id, a->start_hash) < std::pair(b->table_id, b->start_hash);
}

std::string range_text(uint64_t table_id, uint64_t start, uint64_t end) {
  return "tablet [" + std::to_string(start) + ", " + std::to_string(end) + "] of table " +
         std::to_string(table_id);
}

}  // namespace

Tablets::Tablets() {
  SpinGuard guard(lock_);
  publish({});
}

Tablets::~Tablets() = default;

void Tablets::publish(std::vector<Tablet*> sorted) {
  lists_.push_back(std::make_unique<const List>(std::move(sorted)));
  // In one order with find()'s store and load: it sees the new list, or its tablet is forgotten
  // here.
  current_.store(lists_.back().get(), std::memory_order_seq_cst);
  last_found_.store(nullptr, std::memory_order_seq_cst);
}

Tablet* Tablets::find(uint64_t table_id, uint64_t hash) const {
  Tablet* last = last_found_.load(std::memory_order_acquire);
  if (last != nullptr && last->contains(table_id, hash)) return last;
  const List* list = current_.load(std::memory_order_acquire);
  const auto above = std::upper_bound(
      list->sorted.begin(), list->sorted.end(), std::pair(table_id, hash),
      [](const auto& key, const Tablet* t) { return key < std::pair(t->table_id, t->start_hash); });
  if (above == list->sorted.begin()) return nullptr;
  Tablet* found = *std::prev(above);
  if (!found->contains(table_id, hash)) return nullptr;
  // A list that is being replaced must not leave its tablet behind as the last one found: were the
  // store not in one order with the load below, a removed tablet could stay here, and be found
  // after it was freed.
  last_found_.store(found, std::memory_order_seq_cst);
  if (current_.load(std::memory_order_seq_cst) != list) {
    last_found_.store(nullptr, std::memory_order_release);
  }
  return found;
}

Status Tablets::add(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) {
  if (start_hash > end_hash) {
    return {StatusCode::kInvalidArgument,
            range_text(table_id, start_hash, end_hash) + ": the start must not be above the end"};
  }
  auto tablet = std::make_unique<Tablet>();
  tablet->table_id = table_id;
  tablet->start_hash = start_hash;
  tablet->end_hash = end_hash;
  SpinGuard guard(lock_);
  std::vector<Tablet*> sorted = lists_.back()->sorted;
  for (const Tablet* t : sorted) {
    if (t->table_id != table_id || t->end_hash < start_hash || t->start_hash > end_hash) continue;
    if (t->state.load() == TabletState::kDropping) {
      return {StatusCode::kRetry,
              range_text(table_id, t->start_hash, t->end_hash) + " is still being dropped"};
    }
    if (t->start_hash == start_hash && t->end_hash == end_hash) return {};
    return {StatusCode::kExists, range_text(table_id, start_hash, end_hash) + " overlaps the " +
                                     range_text(table_id, t->start_hash, t->end_hash) +
                                     " already owned"};
  }
  sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), tablet.get(), starts_before),
                tablet.get());
  owned_.push_back(std::move(tablet));
  publish(std::move(sorted));
  return {};
}

uint32_t Tablets::mark_dropping(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) {
  SpinGuard guard(lock_);
  uint32_t count = 0;
  for (Tablet* t : lists_.back()->sorted) {
    if (t->table_id == table_id && start_hash <= t->start_hash && t->end_hash <= end_hash &&
        t->state.load() == TabletState::kNormal) {
      t->state.store(TabletState::kDropping, std::memory_order_release);
      ++count;
    }
  }
  return count;
}

void Tablets::remove(const std::vector<const Tablet*>& tablets) {
  SpinGuard guard(lock_);
  std::vector<Tablet*> sorted = lists_.back()->sorted;
  const auto gone = [&](const Tablet* t) {
    return std::find(tablets.begin(), tablets.end(), t) != tablets.end();
  };
  std::erase_if(sorted, gone);
  publish(std::move(sorted));
  for (auto& tablet : owned_) {
    if (gone(tablet.get())) removed_.push_back(std::move(tablet));
  }
  std::erase(owned_, nullptr);
}

std::vector<Tablet*> Tablets::all() const {
  SpinGuard guard(lock_);
  return lists_.back()->sorted;
}

Tablets::Retired Tablets::take_retired() {
  SpinGuard guard(lock_);
  Retired retired;
  retired.tablets.swap(removed_);
  retired.lists.swap(lists_);
  lists_.push_back(std::move(retired.lists.back()));  // the current one stays
  retired.lists.pop_back();
  return retired;
}

}  // namespace ramcloud::store
