// The atomics of data that threads share without a lock: log/, store/, epochs. Normally they are
// std::atomic. With the preset `model` each access is a switch point of a scheduler that explores
// interleavings (base/model_schedule.h, docs/design/simulation.md). The model is sequentially
// consistent, so each weaker memory order needs a written argument in a comment.
#pragma once

#include <atomic>

#ifdef RAMCLOUD_MODEL
#include "base/model_schedule.h"
#endif

namespace ramcloud {

#ifndef RAMCLOUD_MODEL

template <typename T>
using Atomic = std::atomic<T>;

#else

/// The used subset of std::atomic. Each change is followed by a switch point as well, so that later
/// plain accesses are not treated as part of it.
template <typename T>
class Atomic {
 public:
  Atomic() = default;
  Atomic(T value) : value_(value) {}  // NOLINT: as std::atomic's
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst) const {
    model::point();
    return value_.load();
  }
  void store(T value, std::memory_order = std::memory_order_seq_cst) {
    model::point();
    value_.store(value);
    model::point();
  }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
    model::point();
    const T before = value_.exchange(value);
    model::point();
    return before;
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order = std::memory_order_seq_cst,
                             std::memory_order = std::memory_order_seq_cst) {
    model::point();
    const bool done = value_.compare_exchange_strong(expected, value);
    model::point();
    return done;
  }
  bool compare_exchange_strong(T& expected, T value, std::memory_order = std::memory_order_seq_cst,
                               std::memory_order = std::memory_order_seq_cst) {
    return compare_exchange_weak(expected, value);
  }
  T fetch_or(T value, std::memory_order = std::memory_order_seq_cst)
    requires requires(std::atomic<T>& a, T v) { a.fetch_or(v); }
  {
    model::point();
    const T before = value_.fetch_or(value);
    model::point();
    return before;
  }
  T fetch_add(T value, std::memory_order = std::memory_order_seq_cst)
    requires requires(std::atomic<T>& a, T v) { a.fetch_add(v); }
  {
    model::point();
    const T before = value_.fetch_add(value);
    model::point();
    return before;
  }
  T fetch_sub(T value, std::memory_order = std::memory_order_seq_cst)
    requires requires(std::atomic<T>& a, T v) { a.fetch_sub(v); }
  {
    model::point();
    const T before = value_.fetch_sub(value);
    model::point();
    return before;
  }
  operator T() const { return load(); }  // NOLINT: as std::atomic's
  T operator=(T value) {
    store(value);
    return value;
  }

 private:
  std::atomic<T> value_{};
};

#endif

}  // namespace ramcloud
