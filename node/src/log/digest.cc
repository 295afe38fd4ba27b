#include "log/digest.h"

#include "base/leb128.h"

namespace ramcloud::log {

DigestEncoder::DigestEncoder(std::string& out) : out_(out) {
  out_.assign(sizeof(uint32_t), '\0');
}

void DigestEncoder::add(uint64_t segment_id) {
  if (length_ > 0 && segment_id == start_ + length_) {
    ++length_;
    return;
  }
  end_run();
  start_ = segment_id;
  length_ = 1;
}

void DigestEncoder::end_run() {
  if (length_ == 0) return;
  put_leb128(out_, start_ - previous_end_);
  put_leb128(out_, length_ - 1);
  previous_end_ = start_ + length_;
  ++runs_;
}

void DigestEncoder::finish() {
  end_run();
  length_ = 0;
  std::memcpy(out_.data(), &runs_, sizeof runs_);
}

std::optional<std::vector<uint64_t>> decode_digest(ByteView body) {
  if (body.size() < sizeof(uint32_t)) return std::nullopt;
  const auto runs = load<uint32_t>(body.data());
  body.remove_prefix(sizeof(uint32_t));
  std::vector<uint64_t> ids;
  uint64_t next = 0;
  for (uint32_t i = 0; i < runs; ++i) {
    uint64_t gap = 0;
    uint64_t length = 0;
    if (!take_leb128(body, gap) || !take_leb128(body, length)) return std::nullopt;
    // Adjacent runs must be encoded as one; only the first run may have a gap of 0.
    if ((i > 0 && gap == 0) || length >= kMaxDigestSegments - ids.size()) return std::nullopt;
    const uint64_t start = next + gap;
    if (start < next || start + length + 1 < start) return std::nullopt;
    for (uint64_t id = start; id <= start + length; ++id) ids.push_back(id);
    next = start + length + 1;
  }
  if (!body.empty()) return std::nullopt;
  return ids;
}

}  // namespace ramcloud::log
