// How long the recovery of a very large server would take in a very large cluster: a model, because
// no machine here has 500 GB of memory (docs/benchmarks/recovery_parts.md).
//
// What the coordinator does is the real code, run on messages of the real size, and timed: it
// decodes the backups' answers, decides the log's end, plans, and encodes the orders. Masters fetch
// in their real order (master/fetch_queue). The rest is a simulation of events. Each server has
// three queues: the reactor that fetches, replays and answers fetches; a reactor that takes
// replicas; a device. Its network card has two more. Each step costs what it cost when it was
// measured; the options say how much.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backup/fetch_service.h"
#include "backup/indexed_segments.h"
#include "base/hash.h"
#include "base/random.h"
#include "bench/options.h"
#include "coordinator/core/recovery.h"
#include "coordinator/core/recovery_plan.h"
#include "log/format.h"
#include "log/log_end.h"
#include "master/fetch_queue.h"
#include "master/recovery_limits.h"
#include "master/segment_fetch.h"
#include "master/tablet_recovery.h"
#include "replication/placement.h"
#include "wire/codec.h"
#include "wire/packed_segments.h"
#include "wire/recovery_messages.h"

namespace ramcloud {
namespace {

constexpr uint64_t kDead = 5000;
constexpr uint64_t kTable = 1;
constexpr uint64_t kFramesOfABackup = 1 << 16;

struct Options {
  int64_t servers = 1000;
  std::vector<int64_t> masters = {6, 20, 60, 200, 600, 1000};
  int64_t part_mb = 500;
  int64_t entry_bytes = 1096;  // a value of 1 KiB
  int64_t replicas = 3;
  bool first_part = true;
  bool one_order = false;
  bool one_by_one = false;
  bool json = false;

