// How long the recovery of a very large server would take in a very large cluster: a model, because
// no machine here has 500 GB of memory (docs/benchmarks/recovery_parts.md).
//
// What the coordinator does is the real code, run on messages of the real size, and timed: it
// decodes the backups' answers, decides the log's end, plans, and encodes the orders. Masters fetch
// in their real order (master/fetch_order). The rest is a simulation of events. Each server has
// three queues: the reactor that fetches, replays and answers fetches; a reactor that takes
// replicas; a device. Its network card has two more. Each step costs what it cost when it was
// measured; the options say how much.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "backup/indexed_segments.h"
#include "base/hash.h"
#include "base/random.h"
#include "bench/options.h"
#include "coordinator/core/recovery_plan.h"
#include "log/format.h"
#include "log/log_end.h"
#include "master/fetch_order.h"
#include "master/segment_fetch.h"
#include "master/tablet_recovery.h"
#include "wire/codec.h"
#include "wire/recovery_messages.h"

namespace ramcloud {
namespace {

constexpr uint64_t kDead = 5000;
constexpr uint64_t kTable = 1;

struct Options {
  int64_t servers = 1000;
  std::vector<int64_t> masters = {6, 20, 60, 200, 600, 1000};
  int64_t part_mb = 500;
  int64_t entry_bytes = 1096;  // a value of 1 KiB
  int64_t replicas = 3;
  bool one_order = false;
  bool json = false;

