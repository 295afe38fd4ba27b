#include "log/log_end.h"

#include <algorithm>
#include <map>
#include <ranges>
#include <utility>

namespace ramcloud::log {
namespace {

using Outcome = LogEnd::Outcome;

/// Where an open head ends.
struct HeadEnd {
  enum class Kind : uint8_t { kKnown, kTailLost, kMissing };
  Kind kind = Kind::kMissing;
  uint32_t length = 0;
  std::string why;  // kMissing
};

constexpr const char* kNotFenced =
    "the metadata was imported, and not all holders of this head have it: the master may have "
    "continued on other replicas";

constexpr const char* kMoreElsewhere =
    "a power failure destroyed its end, and so many servers have not answered that they may have "
    "what followed";

HeadEnd missing(std::string why) {
  return {.kind = HeadEnd::Kind::kMissing, .length = 0, .why = std::move(why)};
}

std::string too_short(uint32_t length, uint32_t claim) {
  return "the longest replica has " + std::to_string(length) + " bytes, but " +
         std::to_string(claim) + " were durable";
}

class Decision {
 public:
  explicit Decision(const LogAnswers& answers) : answers_(answers) {
    for (size_t i = 0; i < answers.replicas.size(); ++i) {
      by_segment_[answers.replicas[i].segment_id].push_back(i);
    }
  }
  LogEnd run();

 private:
  const FoundReplica& replica(size_t i) const { return answers_.replicas[i]; }
  const std::vector<size_t>& of(uint64_t segment_id) const {
    static const std::vector<size_t> kNone;
    const auto found = by_segment_.find(segment_id);
    return found == by_segment_.end() ? kNone : found->second;
  }
  template <typename Is>
  bool any(uint64_t segment_id, Is is) const {
    return std::ranges::any_of(of(segment_id), [&](size_t i) { return is(replica(i)); });
  }
  /// The replica is complete, even if its backup was lost later.
  static bool whole(const FoundReplica& r) { return r.closed || r.footer; }
  /// The coordinator knows that the segment was closed on its replicas.
  bool known_closed(uint64_t segment_id) const {
    return segment_id < answers_.fence.lowest_open_segment;
  }
  /// The fence excludes the replica. If the segment is known to be closed, a replica that is not
  /// complete was lost before the close, unless a power cut may have shortened it.
  bool stale(const FoundReplica& r) const {
    if (whole(r)) return false;
    return known_closed(r.segment_id) ? r.power_safe : r.epoch < lowest_epoch(r.segment_id);
  }
  /// The lowest epoch that counts. If the coordinator's fence may be old, the epochs of the
  /// segment's replicas count as well.
  uint32_t lowest_epoch(uint64_t segment_id) const {
    uint32_t lowest = answers_.fence.epoch;
    if (!answers_.fence_of_export) return lowest;
    for (const size_t i : of(segment_id)) lowest = std::max(lowest, replica(i).epoch);
    return lowest;
  }
  /// The replica counts: nothing was acknowledged that it lacks.
  bool counts(const FoundReplica& r) const { return !stale(r) && !r.incomplete && !r.damaged; }
  /// The replica may be read by recovery.
  bool source(const FoundReplica& r) const { return counts(r) && r.length > 0; }
  bool closed(uint64_t segment_id) const { return any(segment_id, whole); }
  /// The replica has all of a closed segment.
  bool closed_source(const FoundReplica& r) const { return whole(r) && !r.corrupt && source(r); }
  /// Nothing was acknowledged that this replica of an open head lacks.
  bool intact(const FoundReplica& r) const {
    return counts(r) && r.power_safe && r.clean_end && !r.corrupt;
  }
  bool is_head(uint64_t segment_id) const {
    return any(segment_id, [](const FoundReplica& r) { return r.scanned && r.is_head; });
  }
  bool has_data(uint64_t segment_id) const {
    return any(segment_id, [](const FoundReplica& r) { return whole(r) || r.has_data; });
  }
  uint32_t claimed(uint64_t segment_id) const;
  std::set<uint64_t> holders(uint64_t segment_id) const;
  bool all_holders_heard(uint64_t segment_id) const;
  bool later_head_has_data(uint64_t segment_id) const;
  bool claimed_closed(uint64_t segment_id) const {
    return known_closed(segment_id) || later_head_has_data(segment_id);
  }
  bool ends_open(uint64_t segment_id) const;
  bool others_may_have_more(uint64_t segment_id) const;
  bool fenced(uint64_t segment_id) const;

