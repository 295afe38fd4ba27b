#include "master/segment_fetch.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/logging.h"
#include "base/sometimes.h"

namespace ramcloud::master {
namespace {
/// The longest delay that a source asks for in one answer.
constexpr Duration kPause = 100ms;
constexpr Duration kLeastPutOff = 1ms;
}  // namespace

Result<log::EntryView> FetchedPage::next() {
  const ByteView rest = left();
  if (rest.size() < sizeof(log::EntryHeader)) {
    return fail(StatusCode::kCorrupt, "entries end within a header");
  }
  const auto header = load<log::EntryHeader>(rest.data());
  const size_t length = sizeof header + header.length();
  if (length > rest.size()) return fail(StatusCode::kCorrupt, "entries end within a body");
  at_ += length;
  return log::EntryView(log::SegmentBytes(rest.substr(0, length)), 0, header);
}

SegmentFetch::SegmentFetch(RpcClient& rpc, const ServerList& servers, uint64_t master_id,
                           std::span<const wire::RecoverySegment* const> segments,
                           std::vector<wire::HashRange> ranges)
    : rpc_(rpc),
      servers_(servers),
      segment_(*segments.front()),
      further_(segments.begin() + 1, segments.end()),
      request_{.master_id = master_id,
               .segment_id = segment_.segment_id,
               .end = segment_.length,
               .max_bytes = kPageBytes,
               .ranges = std::move(ranges),
               .further = {}},
      why_(StatusCode::kNotFound, "no backup has it") {}

void SegmentFetch::accept() {
  request_.offset = next_offset_;
  further_done_ = further_in_page_;
  failures_ = 0;
  busy_ = false;
}

std::vector<const wire::RecoverySegment*> SegmentFetch::take_unfetched() {
  further_.erase(further_.begin(), further_.begin() + static_cast<std::ptrdiff_t>(further_done_));
  return std::exchange(further_, {});
}

void SegmentFetch::refuse(Status why) {
  log_warn("recovery.source_failed", {{"master", request_.master_id},
                                      {"segment", segment_.segment_id},
                                      {"source", segment_.sources[source_].server_id},
                                      {"error", why}});
  busy_ = busy_ || why == StatusCode::kRetry;
  why_ = std::move(why);
  // Other sources have them in other frames. And the first one's may be what was not valid.
  asks_for_further_ = false;
  ++failures_;
  source_ = (source_ + 1) % segment_.sources.size();
}

Task<Result<FetchedPage>> SegmentFetch::next() {
  const auto sources = static_cast<uint32_t>(segment_.sources.size());
  Time put_off_until = Time::max();
  Time begun = rpc_.reactor().now();
  while (failures_ < kRounds * sources) {
    RpcReply reply = co_await ask(segment_.sources[source_]);
    const Time now = rpc_.reactor().now();
    if (reply.status == StatusCode::kRetry && now < put_off_until) {
      if (put_off_until == Time::max()) put_off_until = now + kMostPutOff;
      RC_SOMETIMES("recovery.fetch_is_put_off");
      const Duration asked = std::chrono::microseconds(reply.retry_after_us);
      co_await rpc_.reactor().sleep(std::clamp<Duration>(asked, kLeastPutOff, kPause));
      continue;
    }
    put_off_until = Time::max();
    Status status = check(reply);
    if (status.ok()) co_return FetchedPage(std::move(reply.body));
    refuse(std::move(status));
    const bool slow = now - begun >= kSlow;
    begun = now;
    const bool over = failures_ >= kRounds * sources;
    if (!over && (slow || failures_ % sources == 0)) {
      co_return fail(StatusCode::kRetry, "others may have their turn");
    }
  }
  // Busy sources are asked again, after other segments had their turn.
  if (std::exchange(busy_, false)) {
    failures_ = 0;
    RC_SOMETIMES("recovery.fetch_is_put_off_by_all_sources");
    co_return fail(StatusCode::kRetry, "its sources are busy");
  }
  co_return fail(why_.code(),
                 fmt::format("segment {} of master {}: no backup could send it, the last error: {}",
                             segment_.segment_id, request_.master_id, why_.to_string()));
}

Task<RpcReply> SegmentFetch::ask(wire::RecoverySource source) {
  RpcReply reply;
  const ListedServer* server = servers_.find(source.server_id);
  if (server == nullptr || !server->live() || !server->locator) {
    reply.status = {StatusCode::kUnavailable, fmt::format("server {} is not UP", source.server_id)};
    co_return reply;
  }
  request_.frame = source.frame;
  request_.further.clear();
  for (const wire::RecoverySegment* segment : further_) {
    if (!asks_for_further_) break;
    request_.further.push_back(
        {segment->segment_id, segment->sources.front().frame, segment->length});
  }
  reply = co_await rpc_.call_with(*server->locator, source.server_id, wire::Opcode::kRecoveryFetch,
                                  RpcClient::body_of(request_), rpc_.reactor().now() + kCallLimit);
  co_return reply;
}

/// Checks a reply, and notes where the next page begins.
Status SegmentFetch::check(const RpcReply& reply) {
  if (!reply.ok()) return reply.status;
  if (reply.body.size() < sizeof(wire::RecoveryFetchReply)) {
    return {StatusCode::kProtocolError, "the page is shorter than its header"};
  }
  const auto head = load<wire::RecoveryFetchReply>(reply.body.data());
  if (head.bytes != reply.body.size() - sizeof head) {
    return {StatusCode::kProtocolError,
            fmt::format("the page says that it has {} bytes, and has {}", uint32_t{head.bytes},
                        reply.body.size() - sizeof head)};
  }
  if (head.next_offset <= request_.offset || head.next_offset > request_.end) {
    return {StatusCode::kProtocolError,
            fmt::format("the page from {} ends at {}, the segment at {}", request_.offset,
                        uint32_t{head.next_offset}, request_.end)};
  }
  const size_t most = head.next_offset == request_.end ? request_.further.size() : 0;
  if (head.further > most) {
    return {StatusCode::kProtocolError,
            fmt::format("the page has {} further segments; at most {} were wanted",
                        uint32_t{head.further}, most)};
  }
  next_offset_ = head.next_offset;
  further_in_page_ = head.further;
  return {};
}

}  // namespace ramcloud::master
