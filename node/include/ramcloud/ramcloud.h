// The C++ client of a RAMCloud cluster. Needs nothing but this header and libramcloud_client.
//
//   auto client = ramcloud::Client::connect("127.0.0.1:11100");
//   if (!client) return client.error();
//   auto table = client->create_table("users", 3);
//   auto written = client->write(table->id, "alice", "…");
//   auto found = client->read(table->id, "alice");
//
// Every call waits for its answer and has a deadline (Options::timeout). Calls that are safe to
// repeat are repeated until then: through server restarts, moved tablets and lost connections. A
// write, remove or increment whose reply was lost is never repeated: it fails with kIndeterminate,
// and the caller decides (read the object and look at its version).
//
// Many calls at the same time: each operation on objects has an …_async form that returns a Call at
// once. A call makes progress while its client waits for anything (Call::get of any call, or
// poll()).
//
//   std::vector<ramcloud::Call<ramcloud::Object>> calls;
//   for (auto& key : keys) calls.push_back(client->read_async(table->id, key));
//   for (auto& call : calls) use(call.get());
//
// A Client and its calls belong to one thread at a time; use one Client for each thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ramcloud {
inline namespace v1 {  // separate linker names from the engine's

/// Why a call failed. The values are those of the protocol (docs/formats.md, "Status codes").
enum class ErrorCode : uint16_t {
  kNotFound = 1,          // no such object or table
  kExists = 2,            // the object or table exists already
  kWrongVersion = 3,      // a condition on the version failed
  kInvalidArgument = 4,   // always fails; the message names field, value and what is accepted
  kOutOfMemory = 6,       // the server's log memory is full; reads and removes still work
  kUnavailable = 8,       // the object's server is dead or did not answer; nothing was changed
  kDeadlineExceeded = 9,  // no final answer in time; nothing was changed
  kIndeterminate = 10,    // the reply was lost: it may or may not have happened
  kCancelled = 11,        // Call::cancel(): it may or may not have happened
  kWrongCluster = 14,     // there is another cluster at this address
  kUnsupported = 16,      // the other side does not know this operation or protocol version
  kProtocolError = 17,    // malformed bytes came from the other side
  kCorrupt = 18,          // a checksum of stored bytes is wrong
  kNoSpace = 19,
  kIoError = 20,
  kInternal = 22,
};

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // for people
  /// Upper-case name of the code, for example "NOT_FOUND".
  std::string name() const;
  /// "NOT_FOUND: table 'users' does not exist".
  std::string to_string() const;
};

template <typename T>
using Expected = std::expected<T, Error>;

/// Conditions under which a call fails instead of taking effect [Ousterhout15 §3.1]. Conditions can
/// be combined; none are set by default.
struct Conditions {
  bool if_absent_fail = false;   // kNotFound when there is no object
  bool if_exists_fail = false;   // kExists when there is one
  uint64_t only_version = 0;     // not 0: kWrongVersion unless the object has this version
  uint64_t only_newer_than = 0;  // not 0: kWrongVersion if the object's version is <= this

  static Conditions create_only() { return {.if_exists_fail = true}; }
  static Conditions update_only() { return {.if_absent_fail = true}; }
  static Conditions version_is(uint64_t version) { return {.only_version = version}; }
};

/// Options of one call, which override the client's.
struct CallOptions {
  /// Includes all retries; zero or less waits for ever. None: Client::Options::timeout.
  std::optional<std::chrono::milliseconds> timeout;
};

struct Object {
  std::string key;
  std::string value;
  uint64_t version = 0;  // rises with every change of the key, also across remove and re-creation
};

/// The result of an increment.
template <typename N>
struct Sum {
  N value{};
  uint64_t version = 0;
};

/// One operation of a multi-read or multi-remove; of a multi-write also the value.
struct MultiKey {
  uint64_t table_id = 0;
  std::string key;
  Conditions conditions{};
};
struct MultiObject {
  uint64_t table_id = 0;
  std::string key;
  std::string value;
  Conditions conditions{};
};

struct Tablet {
  uint64_t start_hash = 0;  // inclusive
  uint64_t end_hash = 0;    // inclusive
  uint64_t server_id = 0;
  bool available = true;  // false: its server is dead, calls fail with kUnavailable
  std::string locator;    // of the server; empty if it is dead
};

struct Table {
  uint64_t id = 0;
  std::string name;
  std::vector<Tablet> tablets;  // in hash order, covering all hashes
};

class Scan;

/// An operation in flight. Destroying it cancels it. It may outlive its Client.
template <typename T>
class Call {
 public:
  Call(Call&&) noexcept;
  Call& operator=(Call&&) noexcept;
  ~Call();
  /// Checks for answers without waiting; true when get() would not wait.
  bool done();
  /// Waits for the outcome. Call it once.
  Expected<T> get();
  /// Stops waiting: get() then returns kCancelled. A change may still have been executed.
  void cancel();

