// The data path allocates nothing in steady state: counted, operation by operation, from the
// registry of services downwards. What happens once a segment, a connection or a flush may
// allocate.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <new>

#include "backup/replica_service.h"
#include "log/log_test_support.h"
#include "master/data_service.h"
#include "replication/replica_manager.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/testing/only_replies.h"
#include "wire/data_messages.h"

namespace {

std::atomic<uint64_t> allocations{0};
std::atomic<int64_t> allocated_bytes{0};  // that are not freed

void* counted(size_t size, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  size = size == 0 ? 1 : size;
  void* memory =
      alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  allocated_bytes.fetch_add(static_cast<int64_t>(malloc_usable_size(memory)),
                            std::memory_order_relaxed);
  return memory;
}

void counted_free(void* memory) {
  allocated_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)),
                            std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

void* operator new(size_t size) {
  return counted(size, 1);
}
void* operator new[](size_t size) {
  return counted(size, 1);
}
void* operator new(size_t size, std::align_val_t a) {
  return counted(size, static_cast<size_t>(a));
}
void* operator new[](size_t size, std::align_val_t a) {
  return counted(size, static_cast<size_t>(a));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return counted(size, 1);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return counted(size, 1);
}
void operator delete(void* memory) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory) noexcept {
  counted_free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  counted_free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  counted_free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  counted_free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  counted_free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  counted_free(memory);
}

