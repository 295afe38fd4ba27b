// A disk in memory that behaves like the real one when things go wrong: written bytes survive the
// death of the process, synced bytes survive the loss of power, and of unsynced bytes any part may
// survive. A direct write is on the device when its `done` is called; until then any part of it may
// be.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/random.h"
#include "runtime/disk.h"
#include "runtime/reactor.h"
#include "runtime/sim/sim_faults.h"

namespace ramcloud {

class SimDisk final : public Disk {
 public:
  /// The unit that a power cut keeps or loses.
  static constexpr uint64_t kSectorBytes = 512;
  /// Bytes of a block of a direct write.
  static constexpr uint32_t kDirectBlock = 4096;

  explicit SimDisk(uint64_t seed) : random_(seed) {}
  /// Syncs complete on this reactor; set at every start of the process.
  void attach(Reactor& reactor) { reactor_ = &reactor; }

  Result<std::unique_ptr<File>> open(const std::string& path, uint64_t size) override;
  bool exists(const std::string& path) override { return files_.contains(path); }
  Status make_directories(const std::string&) override { return {}; }
  /// Files are lost with the power if their directory was not synced since they were created.
  Status sync_directory(const std::string& path) override;
  uint64_t device_bytes(const std::string&) override { return 0; }
  uint64_t measure_read_speed(const std::string&) override { return read_speed_; }
  const char* engine() const override { return "simulated"; }
  /// Changes with each power_loss().
  BootId boot_id() const override;
  /// Whether files opened from now on can be written past the cache. The default is true.
  void set_direct(bool direct) { direct_ = direct; }
  /// Sets the result of measure_read_speed().
  void set_read_speed(uint64_t bytes_per_second) { read_speed_ = bytes_per_second; }

  /// The process died: locks are released, nothing that was written is lost. Of direct writes
  /// in flight a random subset of the sectors has been written.
  void crash();
  /// The power went: of the sectors written since the last completed sync, and of direct writes
  /// in flight, a random subset is kept.
  void power_loss();
  /// The device is replaced by an empty one. Precondition: no file is open.
  void erase() { files_.clear(); }
  /// Every later write or sync fails with this status; OK ends it.
  void fail_with(Status status) { failure_ = std::move(status); }
  /// No space is left: allocating fails; allocated space can be written.
  void set_full(bool full) { full_ = full; }
  /// The present contents of the file, up to its last byte that is not zero; also while it is open.
  /// Empty if there is no such file.
  std::string contents(const std::string& path) const;
  /// How long a sync or an allocation takes: uniform from half of this to one and a half.
  void set_sync_time(Duration time) { sync_time_ = time; }
  /// Each sync, direct write and read_beside() takes this much longer. Reads and writes of the
  /// cache do not.
  void set_slow(Duration more) { slow_ = more; }
  /// The next `count` syncs and direct writes fail with IO_ERROR. The bytes of a failed sync count
  /// as clean afterwards: readers see them until the power is lost, and later syncs succeed without
  /// writing them (as on Linux).
  void fail_syncs(uint32_t count) { failing_syncs_ = count; }
  /// The next `count` write() fail with IO_ERROR.
  void fail_writes(uint32_t count) { failing_writes_ = count; }
  /// The next `count` read_beside() fail with IO_ERROR.
  void fail_reads(uint32_t count) { failing_reads_ = count; }
  /// The next `count` direct writes, or sectors of a sync, are answered OK and are not on the
  /// device.
  void lose_writes(uint32_t count) { losing_ = count; }
  /// As lose_writes(), and the bytes overwrite another place of the file, that of an earlier write.
  void misdirect_writes(uint32_t count) { misdirecting_ = count; }
  /// Flips one bit in each of so many random sectors that are not empty, from byte `from` of a file
  /// on. Returns how many were damaged.
  uint32_t damage(uint32_t sectors, uint64_t from = 0);
  /// From now on nothing changes and no operation completes, until crash(): the process is dying.
  void freeze() { frozen_ = true; }
  /// Called for each fault that changed something.
  void set_observer(std::function<void(Fault)> fn) { observer_ = std::move(fn); }

  struct Content;  // the content of one file

 private:
  friend class SimFile;
  void land_some(Content& content);
  void note(Fault fault) const {
    if (observer_) observer_(fault);
  }
  bool take(uint32_t& left) { return left > 0 && left-- > 0; }
  Random random_;
  Reactor* reactor_ = nullptr;
  Status failure_;
  bool full_ = false;
  bool direct_ = true;
  bool frozen_ = false;
  uint32_t failing_syncs_ = 0;
  uint32_t failing_writes_ = 0;
  uint32_t failing_reads_ = 0;
  uint32_t losing_ = 0;
  uint32_t misdirecting_ = 0;
  Duration slow_{};
  std::function<void(Fault)> observer_;
  Duration sync_time_ = 1ms;
  uint64_t boots_ = 1;
  uint64_t read_speed_ = 0;
  std::map<std::string, std::shared_ptr<Content>> files_;
};

}  // namespace ramcloud
