// The client's core: every operation as a Task on any reactor and transport. The public blocking
// API (client.cc), the command line and the simulation all run this code.
//
// Retries (docs/architecture.md#client): a call that was certainly not executed is retried until
// its deadline, with a new tablet map if that may help. A call that may have been executed is
// retried only if executing it twice is harmless; otherwise it ends as INDETERMINATE. After the
// deadline, the error names the table, the tablet and its server.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "client/coordinator_link.h"
#include "client/tablet_map.h"
#include "rpc/back_off.h"
#include "rpc/rpc.h"
#include "runtime/reactor.h"
#include "runtime/task.h"
#include "wire/control_messages.h"
#include "wire/data_messages.h"

namespace ramcloud {

struct ReadResult {
  uint64_t version = 0;
  std::string value;
};

struct Incremented {
  uint64_t version = 0;
  uint64_t bits = 0;  // bits of the sum: an int64 or a double
};

/// One operation of a multi-read, multi-write or multi-remove.
struct MultiOperation {
  uint64_t table_id = 0;
  std::string key;
  std::string value;  // value to write
  wire::RejectRules reject{};
};

/// How long one operation may take, including retries; none: the client's timeout; zero or less:
/// for ever.
using Timeout = std::optional<Duration>;

struct ScannedObject {
  ByteView key;
  ByteView value;  // empty when only keys were asked for
  uint64_t version = 0;
  uint32_t value_length = 0;  // also when the value was left out
};

/// A page of a table's objects, from one reply.
class ScanPage {
 public:
  ScanPage() = default;
  /// PROTOCOL_ERROR if the body is not a well-formed reply.
  static Result<ScanPage> parse(std::string body, bool keys_only);
  /// The next object, valid during the page's lifetime; none at the end.
  std::optional<ScannedObject> next();
  const wire::EnumerateReply& header() const { return header_; }
  /// The key of the last object; empty in an empty page.
  ByteView last_key() const { return ByteView(body_).substr(last_key_at_, last_key_length_); }

 private:
  std::string body_;
  size_t offset_ = 0;
  uint32_t left_ = 0;
  size_t last_key_at_ = 0;
  uint16_t last_key_length_ = 0;
  bool keys_only_ = false;
  wire::EnumerateReply header_{};
};

class ClientCore {
 public:
  struct Options {
    std::vector<Locator> coordinators;  // at least one
    Duration timeout = 30s;             // of each operation; zero or less: for ever
    // How long a server may be silent before the coordinator is asked who owns its tablets.
    Duration owner_check_after = 1s;
  };
  ClientCore(Reactor& reactor, Transport& transport, Options options);
  ~ClientCore();
  ClientCore(const ClientCore&) = delete;
  ClientCore& operator=(const ClientCore&) = delete;

  Reactor& reactor() { return rpc_.reactor(); }
  /// The deadline of an operation that starts now.
  Time deadline(Timeout timeout = {});

  Task<Result<wire::ClusterInfo>> cluster_info();
  Task<Result<wire::TableInfo>> create_table(std::string name, uint32_t span, Timeout timeout = {});
  Task<Result<wire::TableInfo>> open_table(std::string name, Timeout timeout = {});
  Task<Result<std::vector<wire::TableInfo>>> list_tables(Timeout timeout = {});
  /// Not repeated when the reply is lost (INDETERMINATE): another client may have created a table
  /// of that name meanwhile.
  Task<Status> drop_table(std::string name, Timeout timeout = {});

  // The views are copied before these return; the task owns what it needs. Destroying a task
  // cancels its operation, which may still have been executed.
  Task<Result<ReadResult>> read(uint64_t table_id, ByteView key, wire::RejectRules reject = {},
                                Timeout timeout = {});
  /// The new version.
  Task<Result<uint64_t>> write(uint64_t table_id, ByteView key, ByteView value,
                               wire::RejectRules reject = {}, Timeout timeout = {});
  /// The version of the removed object; 0: there was none.
  Task<Result<uint64_t>> remove(uint64_t table_id, ByteView key, wire::RejectRules reject = {},
                                Timeout timeout = {});
  /// Adds `delta` (the bits of an int64 or a double) to the 8 bytes of the object; one that is
  /// absent counts as 0.
  Task<Result<Incremented>> increment(uint64_t table_id, ByteView key, wire::NumberType type,
                                      uint64_t delta, wire::RejectRules reject = {},
                                      Timeout timeout = {});