namespace ramcloud {
namespace {

constexpr int kOperations = 5000;

/// How often `operation` allocates, done kOperations times after some that warm up.
template <typename F>
uint64_t allocations_in(F&& operation) {
  for (int i = 0; i < 200; ++i) operation();
  const uint64_t before = allocations.load();
  for (int i = 0; i < kOperations; ++i) operation();
  return allocations.load() - before;
}

/// Keeps the last reply, and how many there were.
class LastReply final : public ramcloud::testing::OnlyReplies {
 public:
  void reply(const ReplyHandle&, StatusCode code, std::span<const Slice> body) override {
    ++count;
    status = code;
    size = 0;
    for (const Slice& slice : body) {
      ASSERT_LE(size + slice.size, sizeof bytes);
      std::memcpy(bytes + size, slice.data, slice.size);
      size += slice.size;
    }
  }
  bool is_open(const ReplyHandle&) const override { return open; }
  uint64_t closed_connections() const override { return closed; }
  uint64_t count = 0;
  StatusCode status = StatusCode::kOk;
  size_t size = 0;
  char bytes[4096];
  bool open = true;
  uint64_t closed = 0;
};

TEST(Allocations, TheCounterCounts) {
  EXPECT_GE(allocations_in([] { std::make_unique<std::string>(100, 'x'); }), uint64_t{kOperations});
}

TEST(Allocations, StoreOperationsMakeNone) {
  SystemClock clock;
  log::NullReplicator replicator;
  log::Arena arena(48 << 20, {.try_huge_pages = false, .prefault = false});
  log::Log log(arena, replicator, log::test_log_options());
  store::ObjectStore store(log, clock, {});
  log.start();
  ASSERT_TRUE(store.take_tablet(1, 0, ~uint64_t{0}).ok());
  const std::string value(100, 'v');
  uint64_t version = 0;
  uint64_t failed = 0;
  int i = 0;
  char key[16];
  log::LogPosition depends_on;
  const auto next_key = [&] {
    return ByteView(key, static_cast<size_t>(std::snprintf(key, sizeof key, "key %d", i++ % 100)));
  };
  EXPECT_EQ(allocations_in([&] {
              failed +=
                  store.write(1, next_key(), value, {}, version, depends_on) != StatusCode::kOk;
            }),
            0u);
  store::ReadResult result;
  EXPECT_EQ(
      allocations_in([&] { failed += store.read(1, next_key(), {}, result) != StatusCode::kOk; }),
      0u);
  EXPECT_EQ(allocations_in([&] {
              const ByteView k = next_key();
              failed += store.remove(1, k, {}, version, depends_on) != StatusCode::kOk;
              store.sweep();
              failed += store.write(1, k, value, {}, version, depends_on) != StatusCode::kOk;
            }),
            0u);
  EXPECT_EQ(failed, 0u);
}

/// A master from its registry down, with a log that is durable when the test says so.
struct Master {
  Master()
      : parts(6, /*immediate=*/false, 1, false),
        registry(transport),
        replies(node.reactor(), transport, metrics),
        service(registry, replies, metrics),
        store(parts.log, sim.clock(), {}) {
    parts.log.start();
    parts.replicator.finish_all();
    EXPECT_TRUE(store.take_tablet(1, 0, ~uint64_t{0}).ok());
    replies.attach(parts.log);
    service.attach(store);
  }
  void call(wire::Opcode opcode, ByteView body) {
    wire::MessageHeader header{};
    header.kind = wire::Kind::kRequest;
    header.opcode = static_cast<uint16_t>(opcode);
    header.body_length = static_cast<uint32_t>(body.size());
    registry.on_request(ReplyHandle{}, header, body);
  }
  SimScheduler sim{1};
  SimNode& node = sim.add_node("m");
  log::TestLog parts;
  LastReply transport;
  MetricsRegistry metrics;
  ServiceRegistry registry;
  master::HeldReplies replies;
  master::DataService service;
  store::ObjectStore store;
};

TEST(Allocations, AMastersReadsAndWritesMakeNone) {
  Master m;
  const std::string value(100, 'v');
  wire::WriteRequest write{};
  write.table_id = 1;
  write.value_length = static_cast<uint32_t>(value.size());
  write.key_length = 3;
  const std::string write_body = std::string(bytes_of(write)) + "key" + value;
  uint64_t failed = 0;
  EXPECT_EQ(allocations_in([&] {
              const uint64_t before = m.transport.count;
              m.call(wire::Opcode::kWrite, write_body);
              failed += m.transport.count != before;  // held until durable
              m.parts.replicator.finish_all();
              m.replies.on_turn();
              failed += m.transport.count != before + 1 || m.transport.status != StatusCode::kOk;
            }),
            0u);
  EXPECT_EQ(failed, 0u);

  wire::ReadRequest read{};
  read.table_id = 1;
  read.key_length = 3;
  const std::string read_body = std::string(bytes_of(read)) + "key";
  EXPECT_EQ(allocations_in([&] {
              m.call(wire::Opcode::kRead, read_body);
              failed += m.transport.status != StatusCode::kOk ||
                        m.transport.size != sizeof(wire::ReadReply) + value.size();
            }),
            0u);
  EXPECT_EQ(failed, 0u);

  wire::IncrementRequest increment{};
  increment.table_id = 1;
  increment.delta = 1;
  increment.key_length = 3;
  increment.type = wire::NumberType::kInt64;
  const std::string increment_body = std::string(bytes_of(increment)) + "num";
  EXPECT_EQ(allocations_in([&] {
              m.call(wire::Opcode::kIncrement, increment_body);
              m.parts.replicator.finish_all();
              m.replies.on_turn();
              failed += m.transport.status != StatusCode::kOk ||
                        m.transport.size != sizeof(wire::IncrementReply);
            }),
            0u);
  EXPECT_EQ(failed, 0u);

  const std::string absent_body = std::string(bytes_of(read)) + "abs";
  EXPECT_EQ(allocations_in([&] {
              m.call(wire::Opcode::kRead, absent_body);
              failed += m.transport.status != StatusCode::kNotFound;
            }),
            0u);
  EXPECT_EQ(failed, 0u);
}

TEST(Allocations, WhatHeldRepliesOwnedIsFreed) {
  Master m;
  wire::WriteRequest write{};
  write.table_id = 1;
  write.value_length = 1;
  write.key_length = 3;
  m.call(wire::Opcode::kWrite, std::string(bytes_of(write)) + "key" + "v");
  constexpr int kReplies = 300;
  constexpr size_t kOwned = 4000;
  const auto hold_and_drop = [&](bool is_open) {
    m.transport.open = true;
    for (int i = 0; i < kReplies; ++i) {
      master::Reply reply;
      reply.depends_on = m.parts.log.head();
      reply.owned.assign(kOwned, 'r');
      m.replies.send(std::move(reply));
    }
    const int64_t held = allocated_bytes.load();
    m.transport.open = is_open;
    if (is_open) {
      m.parts.replicator.finish_all();
    } else {
      ++m.transport.closed;
    }
    while (m.replies.size() > 0) ASSERT_TRUE(m.replies.on_turn());
    EXPECT_GE(held - allocated_bytes.load(), int64_t{kReplies} * int64_t{kOwned});
  };
  hold_and_drop(false);
  hold_and_drop(true);
}

/// A disk of one file in plain memory; a sync is done when the test says so.
class FlatDisk final : public Disk {
 public:
  class FlatFile final : public File {
   public:
    FlatFile(FlatDisk& disk, uint64_t size) : disk_(disk), bytes_(size) {}
    uint64_t size() const override { return bytes_.size(); }
    Status write(uint64_t offset, ByteView bytes) override {
      std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
      return {};
    }
    Status read(uint64_t offset, void* to, size_t size) override {
      std::memcpy(to, bytes_.data() + offset, size);
      return {};
    }
    void allocate_zeroed(uint64_t offset, uint64_t length,
                         std::function<void(Status)> done) override {
      std::memset(bytes_.data() + offset, 0, length);
      done({});
    }
    void sync(std::function<void(Status)> done) override { disk_.syncs.push_back(std::move(done)); }
    uint32_t direct_block() const override { return disk_.direct ? 4096 : 0; }
    void write_direct(std::span<const DirectWrite> writes, std::shared_ptr<const void>,
                      std::function<void(Status)> done) override {
      for (const DirectWrite& one : writes) (void)write(one.offset, one.bytes);
      disk_.syncs.push_back(std::move(done));
    }

