#include "runtime/sim/sim_disk.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <list>

namespace ramcloud {

struct SimDisk::Content {
  using Sector = std::array<char, SimDisk::kSectorBytes>;
  using Sectors = std::map<uint64_t, Sector>;  // by number; absent: zeros
  uint64_t size = 0;
  Sectors cache;                       // what reads see
  Sectors durable;                     // what a power cut leaves for certain
  std::map<uint64_t, uint64_t> dirty;  // sector -> number of its latest write
  /// Direct writes whose `done` was not called yet. It is unknown which of their sectors are on the
  /// device.
  struct Flight {
    uint64_t number = 0;
    Sectors sectors;
    std::map<uint64_t, ByteView> sources;  // bytes of the sectors
    std::shared_ptr<const void> keep;      // owns them
    bool unchanged() const {
      return std::ranges::all_of(sectors, [this](const auto& sector) {
        return sources.at(sector.first) == view(sector.second);
      });
    }
  };
  std::list<Flight> flights;
  uint64_t writes = 0;
  bool locked = false;
  bool listed = false;  // its directory was synced since the file was created

  bool in_flight(uint64_t sector) const {
    return std::ranges::any_of(flights,
                               [&](const Flight& f) { return f.sectors.contains(sector); });
  }
  static ByteView view(const Sector& sector) { return {sector.data(), sector.size()}; }
  static bool is_zero(const Sector& sector) {
    return std::ranges::all_of(sector, [](char c) { return c == 0; });
  }
  void land(uint64_t sector, const Sector& data) {
    cache[sector] = durable[sector] = data;
    dirty.erase(sector);
  }
};

namespace {

constexpr uint64_t kSector = SimDisk::kSectorBytes;

/// Calls `fn(sector, offset in it, length, offset from begin)` for every sector touched.
template <typename Fn>
void for_sectors(uint64_t offset, uint64_t length, Fn fn) {
  for (uint64_t done = 0; done < length;) {
    const uint64_t sector = (offset + done) / kSector;
    const uint64_t within = (offset + done) % kSector;
    const uint64_t n = std::min(kSector - within, length - done);
    fn(sector, within, n, done);
    done += n;
  }
}

void copy_sector(const SimDisk::Content::Sectors& from, SimDisk::Content::Sectors& to,
                 uint64_t sector) {
  const auto found = from.find(sector);
  if (found == from.end()) {
    to.erase(sector);
  } else {
    to[sector] = found->second;
  }
}

}  // namespace

class SimFile final : public File {
 public:
  SimFile(SimDisk& disk, std::shared_ptr<SimDisk::Content> content)
      : disk_(disk), reactor_(*disk.reactor_), content_(std::move(content)) {
    content_->locked = true;
  }
  ~SimFile() override {
    content_->locked = false;
    disk_.land_some(*content_);
  }

  uint64_t size() const override { return content_->size; }

  Status write(uint64_t offset, ByteView bytes) override {
    RC_RETURN_IF_ERROR(check(offset, bytes.size()));
    RC_RETURN_IF_ERROR(disk_.failure_);
    if (disk_.take(disk_.failing_writes_)) {
      return {StatusCode::kIoError, "the simulated write failed"};
    }
    RC_RETURN_IF_ERROR(check_apart(offset, bytes.size()));
    if (disk_.frozen_) return {};
    for_sectors(offset, bytes.size(), [&](uint64_t sector, uint64_t at, uint64_t n, uint64_t done) {
      SimDisk::Content::Sector& data = content_->cache[sector];
      std::memcpy(data.data() + at, bytes.data() + done, n);
      content_->dirty[sector] = ++content_->writes;
    });
    return {};
  }

  Status read(uint64_t offset, void* to, size_t size) override {
    RC_RETURN_IF_ERROR(check(offset, size));
    for_sectors(offset, size, [&](uint64_t sector, uint64_t at, uint64_t n, uint64_t done) {
      const auto found = content_->cache.find(sector);
      char* target = static_cast<char*>(to) + done;
      if (found == content_->cache.end()) {
        std::memset(target, 0, n);
      } else {
        std::memcpy(target, found->second.data() + at, n);
      }
    });
    return {};
  }

