// A backup's frames file. The input is the interesting places of it, one behind the other: two
// superblock slots, two slots of frame 0, the beginning of frame 0's segment, the beginning of
// another frame's; the places between are zero, as in a file. The first byte says which checksums
// are sealed.
#include <algorithm>
#include <cstdlib>

#include "backup/replica_reader.h"
#include "fuzz/reseal.h"

using namespace ramcloud;

namespace {

/// The next n bytes of the input, zero-filled.
std::string take(ByteView& in, size_t n) {
  std::string bytes(in.substr(0, n));
  in.remove_prefix(bytes.size());
  bytes.resize(n);
  return bytes;
}

template <typename Slot>
void put_slot(std::string& bytes, bool sealed, std::string& image, uint64_t at) {
  Slot parsed;
  (void)parse_slot(ByteView(bytes), parsed);
  if (sealed) {
    auto slot = load<Slot>(bytes.data());
    seal(slot);
    bytes = bytes_of(slot);
    (void)parse_slot(ByteView(bytes), parsed);
  }
  const SlotDamage damage = explain_slot(ByteView(bytes));
  if (damage.flipped >= static_cast<int64_t>(kSlotBytes)) std::abort();
  image.replace(at, bytes.size(), bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const uint8_t mode = data[0];
  ByteView in(reinterpret_cast<const char*>(data) + 1, size - 1);
  // A file that ends within its first frame: reading 8 MiB of zeros for each input would be slow.
  constexpr size_t kTail = 16 << 10;
  std::string image(frame_data_offset(0) + kTail, '\0');
  for (uint64_t i = 0; i < 2; ++i) {
    std::string slot = take(in, kSlotBytes);
    put_slot<SuperblockSlot>(slot, mode & 1, image, i * kSuperblockSlotStride);
  }
  for (uint64_t i = 0; i < 2; ++i) {
    std::string slot = take(in, kSlotBytes);
    put_slot<FrameSlot>(slot, mode & 2, image, frame_metadata_offset(0) + i * kFrameSlotStride);
  }
  std::string segment(in.substr(0, kTail));
  if (mode & 4) fuzz::reseal_segment(segment);
  image.replace(frame_data_offset(0), segment.size(), segment);
  uint32_t frames = 0;
  const auto dump = dump_image(image, [&](const ReplicaDump& replica) {
    ++frames;
    if (replica.scan.valid_bytes > log::kSegmentBytes) std::abort();
    for (const auto& problem : replica.problems) {
      if (problem.flipped_byte && *problem.flipped_byte >= image.size()) std::abort();
    }
  });
  if (dump && dump->frames_used != frames) std::abort();
  (void)dump_image(ByteView(image).substr(0, size * 16), [](const ReplicaDump&) {});
  (void)rebuild_images({{"fuzz", image}}, [](const log::ReplayedObject&) {});
  return 0;
}