   private:
    FlatDisk& disk_;
    std::vector<char> bytes_;
  };
  Result<std::unique_ptr<File>> open(const std::string&, uint64_t size) override {
    return std::make_unique<FlatFile>(*this, size);
  }
  bool exists(const std::string&) override { return false; }
  Status make_directories(const std::string&) override { return {}; }
  uint64_t device_bytes(const std::string&) override { return 0; }
  uint64_t measure_read_speed(const std::string&) override { return 0; }
  void finish_syncs() {
    for (auto& done : std::exchange(syncs, {})) done({});
  }
  std::vector<std::function<void(Status)>> syncs;  // and direct writes
  bool direct = false;
};

/// A backup with one open replica, to which it gets writes of 128 bytes.
struct Backup {
  explicit Backup(bool synced) {
    disk.direct = synced;
    frames = std::move(*FrameStore::open(disk, "/d", 2 * log::kSegmentBytes));
    EXPECT_TRUE(frames->adopt({1}, 9, 1, 1).ok());
    wire::ServerList list{1, 1, {{}}};
    list.servers[0].server_id = 5;
    EXPECT_TRUE(servers.apply(list).ok());
    service = std::make_unique<ReplicaService>(node.reactor(), registry, *frames, servers,
                                               ReplicaService::Options{.synced = synced});
    wire::ReplicaOpenRequest open{};
    open.master_id = 5;
    open.segment_id = 1;
    open.capacity = log::kSegmentBytes;
    header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaOpen);
    registry.on_request({}, header, bytes_of(open));
    disk.finish_syncs();
    EXPECT_EQ(transport.count, 1u);
    EXPECT_EQ(transport.status, StatusCode::kOk);
    header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaWrite);
    write.master_id = 5;
    write.segment_id = 1;
    write.length = kBytes;
  }
  void one_write() {
    std::memcpy(body, &write, sizeof write);
    registry.on_request({}, header, ByteView(body, sizeof body));
    write.offset += kBytes;
  }
  /// The last answer is of the last write.
  bool acknowledged() const {
    return transport.status == StatusCode::kOk &&
           load<wire::ReplicaReply>(transport.bytes).bytes_held == write.offset;
  }

  static constexpr uint32_t kBytes = 128;
  SimScheduler sim{1};
  SimNode& node = sim.add_node("b");
  FlatDisk disk;
  std::unique_ptr<FrameStore> frames;
  ServerList servers;
  LastReply transport;
  ServiceRegistry registry{transport};
  std::unique_ptr<ReplicaService> service;
  wire::MessageHeader header{};
  wire::ReplicaWriteRequest write{};
  char body[sizeof(wire::ReplicaWriteRequest) + kBytes] = {};
};

TEST(Allocations, ABackupsWritesMakeNone) {
  Backup b(false);
  EXPECT_EQ(allocations_in([&] { b.one_write(); }), 0u);
  EXPECT_TRUE(b.acknowledged());
  // Beside a flush in flight, and after it.
  b.sim.run_for(50ms);
  ASSERT_EQ(b.disk.syncs.size(), 1u);
  EXPECT_EQ(allocations_in([&] { b.one_write(); }), 0u);
  EXPECT_TRUE(b.acknowledged());
  b.disk.finish_syncs();
  EXPECT_EQ(allocations_in([&] { b.one_write(); }), 0u);
  EXPECT_TRUE(b.acknowledged());
}

TEST(Allocations, ABackupsSyncedWritesMakeNoneBesideABatch) {
  Backup b(true);
  ASSERT_TRUE(b.disk.syncs.empty());
  for (int round = 0; round < 3; ++round) {
    b.one_write();
    EXPECT_EQ(b.disk.syncs.size(), 1u);
    const uint64_t more = allocations_in([&] { b.one_write(); });
    // The first round finds out how many answers may wait.
    if (round == 2) EXPECT_EQ(more, 0u);
    EXPECT_FALSE(b.acknowledged());
    while (!b.disk.syncs.empty()) b.disk.finish_syncs();
    EXPECT_TRUE(b.acknowledged());
  }
}

