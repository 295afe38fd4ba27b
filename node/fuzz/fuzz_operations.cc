// Requests to a master and its replies. First byte even: a sequence of messages {opcode, length,
// body} to a master with a small log; each must be answered exactly once, and the invariants must
// hold. Odd: replies, and redirects to a leader, as a client parses them.
#include <cstdlib>

#include "base/logging.h"
#include "client/coordinator_link.h"
#include "client/core.h"
#include "client/multi_reply.h"
#include "fuzz/input.h"
#include "master/data_service.h"
#include "master/multi_service.h"
#include "runtime/sim/sim_scheduler.h"
#include "store/invariants.h"
#include "transport/testing/only_replies.h"

using namespace ramcloud;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// Keeps the answer of the call in flight.
class Answers final : public ramcloud::testing::OnlyReplies {
 public:
  void reply(const ReplyHandle&, StatusCode code, std::span<const Slice> slices) override {
    ++count;
    status = code;
    body.clear();
    for (const Slice& slice : slices) {
      body.append(static_cast<const char*>(slice.data), slice.size);
    }
  }
  int count = 0;
  StatusCode status = StatusCode::kOk;
  std::string body;
};

/// A master that serves table 1, without replicas.
struct Master {
  SimScheduler sim{1};
  SimNode& node = sim.add_node("m");
  log::Arena arena{uint64_t{2} * log::kSegmentBytes, {.try_huge_pages = false, .prefault = false}};
  log::NullReplicator replicator;
  log::Log log{arena, replicator, {}};
  Answers answers;
  MetricsRegistry metrics;
  ServiceRegistry registry{answers};
  master::HeldReplies replies{node.reactor(), answers, metrics};
  master::DataService data{registry, replies, metrics};
  master::MultiService multi{registry, node.reactor(), replies, metrics};
  store::ObjectStore store{log, sim.clock(), {.buckets = 8, .max_pending_deletes = 1024}};

  Master() {
    log.start();
    require(store.take_tablet(1, 0, ~uint64_t{0}).ok());
    replies.attach(log);
    data.attach(store);
    multi.attach(store);
  }
  void send(wire::Opcode opcode, std::string_view body) {
    const int before = answers.count;
    wire::MessageHeader header{};
    header.kind = wire::Kind::kRequest;
    header.opcode = static_cast<uint16_t>(opcode);
    ReplyHandle handle;
    handle.opcode = header.opcode;
    registry.on_request(handle, header, body);
    while (multi.on_turn()) {
    }
    replies.on_turn();
    require(answers.count == before + 1);
    require(answers.body.size() <= wire::kMaxBodyBytes);
  }
};

/// Checks that clients can parse the answer.
void check_answer(wire::Opcode opcode, std::string_view asked, const Answers& answers) {
  if (answers.status != StatusCode::kOk) return;
  using enum wire::Opcode;
  if (opcode == kEnumerate) {
    const bool keys_only = (load<wire::EnumerateRequest>(asked.data()).flags & 1) != 0;
    require(ScanPage::parse(answers.body, keys_only).has_value());
  } else if (opcode == kMultiRead || opcode == kMultiWrite || opcode == kMultiDelete) {
    wire::MultiReply header{};
    std::vector<MultiAnswer> all;
    const uint32_t count = load<wire::MultiRequest>(asked.data()).count;
    require(parse_multi_reply(answers.body, count, header, all));
  }
}

void check_messages(fuzz::Input& in) {
  using enum wire::Opcode;
  constexpr wire::Opcode kOpcodes[] = {kRead,      kWrite,     kDelete,     kIncrement,
                                       kEnumerate, kMultiRead, kMultiWrite, kMultiDelete};
  Master master;
  for (int i = 0; i < 50 && !in.empty(); ++i) {
    const wire::Opcode opcode = kOpcodes[in.u8() % std::size(kOpcodes)];
    const std::string_view body = in.take(in.u16());
    master.send(opcode, body);
    check_answer(opcode, body, master.answers);
  }
  require(store::Invariants(master.store).check().empty());
}

void check_replies(fuzz::Input& in) {
  if (const auto leader = leader_in(in.rest(), "tcp")) {
    require(parse_locator(leader->to_string()) == *leader);
  }
  const size_t asked = in.u8();
  wire::MultiReply header{};
  std::vector<MultiAnswer> answers;
  if (parse_multi_reply(in.rest(), asked, header, answers)) {
    require(!answers.empty() && answers.size() <= asked && answers.size() == header.count);
    size_t bytes = sizeof header;
    for (const auto& answer : answers) bytes += sizeof(wire::MultiResult) + answer.value.size();
    require(bytes == in.rest().size());
  }
  for (const bool keys_only : {false, true}) {
    auto page = ScanPage::parse(std::string(in.rest()), keys_only);
    if (!page) continue;
    uint32_t count = 0;
    while (page->next()) ++count;
    require(count == page->header().count);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_log_level(LogLevel::kError);
  fuzz::Input in(data, size);
  if (in.u8() % 2 == 0) {
    check_messages(in);
  } else {
    check_replies(in);
  }
  return 0;
}