  // Any number of operations, on any tables: grouped by server and by message size, and executed by
  // all servers in parallel. Each operation is independent, with its outcome at the same place in
  // the result. Several operations on one key keep their order. See multi.cc.
  using Reads = std::vector<Result<ReadResult>>;
  using Versions = std::vector<Result<uint64_t>>;
  Task<Reads> multi_read(std::vector<MultiOperation> operations, Timeout timeout = {});
  Task<Versions> multi_write(std::vector<MultiOperation> operations, Timeout timeout = {});
  Task<Versions> multi_remove(std::vector<MultiOperation> operations, Timeout timeout = {});

  /// The position of a scan; starts at the beginning of the table.
  struct ScanPosition {
    /// A range of hashes, inclusive; its objects before `cursor` were returned, and at the cursor
    /// those with keys up to `after_key`.
    struct Range {
      uint64_t start_hash = 0;
      uint64_t end_hash = ~uint64_t{0};
      uint64_t cursor = 0;
      std::string after_key;
    };
    Range range;               // the range being read
    std::vector<Range> later;  // remaining ranges; the last one is next
    uint64_t server_id = 0;    // not 0: a server of an earlier version, whose cursors are valid
                               // only there
    bool done = false;
  };
  static constexpr uint32_t kPageBytes = 256 * 1024;
  /// Reads the page at `position`, and advances it. `position` outlives the task.
  Task<Result<ScanPage>> scan_page(uint64_t table_id, ScanPosition& position, bool keys_only,
                                   uint32_t page_bytes = kPageBytes, Timeout timeout = {});

 private:
  static Status move_on(ScanPosition& position, const ScanPage& scanned, uint64_t server_id);
  /// Identifies the tablet that is called.
  struct TabletKey {
    uint64_t table_id = 0;
    uint64_t hash = 0;
  };
  /// One message of a multi-operation.
  struct MultiBatch {
    const std::vector<MultiOperation>& operations;
    std::span<const uint32_t> indices;
  };
  /// A call to the server that owns the tablet of a hash.
  struct TabletCall {
    uint64_t table_id = 0;
    uint64_t hash = 0;
    wire::Opcode opcode = wire::Opcode::kInvalid;
    Repeat repeat = Repeat::kSafe;
    std::string body;
    Status refused;               // not OK: invalid arguments, nothing is sent
    uint64_t only_server_id = 0;  // not 0: UNAVAILABLE if another server owns the tablet
    Timeout timeout{};
    const MultiBatch* batch = nullptr;  // for a multi-operation: the content of the message
  };
  struct TabletReply {
    std::string body;
    uint64_t server_id = 0;
  };
  struct Located {
    Place place;
    std::string table_name;
    uint64_t generation = 0;
  };
  struct Refresh;
  struct Multi;
  struct MultiGroup;
  class OwnerCheck;

  static TabletCall data_call(wire::Opcode opcode, Repeat repeat, uint64_t table_id, ByteView key);
  Task<Result<TabletReply>> call_tablet(TabletCall call);
  Task<RpcReply> attempt(const Place& place, const TabletCall& call, int number, Time deadline);
  Task<RpcReply> call_owner(const Place& place, const TabletCall& call, Time deadline);
  bool owns(uint64_t server_id, const TabletKey& target) const;
  Task<void> resolve(std::shared_ptr<OwnerCheck*> check, std::vector<TabletKey> targets,
                     uint64_t server_id);
  Task<Result<uint64_t>> version_of(TabletCall call);
  Task<Result<ReadResult>> read_reply(TabletCall call);
  Task<Result<Incremented>> increment_reply(TabletCall call);
  Task<Reads> multi(wire::Opcode opcode, std::vector<MultiOperation> operations, Timeout timeout);
  Task<Versions> multi_versions(wire::Opcode opcode, std::vector<MultiOperation> operations,
                                Timeout timeout);
  Task<void> multi_round(Multi& multi);
  Task<void> multi_group(Multi& multi, MultiGroup& group);
  Task<Result<Located>> locate(uint64_t table_id, uint64_t hash, uint64_t newer_than,
                               Time deadline);
  Task<Status> refresh(uint64_t table_id, Time deadline);
  Task<void> run_refresh(uint64_t table_id, std::shared_ptr<Refresh> refresh, Time deadline);
  Task<Status> introduce(Time deadline);

  Options options_;
  RpcClient rpc_;
  CoordinatorLink coordinator_;
  TabletMap map_;
  std::map<uint64_t, std::shared_ptr<Refresh>> refreshing_;  // by table id
  bool introduced_ = false;  // the cluster's UUID is known and expected of every peer
  TaskScope background_;     // last member: tasks end before what they use
};

/// INVALID_ARGUMENT naming the field, the value and what is accepted.
Status check_key(ByteView key);
Status check_value(ByteView value);
Status check_table_name(ByteView name);

}  // namespace ramcloud
