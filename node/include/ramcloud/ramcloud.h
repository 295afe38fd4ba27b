// The C++ client of a RAMCloud cluster. Needs nothing but this header and libramcloud_client.
//
//   auto client = ramcloud::Client::connect("127.0.0.1:11100");
//   if (!client) return client.error();
//   auto table = client->create_table("users", 3);
//   auto written = client->write(table->id, "alice", "…");
//   auto found = client->read(table->id, "alice");
//
// Every call waits for its answer and has a deadline (Options::timeout). Calls that can be repeated
// without doing them twice are repeated until then: through server restarts, moved tablets and lost
// connections. A write or remove whose reply was lost is never repeated: it fails with
// kIndeterminate, and the caller decides (read the object and look at its version).
//
// A Client belongs to one thread at a time; use one a thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ramcloud {
inline namespace v1 {  // names of their own for the linker, beside the engine's

/// Why a call failed. The values are those of the protocol (docs/formats.md, "Status codes").
enum class ErrorCode : uint16_t {
  kNotFound = 1,         // no such object or table
  kExists = 2,           // it exists and must not
  kWrongVersion = 3,     // a condition on the version failed
  kInvalidArgument = 4,  // can never work; the message names field, value and what is accepted
  kOutOfMemory = 6,      // the server's log memory is full; reads and removes go on
  kUnavailable = 8,      // the server of the object is dead or nobody answered; nothing was changed
  kDeadlineExceeded = 9,  // no final answer in time; nothing was changed
  kIndeterminate = 10,    // the reply was lost: it may or may not have happened
  kWrongCluster = 14,     // there is another cluster at this address
  kUnsupported = 16,      // the other side does not know this operation or protocol version
  kProtocolError = 17,    // malformed bytes came from the other side
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

/// When a call shall fail instead of taking effect (paper §3.1, conditional operations). Conditions
/// can be combined; none are set by default.
struct Conditions {
  bool if_absent_fail = false;   // kNotFound when there is no object
  bool if_exists_fail = false;   // kExists when there is one
  uint64_t only_version = 0;     // not 0: kWrongVersion unless the object has this version
  uint64_t only_newer_than = 0;  // not 0: kWrongVersion if the object's version is <= this

  static Conditions create_only() { return {.if_exists_fail = true}; }
  static Conditions update_only() { return {.if_absent_fail = true}; }
  static Conditions version_is(uint64_t version) { return {.only_version = version}; }
};

struct Object {
  std::string key;
  std::string value;
  uint64_t version = 0;  // rises with every change of the key, also across remove and re-creation
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

class Client {
 public:
  struct Options {
    /// For each call, all its retries together; zero or less waits for ever.
    std::chrono::milliseconds timeout{30'000};
    /// How long to look for the answer before sleeping, giving the core away meanwhile. Zero sleeps
    /// at once, negative never sleeps.
    std::chrono::microseconds poll{50};
  };

  /// `cluster` is "host:port[,host:port…]": the coordinators' addresses. Nothing is sent yet.
  /// kInvalidArgument if it is malformed.
  static Expected<Client> connect(std::string_view cluster);
  static Expected<Client> connect(std::string_view cluster, Options options);
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  /// Creates a table cut into `span` tablets on as many servers. One that exists with the same span
  /// is returned as it is; another span is kExists.
  Expected<Table> create_table(std::string_view name, uint32_t span = 1);
  /// kNotFound if there is none.
  Expected<Table> open_table(std::string_view name);
  /// Ordered by id.
  Expected<std::vector<Table>> list_tables();
  /// Drops the table with its data. kNotFound if there is none.
  Expected<void> drop_table(std::string_view name);

  /// Keys are 1 to 65,535 bytes, values 0 to 1,048,576 bytes, any bytes.
  Expected<Object> read(uint64_t table_id, std::string_view key, const Conditions& conditions = {});
  /// Gives the new version. Once it returns, the object is on as many servers as the cluster keeps
  /// replicas (paper §4.2).
  Expected<uint64_t> write(uint64_t table_id, std::string_view key, std::string_view value,
                           const Conditions& conditions = {});
  /// Gives the version of the object that was removed; 0 if there was none.
  Expected<uint64_t> remove(uint64_t table_id, std::string_view key,
                            const Conditions& conditions = {});

  /// All objects of a table, in no useful order. An object that exists during the whole scan is
  /// seen exactly once; one that is changed meanwhile may be seen in any of its states. Valid while
  /// the client is.
  Scan scan(uint64_t table_id, bool keys_only = false);

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
  /// The next object, valid until the next call; null at the end. After an error, calling again
  /// tries the same page once more.
  Expected<const Object*> next();

 private:
  friend class Client;
  struct Impl;
  explicit Scan(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace v1
}  // namespace ramcloud
