// Segment bytes from a replica. The first byte: bit 0 seals the groups' checksums, bit 1 says that
// all bytes were durable, bit 2 that the segment was closed with this length.
#include <cstdlib>

#include "fuzz/reseal.h"
#include "log/entry_view.h"
#include "log/group_reader.h"

using namespace ramcloud;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t mode = data[0];
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (mode & 1) fuzz::reseal_segment(bytes);
  const log::SegmentBytes segment{ByteView(bytes)};
  const auto identity = log::identify_segment(segment);
  log::KnownOfSegment known;
  if (mode & 2) known.durable_up_to = segment.size();
  if (mode & 4) known.closed_length = segment.size();
  uint32_t groups = 0;
  uint32_t last_end = 0;
  const auto scan = log::scan_segment(
      identity.value_or(log::SegmentIdentity{}), segment, known, [&](const log::GroupView& group) {
        ++groups;
        if (group.offset() < last_end || group.end() > segment.size()) std::abort();
        last_end = group.end();
        for (auto entry = group.first(); entry; entry = group.next(*entry)) {
          if (entry->offset + entry->view.total_length() > group.end()) std::abort();
          (void)log::parse_object(entry->view);
        }
      });
  if (scan.groups != groups || scan.valid_bytes > segment.size()) std::abort();
  if (scan.flipped_byte && *scan.flipped_byte >= segment.size()) std::abort();
  return 0;
}
