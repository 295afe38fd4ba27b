// For tests of the cleaner: a store without tombstones, passes that copy, and a log with a worker.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "log/cleaner.h"
#include "log/group_reader.h"
#include "log/log_test_support.h"
#include "log/side_log.h"

namespace ramcloud::log {

/// The simplest store: it knows where each key's object is. It writes no tombstones, because these
/// tests are about memory, not about replay.
struct Keys {
  explicit Keys(Log& l) : log(l) {}
  StatusCode write(uint64_t key, ByteView value) {
    const std::string name = "key" + std::to_string(key);
    const char* ref = nullptr;
    const StatusCode status = append_object(log, 1, ++version, name, value, nullptr, &ref);
    if (status != StatusCode::kOk) return status;
    if (const auto old = by_key.find(name); old != by_key.end()) log.mark_dead(old->second);
    by_key[name] = ref;
    return status;
  }
  std::string value_of(const std::string& name) const {
    const auto object = parse_object(log.entry(by_key.at(name)));
    std::string value(object->value_length, '\0');
    object->entry.read(object->value_offset, value.data(), object->value_length);
    return value;
  }
  Log& log;
  uint64_t version = 0;
  std::map<std::string, const char*> by_key;
};

/// Copies a victim a step, then waits for the commit.
class Copying final : public CleaningWork {
 public:
  Copying(Keys& keys, std::vector<Segment*> victims)
      : keys_(keys), victims_(std::move(victims)), side_(keys.log, MemoryPurpose::kSurvivors) {}
  Progress step() override {
    if (next_ < victims_.size()) return copy(*victims_[next_++]) ? Progress::kMore : fail();
    side_.close();
    if (!side_.all_durable()) return Progress::kWaits;
    if (change_.state.load() == SegmentChange::State::kNew) {
      change_.enter = side_.segments();
      change_.leave = victims_;
      EXPECT_EQ(keys_.log.commit(change_, now_ ? Roll::kNow : Roll::kNext), StatusCode::kOk);
      return Progress::kMore;
    }
    if (!change_.done()) return Progress::kWaits;
    (void)side_.release();
    return Progress::kDone;
  }
  void commit_now() override {
    now_ = true;
    if (change_.state.load() != SegmentChange::State::kWaiting || !keys_.log.withdraw(change_))
      return;
    EXPECT_EQ(keys_.log.commit(change_, Roll::kNow), StatusCode::kOk);
  }
  Result result() const override { return result_; }

 private:
  /// The originals of copied objects stay, so they are found again.
  Progress fail() {
    for (const auto& [name, address] : moved_) keys_.by_key[name] = address;
    side_.abort();
    return Progress::kFailed;
  }
  bool copy(Segment& victim) {
    bool good = true;
    scan_segment(victim.identity(), victim.bytes(), {}, [&](const GroupView& group) {
      for (auto e = group.first(); e && good; e = group.next(*e)) {
        const auto object = parse_object(e->view);
        if (object) good = copy(*object);
      }
    });
    return good;
  }
  bool copy(const ObjectView& object) {
    std::string name(object.key_length, '\0');
    object.entry.read(object.key_offset, name.data(), object.key_length);
    const auto at = keys_.by_key.find(name);
    if (at == keys_.by_key.end()) return true;
    const auto present = parse_object(keys_.log.entry(at->second));
    if (present->version != object.version) return true;
    std::string value(object.value_length, '\0');
    object.entry.read(object.value_offset, value.data(), object.value_length);
    const TestObject source(1, object.version, name, value);
    const char* ref = nullptr;
    if (side_.append(std::span(&source.source, 1), &ref) != StatusCode::kOk) return false;
    moved_.emplace(name, at->second);
    at->second = ref;
    result_.bytes_written += value.size();
    return true;
  }
  Keys& keys_;
  std::vector<Segment*> victims_;
  SideLog side_;
  SegmentChange change_;
  std::map<std::string, const char*> moved_;
  size_t next_ = 0;
  bool now_ = false;
  Result result_;
};

inline std::optional<CleaningFigures> judge(const Segment& segment, Look = Look::kQuick) {
  return CleaningFigures{.memory_bytes = segment.memory_bytes(),
                         .live_bytes = segment.live_bytes(),
                         .segment_id = segment.id(),
                         .average_s = static_cast<uint32_t>(segment.id()),
                         .youngest_s = static_cast<uint32_t>(segment.id())};
}

struct Rig : TestLog {
  explicit Rig(uint32_t segments, bool immediate = true, CleanerOptions options = {})
      : TestLog(segments, immediate, 1, true, 2),
        keys(log),
        cleaner(log, clock, options, judge,
                [this](CleaningKind, std::vector<Segment*> victims) {
                  return std::make_unique<Copying>(keys, std::move(victims));
                }),
        worker(cleaner) {}
  /// Cleans until there is nothing to do, or freed memory must be released first.
  int clean() {
    int steps = 0;
    while (worker.step() && ++steps < 10'000) reclaim();
    reclaim();
    EXPECT_LT(steps, 10'000) << "it never sleeps";
    return steps;
  }
  void reclaim() { log.reclaim(log.take_retired()); }
  /// Writes, with cleaning whenever memory is short.
  StatusCode write(uint64_t key, ByteView value) {
    StatusCode status = keys.write(key, value);
    for (int i = 0; i < 200 && status != StatusCode::kOk; ++i) {
      clean();
      replicator.finish_all();
      reclaim();
      if (status == StatusCode::kOutOfMemory && !log.cleaning_helps()) break;
      status = keys.write(key, value);
    }
    return status;
  }
  VirtualClock clock;
  Keys keys;
  Cleaner cleaner;
  Cleaner::Worker worker;
};

inline std::string value_for(uint64_t key, int round) {
  return std::string(60'000, static_cast<char>('a' + (key + static_cast<uint64_t>(round)) % 26)) +
         std::to_string(key);
}

/// A pass without work.
struct Done final : CleaningWork {
  Progress step() override { return Progress::kDone; }
  void commit_now() override {}
  Result result() const override { return {}; }
};

}  // namespace ramcloud::log
