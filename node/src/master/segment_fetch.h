// Reads the entries of one segment of a dead master's log from backups
// (wire::RecoveryFetchRequest), page by page, from the first source that has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "log/entry_view.h"
#include "rpc/rpc.h"
#include "rpc/server_list.h"
#include "runtime/task.h"
#include "wire/recovery_messages.h"

namespace ramcloud::master {

/// Entries as a backup sent them.
class FetchedPage {
 public:
  explicit FetchedPage(std::string body) : body_(std::move(body)) {}
  bool empty() const { return left().empty(); }
  /// The next entry; its bytes are in this page. CORRUPT: the rest is not an entry.
  Result<log::EntryView> next();
  uint32_t entry_bytes() const {
    return static_cast<uint32_t>(body_.size() - sizeof(wire::RecoveryFetchReply));
  }

 private:
  ByteView left() const { return ByteView(body_).substr(at_); }
  std::string body_;
  size_t at_ = sizeof(wire::RecoveryFetchReply);
};

/// Fetches one segment. Each page must be accepted or refused before the next is fetched.
class SegmentFetch {
 public:
  static constexpr uint32_t kPageBytes = 1u << 20;
  /// How often each source is tried for a page. A source that answers RETRY for kMostPutOff counts
  /// as tried.
  static constexpr uint32_t kRounds = 3;
  static constexpr Duration kMostPutOff = 10s;
  static constexpr Duration kCallLimit = 5s;
  /// If a source fails sooner than this, the next source is tried in the same call.
  static constexpr Duration kSlow = 500ms;

  /// All arguments outlive it. `ranges` is not empty.
  SegmentFetch(RpcClient& rpc, const ServerList& servers, uint64_t master_id,
               const wire::RecoverySegment& segment, std::vector<wire::HashRange> ranges);

  bool done() const { return request_.offset >= request_.end; }
  /// The next page. RETRY: no source has sent it so far; fetch other segments before the next call.
  /// Other errors: no source can send it; the error is the last source's.
  Task<Result<FetchedPage>> next();
  uint64_t segment_id() const { return segment_.segment_id; }
  /// The page was used: continue after it.
  void accept() {
    request_.offset = next_offset_;
    failures_ = 0;
    busy_ = false;
  }
  /// The page was not valid: next() asks the next source for it.
  void refuse(Status why);

 private:
  Task<RpcReply> ask(wire::RecoverySource source);
  Status check(const RpcReply& reply);

  RpcClient& rpc_;
  const ServerList& servers_;
  const wire::RecoverySegment& segment_;
  wire::RecoveryFetchRequest request_;
  uint32_t next_offset_ = 0;  // of the page that next() returned
  size_t source_ = 0;         // index of the source that is asked
  uint32_t failures_ = 0;     // since the last page that was accepted
  bool busy_ = false;         // one of these sources answered RETRY
  Status why_;                // why the last source failed
};

}  // namespace ramcloud::master
