#include "backup/frame_bytes.h"

#include <utility>

namespace ramcloud {
namespace {

constexpr uint32_t kReadSlice = 1u << 20;

}  // namespace

Task<Status> read_frame(Reactor& reactor, FrameStore& frames, uint32_t frame, uint32_t offset,
                        FrameBytes to) {
  struct Outcome {
    explicit Outcome(Reactor& reactor) : there(reactor) {}
    Event there;
    Status status;
  };
  for (uint32_t at = 0; at < to.size; at += kReadSlice) {
    const auto outcome = std::make_shared<Outcome>(reactor);
    frames.read_beside(frame, offset + at, to.part(at, std::min(kReadSlice, to.size - at)),
                       to.bytes, [outcome](Status status) {
                         outcome->status = std::move(status);
                         outcome->there.set();
                       });
    co_await outcome->there;
    if (!outcome->status.ok()) co_return outcome->status;
  }
  co_return Status();
}

}  // namespace ramcloud
