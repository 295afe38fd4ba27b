#include "backup/frame_bytes.h"

#include <utility>

#include "runtime/outcome.h"

namespace ramcloud {
namespace {

constexpr uint32_t kReadSlice = 1u << 20;

}  // namespace

Task<Status> read_frame(Reactor& reactor, FrameStore& frames, uint32_t frame, uint32_t offset,
                        FrameBytes to) {
  for (uint32_t at = 0; at < to.size; at += kReadSlice) {
    const Outcome outcome(reactor);
    frames.read_beside(frame, offset + at, to.part(at, std::min(kReadSlice, to.size - at)),
                       to.bytes, outcome.callback());
    if (Status status = co_await outcome.wait(); !status.ok()) co_return status;
  }
  co_return Status();
}

}  // namespace ramcloud