  // Of a server.
  double network = 25;  // Gbit/s in each direction
  double device = 2;    // GB/s, reading
  double latency = 10;  // us, one way
  // Measured.
  double replay = 223;   // ns an entry (bench/replay)
  double index = 0.11;   // ns a byte: a backup verifies a segment and hashes keys (bench/fetch)
  double look = 10;      // ns for each entry of a segment that a fetch looks at (bench/fetch)
  double message = 2;    // us a message, at each end; a read takes 0.8 to 7 (hack/bench_peers.py)
  double send = 0.35;    // ns a byte
  double receive = 0.5;  // ns a byte
  double take = 0.17;    // ns a byte of a replica, to its file
};

// ---- what the coordinator does

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Coordinator {
  double decode = 0;  // seconds: the answers of all backups
  double decide = 0;  // the log's end
  double plan = 0;
  double encode = 0;                           // all orders
  uint64_t answer_bytes = 0, order_bytes = 0;  // one order
};

/// The dead log: each segment has its replicas on different servers; the first one is the primary.
std::vector<wire::RecoverySegment> dead_log(const Options& options, int64_t masters) {
  const uint64_t bytes = static_cast<uint64_t>(options.part_mb * masters) * 1'000'000;
  const uint64_t count = (bytes + log::kSegmentBytes - 1) / log::kSegmentBytes;
  Random random(1);
  std::vector<wire::RecoverySegment> segments;
  for (uint64_t id = 1; id <= count; ++id) {
    wire::RecoverySegment segment{.segment_id = id, .length = log::kSegmentBytes, .sources = {}};
    while (segment.sources.size() < static_cast<size_t>(options.replicas)) {
      const uint64_t server = 1 + random.below(static_cast<uint64_t>(options.servers));
      const bool known = std::ranges::any_of(
          segment.sources, [&](const wire::RecoverySource& s) { return s.server_id == server; });
      if (!known) segment.sources.push_back({server, static_cast<uint32_t>(random.below(1 << 16))});
    }
    segments.push_back(std::move(segment));
  }
  return segments;
}

std::vector<std::string> answers_of(const std::vector<wire::RecoverySegment>& segments,
                                    int64_t servers) {
  std::vector<wire::RecoveryQueryReply> replies(static_cast<size_t>(servers) + 1);
  const uint64_t head = segments.size();
  for (const wire::RecoverySegment& segment : segments) {
    for (const wire::RecoverySource& source : segment.sources) {
      wire::RecoveryReplica replica{.segment_id = segment.segment_id,
                                    .frame = source.frame,
                                    .backup_id = source.server_id,
                                    .epoch = 1,
                                    .length = segment.length,
                                    .header_length = 100,
                                    .flags = segment.segment_id == head
                                                 ? wire::RecoveryReplica::kIsHead
                                                 : wire::RecoveryReplica::kClosed,
                                    .digest = {},
                                    .holders = {}};
      replies[source.server_id].replicas.push_back(std::move(replica));
    }
  }
  std::vector<std::string> bodies;
  for (auto& reply : replies) bodies.push_back(wire::encode(reply, wire::kExtensible));
  return bodies;
}

log::LogAnswers log_answers(const std::vector<wire::RecoverySegment>& segments, int64_t servers) {
  log::LogAnswers answers;
  const uint64_t head = segments.size();
  for (const wire::RecoverySegment& segment : segments) {
    for (const wire::RecoverySource& source : segment.sources) {
      log::FoundReplica replica{.server_id = source.server_id,
                                .segment_id = segment.segment_id,
                                .epoch = 1,
                                .length = segment.length,
                                .header_length = 100,
                                .closed = true,
                                .digest = {},
                                .holders = {}};
      if (segment.segment_id == head) {
        replica.closed = false;
        replica.scanned = replica.is_head = replica.has_data = replica.clean_end = true;
        for (uint64_t id = 1; id <= head; ++id) replica.digest.push_back(id);
        replica.safe_version = 7;
        for (const auto& holder : segment.sources) replica.holders.push_back(holder.server_id);
      }
      answers.replicas.push_back(std::move(replica));
    }
  }
  for (int64_t id = 1; id <= servers; ++id) answers.heard.insert(static_cast<uint64_t>(id));
  return answers;
}

Coordinator coordinate(const Options& options, int64_t masters,
                       const std::vector<wire::RecoverySegment>& segments) {
  Coordinator took;
  const std::vector<std::string> answers = answers_of(segments, options.servers);
  for (const std::string& body : answers) took.answer_bytes += body.size();
  uint64_t found = 0;
  took.decode = seconds_of([&] {
    for (const std::string& body : answers) {
      wire::RecoveryQueryReply reply;
      if (wire::decode(std::string_view(body), wire::kExtensible, reply))
        found += reply.replicas.size();
    }
  });
  const log::LogAnswers known = log_answers(segments, options.servers);
  log::LogEnd end;
  took.decide = seconds_of([&] { end = log::decide_log_end(known); });
  if (found != known.replicas.size() || end.segments.size() != segments.size()) {
    fmt::print(stderr,
               "recovery_scale: the log's end is not found: {} of {} replicas, {} segments\n",
               found, known.replicas.size(), end.segments.size());
    std::exit(1);
  }
  PlanInput input{.tablets = {{kTable, 0, ~uint64_t{0}}},
                  .bytes = static_cast<uint64_t>(options.part_mb * masters) * 1'000'000,
                  .entries = 0,
                  .masters = {},
                  .weights = {}};
  for (int64_t id = 1; id <= masters; ++id) {
    input.masters.push_back({static_cast<uint64_t>(id), uint64_t{1} << 40});
  }
  RecoveryPlan plan;
  took.plan = seconds_of([&] { plan = plan_recovery(input, {}); });
  wire::RecoverRequest order;
  order.segments = segments;
  order.tablets.push_back({{kTable, 0, ~uint64_t{0}}, 1, "a table"});
  took.encode = seconds_of([&] {
    for (size_t i = 0; i < plan.parts.size(); ++i) {
      took.order_bytes = wire::encode(order, wire::kExtensible).size();
    }
  });
  return took;
}

// ---- the servers

/// Serves one piece of work after the other.
struct Queue {
  double free = 0;
  double used = 0;
  double take(double now, double length) {
    free = std::max(free, now) + length;
    used += length;
    return free;
  }
};

class Model {
 public:
  Model(const Options& options, int64_t masters, const std::vector<wire::RecoverySegment>& log,
        uint64_t order_bytes, std::function<double(size_t)> ordered_at);
  /// When the last master has everything on all its backups, in seconds.
  double run();
  /// Seconds of work of the busiest queue of each kind, and how often a segment was read.
  std::string busiest() const;
  double reads_of_a_segment() const {
    return static_cast<double>(reads_) / static_cast<double>(log_.size());
  }

