// Reads the entries of one segment of a dead master's log from backups
// (wire::RecoveryFetchRequest), page by page, from the first source that has them. The last page
// may have those of further segments, too.
#pragma once

#include <cstdint>
#include <span>
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

  /// All arguments outlive it, and what `segments` points to. `ranges` is not empty. The first
  /// segment is fetched, and those of the others that its first source adds by itself: it must be
  /// their first source, too, and their ranges the same ones.
  SegmentFetch(RpcClient& rpc, const ServerList& servers, uint64_t master_id,
               std::span<const wire::RecoverySegment* const> segments,
               std::vector<wire::HashRange> ranges);

  bool done() const { return request_.offset >= request_.end; }
  /// The next page. RETRY: no source has sent it so far; fetch other segments before the next call.
  /// Other errors: no source can send it; the error is the last source's.
  Task<Result<FetchedPage>> next();
  const wire::RecoverySegment& segment() const { return segment_; }
  /// The page was used: continue after it.
  void accept();
  /// Whole segments whose entries were used.
  size_t fetched() const { return done() ? 1 + further_done_ : 0; }
  /// The first source refused, or did not answer.
  bool first_source_failed() const { return !asks_for_further_; }
  /// Further segments that were not fetched. They are not asked for any more.
  std::vector<const wire::RecoverySegment*> take_unfetched();
  /// The page was not valid: next() asks the next source for it.
  void refuse(Status why);

 private:
  Task<RpcReply> ask(wire::RecoverySource source);
  Status check(const RpcReply& reply);

  RpcClient& rpc_;
  const ServerList& servers_;
  const wire::RecoverySegment& segment_;
  std::vector<const wire::RecoverySegment*> further_;
  wire::RecoveryFetchRequest request_;
  uint32_t next_offset_ = 0;  // of the page that next() returned
  bool asks_for_further_ = true;
  uint32_t further_in_page_ = 0;
  size_t further_done_ = 0;
  size_t source_ = 0;      // index of the source that is asked
  uint32_t failures_ = 0;  // since the last page that was accepted
  bool busy_ = false;      // one of these sources answered RETRY
  Status why_;             // why the last source failed
};

}  // namespace ramcloud::master