  // Of a server.
  double network = 25;     // Gbit/s in each direction
  double device = 2;       // GB/s, reading
  double latency = 10;     // us, one way
  double transaction = 5;  // ms, of metadata
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
  double pack = 0;    // the segments, once for all orders
  double encode = 0;  // all orders
  double unpack = 0;  // on a recovery master: one order, until it can fetch
  uint64_t answer_bytes = 0, order_bytes = 0;  // one order
  struct Part {
    uint64_t bytes;
    bool first;
  };
  std::vector<Part> parts;  // one for each recovery master
};

/// The dead log, by falling id: a master places replicas so, one after the other.
std::vector<wire::RecoverySegment> dead_log(const Options& options, int64_t masters) {
  const uint64_t bytes = static_cast<uint64_t>(options.part_mb * masters) * 1'000'000;
  const uint64_t count = (bytes + log::kSegmentBytes - 1) / log::kSegmentBytes;
  Random random(1);
  std::vector<PlacementServer> backups(static_cast<size_t>(options.servers));
  for (size_t i = 0; i < backups.size(); ++i) {
    backups[i].server_id = i + 1;
    backups[i].failure_domain = fmt::format("s{}", i + 1);
  }
  std::vector<wire::RecoverySegment> segments;
  for (uint64_t id = 1; id <= count; ++id) {
    wire::RecoverySegment segment{.segment_id = id, .length = log::kSegmentBytes, .sources = {}};
    std::vector<std::string> taken;
    for (int64_t i = 0; i < options.replicas; ++i) {
      PlacementServer& backup = backups[choose_backup(backups, taken, i == 0, random).value()];
      taken.push_back(backup.failure_domain);
      ++backup.replicas;
      backup.primaries += i == 0 ? 1 : 0;
      segment.sources.push_back(
          {backup.server_id, static_cast<uint32_t>(random.below(kFramesOfABackup))});
    }
    segments.push_back(std::move(segment));
  }
  std::ranges::reverse(segments);
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

RecoveryPlan plan_of(const Options& options, int64_t masters) {
  PlanInput input{.tablets = {{kTable, 0, ~uint64_t{0}}},
                  .bytes = static_cast<uint64_t>(options.part_mb * masters) * 1'000'000,
                  .entries = 0,
                  .masters = {},
                  .weights = {},
                  .first_part = options.first_part};
  for (int64_t id = 1; id <= masters; ++id) {
    input.masters.push_back({static_cast<uint64_t>(id), uint64_t{1} << 40});
  }
  return plan_recovery(input, {});
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
  RecoveryPlan plan;
  took.plan = seconds_of([&] { plan = plan_of(options, masters); });
  for (const PlannedPart& part : plan.parts) took.parts.push_back({part.bytes, part.first});
  std::string packed;
  took.pack = seconds_of([&] { packed = wire::pack_segments(segments); });
  took.encode = seconds_of([&] {
    for (size_t i = 0; i < plan.parts.size(); ++i) {
      wire::RecoverRequest order;
      order.tablets.push_back({{kTable, 0, ~uint64_t{0}}, 1, "a table"});
      order.packed_segments = packed;
      took.order_bytes = wire::encode(order, wire::kPackedSegments).size();
    }
  });
  took.unpack = seconds_of([&] {
    std::vector<wire::RecoverySegment> unpacked;
    if (!wire::unpack_segments(packed, unpacked)) std::exit(1);
    master::FetchQueue queue;
    for (const auto& segment : unpacked) queue.add(segment);
    queue.start(1, master::RecoveryLimits().fetches);
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
  Model(const Options& options, const std::vector<wire::RecoverySegment>& log,
        const Coordinator& coordinator, double planned);
  /// When the last master has everything on all its backups, in seconds.
  double run();
  /// When the last master was ordered.
  double ordered() const { return ordered_; }
  /// Seconds of work of the busiest queue of each kind.
  std::string busiest() const;
  double reads_of_a_segment() const {
    return static_cast<double>(reads_) / static_cast<double>(log_.size());
  }
  /// How many segments a fetch was for.
  double segments_of_a_fetch() const {
    return static_cast<double>(fetched_) / static_cast<double>(fetches_);
  }

 private:
  using Segment = const wire::RecoverySegment*;
  /// A request of a master to a backup, and its answer.
  struct Fetch {
    uint32_t master = 0, backup = 0;
    std::vector<Segment> segments;
    uint32_t left = 0;   // bytes of the first segment that are not fetched yet
    uint32_t bytes = 0;  // of the answer
    size_t whole = 0;    // segments that the answer completes
  };
  enum Kind : uint8_t { kOrder, kBegin, kNext, kAsk, kRead, kLoaded, kPage, kReplica };
  struct Event {
    double at;
    uint64_t sequence;
    Kind kind;
    uint32_t server;  // where it happens
    uint32_t number;  // of a fetch, a segment, or bytes
    uint32_t other;
    bool operator>(const Event& o) const { return at != o.at ? at > o.at : sequence > o.sequence; }
  };
  struct Server {
    Queue reactor, lane, device, in, out;
    // As a master:
    std::optional<master::FetchQueue> queue;
    double share = 0;  // of a segment, that it takes
    double rest = 0;   // of a segment, held back until the first part was fetched
    uint32_t fetchers = 0;
    uint64_t segments = 0, bytes = 0, unsent = 0;
    double done = 0;
    // As a backup: segments in memory, the most recently used last.
    struct Kept {
      uint32_t segment;
      bool loaded = false;
      bool ahead = false;                  // nobody has asked for it
      std::vector<uint32_t> waiting = {};  // fetches
    };
    std::vector<Kept> kept;
    size_t fetches = 0;
  };
  static constexpr uint32_t kPage1 = master::SegmentFetch::kPageBytes;

  void add(double at, Kind kind, uint32_t server, uint32_t number = 0, uint32_t other = 0) {
    events_.push({at, sequence_++, kind, server, number, other});
  }
  uint32_t number_of(Segment segment) const { return static_cast<uint32_t>(segment - log_.data()); }
  void handle(const Event& event);
  void order(uint32_t master, double now);
  void begin(uint32_t master, double now);
  void next(uint32_t master, double now);
  void fetched_all(uint32_t master, double now);
  void ask(double now, uint32_t number);
  Server::Kept* load(double now, uint32_t backup, uint32_t segment, bool ahead);
  uint64_t charge(const Server::Kept& kept) const;
  void loaded(double now, uint32_t backup, uint32_t segment);
  void answer(double now, uint32_t number);
  void replay(double now, uint32_t number);
  void replicate(Server& server, uint32_t me, double now, uint64_t least);
  double entries() const {
    return static_cast<double>(log::kSegmentBytes) / static_cast<double>(options_.entry_bytes);
  }
  double on_wire(uint64_t bytes) const {
    return static_cast<double>(bytes) / (options_.network * 1e9 / 8);
  }
  double us(double n) const { return n * 1e-6; }
  double ns(double n) const { return n * 1e-9; }

  const Options& options_;
  const std::vector<wire::RecoverySegment>& log_;
  const Coordinator& coordinator_;
  uint64_t room_;  // bytes of segments that a backup keeps
  std::vector<Server> servers_;
  std::deque<Fetch> fetches_in_flight_;
  std::vector<uint32_t> unused_;  // of them
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  Random random_{2};
  Queue orders_;  // the coordinator
  double ordered_ = 0;
  uint64_t sequence_ = 0, reads_ = 0, fetched_ = 0, fetches_ = 0;
};

Model::Model(const Options& options, const std::vector<wire::RecoverySegment>& log,
             const Coordinator& coordinator, double planned)
    : options_(options),
      log_(log),
      coordinator_(coordinator),
      room_(IndexedSegments::room_for(log.size() * log::kSegmentBytes)),
      servers_(static_cast<size_t>(options.servers) + 1) {
  const double first_alone = std::chrono::duration<double>(RecoveryOptions().first_alone).count();
  uint64_t all = 0;
  uint32_t first = 0;
  for (size_t i = 0; i < coordinator.parts.size(); ++i) {
    all += coordinator.parts[i].bytes;
    if (coordinator.parts[i].first) first = static_cast<uint32_t>(i + 1);
  }
  const double log_bytes =
      static_cast<double>(options.part_mb) * 1e6 * static_cast<double>(coordinator.parts.size());
  for (uint32_t i = 1; i <= coordinator.parts.size(); ++i) {
    servers_[i].share =
        static_cast<double>(coordinator.parts[i - 1].bytes) / log_bytes * log::kSegmentBytes;
  }
  if (first != 0) {
    servers_[first].rest = (log_bytes - static_cast<double>(all)) / log_bytes * log::kSegmentBytes;
    add(planned, kOrder, first);
  }
  for (uint32_t i = 1; i <= coordinator.parts.size(); ++i) {
    if (i != first) add(planned + (first != 0 ? first_alone : 0), kOrder, i);
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
    case kOrder:
      return order(event.server, event.at);
    case kBegin:
      return begin(event.server, event.at);
    case kNext:
      return next(event.server, event.at);
    case kAsk:
      return ask(event.at, event.number);
    case kRead:
      return add(server.reactor.take(event.at, ns(options_.index) * log::kSegmentBytes), kLoaded,
                 event.server, event.number);
    case kLoaded:
      return loaded(event.at, event.server, event.number);
    case kPage:
      return replay(event.at, event.number);
    case kReplica: {
      const double in = server.in.take(event.at, on_wire(event.number));
      const double at = server.lane.take(
          in, us(options_.message) + ns(options_.receive + options_.take) * event.number);
      Server& master = servers_[event.other];
      master.done = std::max(master.done, at + us(options_.latency));
      return;
    }
  }
}

/// The coordinator sends an order, unless the master has it already.
void Model::order(uint32_t master, double now) {
  Server& server = servers_[master];
  if (server.queue) return;
  server.queue.emplace();
  for (const auto& segment : log_) server.queue->add(segment);
  server.queue->start(options_.one_order ? kDead : master, master::RecoveryLimits().fetches);
  const auto bytes = static_cast<double>(coordinator_.order_bytes);
  const double each =
      std::max(coordinator_.encode / static_cast<double>(coordinator_.parts.size()) +
                   us(options_.message) + ns(options_.send) * bytes,
               on_wire(coordinator_.order_bytes));
  ordered_ = orders_.take(now, each);
  add(ordered_ + us(options_.latency), kBegin, master);
}

void Model::begin(uint32_t master, double now) {
  Server& server = servers_[master];
  const auto bytes = static_cast<double>(coordinator_.order_bytes);
  const double at = server.reactor.take(
      now, us(options_.message) + ns(options_.receive) * bytes + coordinator_.unpack);
  server.fetchers = master::RecoveryLimits().fetches;
  for (uint32_t slot = 0; slot < server.fetchers; ++slot) add(at, kNext, master);
}

void Model::next(uint32_t master, double now) {
  Server& server = servers_[master];
  const size_t most =
      options_.one_by_one ? 1 : master::segments_at_once(server.segments, server.bytes);
  std::vector<Segment> segments = server.queue->next(most);
  if (segments.empty()) {
    if (--server.fetchers == 0) fetched_all(master, now);
    return;
  }
  ++fetches_;
  if (unused_.empty()) {
    unused_.push_back(static_cast<uint32_t>(fetches_in_flight_.size()));
    fetches_in_flight_.emplace_back();
  }
  const uint32_t number = unused_.back();
  unused_.pop_back();
  Fetch& fetch = fetches_in_flight_[number];
  fetch.master = master;
  fetch.backup = static_cast<uint32_t>(segments.front()->sources.front().server_id);
  fetch.segments = std::move(segments);
  fetch.left = static_cast<uint32_t>(server.share);
  const double at = server.reactor.take(now, us(options_.message));
  add(at + us(options_.latency), kAsk, fetch.backup, number);
}

/// What is left goes to backups. After the first part the others begin, and the rest of its share.
void Model::fetched_all(uint32_t master, double now) {
  Server& server = servers_[master];
  replicate(server, master, now, 1);
  if (server.rest == 0) return;
  server.share = std::exchange(server.rest, 0);
  server.segments = server.bytes = 0;
  server.queue.reset();
  add(now + us(options_.latency), kOrder, master);
  for (uint32_t i = 1; i <= coordinator_.parts.size(); ++i) {
    if (i != master) add(now + us(options_.latency), kOrder, i);
  }
}

void Model::ask(double now, uint32_t number) {
  const Fetch& fetch = fetches_in_flight_[number];
  Server& backup = servers_[fetch.backup];
  const double at = backup.reactor.take(now, us(options_.message));
  Server::Kept* kept = backup.fetches < FetchService::kMaxFetches
                           ? load(at, fetch.backup, number_of(fetch.segments.front()), false)
                           : nullptr;
  if (kept == nullptr) return add(at + us(10'000), kAsk, fetch.backup, number);  // RETRY
  ++backup.fetches;
  if (kept->loaded) return answer(at, number);
  kept->waiting.push_back(number);
}

/// As backup/indexed_segments: an entry of the index has 28 bytes, and the smallest one 32 in the
/// segment.
uint64_t Model::charge(const Server::Kept& kept) const {
  const double most = log::kSegmentBytes / 32.0;
  return log::kSegmentBytes + static_cast<uint64_t>(28 * (kept.loaded ? entries() : most));
}

/// The segment, which is in memory or is being read; null: there is no room.
Model::Server::Kept* Model::load(double now, uint32_t backup, uint32_t segment, bool ahead) {
  Server& server = servers_[backup];
  const auto it = std::ranges::find(server.kept, segment, &Server::Kept::segment);
  if (it != server.kept.end()) {
    it->ahead = it->ahead && ahead;
    std::rotate(it, it + 1, server.kept.end());
    return &server.kept.back();
  }
  const Server::Kept fresh{.segment = segment, .ahead = ahead};
  uint64_t used = charge(fresh), read_ahead = charge(fresh), unused = 0;
  for (const auto& kept : server.kept) {
    used += charge(kept);
    read_ahead += kept.ahead ? charge(kept) : 0;
    unused += kept.loaded ? charge(kept) : 0;
  }
  if (used > room_ + unused || (ahead && read_ahead > room_ / 4)) return nullptr;
  for (auto old = server.kept.begin(); used > room_;) {
    if (!old->loaded) {
      ++old;
      continue;
    }
    used -= charge(*old);
    old = server.kept.erase(old);
  }
  ++reads_;
  server.kept.push_back(fresh);
  add(server.device.take(now, log::kSegmentBytes / (options_.device * 1e9)), kRead, backup,
      segment);
  return &server.kept.back();
}

void Model::loaded(double now, uint32_t backup, uint32_t segment) {
  const auto it = std::ranges::find(servers_[backup].kept, segment, &Server::Kept::segment);
  it->loaded = true;
  for (const uint32_t fetch : std::exchange(it->waiting, {})) answer(now, fetch);
}

/// The first segment, and further ones that are in memory. Others are read for the next request.
void Model::answer(double now, uint32_t number) {
  Fetch& fetch = fetches_in_flight_[number];
  Server& backup = servers_[fetch.backup];
  const auto share = static_cast<uint32_t>(servers_[fetch.master].share);
  fetch.bytes = std::min(fetch.left, kPage1);
  const double part = static_cast<double>(fetch.bytes) / share;
  fetch.whole = fetch.bytes == fetch.left ? 1 : 0;
  bool adds = fetch.whole == 1;
  --backup.fetches;
  for (size_t i = 1; i < fetch.segments.size(); ++i) {
    Server::Kept* kept = load(now, fetch.backup, number_of(fetch.segments[i]), true);
    if (kept == nullptr) break;
    adds = adds && kept->loaded && fetch.bytes < FetchService::kMostBeforeFurther;
    if (!adds) continue;
    kept->ahead = false;
    fetch.bytes += share;
    ++fetch.whole;
  }
  // Entries of small ranges are looked up by the first byte of their hash (backup/fetch_service).
  const double of_segment = servers_[fetch.master].share / log::kSegmentBytes;
  const double by_hash = entries() * (of_segment + 2.0 / IndexedSegment::kFirstBytes);
  const double looked = by_hash > 1024 || by_hash > entries() / 4 ? entries() : by_hash;
  const double looks =
      part * looked + static_cast<double>(std::max<size_t>(fetch.whole, 1) - 1) * looked;
  const double at = backup.reactor.take(
      now, us(options_.message) + ns(options_.look) * looks + ns(options_.send) * fetch.bytes);
  add(backup.out.take(at, on_wire(fetch.bytes)) + us(options_.latency), kPage, fetch.master,
      number);
}

void Model::replay(double now, uint32_t number) {
  Fetch& fetch = fetches_in_flight_[number];
  Server& master = servers_[fetch.master];
  const double in = master.in.take(now, on_wire(fetch.bytes));
  const double replayed =
      static_cast<double>(fetch.bytes) / static_cast<double>(options_.entry_bytes);
  const double at =
      master.reactor.take(in, us(options_.message) + ns(options_.receive) * fetch.bytes +
                                  ns(options_.replay) * replayed);
  master.unsent += fetch.bytes;
  master.bytes += fetch.bytes;
  replicate(master, fetch.master, at, kPage1);
  if (fetch.whole == 0) {
    fetch.left -= fetch.bytes;
    const double asked = master.reactor.take(at, us(options_.message));
    return add(asked + us(options_.latency), kAsk, fetch.backup, number);
  }
  master.segments += fetch.whole;
  fetched_ += fetch.whole;
  master.queue->put_back(std::span(fetch.segments).subspan(fetch.whole));
  unused_.push_back(number);
  add(at, kNext, fetch.master);
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
      add(master.out.take(at, on_wire(bytes)) + us(options_.latency), kReplica, backup, bytes, me);
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
  const double answers = static_cast<double>(took.answer_bytes) / (options.network * 1e9 / 8);
  // Every backup is asked, and answers; the answers come in one after the other.
  const double end = static_cast<double>(options.servers) * options.message * 2e-6 +
                     std::max(answers, took.decode) + took.decide;
  // Splits, the attempt's number in each tablet, and the hand-over. A transaction has 100 chunks of
  // at least 8 tablets (coordinator/metadata/table_writer).
  const double transactions =
      std::ceil(static_cast<double>(masters) / (100 * 8)) * options.transaction * 1e-3;
  Model model(options, log, took, end + took.plan + took.pack + 2 * transactions);
  const double done = model.run() + transactions;
  const double lease = std::chrono::duration<double>(RecoveryOptions().read_lease).count() * 1.05;
  const double served = std::max(done, end + lease);
  if (options.json) {
    fmt::print(
        R"({{"masters":{},"segments":{},"end_s":{:.4f},"ordered_s":{:.4f},"order_bytes":{},"replicated_s":{:.4f},"served_s":{:.4f},"reads":{:.2f},"segments_of_a_fetch":{:.1f},{}}})"
        "\n",
        masters, log.size(), end, model.ordered(), took.order_bytes, done, served,
        model.reads_of_a_segment(), model.segments_of_a_fetch(), model.busiest());
  } else {
    fmt::print(
        "{:5} masters, {:6} segments: log's end {:.3f} s, all ordered {:.3f} s ({} bytes each), "
        "served {:.3f} s; a segment is read {:.2f} times, a fetch is for {:.1f} segments; busiest "
        "{}\n",
        masters, log.size(), end, model.ordered(), took.order_bytes, served,
        model.reads_of_a_segment(), model.segments_of_a_fetch(), model.busiest());
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
  cost("--transaction", options.transaction, "of metadata, ms");
  cost("--replay", options.replay, "ns an entry");
  cost("--index", options.index, "ns a byte of a segment that a backup verifies and indexes");
  cost("--look", options.look, "ns for each entry that a fetch looks at");
  cost("--message", options.message, "us a message, at each end");
  cost("--send", options.send, "ns a byte");
  cost("--receive", options.receive, "ns a byte");
  cost("--take", options.take, "ns a byte of a replica, to its file");
  app.add_flag("--first-part,!--no-first-part", options.first_part,
               "a small part is recovered before the others, as the planner wants it");
  app.add_flag("--one-order", options.one_order, "all masters fetch in the same order");
  app.add_flag("--one-by-one", options.one_by_one, "a fetch is for one segment");
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