  void read_beside(uint64_t offset, std::span<char> to, std::shared_ptr<void> keep,
                   std::function<void(Status)> done) override {
    later(
        [this, offset, to, keep = std::move(keep), done = std::move(done)] {
          if (disk_.take(disk_.failing_reads_)) {
            return done({StatusCode::kIoError, "the simulated read failed"});
          }
          done(disk_.failure_.ok() ? read(offset, to.data(), to.size()) : disk_.failure_);
        },
        Turn::kBeside);
  }

  void allocate_zeroed(uint64_t offset, uint64_t length,
                       std::function<void(Status)> done) override {
    later([this, offset, length, done = std::move(done)] { done(zero(offset, length)); });
  }

  void sync(std::function<void(Status)> done) override {
    later([this, writes = content_->writes, done = std::move(done)] { done(sync_up_to(writes)); });
  }

  uint32_t direct_block() const override { return direct_ ? SimDisk::kDirectBlock : 0; }

  void write_direct(std::span<const DirectWrite> writes, std::shared_ptr<const void> keep,
                    std::function<void(Status)> done) override {
    if (!direct_) return File::write_direct(writes, std::move(keep), std::move(done));
    if (disk_.frozen_) return;
    auto& flight = content_->flights.emplace_back();
    flight.number = ++content_->writes;
    flight.keep = std::move(keep);
    Status valid;
    for (const DirectWrite& write : writes) {
      if (valid.ok()) valid = check_direct(write);
      if (!valid.ok()) break;
      for_sectors(write.offset, write.bytes.size(),
                  [&](uint64_t sector, uint64_t, uint64_t n, uint64_t from) {
                    flight.sources[sector] = write.bytes.substr(from, n);
                    std::memcpy(flight.sectors[sector].data(), write.bytes.data() + from, n);
                  });
    }
    if (!valid.ok()) flight.sectors.clear();
    later(
        [this, number = flight.number, valid, done = std::move(done)] {
          const Status landed = land(number);
          done(valid.ok() ? landed : valid);
        },
        Turn::kBeside);
  }

 private:
  /// Queues an operation of the device: in line, or in parallel with operations in flight, as the
  /// engines of real disks do.
  enum class Turn : uint8_t { kInLine, kBeside };
  void later(std::function<void()> work, Turn turn = Turn::kInLine) {
    if (disk_.frozen_) return;
    Job& job = jobs_.emplace_back();
    job.work = std::move(work);
    job.timer = std::make_unique<Timer>(reactor_, [this, &job] { finish(job); });
    const auto half = static_cast<uint64_t>(disk_.sync_time_.count()) / 2;
    const Duration time =
        Duration(static_cast<int64_t>(half + disk_.random_.below(2 * half + 1))) + disk_.slow_;
    if (disk_.slow_ > Duration{}) disk_.note(Fault::kDiskSlow);
    if (turn == Turn::kBeside) return job.timer->start_after(time);
    free_at_ = std::max(free_at_, reactor_.now()) + time;
    job.timer->start_at(free_at_);
  }

  struct Job {
    std::function<void()> work;
    std::unique_ptr<Timer> timer;
  };

  void finish(Job& job) {
    const auto it = std::ranges::find_if(jobs_, [&](const Job& j) { return &j == &job; });
    std::list<Job> finished;
    finished.splice(finished.begin(), jobs_, it);
    finished.front().work();  // may destroy this file
  }

  /// Sectors that were never written are zero already: most of a frame that is allocated.
  Status zero(uint64_t offset, uint64_t length) {
    if (disk_.full_) return {StatusCode::kNoSpace, "No space left on device"};
    RC_RETURN_IF_ERROR(check(offset, length));
    RC_RETURN_IF_ERROR(disk_.failure_);
    const uint64_t end = offset + length;
    for (uint64_t from = offset; from < end;) {
      const auto written = content_->cache.lower_bound(from / kSector);
      if (written == content_->cache.end() || written->first * kSector >= end) break;
      from = std::max(from, written->first * kSector);
      const uint64_t n = std::min((from / kSector + 1) * kSector, end) - from;
      RC_RETURN_IF_ERROR(write(from, std::string(n, '\0')));
      from += n;
    }
    return {};
  }