/// A backup that has taken everything when deliver() is called.
class WillingBackup final : public ramcloud::testing::OnlyReplies {
 public:
  class BackupSession final : public Session {
   public:
    void send(ClientCall& call, wire::MessageHeader header, std::span<const Slice> body) override {
      last = add_call(call, 0);
      const void* head = body.front().data;
      if (header.opcode == static_cast<uint16_t>(wire::Opcode::kReplicaOpen)) {
        reply.bytes_held = load<wire::ReplicaOpenRequest>(static_cast<const char*>(head)).length;
      } else {
        const auto write = load<wire::ReplicaWriteRequest>(static_cast<const char*>(head));
        reply.bytes_held = write.offset + write.length;
      }
    }
    bool broken() const override { return false; }
    uint64_t peer_server_id() const override { return 9; }
    uint16_t version() const override { return wire::kVersionMax; }
    void deliver() {
      if (ClientCall* call = take_call(last))
        call->on_reply(wire::MessageHeader{}, bytes_of(reply));
    }
    uint64_t last = 0;
    wire::ReplicaReply reply{};
  };
  Result<std::shared_ptr<Session>> connect(const Locator&, const PeerIdentity&) override {
    sessions.push_back(std::make_shared<BackupSession>());
    return sessions.back();
  }
  void reply(const ReplyHandle&, StatusCode, std::span<const Slice>) override {}
  void deliver() {
    for (const auto& session : sessions) session->deliver();
  }
  std::vector<std::shared_ptr<BackupSession>> sessions;
};

/// Appends and the messages that make them durable, with and without lanes.
void expect_no_allocations_of_replication(size_t lane_count) {
  SimScheduler sim(1);
  SimNode& node = sim.add_node("m");
  WillingBackup backup;
  ServerList servers;
  wire::ServerList list{1, 1, {{}, {}}};
  list.servers[0].server_id = log::kTestMaster;
  list.servers[0].locator = "sim:host=m,port=1";
  list.servers[1].server_id = 9;
  list.servers[1].locator = "sim:host=b,port=1";
  ASSERT_TRUE(servers.apply(list).ok());
  std::deque<RpcClient> clients;
  std::deque<Counter> counters(lane_count);
  RpcClient& first = clients.emplace_back(node.reactor(), backup);
  ReplicaManager::Options options;
  options.master_id = log::kTestMaster;
  options.replicas = 1;
  ReplicaManager manager(first, servers, options);
  std::vector<ReplicaLane*> lanes;
  for (Counter& counter : counters) {
    lanes.push_back(&manager.add_lane(clients.emplace_back(node.reactor(), backup), counter));
  }
  log::Arena arena(48 << 20, {.try_huge_pages = false, .prefault = false});
  log::Log log(arena, manager, log::test_log_options());
  manager.attach(log);
  log.start();
  for (int i = 0; i < 100 && !log.ready(); ++i) {
    manager.on_turn();
    backup.deliver();
  }
  ASSERT_TRUE(log.ready());
  const std::string value(100, 'v');
  uint64_t version = 0, failed = 0;
  EXPECT_EQ(allocations_in([&] {
              failed += append_object(log, 1, ++version, "key", value) != StatusCode::kOk;
              const size_t by = version % std::max<size_t>(lane_count, 1);
              if (lane_count > 0) manager.drive(*lanes[by], true);
              manager.on_turn();
              backup.deliver();
              for (ReplicaLane* lane : lanes) manager.drive(*lane, false);
              manager.on_turn();
              failed += log.durable() != log.head();
            }),
            0u);
  EXPECT_EQ(failed, 0u);
  for (const Counter& counter : counters) EXPECT_GT(counter.value(), kOperations / 4u);
  manager.detach();
}

/// Each call looks its peer up.
TEST(Allocations, LookingAPeerUpMakesNone) {
  SimScheduler sim(1);
  SimNode& node = sim.add_node("m");
  WillingBackup transport;
  RpcClient rpc(node.reactor(), transport);
  const Locator near{"sim", {"a-name-that-is-longer-than-a-short-string", 1}}, far{"sim", {"b", 2}};
  EXPECT_EQ(allocations_in([&] {
              (void)rpc.session(near, 1);
              (void)rpc.session(near, 2);
              (void)rpc.session(far, 1);
            }),
            0u);
  EXPECT_EQ(transport.sessions.size(), 3u);
}

TEST(Allocations, ReplicatingFromOneReactorMakesNone) {
  expect_no_allocations_of_replication(0);
}

TEST(Allocations, ReplicatingFromAnyReactorMakesNone) {
  expect_no_allocations_of_replication(3);
}

}  // namespace
}  // namespace ramcloud