 private:
  enum Kind : uint8_t { kAsk, kRead, kLoaded, kPage, kReplica, kNext };
  struct Event {
    double at;
    uint64_t sequence;
    Kind kind;
    uint32_t server;  // where it happens
    uint32_t other;   // the master that asks
    uint32_t segment;
    uint32_t bytes;
    bool operator>(const Event& o) const { return at != o.at ? at > o.at : sequence > o.sequence; }
  };
  struct Server {
    Queue reactor, lane, device, in, out;
    // As a master:
    std::vector<uint32_t> order;  // of segments
    size_t next = 0;
    uint64_t unsent = 0;
    double done = 0;
    // As a backup: segments in memory, the most recently used last.
    struct Kept {
      uint32_t segment;
      bool loaded;
      std::vector<Event> waiting;
    };
    std::vector<Kept> kept;
  };
  static constexpr size_t kKept = 3;  // IndexedSegments::kMostBytes
  static constexpr uint32_t kPage1 = master::SegmentFetch::kPageBytes;

  void add(double at, Kind kind, uint32_t server, uint32_t other, uint32_t segment,
           uint32_t bytes) {
    events_.push({at, sequence_++, kind, server, other, segment, bytes});
  }
  void handle(const Event& event);
  void ask(const Event& event);
  void answer(const Event& event, double now);
  void replay(const Event& event);
  void replicate(Server& server, uint32_t me, double now, uint64_t least);
  double on_wire(uint64_t bytes) const {
    return static_cast<double>(bytes) / (options_.network * 1e9 / 8);
  }
  double us(double n) const { return n * 1e-6; }
  double ns(double n) const { return n * 1e-9; }

