#include "server/cleaning.h"

#include <algorithm>
#include <utility>

#include "store/compaction_pass.h"

namespace ramcloud::server {

Cleaning::Cleaning(Reactor& first, Epochs& epochs, Master& master, MetricsRegistry& metrics,
                   Options options)
    : first_(first),
      epochs_(epochs),
      thread_count_(options.threads),
      log_(master.log()),
      judge_(master.store()),
      cleaner_(
          log_, first.clock(), options.cleaner,
          [this](const log::Segment& segment, log::Look look) {
            return judge_.judge(segment, look);
          },
          [&store = master.store()](log::CleaningKind kind,
                                    const std::vector<log::Segment*>& victims) {
            return store::make_pass(store, kind, victims);
          }),
      timer_(first, [] {}) {
  register_metrics(metrics);
}

void Cleaning::start() {
  log_.set_cleaning_helps(true, log_.segment_changes());
  if (thread_count_ == 0) {
    in_turns_ = std::make_unique<log::Cleaner::Worker>(cleaner_);
    timer_.start_after(kShortestSleep);
  }
  for (uint32_t i = 0; i < thread_count_; ++i) {
    threads_.emplace_back("cleaner", [this] { run_thread(); });
  }
}

Cleaning::~Cleaning() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  threads_.clear();
}

/// Sleep briefly if a pass waits for replicas or for the head that commits it, and if the log is
/// full, because a client may delete.
Cleaning::Sleep Cleaning::next_sleep(const log::Cleaner::Worker& worker, const Sleep& last) const {
  const log::Log::Memory memory = log_.memory();
  Sleep next{kShortestSleep, memory.appended_bytes, memory.free_seglets};
  if (worker.passes() > 0) return next;
  const bool full = !log_.has_segment_for(log::MemoryPurpose::kWrites);
  const bool idle =
      next.appended_bytes == last.appended_bytes && next.free_seglets == last.free_seglets;
  const Duration longest = full ? kLongestWhenFull : idle ? kLongestWhenIdle : kLongestSleep;
  next.length = std::clamp(2 * last.length, kShortestSleep, longest);
  return next;
}

// ---- in turns of the first reactor

bool Cleaning::on_turn() {
  if (const uint64_t changes = log_.room_changes(); changes != room_changes_) {
    room_changes_ = changes;
    room_changed();
  }
  if (in_turns_ == nullptr) return false;
  if (const uint64_t head = head_.load(std::memory_order_relaxed); head != seen_head_) {
    seen_head_ = head;
    room_changed();
  }
  if (timer_.running()) return false;
  if (in_turns_->step()) {
    slept_ = {};
    return true;
  }
  slept_ = next_sleep(*in_turns_, slept_);
  timer_.start_after(slept_.length);
  return false;
}

// ---- threads

/// Between two slices the thread holds no pointer to shared data, like a reactor between two turns.
/// What a pass refers to stays in the log until the pass is over.
void Cleaning::run_thread() {
  Epochs::Participant participant(epochs_);
  log::Cleaner::Worker worker(cleaner_);
  Sleep slept;
  for (;;) {
    uint64_t seen = 0;
    {
      const std::lock_guard guard(mutex_);
      if (stop_) break;
      seen = wakes_;
    }
    participant.pass();
    const bool had_retired = log_.has_retired();
    if (worker.step()) {
      slept = {};
      // Wake the first reactor, which reuses the memory of retired segments.
      if (!had_retired && log_.has_retired()) first_.nudge();
      continue;
    }
    participant.go_offline();
    slept = next_sleep(worker, slept);
    sleep(slept.length, seen);
    participant.go_online();
  }
}

/// Does not sleep if it was woken since `seen`.
void Cleaning::sleep(Duration length, uint64_t seen) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, length, [this, seen] { return stop_ || wakes_ != seen; });
}

void Cleaning::wake() {
  {
    const std::lock_guard guard(mutex_);
    ++wakes_;
  }
  changed_.notify_one();
}

/// A worker that sleeps may have waited for it: a pass begins only with memory for its survivors.
void Cleaning::room_changed() {
  slept_ = {};
  timer_.stop();
  if (thread_count_ > 0) wake();
}

void Cleaning::on_log_progress() {
  const uint64_t head = log_.head().segment_id();
  if (head_.load(std::memory_order_relaxed) == head) return;
  head_.store(head, std::memory_order_relaxed);
  if (thread_count_ > 0) wake();
}

// ---- what it says of itself

void Cleaning::register_metrics(MetricsRegistry& metrics) {
  const auto add = [this, &metrics](const char* name, const char* help,
                                    uint64_t log::CleanerState::* field, const char* label,
                                    const char* value) {
    metrics.gauge(name, help, [this, field] { return static_cast<double>(state().*field); },
                  {{label, value}});
  };
  constexpr const char* kRuns = "Passes of cleaning that are over, by kind and outcome.";
  using S = log::CleanerState;
  add("ramcloud_cleaner_runs_total", kRuns, &S::combined_runs, "kind", "combined");
  add("ramcloud_cleaner_runs_total", kRuns, &S::compaction_runs, "kind", "compaction");
  add("ramcloud_cleaner_runs_total", kRuns, &S::failed_runs, "kind", "failed");
  constexpr const char* kBytes =
      "Bytes of entries that passes of cleaning read in victims, wrote into survivors (memory and "
      "disks), and wrote when they compacted (memory alone).";
  add("ramcloud_cleaner_bytes_total", kBytes, &S::bytes_read, "kind", "read");
  add("ramcloud_cleaner_bytes_total", kBytes, &S::bytes_written, "kind", "written");
  add("ramcloud_cleaner_bytes_total", kBytes, &S::bytes_compacted, "kind", "compacted");
  metrics.gauge("ramcloud_cleaner_mode",
                "What the cleaner does: 0 nothing, 1 compaction, 2 combined cleaning, 3 combined "
                "cleaning because no new head can be opened.",
                [this] { return static_cast<double>(state().mode); });
  metrics.gauge("ramcloud_cleaner_write_cost",
                "Bytes that writers and cleaning write to disk, for each byte by writers; 1 is the "
                "best.",
                [this] { return state().write_cost; });
}

}  // namespace ramcloud::server