  /// The replica may be read once the segment is given up: the bytes of a stale replica are true,
  /// too.
  static bool readable(const FoundReplica& r) { return !r.damaged && r.length > 0; }
  uint32_t longest_readable(uint64_t segment_id) const;

  bool find_digest();
  bool without_digest(uint64_t segment_id, std::string why);
  void add_unnamed(uint64_t newest);
  uint64_t newest_head() const;
  bool given_up(uint64_t segment_id);
  void end_closed(uint64_t segment_id);
  HeadEnd end_of_head(uint64_t segment_id) const;
  HeadEnd without_intact(uint64_t segment_id, uint32_t longest, uint32_t claim) const;
  bool tail_is_lost(uint64_t segment_id) const {
    return end_of_head(segment_id).kind == HeadEnd::Kind::kTailLost;
  }
  void end_heads(const std::vector<uint64_t>& heads);
  void add(uint64_t segment_id, uint32_t length);
  void note_missing(uint64_t segment_id, std::string why);
  void lacks(uint64_t segment_id, std::string why);
  void find_versions();
  void look_above_lost_tail();

  const LogAnswers& answers_;
  std::map<uint64_t, std::vector<size_t>> by_segment_;
  std::vector<uint64_t> members_;  // rising
  bool tail_lost_ = false;
  bool end_given_up_ = false;
  std::set<uint64_t> given_up_;
  LogEnd end_;
};

/// By the replicas that are not closed: the footer of others counts itself.
uint32_t Decision::claimed(uint64_t segment_id) const {
  uint32_t most = 0;
  for (const size_t i : of(segment_id)) {
    if (!whole(replica(i))) most = std::max(most, replica(i).durable_up_to);
  }
  return most;
}

/// The holders that source replicas name. A stale replica is ignored: it may name holders on which
/// no acknowledgement relies any more.
std::set<uint64_t> Decision::holders(uint64_t segment_id) const {
  std::set<uint64_t> named;
  for (const size_t i : of(segment_id)) {
    if (source(replica(i))) named.insert(replica(i).holders.begin(), replica(i).holders.end());
  }
  return named;
}

/// A damaged frame may hold a good replica, so its backup does not count as heard for this segment.
bool Decision::all_holders_heard(uint64_t segment_id) const {
  if (any(segment_id, [](const FoundReplica& r) { return r.damaged; })) return false;
  const std::set<uint64_t> named = holders(segment_id);
  // Frames of earlier versions name no holders.
  if (named.empty()) return answers_.expected.empty();
  return std::ranges::all_of(named, [this](uint64_t id) { return answers_.heard.contains(id); });
}

/// Data in a later head shows that this head was closed on its replicas.
bool Decision::later_head_has_data(uint64_t segment_id) const {
  return std::ranges::any_of(members_, [&](uint64_t member) {
    return member > segment_id && is_head(member) && has_data(member);
  });
}

/// The member is a head that recovery may end where an open replica of it ends: it is closed
/// nowhere, or only replicas that cannot be used are closed, and an intact one is open. A later head
/// takes data only when all replicas that count are closed. So without data in one, the open replica
/// has all that was acknowledged.
bool Decision::ends_open(uint64_t segment_id) const {
  if (!is_head(segment_id)) return false;
  if (!closed(segment_id)) return true;
  const auto open = [this](const FoundReplica& r) { return !whole(r) && intact(r); };
  return !any(segment_id, [this](const FoundReplica& r) { return closed_source(r); }) &&
         any(segment_id, open);
}

/// Power cuts explain what the found replicas of an open head lack. All the same, others may have
/// more, if the master closed this head and the power took the close: it went on in a later head, or
/// it gave up these replicas and copied the segment. A later head has data on as many servers as
/// this one names holders, unless the close was on a device first, where no power cut takes it
/// (ReplicaManager::close_will_last()). Its frames were on their devices before this head was closed.
/// So as long as fewer have not answered, somebody would have shown it. A closed segment that the
/// master copies may be on one server.
bool Decision::others_may_have_more(uint64_t segment_id) const {
  if (answers_.unheard.empty()) return false;
  if (known_closed(segment_id)) return true;
  size_t needed = holders(segment_id).size();
  if (needed == 0 || (answers_.replica_count > 0 && answers_.replica_count < needed)) {
    needed = answers_.replica_count;
  }
  return answers_.unheard.size() >= needed;
}

/// The master did not go on without these replicas: the coordinator's epoch proves it, or every
/// holder still has the segment. A holder that has nothing of it may have had it closed, and freed
/// it.
bool Decision::fenced(uint64_t segment_id) const {
  if (!answers_.fence_of_export) return true;
  const std::set<uint64_t> named = holders(segment_id);
  const auto has_it = [&](uint64_t id) {
    return any(segment_id, [id](const FoundReplica& r) { return r.server_id == id; });
  };
  return !named.empty() && all_holders_heard(segment_id) && std::ranges::all_of(named, has_it);
}

/// The newest head with an eligible digest. A closed head is not eligible, because a newer head
/// followed it.
bool Decision::find_digest() {
  uint64_t doubtful = 0;
  for (auto at = by_segment_.rbegin(); at != by_segment_.rend(); ++at) {
    for (const size_t i : at->second) {
      const FoundReplica& r = replica(i);
      if (!r.is_head || r.digest.empty() || !source(r) || known_closed(at->first)) continue;
      const bool was_closed = any(at->first, [](const FoundReplica& other) {
        return whole(other) || other.footer_after_hole;
      });
      if (was_closed) {
        return without_digest(at->first,
                              "it was closed, and the head that followed it was not found");
      }
      if (!fenced(at->first)) {
        if (has_data(at->first)) return without_digest(at->first, kNotFenced);
        // The newer head took no data if the head before it is open on all of that one's holders.
        if (doubtful == 0) doubtful = at->first;
        break;
      }
      if (tail_is_lost(at->first) && others_may_have_more(at->first)) {
        return without_digest(at->first, kMoreElsewhere);
      }
      end_.digest_segment = at->first;
      members_ = r.digest;
      return true;
    }
  }
  if (doubtful != 0) return without_digest(doubtful, kNotFenced);
  return without_digest(newest_head(), "no replica of an open head that counts has a digest");
}

/// False, unless an operator gave up the end of the log. Then the newest digest that was found
/// decides, together with segments that were closed after it: survivors and recovered segments that
/// entered the log with the lost heads.
bool Decision::without_digest(uint64_t segment_id, std::string why) {
  const uint64_t newest = newest_head();
  const AcceptedLoss& accepted = answers_.accepted;
  if (!answers_.asked.empty() || !accepted.end_after || newest < *accepted.end_after) {
    note_missing(segment_id, std::move(why));
    end_.missing.back().end = true;
    end_.missing.back().newest_head = newest;
    return false;
  }
  end_given_up_ = true;
  end_.digest_segment = newest;
  if (newest == 0) return true;
  for (const size_t i : of(newest)) {
    if (readable(replica(i)) && !replica(i).digest.empty()) members_ = replica(i).digest;
  }
  add_unnamed(newest);
  return true;
}

/// Adds segments that are there now, and those that were there when the operator gave up the end:
/// they were shown as kept.
void Decision::add_unnamed(uint64_t newest) {
  const uint64_t last = members_.back();
  for (auto later = by_segment_.upper_bound(newest); later != by_segment_.end(); ++later) {
    const bool there = any(later->first, [this](const FoundReplica& r) {
      return whole(r) && source(r) && !r.corrupt;
    });
    if (there) end_.unnamed.insert(later->first);
  }
  const std::set<uint64_t>& shown = answers_.accepted.later;
  end_.unnamed.insert(shown.upper_bound(newest), shown.end());
  end_.unnamed.erase(end_.unnamed.begin(), end_.unnamed.upper_bound(last));
  members_.insert(members_.end(), end_.unnamed.begin(), end_.unnamed.end());
}

/// The newest head whose digest can be read, even if it is stale or closed.
uint64_t Decision::newest_head() const {
  for (const auto& [id, at] : by_segment_ | std::views::reverse) {
    const bool has = any(
        id, [](const FoundReplica& r) { return readable(r) && r.is_head && !r.digest.empty(); });
    if (has) return id;
  }
  return 0;
}

uint32_t Decision::longest_readable(uint64_t segment_id) const {
  uint32_t longest = 0;
  for (const size_t i : of(segment_id)) {
    if (readable(replica(i))) longest = std::max(longest, replica(i).length);
  }
  return longest;
}

/// An operator gave this segment up, and no more of it is missing than was known then.
bool Decision::given_up(uint64_t segment_id) {
  const auto accepted = answers_.accepted.segments.find(segment_id);
  if (accepted == answers_.accepted.segments.end() || !answers_.asked.empty()) return false;
  const uint32_t longest = longest_readable(segment_id);
  if (longest < accepted->second) return false;
  given_up_.insert(segment_id);
  if (longest == 0) return true;
  SegmentEnd segment{.segment_id = segment_id, .length = longest, .sources = {}};
  for (const size_t i : of(segment_id)) {
    if (readable(replica(i)) && replica(i).length == longest) segment.sources.push_back(i);
  }
  end_.segments.push_back(std::move(segment));
  return true;
}

void Decision::note_missing(uint64_t segment_id, std::string why) {
  MissingSegment segment{.segment_id = segment_id,
                         .why = std::move(why),
                         .holders = {},
                         .found = longest_readable(segment_id)};
  for (const uint64_t id : holders(segment_id)) {
    if (!answers_.heard.contains(id)) segment.holders.push_back(id);
  }
  end_.missing.push_back(std::move(segment));
}

/// Records that a needed part of a member is missing.
void Decision::lacks(uint64_t segment_id, std::string why) {
  if (!given_up(segment_id)) note_missing(segment_id, std::move(why));
}

void Decision::add(uint64_t segment_id, uint32_t length) {
  SegmentEnd segment{.segment_id = segment_id, .length = length, .sources = {}};
  for (const size_t i : of(segment_id)) {
    if (source(replica(i)) && replica(i).length >= length) segment.sources.push_back(i);
  }
  end_.segments.push_back(std::move(segment));
}

/// A closed member is needed complete. A replica made from a compacted segment is complete and
/// shorter. Replicas of different lengths have different bytes: each is good, but they must not be
/// mixed. The `durable_up_to` of other replicas does not apply, because compaction may have left
/// those bytes out.
void Decision::end_closed(uint64_t segment_id) {
  SegmentEnd segment{.segment_id = segment_id, .length = 0, .sources = {}};
  for (const size_t i : of(segment_id)) {
    if (closed_source(replica(i))) segment.length = std::max(segment.length, replica(i).length);
  }
  if (segment.length == 0) return lacks(segment_id, "no whole replica of it was found");
  for (const size_t i : of(segment_id)) {
    const FoundReplica& r = replica(i);
    if (closed_source(r) && r.length == segment.length) segment.sources.push_back(i);
  }
  end_.segments.push_back(std::move(segment));
}

HeadEnd Decision::end_of_head(uint64_t segment_id) const {
  uint32_t longest = 0;
  bool one_intact = false;
  for (const size_t i : of(segment_id)) {
    const FoundReplica& r = replica(i);
    if (!counts(r)) continue;
    longest = std::max(longest, r.length);
    one_intact = one_intact || intact(r);
  }
  const uint32_t claim = claimed(segment_id);
  const bool was_closed = claimed_closed(segment_id);
  if (longest == 0) return missing("no replica of it that counts was found");
  if (!fenced(segment_id)) return missing(kNotFenced);
  if (one_intact && longest >= claim && !was_closed) {
    return {.kind = HeadEnd::Kind::kKnown, .length = longest, .why = {}};
  }
  if (!all_holders_heard(segment_id)) {
    if (was_closed) return missing("it was closed, and no whole replica of it was found");
    if (longest < claim) return missing(too_short(longest, claim));
    return missing("no replica is known to be whole, and not all holders have answered");
  }
  return without_intact(segment_id, longest, claim);
}

/// All holders have answered, and none of them shows where the head ends. Missing bytes are
/// accepted if power cuts explain them: the boot-id rule.
HeadEnd Decision::without_intact(uint64_t segment_id, uint32_t longest, uint32_t claim) const {
  const auto safe = [this](const FoundReplica& r) { return counts(r) && r.power_safe; };
  const auto torn = [&](const FoundReplica& r) { return safe(r) && !r.corrupt; };
  const bool lacks = longest < claim || claimed_closed(segment_id);
  // A hole above everything known to be durable, on a replica that no power cut shortened, was
  // never acknowledged.
  if (!lacks && any(segment_id, torn)) {
    return {.kind = HeadEnd::Kind::kKnown, .length = longest, .why = {}};
  }
  if (any(segment_id, safe)) {
    return missing("it is damaged, and no other replica is whole");
  }
  // Backups that have not answered yet may have later heads.
  if (!answers_.expected.empty()) {
    return missing("a power failure destroyed its end, and not all backups have answered");
  }
  return {.kind = HeadEnd::Kind::kTailLost, .length = longest, .why = {}};
}

/// Heads without a closed replica that can be used, by rising id; the last is the one whose digest
/// decided. After a lost tail all later heads are lost as well, because the log must not have a gap.
void Decision::end_heads(const std::vector<uint64_t>& heads) {
  for (const uint64_t id : heads) {
    HeadEnd head = end_of_head(id);
    if (head.kind == HeadEnd::Kind::kTailLost && !end_given_up_ && others_may_have_more(id)) {
      head = missing(kMoreElsewhere);
    }
    if (head.kind == HeadEnd::Kind::kMissing) {
      lacks(id, head.why);
      continue;
    }
    uint32_t length = head.length;
    if (tail_lost_) {
      for (const size_t i : of(id)) {
        if (source(replica(i))) length = std::min(length, replica(i).header_length);
      }
    }
    tail_lost_ = tail_lost_ || head.kind == HeadEnd::Kind::kTailLost;
    add(id, length);
  }
}

/// Finds a version above all that were assigned. Versions from before the deciding head was opened
/// are below the safe version in its header. Later ones are in it or in the head before it. The
/// jump of versions covers a head that was given up, and the version floor covers heads that nobody
/// knows.
void Decision::find_versions() {
  for (const uint64_t id : members_) {
    for (const size_t i : of(id)) {
      end_.safe_version = std::max(end_.safe_version, replica(i).safe_version);
    }
  }
  if (end_given_up_) return;
  for (const uint64_t id : members_ | std::views::reverse) {
    if (id >= end_.digest_segment) continue;
    if (!any(id, [](const FoundReplica& r) { return r.scanned; })) {
      if (given_up_.contains(id)) continue;
      end_.unscanned = id;
      return;
    }
    if (is_head(id)) return;
  }
}

/// Closed segments above the head whose tail is lost may be heads that followed it. If they are
/// not, they are side segments.
void Decision::look_above_lost_tail() {
  for (auto at = by_segment_.upper_bound(end_.digest_segment); at != by_segment_.end(); ++at) {
    const auto unread = [](const FoundReplica& r) { return r.closed && !r.scanned; };
    const auto read = [](const FoundReplica& r) { return r.scanned; };
    if (!any(at->first, unread) || any(at->first, read)) continue;
    end_.unscanned = at->first;
    return;
  }
}

LogEnd Decision::run() {
  if (find_digest()) {
    std::vector<uint64_t> heads;
    for (const uint64_t id : members_) {
      if (of(id).empty()) {
        lacks(id, "no replica of it was found");
      } else if (ends_open(id) && !end_.unnamed.contains(id)) {
        heads.push_back(id);
      } else {
        end_closed(id);
      }
    }
    end_heads(heads);
  }
  if (!end_.missing.empty()) {
    end_.segments.clear();
    end_.outcome = answers_.expected.empty() ? Outcome::kBlocked : Outcome::kWaiting;
    return std::move(end_);
  }
  std::ranges::sort(end_.segments, {}, &SegmentEnd::segment_id);
  const bool accepted = end_given_up_ || !given_up_.empty();
  find_versions();
  if (tail_lost_ && !accepted && !end_.unscanned) look_above_lost_tail();
  if (tail_lost_ || accepted) end_.safe_version += kVersionsOfALostTail;
  if (end_given_up_) {
    end_.safe_version = std::max(end_.safe_version, answers_.accepted.version_floor);
  }
  end_.outcome = tail_lost_ ? Outcome::kTailLost : Outcome::kComplete;
  if (accepted) end_.outcome = Outcome::kLossAccepted;
  return std::move(end_);
}

}  // namespace

void describe_scan(const SegmentScan& scan, const KnownOfSegment& known, FoundReplica& replica) {
  replica.scanned = true;
  replica.length = scan.valid_bytes;
  replica.header_length = scan.header_bytes;
  replica.epoch = std::max(replica.epoch, scan.replication_epoch);
  replica.durable_up_to = scan.durable_up_to;
  replica.footer = scan.end == ScanEnd::kClosed;
  replica.footer_after_hole = scan.footer_after_hole;
  replica.clean_end = scan.end == ScanEnd::kClosed || (scan.bad_offset == 0 && scan.what.empty());
  replica.corrupt = (known.closed_length && scan.valid_bytes != *known.closed_length) ||
                    scan.valid_bytes < known.bytes_held;
  replica.is_head = scan.is_head;
  replica.has_data = scan.groups > 1 || scan.groups_after_hole > 0;
  replica.digest = scan.digest;
  replica.safe_version = std::max(scan.safe_version, scan.highest_version + 1);
}

LogEnd decide_log_end(const LogAnswers& answers) {
  return Decision(answers).run();
}

void AcceptedLoss::add(const AcceptedLoss& other) {
  for (const auto& [id, found] : other.segments) {
    const auto [at, added] = segments.try_emplace(id, found);
    at->second = std::min(at->second, found);
  }
  if (other.end_after) end_after = std::min(end_after.value_or(~uint64_t{0}), *other.end_after);
  later.insert(other.later.begin(), other.later.end());
  version_floor = std::max(version_floor, other.version_floor);
}

/// Each round accepts the missing segments and decides again, because a digest that then becomes
/// eligible may name more missing members.
LossToAccept loss_to_accept(LogAnswers answers, size_t most) {
  answers.expected.clear();
  answers.asked.clear();
  LossToAccept result;
  for (;;) {
    result.end = decide_log_end(answers);
    if (result.end.known()) result.loss.later = result.end.unnamed;
    if (result.end.known() || result.more) return result;
    AcceptedLoss loss;
    for (const MissingSegment& segment : result.end.missing) {
      if (result.missing.size() == most) {
        result.more = true;
        break;
      }
      if (segment.end) {
        loss.end_after = segment.newest_head;
      } else {
        loss.segments[segment.segment_id] = segment.found;
      }
      result.missing.push_back(segment);
    }
    result.loss.add(loss);
    answers.accepted.add(loss);
  }
}

const char* outcome_name(LogEnd::Outcome outcome) {
  switch (outcome) {
    case Outcome::kComplete:
      return "COMPLETE";
    case Outcome::kTailLost:
      return "TAIL_LOST";
    case Outcome::kWaiting:
      return "WAITING";
    case Outcome::kBlocked:
      return "BLOCKED";
    case Outcome::kLossAccepted:
      return "LOSS_ACCEPTED";
  }
  return "invalid";
}

}  // namespace ramcloud::log
