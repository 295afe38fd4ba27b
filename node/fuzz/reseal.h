// Corrects the checksums in a fuzzer's bytes, so that the code after the checks is reached as well.
// Writes only checksum fields.
#pragma once

#include <string>

#include "base/checksum.h"
#include "log/format.h"
#include "log/segment.h"

namespace ramcloud::fuzz {

/// Corrects consecutive groups, as far as their lengths are valid. The identity is that of the
/// first entry (a SegmentHeaderBody).
inline void reseal_segment(std::string& bytes) {
  using namespace log;
  if (bytes.size() < sizeof(GroupHeader) + sizeof(EntryHeader) + sizeof(SegmentHeaderBody)) return;
  const auto claimed =
      load<SegmentHeaderBody>(bytes.data() + sizeof(GroupHeader) + sizeof(EntryHeader));
  size_t at = 0;
  while (bytes.size() - at >= sizeof(GroupHeader)) {
    auto header = load<GroupHeader>(bytes.data() + at);
    const size_t end = at + header.length();
    if (header.length() < sizeof(GroupHeader) || end > bytes.size()) return;
    const auto offset = static_cast<uint32_t>(at);
    uint32_t crc = crc32c(bytes_of(claimed.cluster_uuid));
    crc = crc32c(bytes_of(claimed.master_id), crc);
    crc = crc32c(bytes_of(claimed.segment_id), crc);
    crc = crc32c(bytes_of(offset), crc);
    if (header.magic() == kPaddingMagic) {
      crc = crc32c(bytes_of(header.length_and_magic), crc);
      std::memcpy(bytes.data() + at + 4, &crc, sizeof crc);
      at = end;
      continue;
    }
    crc = crc32c(bytes_of(header).substr(0, 12), crc);
    for (size_t entry = at + sizeof header; end - entry >= sizeof(EntryHeader);) {
      auto head = load<EntryHeader>(bytes.data() + entry);
      if (head.length() > end - entry - sizeof head) break;
      const char type = static_cast<char>(head.type());
      const ByteView body(bytes.data() + entry + sizeof head, head.length());
      head.body_crc = crc32c(body, crc32c(ByteView(&type, 1)));
      std::memcpy(bytes.data() + entry, &head, sizeof head);
      crc = crc32c(bytes_of(head), crc);
      entry += sizeof head + head.length();
    }
    header.crc = crc;
    std::memcpy(bytes.data() + at, &header, sizeof header);
    at = end;
  }
}

}  // namespace ramcloud::fuzz