  /// All writes up to this one are on the device now.
  Status sync_up_to(uint64_t writes) {
    RC_RETURN_IF_ERROR(disk_.failure_);
    bool any = false;
    const bool failing = disk_.take(disk_.failing_syncs_);
    std::erase_if(content_->dirty, [&](const auto& entry) {
      if (entry.second > writes) return false;
      any = true;
      if (!failing) reach_device(entry.first, content_->cache.at(entry.first));
      return true;
    });
    if (!failing) return {};
    if (any) disk_.note(Fault::kSyncFailed);
    return {StatusCode::kIoError, "the simulated sync failed"};
  }

  /// Writes a sector's bytes to the device, unless a silent device fault is injected. A misdirected
  /// write changes the cache only at the place where the bytes went.
  void reach_device(uint64_t sector, const SimDisk::Content::Sector& data) {
    if (disk_.take(disk_.losing_)) return disk_.note(Fault::kWriteLost);
    if (!content_->durable.empty() && disk_.take(disk_.misdirecting_)) {
      auto other = content_->durable.lower_bound(disk_.random_.below(content_->size / kSector));
      if (other == content_->durable.end()) other = content_->durable.begin();
      other->second = data;
      return disk_.note(Fault::kWriteMisdirected);
    }
    content_->durable[sector] = data;
  }

  /// The direct write ends: all of it is on the device, or an arbitrary part if the device is
  /// broken.
  Status land(uint64_t number) {
    const auto flight =
        std::ranges::find(content_->flights, number, &SimDisk::Content::Flight::number);
    const bool failing = !flight->sectors.empty() && disk_.take(disk_.failing_syncs_);
    if (failing) disk_.note(Fault::kSyncFailed);
    const bool lost = !failing && !flight->sectors.empty() && disk_.take(disk_.losing_);
    if (lost) disk_.note(Fault::kWriteLost);
    uint64_t shift = 0;
    if (!failing && !lost && !flight->sectors.empty() && disk_.take(disk_.misdirecting_)) {
      // All sectors of the write go to a later place together.
      disk_.note(Fault::kWriteMisdirected);
      const uint64_t blocks = content_->size / SimDisk::kDirectBlock;
      const uint64_t room =
          blocks - (flight->sectors.rbegin()->first + 1) * kSector / SimDisk::kDirectBlock;
      if (room > 0)
        shift = (1 + disk_.random_.below(std::min<uint64_t>(room, 16))) * SimDisk::kDirectBlock /
                kSector;
    }
    for (const auto& [sector, data] : flight->sectors) {
      if (lost) break;
      if ((disk_.failure_.ok() && !failing) || disk_.random_.chance(0.5)) {
        content_->land(sector + shift, data);
      }
    }
    const bool unchanged = flight->unchanged();
    content_->flights.erase(flight);
    if (failing) return {StatusCode::kIoError, "the simulated direct write failed"};
    if (!unchanged) return {StatusCode::kIoError, "bytes changed while they were written"};
    return disk_.failure_;
  }

  /// Checks the requirements of io_uring, O_DIRECT and disk.h.
  Status check_direct(const DirectWrite& write) const {
    RC_RETURN_IF_ERROR(check(write.offset, write.bytes.size()));
    const uint64_t bits = write.offset | write.bytes.size() |
                          static_cast<uint64_t>(reinterpret_cast<uintptr_t>(write.bytes.data()));
    if (bits % SimDisk::kDirectBlock != 0) {
      return {StatusCode::kIoError, "a direct write at " + std::to_string(write.offset) + " of " +
                                        std::to_string(write.bytes.size()) +
                                        " bytes: is not of whole blocks"};
    }
    return check_apart(write.offset, write.bytes.size());
  }

  /// Checks that no other write overlaps a direct write in flight.
  Status check_apart(uint64_t offset, uint64_t length) const {
    if (content_->flights.empty()) return {};
    bool apart = true;
    for_sectors(offset, length, [&](uint64_t sector, uint64_t, uint64_t, uint64_t) {
      apart = apart && !content_->in_flight(sector);
    });
    if (apart) return {};
    return {StatusCode::kIoError, "offset " + std::to_string(offset) + " + " +
                                      std::to_string(length) +
                                      ": a direct write there is in flight"};
  }

