// The workloads that memory allocators are bad at [Rumble14 §2, table 1]: objects of one size are
// replaced by objects of another, in a bounded amount of live data. How much memory that takes, and
// how long, with malloc (of whatever library LD_PRELOAD names), and with a log and its store, whose
// memory is given beforehand.
//
// Objects are as large on both sides: an entry of the log, with its header, key and value, has as
// many bytes as malloc is asked for. What finds objects (an array of pointers there, the hash table
// here) is not counted on either side.
#include <fmt/format.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "base/random.h"
#include "bench/memory_rig.h"

namespace ramcloud {
namespace {

struct Sizes {
  uint32_t from = 0, to = 0;  // uniform
};
struct Workload {
  const char* name;
  Sizes before;
  double deleted;  // of the objects, at random, between the two phases
  Sizes after;     // to 0: there is no second phase
};
constexpr Workload kWorkloads[] = {
    {"W1", {100, 100}, 0, {0, 0}},           {"W2", {100, 100}, 0, {130, 130}},
    {"W3", {100, 100}, 0.9, {130, 130}},     {"W4", {100, 150}, 0, {200, 250}},
    {"W5", {100, 150}, 0.9, {200, 250}},     {"W6", {100, 200}, 0.5, {1000, 2000}},
    {"W7", {1000, 2000}, 0.9, {1500, 2500}}, {"W8", {50, 150}, 0.9, {5000, 15000}},
};

struct Options {
  std::string workload = "W1";
  uint64_t live_mib = 512;
  double scale = 1;       // of --live-mib
  double turnover = 5;    // times the live bytes are allocated in each phase
  double log_factor = 0;  // memory of the log for each live byte; 0: malloc
  uint64_t seed = 1;
  bool json = false;
  int writer_cpu = -1, cleaner_cpu = -1;
};

/// An object: what finds it, and its bytes.
struct Object {
  uint64_t handle = 0;
  uint32_t bytes = 0;
};

/// A place for so many objects that no allocator under test knows of; all of it resident.
class Objects {
 public:
  explicit Objects(uint64_t most) : bytes_(most * sizeof(Object)) {
    void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) give_up("no memory for the list of objects");
    all_ = static_cast<Object*>(memory);
  }
  ~Objects() { ::munmap(all_, bytes_); }
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  Object& operator[](uint64_t i) { return all_[i]; }
  uint64_t size() const { return size_; }
  void add(Object object) { all_[size_++] = object; }
  void remove(uint64_t i) { all_[i] = all_[--size_]; }

 private:
  uint64_t bytes_;
  Object* all_ = nullptr;
  uint64_t size_ = 0;
};

class Malloc {
 public:
  Object create(uint32_t bytes) {
    void* memory = std::malloc(bytes);
    if (memory == nullptr) give_up("malloc has no memory");
    std::memset(memory, 'v', bytes);
    return {reinterpret_cast<uint64_t>(memory), bytes};
  }
  void remove(const Object& object) { std::free(reinterpret_cast<void*>(object.handle)); }
  Object replace(const Object& object, uint32_t bytes) {
    remove(object);
    return create(bytes);
  }
};

class Store {
 public:
  explicit Store(MemoryRig& rig) : rig_(rig) {}
  Object create(uint32_t bytes) {
    const Object object{next_key_++, bytes};
    write(object);
    return object;
  }
  void remove(const Object& object) {
    if (rig_.remove(bytes_of(object.handle)) != StatusCode::kOk) fail("a delete");
    turn();
  }
  Object replace(const Object& object, uint32_t bytes) {
    const Object other{object.handle, bytes};
    write(other);
    return other;
  }

 private:
  void write(const Object& object) {
    const uint64_t value_bytes = object.bytes - entry_bytes(sizeof object.handle, 0);
    if (rig_.write(bytes_of(object.handle), {value_.data(), value_bytes}) != StatusCode::kOk) {
      fail("a write");
    }
    turn();
  }
  void turn() {
    if (++operations_ % 16 == 0) rig_.turn();
  }
  [[noreturn]] void fail(const char* what) {
    give_up(fmt::format("{} found no memory: {}", what, rig_.cleaner().why));
  }
  MemoryRig& rig_;
  const std::string value_ = std::string(16 << 10, 'v');
  uint64_t next_key_ = 0, operations_ = 0;
};

template <typename Allocator>
class Driver {
 public:
  Driver(Allocator& allocator, Objects& objects, uint64_t limit, uint64_t seed)
      : allocator_(allocator), objects_(objects), limit_(limit), random_(seed) {}

  void run(const Workload& workload, double turnover) {
    allocate(workload.before, turnover);
    if (workload.after.to == 0) return;
    remove_some(workload.deleted);
    allocate(workload.after, turnover);
  }
  uint64_t operations() const { return operations_; }

