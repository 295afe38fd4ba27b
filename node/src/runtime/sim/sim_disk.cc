#include "runtime/sim/sim_disk.h"

#include <algorithm>
#include <cstring>
#include <list>

namespace ramcloud {

struct SimDisk::Content {
  using Sectors = std::map<uint64_t, std::string>;  // by number; absent: zeros
  uint64_t size = 0;
  Sectors cache;                       // what reads see
  Sectors durable;                     // what a power cut leaves for certain
  std::map<uint64_t, uint64_t> dirty;  // sector -> number of its latest write
  uint64_t writes = 0;
  bool locked = false;
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
  ~SimFile() override { content_->locked = false; }

  uint64_t size() const override { return content_->size; }

  Status write(uint64_t offset, ByteView bytes) override {
    RC_RETURN_IF_ERROR(check(offset, bytes.size()));
    RC_RETURN_IF_ERROR(disk_.failure_);
    for_sectors(offset, bytes.size(), [&](uint64_t sector, uint64_t at, uint64_t n, uint64_t done) {
      std::string& data = content_->cache[sector];
      data.resize(kSector);
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

  void allocate_zeroed(uint64_t offset, uint64_t length,
                       std::function<void(Status)> done) override {
    later([this, offset, length, done = std::move(done)] { done(zero(offset, length)); });
  }

  void sync(std::function<void(Status)> done) override {
    later([this, writes = content_->writes, done = std::move(done)] { done(settle(writes)); });
  }

 private:
  /// Does something when the device gets to it; one after the other, as on the real thread.
  void later(std::function<void()> work) {
    Job& job = jobs_.emplace_back();
    job.work = std::move(work);
    job.timer = std::make_unique<Timer>(reactor_, [this, &job] { finish(job); });
    const auto half = static_cast<uint64_t>(disk_.sync_time_.count()) / 2;
    const Duration time(static_cast<int64_t>(half + disk_.random_.below(2 * half + 1)));
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

  Status zero(uint64_t offset, uint64_t length) {
    if (disk_.full_) return {StatusCode::kNoSpace, "No space left on device"};
    return write(offset, std::string(length, '\0'));
  }

  /// All writes up to this one are on the device now.
  Status settle(uint64_t writes) {
    RC_RETURN_IF_ERROR(disk_.failure_);
    std::erase_if(content_->dirty, [&](const auto& entry) {
      if (entry.second > writes) return false;
      copy_sector(content_->cache, content_->durable, entry.first);
      return true;
    });
    return {};
  }

  Status check(uint64_t offset, uint64_t length) const {
    if (offset <= content_->size && length <= content_->size - offset) return {};
    return {StatusCode::kIoError, "offset " + std::to_string(offset) + " + " +
                                      std::to_string(length) + ": behind the file's end, " +
                                      std::to_string(content_->size)};
  }

  SimDisk& disk_;
  Reactor& reactor_;
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

std::string SimDisk::contents(const std::string& path) const {
  std::string bytes;
  const auto found = files_.find(path);
  if (found == files_.end()) return bytes;
  for (const auto& [sector, data] : found->second->cache) {
    if (data.find_first_not_of('\0') == std::string::npos) continue;
    bytes.resize((sector + 1) * kSectorBytes);
    std::memcpy(bytes.data() + sector * kSectorBytes, data.data(), kSectorBytes);
  }
  return bytes;
}

void SimDisk::crash() {
  // Files of the dead process that are destroyed later must not touch what the next one opens.
  for (auto& [path, content] : files_) {
    content = std::make_shared<Content>(*content);
    content->locked = false;
  }
}

void SimDisk::power_loss() {
  crash();
  for (auto& [path, content] : files_) {
    for (const auto& [sector, write] : content->dirty) {
      if (random_.chance(0.5)) copy_sector(content->cache, content->durable, sector);
    }
    content->dirty.clear();
    content->cache = content->durable;
  }
}

}  // namespace ramcloud
