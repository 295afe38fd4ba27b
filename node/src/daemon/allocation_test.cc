// The data path allocates nothing in steady state: counted, operation by operation, from the
// registry of services downwards. What happens once a segment, a connection or a flush may
// allocate.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

#include "backup/replica_service.h"
#include "log/log_test_support.h"
#include "master/data_service.h"
#include "runtime/sim/sim_scheduler.h"
#include "transport/testing/only_replies.h"
#include "wire/data_messages.h"

namespace {

std::atomic<uint64_t> allocations{0};

void* counted(size_t size, size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  size = size == 0 ? 1 : size;
  void* memory =
      alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
          ? std::malloc(size)
          : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
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
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
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
  uint64_t count = 0;
  StatusCode status = StatusCode::kOk;
  size_t size = 0;
  char bytes[4096];
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
  std::vector<std::function<void(Status)>> syncs;
};

TEST(Allocations, ABackupsWritesMakeNone) {
  SimScheduler sim(1);
  SimNode& node = sim.add_node("b");
  FlatDisk disk;
  auto frames = FrameStore::open(disk, "/d", 2 * log::kSegmentBytes);
  ASSERT_TRUE(frames.has_value());
  ASSERT_TRUE((*frames)->adopt({1}, 9, 1, 1).ok());
  ServerList servers;
  wire::ServerList list{1, 1, {{}}};
  list.servers[0].server_id = 5;
  ASSERT_TRUE(servers.apply(list).ok());
  LastReply transport;
  ServiceRegistry registry(transport);
  ReplicaService service(node.reactor(), registry, **frames, servers, {});

  wire::ReplicaOpenRequest open{};
  open.master_id = 5;
  open.segment_id = 1;
  open.capacity = log::kSegmentBytes;
  wire::MessageHeader header{};
  header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaOpen);
  registry.on_request({}, header, bytes_of(open));
  disk.finish_syncs();
  ASSERT_EQ(transport.count, 1u);
  ASSERT_EQ(transport.status, StatusCode::kOk);

  header.opcode = static_cast<uint16_t>(wire::Opcode::kReplicaWrite);
  constexpr uint32_t kBytes = 128;
  wire::ReplicaWriteRequest write{};
  write.master_id = 5;
  write.segment_id = 1;
  write.length = kBytes;
  char body[sizeof write + kBytes] = {};
  uint64_t failed = 0;
  const auto one_write = [&] {
    std::memcpy(body, &write, sizeof write);
    registry.on_request({}, header, ByteView(body, sizeof body));
    write.offset += kBytes;
    failed += transport.status != StatusCode::kOk ||
              load<wire::ReplicaReply>(transport.bytes).held != write.offset;
  };
  EXPECT_EQ(allocations_in(one_write), 0u);
  EXPECT_EQ(failed, 0u);
  // Beside a flush that is under way, and after it.
  sim.run_for(50ms);
  ASSERT_EQ(disk.syncs.size(), 1u);
  EXPECT_EQ(allocations_in(one_write), 0u);
  disk.finish_syncs();
  EXPECT_EQ(allocations_in(one_write), 0u);
  EXPECT_EQ(failed, 0u);
}

}  // namespace
}  // namespace ramcloud
