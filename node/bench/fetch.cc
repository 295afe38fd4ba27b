// The cost, for a backup, of giving recovery masters the entries of their ranges. For the first
// master that fetches a segment, the backup reads it, verifies it and hashes its keys; for the
// others that is done already (docs/design/recovery.md, "Fetching"). The simulated disk takes no
// time, so the benchmark measures the time of the reactor.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "backup/fetch_service.h"
#include "base/clock.h"
#include "bench/median.h"
#include "bench/options.h"
#include "log/arena.h"
#include "log/log.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/testing/only_replies.h"

namespace ramcloud {
namespace {

constexpr wire::Uuid kCluster{1};
constexpr uint64_t kMaster = 7;

struct Options {
  int64_t bytes = 100;  // of a value
  int64_t masters = 10;
  int64_t rounds = 21;
};

/// A frozen master with one replica, in frame 0.
class OneReplica final : public RecoveryService::Replicas {
 public:
  Status may_tell() const override { return {}; }
  void freeze(uint64_t) override {}
  bool frozen(uint64_t) const override { return true; }
  void sync_all(std::function<void(Status)> done) override { done({}); }
  std::vector<FrameReplica> replicas_of(uint64_t) const override { return {}; }
  std::optional<FrameReplica> replica_in(uint32_t, uint64_t, uint64_t) const override {
    FrameReplica replica;
    replica.content.capacity = log::kSegmentBytes;
    return replica;
  }
};

class Answers final : public testing::OnlyReplies {
 public:
  void reply(const ReplyHandle&, StatusCode code, std::span<const Slice> body) override {
    ++count;
    status = code;
    head = load<wire::RecoveryFetchReply>(body[0].data);
  }
  int count = 0;
  StatusCode status = StatusCode::kOk;
  wire::RecoveryFetchReply head{};
};

/// The first segment of a log of small objects, as it is when the next one is opened.
std::string first_segment(size_t value_bytes) {
  log::Arena arena(uint64_t{4} * log::kSegmentBytes, {.try_huge_pages = false, .prefault = false});
  log::NullReplicator replicator;
  log::LogOptions options;
  options.cluster_uuid = kCluster;
  options.master_id = kMaster;
  log::Log log(arena, replicator, options);
  log.start();
  const std::string value(value_bytes, 'v');
  log::ObjectBody body{};
  body.table_id = 1;
  body.key_length = 8;
  for (log::Appended where; log.find_segment(2) == nullptr;) {
    ++body.version;
    const std::string key = fmt::format("{:08}", uint64_t{body.version});
    const log::EntrySource source{
        log::EntryType::kObject, 3, {Slice(bytes_of(body)), Slice(key), Slice(value)}};
    const char* ref = nullptr;
    if (log.append(std::span(&source, 1), false, where, &ref) != StatusCode::kOk) break;
  }
  const log::SegmentBytes bytes = log.find_segment(1)->bytes();
  std::string image(bytes.size(), '\0');
  bytes.read(0, image.data(), bytes.size());
  return image;
}

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options), segment_(first_segment(static_cast<size_t>(options.bytes))) {
    frames_ = std::move(*FrameStore::open(node_.disk(), "/d", log::kSegmentBytes));
    (void)frames_->adopt(kCluster, 5, 1, 1);
    (void)frames_->write(0, 0, segment_);
  }
  /// Milliseconds of each master of a round, one after the other, each with its part of the hashes.
  std::vector<double> round() {
    ServiceRegistry registry(answers_);
    OneReplica replicas;
    FetchService service(node_.reactor(), registry, *frames_, replicas,
                         IndexedSegments::kLeastRoom);
    std::vector<double> ms;
    const auto n = static_cast<uint32_t>(options_.masters);
    for (uint32_t i = 0; i < n; ++i) ms.push_back(fetch_all(registry, i, n));
    return ms;
  }
  size_t segment_bytes() const { return segment_.size(); }

 private:
  double fetch_all(ServiceRegistry& registry, uint32_t i, uint32_t n) {
    const Time begun = clock_.now();
    wire::RecoveryFetchRequest asked{.master_id = kMaster,
                                     .segment_id = 1,
                                     .frame = 0,
                                     .offset = 0,
                                     .end = static_cast<uint32_t>(segment_.size()),
                                     .max_bytes = 1u << 20,
                                     .ranges = {{1, tablet_start(i, n), tablet_end(i, n)}},
                                     .further = {}};
    while (asked.offset < asked.end) {
      const int before = answers_.count;
      wire::MessageHeader header{};
      header.opcode = static_cast<uint16_t>(wire::Opcode::kRecoveryFetch);
      ReplyHandle handle;
      handle.version = wire::kExtensible;
      registry.on_request(handle, header, wire::encode(asked, wire::kExtensible));
      scheduler_.run_until([&] { return answers_.count > before; }, 10s);
      if (answers_.status != StatusCode::kOk) break;
      asked.offset = answers_.head.next_offset;
    }
    return std::chrono::duration<double, std::milli>(clock_.now() - begun).count();
  }

  Options options_;
  SystemClock clock_;
  SimScheduler scheduler_{1};
  SimNode& node_ = scheduler_.add_node("b");
  Answers answers_;
  std::unique_ptr<FrameStore> frames_;
  std::string segment_;
};

int run(const Options& options) {
  Bench bench(options);
  (void)bench.round();  // warms up
  std::vector<double> first, later;
  for (int64_t i = 0; i < options.rounds; ++i) {
    const std::vector<double> ms = bench.round();
    first.push_back(ms[0]);
    later.insert(later.end(), ms.begin() + 1, ms.end());
  }
  fmt::print(
      "a segment of {} bytes, values of {}, {} masters with a part each: the first takes {:.2f} "
      "ms, "
      "each other {:.1f} us, {:.1f} times less (medians of {} rounds)\n",
      bench.segment_bytes(), options.bytes, options.masters, bench::median(first),
      bench::median(later) * 1e3, bench::median(first) / bench::median(later), options.rounds);
  return 0;
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("Fetches a dead master's segment from a backup, part by part.");
  bench::add_number(app, "--bytes", options.bytes, 0, 1 << 20, "of a value");
  bench::add_number(app, "--masters", options.masters, 2, 1000, "that share the segment");
  bench::add_number(app, "--rounds", options.rounds, 1, 1000, "");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
