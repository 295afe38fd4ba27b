// A backup's frames file. The input has its interesting places in sequence: two superblock slots,
// two slots of frame 0, the beginning of frame 0's segment, the beginning of another frame's. The
// rest of the file is zero. The first byte says which checksums are corrected. Read by the offline
// tools, and opened as a backup does when it starts.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "backup/frame_store.h"
#include "backup/replica_reader.h"
#include "base/logging.h"
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

/// A file of two frames that begins with these bytes; the rest is zero.
class ImageFile final : public File {
 public:
  explicit ImageFile(std::string& image) : image_(image) {}
  uint64_t size() const override { return frames_file_bytes(2); }
  Status write(uint64_t offset, ByteView bytes) override {
    if (offset + bytes.size() > image_.size()) std::abort();  // metadata of the first frame only
    image_.replace(offset, bytes.size(), bytes);
    return {};
  }
  Status read(uint64_t offset, void* to, size_t size) override {
    std::memset(to, 0, size);
    if (offset < image_.size()) {
      std::memcpy(to, image_.data() + offset, std::min(size, image_.size() - offset));
    }
    return {};
  }
  void allocate_zeroed(uint64_t, uint64_t, std::function<void(Status)> done) override { done({}); }
  void sync(std::function<void(Status)> done) override { done({}); }

 private:
  std::string& image_;
};

class ImageDisk final : public Disk {
 public:
  explicit ImageDisk(std::string& image) : image_(image) {}
  Result<std::unique_ptr<File>> open(const std::string&, uint64_t) override {
    return std::make_unique<ImageFile>(image_);
  }
  bool exists(const std::string&) override { return true; }
  uint64_t device_bytes(const std::string&) override { return 0; }
  uint64_t measure_read_speed(const std::string&) override { return 0; }
  Status make_directories(const std::string&) override { return {}; }

 private:
  std::string& image_;
};

/// Checks that a frame that may hold a replica is not reused, and that the superblock survives.
void start_backup(std::string image) {
  ImageDisk disk(image);
  auto opened = FrameStore::open(disk, "/fuzz", 2 * log::kSegmentBytes);
  if (!opened) {
    if (opened.error().message().empty()) std::abort();
    return;
  }
  FrameStore& store = **opened;
  if (store.frames_total() != 2 || store.frames_used() != 0) std::abort();
  bool first_may_hold_something = false;
  for (uint64_t i = 0; i < 2; ++i) {
    FrameSlot slot;
    const ByteView bytes =
        ByteView(image).substr(frame_metadata_offset(0) + i * kFrameSlotStride, kSlotBytes);
    const SlotVerdict verdict = parse_slot(bytes, slot);
    const bool damaged = verdict == SlotVerdict::kCorrupt || verdict == SlotVerdict::kNewer;
    first_may_hold_something = first_may_hold_something || damaged;
  }
  if (first_may_hold_something && store.frames_quarantined() == 0) std::abort();
  const auto uuid = store.cluster_uuid();
  const std::pair list(store.list_term(), store.list_version());
  if (!store.adopt(uuid, 7, 1, 1).ok()) std::abort();
  const auto again = FrameStore::open(disk, "/fuzz", 2 * log::kSegmentBytes);
  if (!again || (*again)->cluster_uuid() != uuid) std::abort();
  if (std::pair((*again)->list_term(), (*again)->list_version()) < list) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  set_log_level(LogLevel::kError);
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
  start_backup(image);
  (void)rebuild_images({{"fuzz", image}}, [](const log::ReplayedObject&) {});
  return 0;
}
