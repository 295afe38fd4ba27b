#include "replication/read_lease.h"

#include <algorithm>

namespace ramcloud {

ReadLease::Holder* ReadLease::find(uint64_t server_id) {
  const auto found = std::ranges::find(holders_, server_id, &Holder::server_id);
  return found == holders_.end() ? nullptr : &*found;
}

void ReadLease::hold(uint64_t server_id, Time sent) {
  if (Holder* holder = find(server_id)) {
    ++holder->replicas;
    return;
  }
  holders_.push_back({.server_id = server_id, .replicas = 1, .confirmed = sent, .asked = sent});
  tell();
}

void ReadLease::release(uint64_t server_id) {
  Holder* holder = find(server_id);
  if (holder == nullptr) return;
  if (--holder->replicas == 0) holders_.erase(holders_.begin() + (holder - holders_.data()));
  tell();
}

void ReadLease::lost(uint64_t server_id, uint32_t epoch) {
  lost_.push_back({server_id, epoch});
  if (Holder* holder = find(server_id)) ++holder->lost;
  tell();
}

void ReadLease::fenced(uint32_t epoch) {
  std::erase_if(lost_, [&](const Lost& one) {
    if (one.epoch > epoch) return false;
    if (Holder* holder = find(one.server_id)) --holder->lost;
    release(one.server_id);
    return true;
  });
}

void ReadLease::confirmed(uint64_t server_id, Time sent) {
  Holder* holder = find(server_id);
  if (holder == nullptr || sent <= holder->confirmed) return;
  holder->confirmed = sent;
  tell();
}

Time ReadLease::due(const Holder& holder) const {
  return std::max(holder.confirmed, holder.asked) + ask_after(length_);
}

std::vector<uint64_t> ReadLease::take_due(Time now) {
  std::vector<uint64_t> all;
  if (next_due() > now) return all;
  for (Holder& holder : holders_) {
    if (due(holder) - now >= asked_together(length_)) continue;
    holder.asked = now;
    all.push_back(holder.server_id);
  }
  return all;
}

Time ReadLease::next_due() const {
  Time next = kNever;
  for (const Holder& holder : holders_) next = std::min(next, due(holder));
  return next;
}

Time ReadLease::until() const {
  const auto has_some = [](const Holder& holder) { return holder.replicas > holder.lost; };
  if (std::ranges::none_of(holders_, has_some)) return kNever;
  return std::ranges::min(holders_, {}, &Holder::confirmed).confirmed + length_;
}

/// Publishing a longer lease late is safe: the term that others see is only shorter.
void ReadLease::tell() {
  const Time now = until();
  const bool same = (now == kNever) == (told_ == kNever);
  if (same && now >= told_ && now - told_ < length_ / kTellFraction) return;
  told_ = now;
  if (now == kNever) {
    term_.no_holder();
  } else {
    term_.hold_until(now);
  }
}

}  // namespace ramcloud
