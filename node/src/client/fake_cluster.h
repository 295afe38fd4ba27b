// For tests: a scripted coordinator and servers, over real loopback connections on one reactor.
#pragma once

#include <bit>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "client/core.h"
#include "rpc/rpc.h"
#include "runtime/epoll_source.h"
#include "transport/tcp/tcp_transport.h"

namespace ramcloud {

struct FakeWorld {
  SystemClock clock;
  EpollSource events;
  Reactor reactor{clock, events, 1, {.poll_for = 0us}};

  /// Runs the reactor until the task is done.
  template <typename T>
  T run(Task<T> task) {
    std::optional<T> result;
    TaskScope scope(reactor);
    reactor.defer([&] { scope.spawn(keep(std::move(task), result)); });
    reactor.run_until([&] { return result.has_value(); });
    return std::move(*result);
  }

 private:
  template <typename T>
  static Task<void> keep(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
};

/// One process. Counts requests by opcode, and answers them with `answer`.
class FakeNode final : public RequestHandler {
 public:
  struct Call {
    ReplyHandle handle;
    wire::Opcode opcode;
    std::string body;
  };
  FakeNode(FakeWorld& world, uint64_t server_id, std::function<void(FakeNode&, const Call&)> answer,
           uint8_t cluster = 7)
      : cluster(cluster), world_(world), server_id_(server_id), answer_(std::move(answer)) {
    start({"127.0.0.1", 0});
  }

  uint8_t cluster;  // the cluster that it reports from the next start on

  Locator locator() const { return {"tcp", address_}; }
  int count(wire::Opcode opcode) { return counts_[opcode]; }

  /// Breaks all connections and, until start(), refuses new ones.
  void stop() { transport_.reset(); }
  void restart() {
    stop();
    start(address_);
  }
  /// The same from inside an answer.
  void restart_soon() {
    world_.reactor.defer([this] { restart(); });
  }

  void ok(const Call& call, ByteView body) {
    const Slice slice(body);
    transport_->reply(call.handle, StatusCode::kOk, {&slice, 1});
  }
  void error(const Call& call, const Status& status, uint32_t retry_after_us = 0,
             const wire::ErrorDetails& details = {}) {
    reply_error(*transport_, call.handle, status, retry_after_us, details);
  }

  void on_request(const ReplyHandle& handle, const wire::MessageHeader& header,
                  ByteView body) override {
    const auto opcode = static_cast<wire::Opcode>(header.opcode);
    ++counts_[opcode];
    const Call call{handle, opcode, std::string(body)};
    if (opcode == wire::Opcode::kPing) return ok(call, {});
    answer_(*this, call);
  }

 private:
  void start(const HostPort& address) {
    transport_ = std::make_unique<TcpTransport>(world_.reactor, world_.events);
    transport_->set_identity({.cluster_uuid = {cluster}, .server_id = server_id_});
    address_ = transport_->listen(address, Side::kInside, *this).value();
  }

  FakeWorld& world_;
  uint64_t server_id_;
  std::function<void(FakeNode&, const Call&)> answer_;
  HostPort address_;
  std::unique_ptr<TcpTransport> transport_;
  std::map<wire::Opcode, int> counts_;
};

/// A coordinator that answers with `table` for every name and id.
inline void answer_as_coordinator(FakeNode& node, const FakeNode::Call& call,
                                  const wire::TableInfo& table) {
  switch (call.opcode) {
    case wire::Opcode::kGetClusterInfo: {
      wire::ClusterInfo info;
      info.cluster_uuid = {7};
      return node.ok(call, wire::encode(info, call.handle.version));
    }
    case wire::Opcode::kCreateTable:
    case wire::Opcode::kGetTable:
      return node.ok(call, wire::encode(table, call.handle.version));
    case wire::Opcode::kDropTable:
      return node.ok(call, wire::encode(wire::Empty{}, call.handle.version));
    case wire::Opcode::kListTables:
      return node.ok(call, wire::encode(wire::ListTablesReply{{table}}, call.handle.version));
    default:
      return node.error(call, StatusCode::kUnsupported);
  }
}

/// A server that stores objects in a plain map.
class FakeStore {
 public:
  std::map<std::string, std::pair<std::string, uint64_t>> objects;
  uint64_t last_version = 0;

  void answer(FakeNode& node, const FakeNode::Call& call) {
    const ByteView body(call.body);
    const StatusCode refused = refused_by_rules(call);
    if (refused != StatusCode::kOk) return node.error(call, refused);
    switch (call.opcode) {
      case wire::Opcode::kRead: {
        const auto found = objects.find(call.body.substr(sizeof(wire::ReadRequest)));
        if (found == objects.end()) return node.error(call, StatusCode::kNotFound);
        const wire::ReadReply header{found->second.second,
                                     static_cast<uint32_t>(found->second.first.size()), 0};
        return node.ok(call, std::string(bytes_of(header)) + found->second.first);
      }
      case wire::Opcode::kWrite: {
        const auto request = load<wire::WriteRequest>(body.data());
        const size_t at = sizeof request;
        objects[call.body.substr(at, request.key_length)] = {
            call.body.substr(at + request.key_length), ++last_version};
        const wire::WriteReply reply{last_version};
        return node.ok(call, bytes_of(reply));
      }
      case wire::Opcode::kDelete: {
        const auto found = objects.find(call.body.substr(sizeof(wire::DeleteRequest)));
        const wire::DeleteReply reply{found == objects.end() ? 0 : found->second.second};
        if (found != objects.end()) objects.erase(found);
        return node.ok(call, bytes_of(reply));
      }
      case wire::Opcode::kIncrement:
        return increment(node, call);
      case wire::Opcode::kMultiRead:
      case wire::Opcode::kMultiWrite:
      case wire::Opcode::kMultiDelete:
        return multi(node, call);
      case wire::Opcode::kEnumerate:
        return enumerate(node, call);
      default:
        return node.error(call, StatusCode::kUnsupported);
    }
  }