  const Options& options_;
  const std::vector<wire::RecoverySegment>& log_;
  uint32_t masters_;
  uint32_t share_;  // bytes of a segment that one master takes
  std::vector<Server> servers_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Random random_{2};
  uint64_t sequence_ = 0;
  uint64_t reads_ = 0;
};

Model::Model(const Options& options, int64_t masters, const std::vector<wire::RecoverySegment>& log,
             uint64_t order_bytes, std::function<double(size_t)> ordered_at)
    : options_(options),
      log_(log),
      masters_(static_cast<uint32_t>(masters)),
      share_(static_cast<uint32_t>(log::kSegmentBytes / masters)),
      servers_(static_cast<size_t>(options.servers) + 1) {
  for (uint32_t i = 1; i <= masters_; ++i) {
    Server& server = servers_[i];
    const auto order = master::fetch_order(log, options.one_order ? kDead : i);
    for (const auto& segment : order) {
      server.order.push_back(static_cast<uint32_t>(segment.segment_id - 1));
    }
    if (options.one_order) std::ranges::sort(server.order, std::greater());
    const double at = server.reactor.take(
        ordered_at(i - 1),
        us(options_.message) + ns(options_.receive) * static_cast<double>(order_bytes));
    for (uint32_t slot = 0; slot < master::TabletRecovery::kFetches; ++slot) {
      add(at, kNext, i, 0, 0, 0);
    }
  }
}

double Model::run() {
  double last = 0;
  while (!events_.empty()) {
    const Event event = events_.top();
    events_.pop();
    handle(event);
    last = event.at;
  }
  for (Server& server : servers_) last = std::max(last, server.done);
  return last;
}

void Model::handle(const Event& event) {
  Server& server = servers_[event.server];
  switch (event.kind) {
    case kNext: {
      if (server.next == server.order.size()) return replicate(server, event.server, event.at, 1);
      const uint32_t segment = server.order[server.next++];
      const double at = server.reactor.take(event.at, us(options_.message));
      const auto backup = static_cast<uint32_t>(log_[segment].sources[0].server_id);
      return add(at + us(options_.latency), kAsk, backup, event.server, segment, share_);
    }
    case kAsk:
      return ask(event);
    case kRead:
      return add(server.reactor.take(event.at, ns(options_.index) * log::kSegmentBytes), kLoaded,
                 event.server, 0, event.segment, 0);
    case kLoaded:
      for (auto& kept : server.kept) {
        if (kept.segment != event.segment || kept.loaded) continue;
        kept.loaded = true;
        for (const Event& waits : kept.waiting) answer(waits, event.at);
        kept.waiting.clear();
      }
      return;
    case kPage:
      return replay(event);
    case kReplica: {
      const double in = server.in.take(event.at, on_wire(event.bytes));
      const double at = server.lane.take(
          in, us(options_.message) + ns(options_.receive + options_.take) * event.bytes);
      Server& master = servers_[event.other];
      master.done = std::max(master.done, at + us(options_.latency));
      return;
    }
  }
}

void Model::ask(const Event& event) {
  Server& backup = servers_[event.server];
  const auto it = std::ranges::find(backup.kept, event.segment, &Server::Kept::segment);
  if (it != backup.kept.end()) {
    std::rotate(it, it + 1, backup.kept.end());
    if (backup.kept.back().loaded) return answer(event, event.at);
    backup.kept.back().waiting.push_back(event);
    return;
  }
  if (backup.kept.size() == kKept) {
    const auto unused = std::ranges::find_if(backup.kept, &Server::Kept::loaded);
    if (unused == backup.kept.end()) {  // RETRY
      return add(event.at + us(10'000), kAsk, event.server, event.other, event.segment,
                 event.bytes);
    }
    backup.kept.erase(unused);
  }
  ++reads_;
  backup.kept.push_back({event.segment, false, {event}});
  add(backup.device.take(event.at, log::kSegmentBytes / (options_.device * 1e9)), kRead,
      event.server, 0, event.segment, 0);
}

void Model::answer(const Event& event, double now) {
  Server& backup = servers_[event.server];
  // Entries of small ranges are looked up by the first byte of their hash (backup/fetch_service).
  const double entries =
      static_cast<double>(log::kSegmentBytes) / static_cast<double>(options_.entry_bytes);
  const double by_hash = entries * (1.0 / masters_ + 2.0 / IndexedSegment::kFirstBytes);
  const double looked = by_hash > 1024 || by_hash > entries / 4 ? entries : by_hash;
  const uint32_t page = std::min(event.bytes, kPage1);
  const double part = static_cast<double>(page) / share_;
  const double at = backup.reactor.take(
      now, us(options_.message) + ns(options_.look) * looked * part + ns(options_.send) * page);
  const double sent = backup.out.take(at, on_wire(page));
  add(sent + us(options_.latency), kPage, event.other, event.server, event.segment, event.bytes);
}

void Model::replay(const Event& event) {
  Server& master = servers_[event.server];
  const uint32_t page = std::min(event.bytes, kPage1);
  const double in = master.in.take(event.at, on_wire(page));
  const double entries = static_cast<double>(page) / options_.entry_bytes;
  const double at = master.reactor.take(
      in, us(options_.message) + ns(options_.receive) * page + ns(options_.replay) * entries);
  master.unsent += page;
  replicate(master, event.server, at, kPage1);
  const uint32_t left = event.bytes - page;
  if (left == 0) return add(at, kNext, event.server, 0, 0, 0);
  const double asked = master.reactor.take(at, us(options_.message));
  add(asked + us(options_.latency), kAsk, event.other, event.server, event.segment, left);
}

void Model::replicate(Server& master, uint32_t me, double now, uint64_t least) {
  while (master.unsent >= least) {
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(master.unsent, kPage1));
    master.unsent -= bytes;
    for (int64_t i = 0; i < options_.replicas; ++i) {
      uint32_t backup = me;
      while (backup == me) {
        backup = 1 + static_cast<uint32_t>(random_.below(servers_.size() - 1));
      }
      const double at = master.reactor.take(now, us(options_.message) + ns(options_.send) * bytes);
      add(master.out.take(at, on_wire(bytes)) + us(options_.latency), kReplica, backup, me, 0,
          bytes);
    }
  }
}

std::string Model::busiest() const {
  double reactor = 0, lane = 0, device = 0, in = 0, out = 0;
  for (const Server& s : servers_) {
    reactor = std::max(reactor, s.reactor.used);
    lane = std::max(lane, s.lane.used);
    device = std::max(device, s.device.used);
    in = std::max(in, s.in.used);
    out = std::max(out, s.out.used);
  }
  return fmt::format(
      R"("reactor_s":{:.3f},"lane_s":{:.3f},"device_s":{:.3f},"in_s":{:.3f},"out_s":{:.3f})",
      reactor, lane, device, in, out);
}

void simulate(const Options& options, int64_t masters) {
  const std::vector<wire::RecoverySegment> log = dead_log(options, masters);
  const Coordinator took = coordinate(options, masters, log);
  const auto wire = [&](uint64_t bytes) {
    return static_cast<double>(bytes) / (options.network * 1e9 / 8);
  };
  // Every backup is asked, and answers; the answers come in one after the other.
  const double end = static_cast<double>(options.servers) * options.message * 2e-6 +
                     std::max(wire(took.answer_bytes), took.decode) + took.decide;
  const double planned = end + took.plan;
  const double each = std::max(took.encode / static_cast<double>(masters) + options.message * 1e-6 +
                                   options.send * 1e-9 * static_cast<double>(took.order_bytes),
                               wire(took.order_bytes));
  Model model(options, masters, log, took.order_bytes,
              [&](size_t part) { return planned + static_cast<double>(part + 1) * each; });
  const double done = model.run();
  constexpr double kLease = 0.525;
  const double served = std::max(done, end + kLease);
  if (options.json) {
    fmt::print(
        R"({{"masters":{},"segments":{},"end_s":{:.4f},"ordered_s":{:.4f},"order_bytes":{},"replicated_s":{:.4f},"served_s":{:.4f},"reads":{:.2f},{}}})"
        "\n",
        masters, log.size(), end, planned + static_cast<double>(masters) * each, took.order_bytes,
        done, served, model.reads_of_a_segment(), model.busiest());
  } else {
    fmt::print(
        "{:5} masters, {:6} segments: log's end {:.3f} s, all ordered {:.3f} s ({} bytes each), "
        "served "
        "{:.3f} s; a segment is read {:.2f} times; busiest {}\n",
        masters, log.size(), end, planned + static_cast<double>(masters) * each, took.order_bytes,
        served, model.reads_of_a_segment(), model.busiest());
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace ramcloud

int main(int argc, char** argv) {
  using namespace ramcloud;
  Options options;
  CLI::App app("A model of the recovery of a very large server in a very large cluster.");
  bench::add_number(app, "--servers", options.servers, 4, 100'000, "that are left");
  app.add_option("--masters", options.masters, "how many recovery masters, one or more numbers")
      ->check(CLI::Range(int64_t{1}, int64_t{100'000}))
      ->capture_default_str();
  bench::add_number(app, "--part-mb", options.part_mb, 1, 100'000, "of each recovery master");
  bench::add_number(app, "--entry-bytes", options.entry_bytes, 50, 1 << 20, "of an entry");
  bench::add_number(app, "--replicas", options.replicas, 1, 5, "of a segment");
  const auto cost = [&](const char* name, double& value, const char* what) {
    app.add_option(name, value, what)->check(CLI::NonNegativeNumber)->capture_default_str();
  };
  cost("--network", options.network, "of a server, Gbit/s in each direction");
  cost("--device", options.device, "of a server, GB/s read");
  cost("--latency", options.latency, "one way, us");
  cost("--replay", options.replay, "ns an entry");
  cost("--index", options.index, "ns a byte of a segment that a backup verifies and indexes");
  cost("--look", options.look, "ns for each entry that a fetch looks at");
  cost("--message", options.message, "us a message, at each end");
  cost("--send", options.send, "ns a byte");
  cost("--receive", options.receive, "ns a byte");
  cost("--take", options.take, "ns a byte of a replica, to its file");
  app.add_flag("--one-order", options.one_order, "all masters fetch in the same order");
  app.add_flag("--json", options.json, "a line of JSON for each number of masters");
  CLI11_PARSE(app, argc, argv);
  for (const int64_t masters : options.masters) {
    if (masters > options.servers) {
      fmt::print(stderr, "error: --masters is {}; accepted is at most --servers, {}\n", masters,
                 options.servers);
      return 2;
    }
  }
  for (const int64_t masters : options.masters) simulate(options, masters);
  return 0;
}