  Status check(uint64_t offset, uint64_t length) const {
    if (offset <= content_->size && length <= content_->size - offset) return {};
    return {StatusCode::kIoError, "offset " + std::to_string(offset) + " + " +
                                      std::to_string(length) + ": behind the file's end, " +
                                      std::to_string(content_->size)};
  }

  SimDisk& disk_;
  Reactor& reactor_;
  const bool direct_ = disk_.direct_;
  std::shared_ptr<SimDisk::Content> content_;
  std::list<Job> jobs_;
  Time free_at_{};
};

Result<std::unique_ptr<File>> SimDisk::open(const std::string& path, uint64_t size) {
  auto& content = files_[path];
  if (content == nullptr) content = std::make_shared<Content>();
  if (content->locked) {
    return fail(StatusCode::kUnavailable, "file '" + path + "' is in use by another process");
  }
  content->size = std::max(content->size, size);
  return std::make_unique<SimFile>(*this, content);
}

Status SimDisk::sync_directory(const std::string& path) {
  RC_RETURN_IF_ERROR(failure_);
  for (auto& [file, content] : files_) {
    if (file.starts_with(path + "/")) content->listed = true;
  }
  return {};
}

std::string SimDisk::contents(const std::string& path) const {
  std::string bytes;
  const auto found = files_.find(path);
  if (found == files_.end()) return bytes;
  for (const auto& [sector, data] : found->second->cache) {
    if (Content::is_zero(data)) continue;
    bytes.resize((sector + 1) * kSectorBytes);
    std::memcpy(bytes.data() + sector * kSectorBytes, data.data(), kSectorBytes);
  }
  return bytes;
}

/// At a crash: writes a random subset of the sectors of direct writes in flight.
void SimDisk::land_some(Content& content) {
  for (const Content::Flight& flight : content.flights) {
    for (const auto& [sector, data] : flight.sectors) {
      if (random_.chance(0.5)) content.land(sector, data);
    }
  }
  content.flights.clear();
}

uint32_t SimDisk::damage(uint32_t sectors, uint64_t from) {
  std::vector<std::pair<Content*, uint64_t>> used;
  for (auto& [path, content] : files_) {
    for (const auto& [sector, data] : content->cache) {
      if (sector * kSectorBytes >= from && !Content::is_zero(data))
        used.emplace_back(content.get(), sector);
    }
  }
  uint32_t damaged = 0;
  for (; damaged < sectors && !used.empty(); ++damaged) {
    const size_t chosen = random_.below(used.size());
    const auto [content, sector] = used[chosen];
    used.erase(used.begin() + static_cast<std::ptrdiff_t>(chosen));
    Content::Sector& data = content->cache[sector];
    data[random_.below(kSectorBytes)] ^= static_cast<char>(1u << random_.below(8));
    content->durable[sector] = data;
    content->dirty.erase(sector);
    note(Fault::kDiskDamaged);
  }
  return damaged;
}

void SimDisk::crash() {
  frozen_ = false;
  // Files of the dead process that are destroyed later must not affect files that the next process
  // opens.
  for (auto& [path, content] : files_) {
    content = std::make_shared<Content>(*content);
    content->locked = false;
    land_some(*content);
  }
}

BootId SimDisk::boot_id() const {
  BootId id{};
  std::memcpy(id.data(), &boots_, sizeof boots_);
  return id;
}

void SimDisk::power_loss() {
  crash();
  ++boots_;
  std::erase_if(files_, [](const auto& file) { return !file.second->listed; });
  bool dropped = false;
  for (auto& [path, content] : files_) {
    for (const auto& [sector, write] : content->dirty) {
      if (random_.chance(0.5)) {
        copy_sector(content->cache, content->durable, sector);
      } else {
        dropped = true;
      }
    }
    content->dirty.clear();
    content->cache = content->durable;
  }
  if (dropped) note(Fault::kHostRebooted);
}

}  // namespace ramcloud