  /// How many operations of a multi-operation are answered in one reply.
  uint32_t multi_limit = 1000;

 private:
  /// Checks the reject rules of a single operation; those of multi-operations are ignored.
  StatusCode refused_by_rules(const FakeNode::Call& call) const {
    using Rules = wire::RejectRules;
    size_t key_at = sizeof(wire::ReadRequest), key_length = std::string::npos;
    switch (call.opcode) {
      case wire::Opcode::kWrite:
        key_length = load<wire::WriteRequest>(call.body.data()).key_length;
        break;
      case wire::Opcode::kIncrement:
        key_at = sizeof(wire::IncrementRequest);
        break;
      case wire::Opcode::kRead:
      case wire::Opcode::kDelete:
        break;
      default:
        return StatusCode::kOk;
    }
    const auto rules = load<Rules>(call.body.data() + sizeof(uint64_t));
    const auto found = objects.find(call.body.substr(key_at, key_length));
    const bool exists = found != objects.end();
    const uint64_t version = exists ? found->second.second : 0;
    if ((rules.flags & Rules::kIfAbsent) && !exists) return StatusCode::kNotFound;
    if ((rules.flags & Rules::kIfExists) && exists) return StatusCode::kExists;
    const bool other = (rules.flags & Rules::kIfVersionNotEqual) && version != rules.version;
    const bool old = (rules.flags & Rules::kIfVersionAtMost) && exists && version <= rules.version;
    return other || old ? StatusCode::kWrongVersion : StatusCode::kOk;
  }

  void increment(FakeNode& node, const FakeNode::Call& call) {
    const auto request = load<wire::IncrementRequest>(call.body.data());
    auto& [value, version] = objects[call.body.substr(sizeof request)];
    uint64_t bits = 0;
    if (version != 0 && value.size() != sizeof bits) {
      return node.error(call, Status(StatusCode::kInvalidArgument, "not 8 bytes"));
    }
    if (version != 0) bits = load<uint64_t>(value.data());
    bits = request.type == wire::NumberType::kInt64
               ? bits + request.delta
               : std::bit_cast<uint64_t>(std::bit_cast<double>(bits) +
                                         std::bit_cast<double>(uint64_t{request.delta}));
    value = bytes_of(bits);
    version = ++last_version;
    node.ok(call, bytes_of(wire::IncrementReply{version, bits}));
  }

  void multi(FakeNode& node, const FakeNode::Call& call) {
    const auto header = load<wire::MultiRequest>(call.body.data());
    size_t at = sizeof header;
    std::string results;
    const uint32_t count = std::min<uint32_t>(header.count, multi_limit);
    for (uint32_t i = 0; i < count; ++i) {
      wire::MultiResult result{};
      std::string found_value;
      if (call.opcode == wire::Opcode::kMultiWrite) {
        const auto one = load<wire::WriteRequest>(call.body.data() + at);
        at += sizeof one;
        objects[call.body.substr(at, one.key_length)] = {
            call.body.substr(at + one.key_length, one.value_length), ++last_version};
        at += one.key_length + one.value_length;
        result.version = last_version;
      } else {
        const auto one = load<wire::ReadRequest>(call.body.data() + at);
        at += sizeof one;
        const auto found = objects.find(call.body.substr(at, one.key_length));
        at += one.key_length;
        if (found != objects.end()) result.version = found->second.second;
        if (call.opcode == wire::Opcode::kMultiDelete) {
          if (found != objects.end()) objects.erase(found);
        } else if (found == objects.end()) {
          result.status = static_cast<uint16_t>(StatusCode::kNotFound);
        } else {
          found_value = found->second.first;
        }
      }
      result.value_length = static_cast<uint32_t>(found_value.size());
      results.append(bytes_of(result)).append(found_value);
    }
    node.ok(call, std::string(bytes_of(wire::MultiReply{count, 0})) + results);
  }

  /// Three objects a page, in key order; the cursor counts objects.
  void enumerate(FakeNode& node, const FakeNode::Call& call) {
    const auto request = load<wire::EnumerateRequest>(call.body.data());
    wire::EnumerateReply header{};
    header.tablet_end = ~uint64_t{0};
    header.next_cursor = request.cursor;
    std::string objects_bytes;
    uint64_t index = 0;
    for (const auto& [key, object] : objects) {
      if (index++ < request.cursor || header.count == 3) continue;
      ++header.count;
      ++header.next_cursor;
      const wire::EnumeratedObject entry{object.second, static_cast<uint32_t>(object.first.size()),
                                         static_cast<uint16_t>(key.size()), 0};
      objects_bytes.append(bytes_of(entry)).append(key);
      if ((request.flags & 1) == 0) objects_bytes.append(object.first);
    }
    header.done = header.next_cursor >= objects.size() ? 1 : 0;
    node.ok(call, std::string(bytes_of(header)) + objects_bytes);
  }
};

inline wire::TableInfo table_over(std::vector<std::pair<uint64_t, Locator>> servers) {
  wire::TableInfo table{.table_id = 3, .name = "things", .tablets = {}};
  const auto n = static_cast<uint32_t>(servers.size());
  for (uint32_t i = 0; i < n; ++i) {
    table.tablets.push_back({tablet_start(i, n), tablet_end(i, n), servers[i].first,
                             wire::TabletState::kNormal, servers[i].second.to_string()});
  }
  return table;
}

}  // namespace ramcloud
