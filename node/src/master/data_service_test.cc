// Scans at a master: the pages that a client gets.
#include "master/data_service.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "master/testing/master_fixture.h"
#include "transport/testing/recorded_replies.h"
#include "wire/data_messages.h"

namespace ramcloud::master {
namespace {

using ramcloud::testing::RecordedReplies;

class DataServiceTest : public testing::MasterFixture<RecordedReplies> {
 protected:
  DataServiceTest() : MasterFixture(16, true) {
    own_table(1);
    service_.attach(store_);
  }
  void write(const std::string& key, const std::string& value) {
    uint64_t version = 0;
    log::LogPosition depends_on;
    ASSERT_EQ(store_.write(1, key, value, {}, version, depends_on), StatusCode::kOk);
  }
  /// A page; its objects' keys go to `keys`.
  wire::EnumerateReply scan(uint64_t cursor, uint16_t flags, const std::string& after,
                            std::vector<std::string>& keys) {
    const wire::EnumerateRequest request{1,       0,     cursor,
                                         1 << 20, flags, static_cast<uint16_t>(after.size())};
    send(wire::Opcode::kEnumerate, std::string(bytes_of(request)) + after);
    parts_.replicator.finish_all();
    replies_.on_turn();
    const auto& reply = transport_.last();
    status_ = reply.status;
    if (status_ != StatusCode::kOk) return {};
    const auto header = load<wire::EnumerateReply>(reply.body.data());
    size_t at = sizeof header;
    for (uint32_t i = 0; i < header.count; ++i) {
      const auto object = load<wire::EnumeratedObject>(reply.body.data() + at);
      keys.push_back(reply.body.substr(at + sizeof object, object.key_length));
      at += sizeof object + object.key_length + object.value_length;
    }
    EXPECT_EQ(at, reply.body.size());
    return header;
  }
  /// The keys of a whole scan that may end a page among objects of one hash.
  std::vector<std::string> scan_all() {
    std::vector<std::string> keys;
    std::string after;
    wire::EnumerateReply page{};
    for (int pages = 0; pages < 1'000 && page.done == 0; ++pages) {
      page = scan(page.next_cursor, wire::EnumerateRequest::kSplitsHashes, after, keys);
      EXPECT_EQ(status_, StatusCode::kOk);
      if (status_ != StatusCode::kOk) return keys;
      after = page.within_hash != 0 ? keys.back() : "";
    }
    EXPECT_EQ(page.done, 1);
    return keys;
  }

  DataService service_{registry_, replies_, metrics_};
  StatusCode status_ = StatusCode::kOk;
};

/// XXH3 multiplies the first eight bytes of such a key, mixed with a constant and the table's id, by
/// the next eight. Here the first factor is 0.
std::string colliding_key(uint64_t i) {
  const uint64_t zero_factor = 0xbe4ba423396cfeb8 + 1;
  return std::string(bytes_of(zero_factor)).append(bytes_of(i)).append(16, 'x');
}

TEST_F(DataServiceTest, AScanGoesOnAmongObjectsOfOneHash) {
  for (uint64_t i = 0; i < 300; ++i) write(colliding_key(i), "v");
  for (int i = 0; i < 50; ++i) write("key " + std::to_string(i), "v");
  const std::vector<std::string> keys = scan_all();
  EXPECT_EQ(keys.size(), 350u);
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 350u);
}

TEST_F(DataServiceTest, AScanGoesOnAmongLargeObjectsOfOneHash) {
  for (uint64_t i = 0; i < 5; ++i) write(colliding_key(i), std::string(1 << 20, 'v'));
  const std::vector<std::string> keys = scan_all();
  EXPECT_EQ(keys.size(), 5u);
}

TEST_F(DataServiceTest, AKeyAfterAScansRequestIsForThoseThatSplitHashes) {
  std::vector<std::string> keys;
  scan(0, wire::EnumerateRequest::kKeysOnly, "k", keys);
  EXPECT_EQ(status_, StatusCode::kInvalidArgument);
  scan(0, wire::EnumerateRequest::kSplitsHashes, std::string(70'000, 'k'), keys);  // in 16 bits
  EXPECT_EQ(status_, StatusCode::kInvalidArgument);
  scan(0, wire::EnumerateRequest::kSplitsHashes, "k", keys);
  EXPECT_EQ(status_, StatusCode::kOk);
}

}  // namespace
}  // namespace ramcloud::master