 private:
  void allocate(const Sizes& sizes, double turnover) {
    const auto end = static_cast<uint64_t>(turnover * static_cast<double>(limit_));
    for (uint64_t allocated = 0; allocated < end;) {
      const auto bytes =
          sizes.from + static_cast<uint32_t>(random_.below(sizes.to - sizes.from + 1));
      put(bytes);
      allocated += bytes;
    }
  }
  /// In the place of others, if there is no room.
  void put(uint32_t bytes) {
    ++operations_;
    while (live_ + bytes > limit_) {
      const uint64_t at = random_.below(objects_.size());
      const Object old = objects_[at];
      live_ -= old.bytes;
      if (live_ + bytes <= limit_) {
        objects_[at] = allocator_.replace(old, bytes);
        live_ += bytes;
        return;
      }
      allocator_.remove(old);
      objects_.remove(at);
      ++operations_;
    }
    objects_.add(allocator_.create(bytes));
    live_ += bytes;
  }
  void remove_some(double share) {
    for (uint64_t at = 0; at < objects_.size();) {
      if (!random_.chance(share)) {
        ++at;
        continue;
      }
      live_ -= objects_[at].bytes;
      allocator_.remove(objects_[at]);
      objects_.remove(at);
      ++operations_;
    }
  }

  Allocator& allocator_;
  Objects& objects_;
  const uint64_t limit_;
  Random random_;
  uint64_t live_ = 0, operations_ = 0;
};

struct Result {
  uint64_t memory_bytes = 0, operations = 0;
  double seconds = 0, cpu_seconds = 0;
};

template <typename Allocator>
Result drive(Allocator& allocator, Objects& objects, uint64_t live, const Workload& workload,
             const Options& options) {
  Driver<Allocator> driver(allocator, objects, live, options.seed);
  const double cpu = process_seconds();
  const auto begin = std::chrono::steady_clock::now();
  driver.run(workload, options.turnover);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  return {.operations = driver.operations(),
          .seconds = taken.count(),
          .cpu_seconds = process_seconds() - cpu};
}

int run(const Options& options) {
  const auto* workload = std::ranges::find(kWorkloads, options.workload, &Workload::name);
  const auto live =
      static_cast<uint64_t>(static_cast<double>(options.live_mib << 20) * options.scale);
  const uint32_t least = workload->after.to == 0
                             ? workload->before.from
                             : std::min(workload->before.from, workload->after.from);
  Objects objects(live / least + 1);
  Result result;
  if (options.log_factor > 0) {
    const auto memory = static_cast<uint64_t>(options.log_factor * static_cast<double>(live));
    MemoryRig rig({.log_bytes = memory,
                   .objects = live / least,
                   .cleaner_threads = 1,
                   .writer_cpu = options.writer_cpu,
                   .cleaner_cpu = options.cleaner_cpu});
    Store store(rig);
    result = drive(store, objects, live, *workload, options);
    result.memory_bytes = rig.log_bytes();
  } else {
    pin_to(options.writer_cpu);
    const uint64_t before = resident_bytes();
    Malloc allocator;
    result = drive(allocator, objects, live, *workload, options);
    result.memory_bytes = peak_resident_bytes() - before;
  }
  const double factor = static_cast<double>(result.memory_bytes) / static_cast<double>(live);
  if (options.json) {
    fmt::print(
        R"({{"workload":"{}","live_bytes":{},"memory_bytes":{},"factor":{:.3f},"operations":{},)"
        R"("seconds":{:.3f},"cpu_seconds":{:.3f}}})"
        "\n",
        workload->name, live, result.memory_bytes, factor, result.operations, result.seconds,
        result.cpu_seconds);
  } else {
    fmt::print(
        "{}: {} MiB live in {} MiB ({:.2f} x), {} operations in {:.2f} s ({:.2f} s of CPU)\n",
        workload->name, live >> 20, result.memory_bytes >> 20, factor, result.operations,
        result.seconds, result.cpu_seconds);
  }
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Memory that changing sizes of objects take, with malloc or with a log.");
  app.add_option("--workload", options.workload, "W1 to W8")
      ->check(CLI::IsMember({"W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8"}));
  app.add_option("--live-mib", options.live_mib, "of live objects, at most")
      ->check(CLI::Range(32u, 1u << 20))
      ->capture_default_str();
  app.add_option("--scale", options.scale, "of --live-mib: less for a trial")
      ->check(CLI::Range(0.001, 1.0));
  app.add_option("--turnover", options.turnover, "times the live bytes are allocated in a phase")
      ->capture_default_str();
  app.add_option("--log", options.log_factor,
                 "a log with so many bytes for each live one, no malloc")
      ->check(CLI::Range(1.0, 100.0));
  app.add_option("--seed", options.seed, "of what is drawn");
  app.add_option("--writer-cpu", options.writer_cpu, "where it runs");
  app.add_option("--cleaner-cpu", options.cleaner_cpu, "where the log's cleaner runs");
  app.add_flag("--json", options.json, "a line of JSON");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