 private:
  friend class Client;
  struct State;
  explicit Call(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

class Client {
 public:
  struct Options {
    /// For each call, including its retries; zero or less waits for ever.
    std::chrono::milliseconds timeout{30'000};
    /// How long to poll for the answer before sleeping; polling yields the core. Zero sleeps at
    /// once, negative never sleeps.
    std::chrono::microseconds poll{50};
  };

  /// `cluster` is "host:port[,host:port…]": the coordinators' addresses. Nothing is sent yet.
  /// kInvalidArgument if it is malformed.
  static Expected<Client> connect(std::string_view cluster);
  static Expected<Client> connect(std::string_view cluster, Options options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  /// Creates a table with `span` tablets on as many servers. An existing table with the same span
  /// is returned; another span gives kExists.
  Expected<Table> create_table(std::string_view name, uint32_t span = 1);
  /// kNotFound if there is none.
  Expected<Table> open_table(std::string_view name);
  /// Ordered by id.
  Expected<std::vector<Table>> list_tables();
  /// Drops the table with its data. kNotFound if there is none.
  Expected<void> drop_table(std::string_view name);

  /// Keys are 1 to 65,535 bytes, values 0 to 1,048,576 bytes, any bytes.
  Expected<Object> read(uint64_t table_id, std::string_view key, const Conditions& conditions = {},
                        const CallOptions& options = {});
  /// Returns the new version. When it returns, the object is replicated on as many servers as the
  /// cluster has replicas [Ousterhout15 §4.2].
  Expected<uint64_t> write(uint64_t table_id, std::string_view key, std::string_view value,
                           const Conditions& conditions = {}, const CallOptions& options = {});
  /// Returns the version of the removed object; 0 if there was none.
  Expected<uint64_t> remove(uint64_t table_id, std::string_view key,
                            const Conditions& conditions = {}, const CallOptions& options = {});
  /// Adds to the number in an object: 8 bytes, little-endian, an integer (which wraps around) or a
  /// double. An absent object counts as 0. kInvalidArgument if the value has another length.
  /// [Ousterhout15 §3.1]
  Expected<Sum<int64_t>> increment(uint64_t table_id, std::string_view key, int64_t delta,
                                   const Conditions& conditions = {},
                                   const CallOptions& options = {});
  Expected<Sum<double>> increment_double(uint64_t table_id, std::string_view key, double delta,
                                         const Conditions& conditions = {},
                                         const CallOptions& options = {});

  /// Many operations at once, any number, on any tables; far fewer messages than one by one. Each
  /// has its own outcome, at the same place in the result; they are not atomic together. Several on
  /// one key take effect in order. [Ousterhout15 §3.1]
  std::vector<Expected<Object>> multi_read(std::vector<MultiKey> keys,
                                           const CallOptions& options = {});
  std::vector<Expected<uint64_t>> multi_write(std::vector<MultiObject> objects,
                                              const CallOptions& options = {});
  std::vector<Expected<uint64_t>> multi_remove(std::vector<MultiKey> keys,
                                               const CallOptions& options = {});

  /// The same, without waiting. The views are copied.
  Call<Object> read_async(uint64_t table_id, std::string_view key,
                          const Conditions& conditions = {}, const CallOptions& options = {});
  Call<uint64_t> write_async(uint64_t table_id, std::string_view key, std::string_view value,
                             const Conditions& conditions = {}, const CallOptions& options = {});
  Call<uint64_t> remove_async(uint64_t table_id, std::string_view key,
                              const Conditions& conditions = {}, const CallOptions& options = {});
  Call<Sum<int64_t>> increment_async(uint64_t table_id, std::string_view key, int64_t delta,
                                     const Conditions& conditions = {},
                                     const CallOptions& options = {});
  Call<Sum<double>> increment_double_async(uint64_t table_id, std::string_view key, double delta,
                                           const Conditions& conditions = {},
                                           const CallOptions& options = {});
  Call<std::vector<Expected<Object>>> multi_read_async(std::vector<MultiKey> keys,
                                                       const CallOptions& options = {});
  Call<std::vector<Expected<uint64_t>>> multi_write_async(std::vector<MultiObject> objects,
                                                          const CallOptions& options = {});
  Call<std::vector<Expected<uint64_t>>> multi_remove_async(std::vector<MultiKey> keys,
                                                           const CallOptions& options = {});

  /// For programs with an event loop: does ready work without waiting. Returns after how long it
  /// must be called again even if event_fd() has not become readable.
  std::chrono::microseconds poll();
  /// Readable when poll() has something to do. Belongs to the client; do not close it.
  int event_fd() const;

  /// All objects of a table, in no particular order. An object that exists during the whole scan is
  /// returned exactly once; one that changes meanwhile may be returned in any of its states. Valid
  /// while the client exists. options.timeout is for each page.
  Scan scan(uint64_t table_id, bool keys_only = false, const CallOptions& options = {});

 private:
  friend class Scan;
  struct Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// for (;;) { auto object = scan.next(); if (!object) fail(object.error()); if (!*object) break; …
/// }
class Scan {
 public:
  Scan(Scan&&) noexcept;
  Scan& operator=(Scan&&) noexcept;
  ~Scan();
  /// The next object, valid until the next call; null at the end. After an error, the next call
  /// tries the same page again.
  Expected<const Object*> next();

 private:
  friend class Client;
  struct Impl;
  explicit Scan(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace v1
}  // namespace ramcloud
