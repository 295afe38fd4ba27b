// The bytes that this program and the Go client agree on: each vector decodes to the fields it
// names, and those encode to its bytes. The file is written by the Go client's test.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/hash.h"
#include "wire/codec.h"
#include "wire/control_messages.h"
#include "wire/data_messages.h"
#include "wire/hello.h"

namespace ramcloud::wire {
namespace {

using Fields = std::map<std::string, std::string>;

std::string to_hex(ByteView bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<uint8_t>(c) >> 4];
    text += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoul(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

/// The fields of one vector; each must be asked for.
class Vector {
 public:
  Vector(Fields fields, uint16_t of, std::string in)
      : fields_(std::move(fields)), version(of), bytes(std::move(in)) {}
  template <typename T>
  T number(const std::string& name) {
    return static_cast<T>(std::stoull(text(name)));
  }
  std::string hex(const std::string& name) { return from_hex(text(name)); }
  std::string text(const std::string& name) {
    const auto found = fields_.find(name);
    if (found == fields_.end()) {
      ADD_FAILURE() << "the vector has no field " << name;
      return "0";
    }
    std::string value = found->second;
    fields_.erase(found);
    return value;
  }
  template <typename T>
  void uuid(const std::string& name, T& to) {
    const std::string from = hex(name);
    ASSERT_EQ(from.size(), 16u);
    std::memcpy(std::data(to), from.data(), from.size());
  }
  Fields& left() { return fields_; }

 private:
  Fields fields_;

 public:
  uint16_t version;  // of the protocol
  std::string bytes;
};

/// Checks a control message whose fields were filled from the vector.
template <typename T>
void check_message(const T& expected, const Vector& v) {
  EXPECT_EQ(to_hex(encode(expected, v.version)), to_hex(v.bytes));
  T decoded;
  ASSERT_TRUE(decode(v.bytes, v.version, decoded));
  EXPECT_EQ(to_hex(encode(decoded, v.version)), to_hex(v.bytes));
}
void check_bytes(const std::string& expected, const Vector& v) {
  EXPECT_EQ(to_hex(expected), to_hex(v.bytes));
}

RejectRules reject_of(Vector& v, const std::string& prefix = {}) {
  return {v.number<uint32_t>(prefix + "reject.flags"), 0,
          v.number<uint64_t>(prefix + "reject.version")};
}

void check_hello(Vector& v) {
  Hello hello{};
  std::memcpy(hello.magic, "RAMCLOUD", 8);
  hello.version_min = v.number<uint16_t>("version_min");
  hello.version_max = v.number<uint16_t>("version_max");
  hello.status = v.number<uint16_t>("status");
  hello.flags = v.number<uint32_t>("flags");
  hello.max_body_bytes = v.number<uint32_t>("max_body_bytes");
  v.uuid("cluster_uuid", hello.cluster_uuid);
  hello.server_id = v.number<uint64_t>("server_id");
  check_bytes(std::string(bytes_of(hello)), v);
  EXPECT_TRUE(is_hello(load<Hello>(v.bytes.data())));
}
void check_header(Vector& v) {
  MessageHeader header{};
  header.body_length = v.number<uint32_t>("body_length");
  header.kind = v.number<Kind>("kind");
  header.opcode = v.number<uint16_t>("opcode");
  header.status = v.number<uint16_t>("status");
  header.timeout_ms = v.number<uint32_t>("timeout_ms");
  header.call_id = v.number<uint64_t>("call_id");
  check_bytes(std::string(bytes_of(header)), v);
  EXPECT_TRUE(is_valid_header(load<MessageHeader>(v.bytes.data()), header.kind));
}

template <typename T>  // ReadRequest and DeleteRequest
std::string keyed(Vector& v, const std::string& at) {
  const std::string key = v.hex(at + "key");
  T request{};
  request.table_id = v.number<uint64_t>(at + "table_id");
  request.reject = reject_of(v, at);
  request.key_length = static_cast<uint16_t>(key.size());
  return std::string(bytes_of(request)) + key;
}
std::string written(Vector& v, const std::string& at) {
  const std::string key = v.hex(at + "key"), value = v.hex(at + "value");
  WriteRequest request{};
  request.table_id = v.number<uint64_t>(at + "table_id");
  request.reject = reject_of(v, at);
  request.key_length = static_cast<uint16_t>(key.size());
  request.value_length = static_cast<uint32_t>(value.size());
  return std::string(bytes_of(request)) + key + value;
}
template <std::string (*Body)(Vector&, const std::string&)>
void check_single(Vector& v) {
  check_bytes(Body(v, {}), v);
}
template <std::string (*Body)(Vector&, const std::string&)>
void check_multi(Vector& v) {
  const MultiRequest request{v.number<uint32_t>("operations"), v.number<uint32_t>("max_bytes")};
  std::string body(bytes_of(request));
  for (uint32_t i = 0; i < request.count; ++i) {
    body += Body(v, "operations." + std::to_string(i) + ".");
  }
  check_bytes(body, v);
}
void check_multi_reply(Vector& v) {
  const MultiReply reply{v.number<uint32_t>("results"), v.number<uint32_t>("retry_after_us")};
  std::string body(bytes_of(reply));
  for (uint32_t i = 0; i < reply.count; ++i) {
    const std::string at = "results." + std::to_string(i) + ".";
    const std::string value = v.hex(at + "value");
    const MultiResult result{v.number<uint16_t>(at + "status"), 0,
                             static_cast<uint32_t>(value.size()),
                             v.number<uint64_t>(at + "version")};
    body += std::string(bytes_of(result)) + value;
  }
  check_bytes(body, v);
}
void check_increment(Vector& v) {
  const std::string key = v.hex("key");
  IncrementRequest request{};
  request.table_id = v.number<uint64_t>("table_id");
  request.reject = reject_of(v);
  request.delta = v.number<uint64_t>("delta");
  request.key_length = static_cast<uint16_t>(key.size());
  request.type = v.number<NumberType>("type");
  check_bytes(std::string(bytes_of(request)) + key, v);
}
void check_increment_reply(Vector& v) {
  const IncrementReply reply{v.number<uint64_t>("version"), v.number<uint64_t>("value")};
  check_bytes(std::string(bytes_of(reply)), v);
}
void check_read_reply(Vector& v) {
  const std::string value = v.hex("value");
  const ReadReply reply{v.number<uint64_t>("version"), static_cast<uint32_t>(value.size()), 0};
  check_bytes(std::string(bytes_of(reply)) + value, v);
}
template <typename T>  // WriteReply and DeleteReply
void check_version_reply(Vector& v) {
  check_bytes(std::string(bytes_of(T{v.number<uint64_t>("version")})), v);
}
void check_enumerate_request(Vector& v) {
  EnumerateRequest request{};
  request.table_id = v.number<uint64_t>("table_id");
  request.start_hash = v.number<uint64_t>("start_hash");
  request.cursor = v.number<uint64_t>("cursor");
  request.max_bytes = v.number<uint32_t>("max_bytes");
  request.flags = v.number<uint16_t>("flags");
  const std::string after = v.left().contains("after_key") ? v.hex("after_key") : "";
  request.after_key_length = static_cast<uint16_t>(after.size());
  check_bytes(std::string(bytes_of(request)) + after, v);
}
void check_enumerate_reply(Vector& v) {
  EnumerateReply reply{};
  reply.next_cursor = v.number<uint64_t>("next_cursor");
  reply.tablet_end = v.number<uint64_t>("tablet_end");
  reply.done = v.number<uint8_t>("done");
  if (v.left().contains("cursor_is_place")) {
    reply.cursor_is_place = v.number<uint8_t>("cursor_is_place");
  }
  if (v.left().contains("within_hash")) reply.within_hash = v.number<uint8_t>("within_hash");
  reply.count = v.number<uint32_t>("objects");
  std::string body(bytes_of(reply));
  for (uint32_t i = 0; i < reply.count; ++i) {
    const std::string at = "objects." + std::to_string(i);
    const std::string key = v.hex(at + ".key"), value = v.hex(at + ".value");
    const EnumeratedObject object{v.number<uint64_t>(at + ".version"),
                                  static_cast<uint32_t>(value.size()),
                                  static_cast<uint16_t>(key.size()), 0};
    body += std::string(bytes_of(object)) + key + value;
  }
  check_bytes(body, v);
}
void check_error(Vector& v) {
  const std::string message = v.text("message");
  const ErrorBody error{v.number<uint32_t>("retry_after_us"),
                        static_cast<uint16_t>(message.size())};
  check_bytes(std::string(bytes_of(error)) + message, v);
}
void check_error_details(Vector& v) {
  const std::string message = v.text("message");
  const ErrorBody error{v.number<uint32_t>("retry_after_us"),
                        static_cast<uint16_t>(message.size())};
  ErrorDetails details;
  details.flags = v.number<uint64_t>("flags");
  details.leader = v.text("leader");
  details.leader_outside = v.text("leader_outside");
  details.term = v.number<uint64_t>("term");
  details.retry_after_us = v.number<uint32_t>("details_retry_after_us");
  check_bytes(std::string(bytes_of(error)) + message + encode(details, 2), v);
}

TableInfo table_of(Vector& v, const std::string& prefix, bool with_tablets) {
  TableInfo table;
  table.table_id = v.number<uint64_t>(prefix + "table_id");
  table.name = v.text(prefix + "name");
  if (!with_tablets) return table;
  table.tablets.resize(v.number<size_t>(prefix + "tablets"));
  for (size_t i = 0; i < table.tablets.size(); ++i) {
    const std::string at = prefix + "tablets." + std::to_string(i);
    TabletInfo& tablet = table.tablets[i];
    tablet.start_hash = v.number<uint64_t>(at + ".start_hash");
    tablet.end_hash = v.number<uint64_t>(at + ".end_hash");
    tablet.server_id = v.number<uint64_t>(at + ".server_id");
    tablet.state = v.number<TabletState>(at + ".state");
    tablet.locator = v.text(at + ".locator");
  }
  return table;
}

void check_cluster_info(Vector& v) {
  ClusterInfo info;
  v.uuid("cluster_uuid", info.cluster_uuid);
  info.cluster_name = v.text("cluster_name");
  info.version = v.text("version");
  info.admin_address = v.text("admin_address");
  info.term = v.number<uint64_t>("term");
  if (v.version >= 2) info.metadata_revision = v.number<uint64_t>("metadata_revision");
  check_message(info, v);
}
void check_create_table(Vector& v) {
  CreateTableRequest request;
  request.name = v.text("name");
  request.span = v.number<uint32_t>("span");
  check_message(request, v);
}
void check_drop_table(Vector& v) {
  DropTableRequest request;
  request.name = v.text("name");
  check_message(request, v);
}
void check_get_table(Vector& v) {
  GetTableRequest request;
  request.name = v.text("name");
  request.table_id = v.number<uint64_t>("table_id");
  check_message(request, v);
}
void check_table_info(Vector& v) {
  check_message(table_of(v, "", true), v);
}
void check_list_tables(Vector& v) {
  // The vector names only how many tables there are, their ids and names; the tablets, which
  // another vector has, are taken from the bytes.
  ListTablesReply decoded;
  ASSERT_TRUE(decode(v.bytes, v.version, decoded));
  ListTablesReply reply;
  reply.tables.resize(v.number<size_t>("tables"));
  ASSERT_EQ(decoded.tables.size(), reply.tables.size());
  for (size_t i = 0; i < reply.tables.size(); ++i) {
    reply.tables[i] = table_of(v, "tables." + std::to_string(i) + ".", false);
    reply.tables[i].tablets = decoded.tables[i].tablets;
  }
  if (v.version >= 2) reply.next_id = v.number<uint64_t>("next_id");
  check_message(reply, v);
}
void check_list_tables_request(Vector& v) {
  ListTablesRequest request;
  request.first_id = v.number<uint64_t>("first_id");
  request.max_bytes = v.number<uint32_t>("max_bytes");
  check_message(request, v);
}

void check_empty(Vector& v) {
  check_message(Empty(), v);
}

using Check = void (*)(Vector&);
const std::map<std::string, Check> kChecks = {
    {"hello", check_hello},
    {"header", check_header},
    {"ReadRequest", check_single<keyed<ReadRequest>>},
    {"DeleteRequest", check_single<keyed<DeleteRequest>>},
    {"IncrementRequest", check_increment},
    {"IncrementReply", check_increment_reply},
    {"MultiReadRequest", check_multi<keyed<ReadRequest>>},
    {"MultiDeleteRequest", check_multi<keyed<DeleteRequest>>},
    {"MultiWriteRequest", check_multi<written>},
    {"MultiReply", check_multi_reply},
    {"ReadReply", check_read_reply},
    {"WriteRequest", check_single<written>},
    {"WriteReply", check_version_reply<WriteReply>},
    {"DeleteReply", check_version_reply<DeleteReply>},
    {"EnumerateRequest", check_enumerate_request},
    {"EnumerateReply", check_enumerate_reply},
    {"ErrorBody", check_error},
    {"ErrorDetails", check_error_details},
    {"ClusterInfo", check_cluster_info},
    {"CreateTableRequest", check_create_table},
    {"DropTableRequest", check_drop_table},
    {"GetTableRequest", check_get_table},
    {"TableInfo", check_table_info},
    {"ListTablesRequest", check_list_tables_request},
    {"ListTablesReply", check_list_tables},
    {"Empty", check_empty},
};

nlohmann::json golden_file() {
  std::ifstream file(RAMCLOUD_GOLDEN_DIR "/wire.json");
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

TEST(WireGolden, EncodesAndDecodesEachVector) {
  const auto golden = golden_file();
  ASSERT_TRUE(golden.is_object());
  ASSERT_GE(golden["vectors"].size(), kChecks.size());
  std::map<std::string, int> seen;
  for (const auto& entry : golden["vectors"]) {
    SCOPED_TRACE(entry["name"].get<std::string>());
    const auto kind = entry["kind"].get<std::string>();
    const auto check = kChecks.find(kind);
    ASSERT_NE(check, kChecks.end()) << "nothing here checks the kind " << kind;
    Vector vector(entry["fields"].get<Fields>(), entry.value("version", uint16_t{1}),
                  from_hex(entry["hex"].get<std::string>()));
    check->second(vector);
    for (const auto& [field, value] : vector.left()) ADD_FAILURE() << field << " was not checked";
    ++seen[kind];
  }
  EXPECT_EQ(seen.size(), kChecks.size());
}

TEST(WireGolden, HashesKeysAsTheClientDoes) {
  const auto golden = golden_file();
  ASSERT_GT(golden["hashes"].size(), 10u);
  for (const auto& entry : golden["hashes"]) {
    const std::string key = from_hex(entry["key_hex"].get<std::string>());
    EXPECT_EQ(key_hash(std::stoull(entry["table_id"].get<std::string>()), key),
              std::stoull(entry["hash"].get<std::string>()))
        << "key of " << key.size() << " bytes";
  }
}

}  // namespace
}  // namespace ramcloud::wire
