#include "log/owned_tablets.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/leb128.h"

namespace ramcloud::log {
namespace {

constexpr size_t kNumbers = 4;  // of a tablet

}  // namespace

OwnedTabletsEncoder::OwnedTabletsEncoder(std::string& out, size_t most) : out_(out), most_(most) {
  out_.clear();
  fits_ = most_ >= sizeof body_;
  if (fits_) out_.append(sizeof body_, '\0');
}

void OwnedTabletsEncoder::add(const OwnedTablet& tablet) {
  fits_ = fits_ && most_ - out_.size() >= kNumbers * kMaxLeb128Bytes;
  if (!fits_) return;
  const bool same_table = body_.count > 0 && tablet.table_id == before_.table_id;
  put_leb128(out_, tablet.table_id - before_.table_id);
  put_leb128(out_, same_table ? tablet.start_hash - before_.end_hash - 1 : tablet.start_hash);
  put_leb128(out_, tablet.end_hash - tablet.start_hash);
  put_leb128(out_, tablet.first_segment);
  before_ = tablet;
  ++body_.count;
}

bool OwnedTabletsEncoder::finish() {
  if (!fits_) {
    out_.clear();
    return false;
  }
  std::memcpy(out_.data(), &body_, sizeof body_);
  return true;
}

std::optional<OwnedTablets> decode_owned_tablets(ByteView body) {
  if (body.size() < sizeof(OwnedTabletsBody)) return std::nullopt;
  const auto header = load<OwnedTabletsBody>(body.data());
  body.remove_prefix(sizeof header);
  if (header.format_version != kOwnedTabletsFormat) return std::nullopt;
  if (header.count > body.size() / kNumbers) return std::nullopt;
  OwnedTablets tablets;
  tablets.reserve(header.count);
  OwnedTablet before;
  for (uint32_t i = 0; i < header.count; ++i) {
    uint64_t numbers[kNumbers];
    for (uint64_t& number : numbers) {
      if (!take_leb128(body, number)) return std::nullopt;
    }
    const auto [table_gap, start, length, first_segment] = numbers;
    const bool same_table = i > 0 && table_gap == 0;
    const uint64_t from = same_table ? before.end_hash + 1 : 0;
    OwnedTablet tablet{.table_id = before.table_id + table_gap,
                       .start_hash = from + start,
                       .end_hash = from + start + length,
                       .first_segment = first_segment};
    if (tablet.table_id < before.table_id || tablet.start_hash < from ||
        tablet.end_hash < tablet.start_hash || (same_table && from == 0)) {
      return std::nullopt;
    }
    tablets.push_back(tablet);
    before = tablet;
  }
  if (!body.empty()) return std::nullopt;
  return tablets;
}

const OwnedTablet* find_owned(const OwnedTablets& tablets, uint64_t table_id, uint64_t hash) {
  const auto above = std::ranges::upper_bound(
      tablets, std::pair(table_id, hash), {},
      [](const OwnedTablet& tablet) { return std::pair(tablet.table_id, tablet.start_hash); });
  if (above == tablets.begin()) return nullptr;
  const OwnedTablet& tablet = *std::prev(above);
  return tablet.table_id == table_id && hash <= tablet.end_hash ? &tablet : nullptr;
}

}  // namespace ramcloud::log
