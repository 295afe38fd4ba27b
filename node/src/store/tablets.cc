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

const char* why_not_free(TabletState state) {
  return state == TabletState::kRecovering ? " is being recovered" : " is still being dropped";
}

std::unique_ptr<Tablet> make_tablet(uint64_t table_id, uint64_t start_hash, uint64_t end_hash,
                                    uint64_t first_segment) {
  auto tablet = std::make_unique<Tablet>();
  tablet->table_id = table_id;
  tablet->start_hash = start_hash;
  tablet->end_hash = end_hash;
  tablet->first_segment = first_segment;
  return tablet;
}

}  // namespace

Tablets::Tablets() {
  SpinGuard guard(lock_);
  publish({});
}

Tablets::~Tablets() = default;

void Tablets::publish(const std::vector<Tablet*>& sorted) {
  auto list = std::make_unique<List>();
  list->sorted.reserve(sorted.size());
  for (Tablet* t : sorted) list->sorted.push_back({t->table_id, t->start_hash, t->end_hash, t});
  lists_.push_back(std::move(list));
  current_.store(lists_.back().get(), std::memory_order_release);
}

std::vector<Tablet*> Tablets::sorted() const {
  std::vector<Tablet*> tablets;
  for (const auto& place : lists_.back()->sorted) tablets.push_back(place.tablet);
  return tablets;
}

Tablet* Tablets::find(uint64_t table_id, uint64_t hash) const {
  const List* list = current_.load(std::memory_order_acquire);
  const auto above =
      std::upper_bound(list->sorted.begin(), list->sorted.end(), std::pair(table_id, hash),
                       [](const auto& key, const List::Place& place) {
                         return key < std::pair(place.table_id, place.start_hash);
                       });
  if (above == list->sorted.begin()) return nullptr;
  const List::Place& place = *std::prev(above);
  return place.table_id == table_id && hash <= place.end_hash ? place.tablet : nullptr;
}

Status Tablets::check(uint64_t table_id, uint64_t start_hash, uint64_t end_hash,
                      bool& is_there) const {
  if (start_hash > end_hash) {
    return {StatusCode::kInvalidArgument,
            range_text(table_id, start_hash, end_hash) + ": the start must not be above the end"};
  }
  for (const Tablet* t : sorted()) {
    if (t->table_id != table_id || t->end_hash < start_hash || t->start_hash > end_hash) continue;
    if (const TabletState state = t->state.load(); state != TabletState::kNormal) {
      return {StatusCode::kRetry,
              range_text(table_id, t->start_hash, t->end_hash) + why_not_free(state)};
    }
    is_there = t->start_hash == start_hash && t->end_hash == end_hash;
    if (is_there) return {};
    return {StatusCode::kExists, range_text(table_id, start_hash, end_hash) + " overlaps the " +
                                     range_text(table_id, t->start_hash, t->end_hash) +
                                     " already owned"};
  }
  return {};
}

Status Tablets::check_add(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) const {
  SpinGuard guard(lock_);
  bool is_there = false;
  return check(table_id, start_hash, end_hash, is_there);
}

void Tablets::insert(std::unique_ptr<Tablet> tablet) {
  std::vector<Tablet*> tablets = sorted();
  tablets.insert(std::upper_bound(tablets.begin(), tablets.end(), tablet.get(), starts_before),
                 tablet.get());
  owned_.push_back(std::move(tablet));
  publish(tablets);
}

Status Tablets::add(uint64_t table_id, uint64_t start_hash, uint64_t end_hash,
                    uint64_t first_segment) {
  auto tablet = make_tablet(table_id, start_hash, end_hash, first_segment);
  SpinGuard guard(lock_);
  bool is_there = false;
  Status status = check(table_id, start_hash, end_hash, is_there);
  if (!status.ok() || is_there) return status;
  insert(std::move(tablet));
  return {};
}

Status Tablets::add_recovering(uint64_t table_id, uint64_t start_hash, uint64_t end_hash,
                               uint64_t first_segment, uint64_t attempt) {
  auto tablet = make_tablet(table_id, start_hash, end_hash, first_segment);
  tablet->attempt = attempt;
  tablet->state.store(TabletState::kRecovering, std::memory_order_relaxed);
  SpinGuard guard(lock_);
  bool is_there = false;
  Status status = check(table_id, start_hash, end_hash, is_there);
  if (!status.ok()) return status;
  if (is_there) {
    return {StatusCode::kExists,
            range_text(table_id, start_hash, end_hash) + " is served here already"};
  }
  insert(std::move(tablet));
  return {};
}

uint32_t Tablets::mark_dropping(uint64_t table_id, uint64_t start_hash, uint64_t end_hash) {
  SpinGuard guard(lock_);
  ++drops_;
  uint32_t count = 0;
  for (Tablet* t : sorted()) {
    if (t->table_id == table_id && start_hash <= t->start_hash && t->end_hash <= end_hash &&
        t->state.load() == TabletState::kNormal) {
      t->dropped_at = drops_;
      t->state.store(TabletState::kDropping, std::memory_order_release);
      ++count;
    }
  }
  return count;
}

uint64_t Tablets::drops() const {
  SpinGuard guard(lock_);
  return drops_;
}

void Tablets::mark_purging(uint64_t drops) {
  SpinGuard guard(lock_);
  for (Tablet* t : sorted()) {
    if (t->state.load() == TabletState::kDropping && t->dropped_at <= drops) {
      t->state.store(TabletState::kPurging, std::memory_order_release);
    }
  }
}

void Tablets::remove(const std::vector<const Tablet*>& tablets) {
  SpinGuard guard(lock_);
  std::vector<Tablet*> left = sorted();
  const auto gone = [&](const Tablet* t) {
    return std::find(tablets.begin(), tablets.end(), t) != tablets.end();
  };
  std::erase_if(left, gone);
  publish(left);
  for (auto& tablet : owned_) {
    if (gone(tablet.get())) removed_.push_back(std::move(tablet));
  }
  std::erase(owned_, nullptr);
}

bool Tablets::any_in(TabletState state) const {
  const List* list = current_.load(std::memory_order_acquire);
  return std::ranges::any_of(list->sorted, [state](const List::Place& place) {
    return place.tablet->state.load(std::memory_order_acquire) == state;
  });
}

void Tablets::list_owned(log::OwnedTabletsEncoder& encoder) const {
  const List* list = current_.load(std::memory_order_acquire);
  for (const List::Place& place : list->sorted) {
    const TabletState state = place.tablet->state.load(std::memory_order_acquire);
    if (state != TabletState::kNormal && state != TabletState::kRecovering) continue;
    encoder.add({.table_id = place.table_id,
                 .start_hash = place.start_hash,
                 .end_hash = place.end_hash,
                 .first_segment = place.tablet->first_segment});
  }
}

std::vector<Tablet*> Tablets::all() const {
  SpinGuard guard(lock_);
  return sorted();
}

Tablets::Retired Tablets::take_retired() {
  SpinGuard guard(lock_);
  Retired retired;
  retired.tablets.swap(removed_);
  retired.lists.swap(lists_);
  lists_.push_back(std::move(retired.lists.back()));  // keep the current list
  retired.lists.pop_back();
  return retired;
}

}  // namespace ramcloud::store
