#include "coordinator/metadata/grpc_loop.h"

namespace ramcloud {

GrpcLoop::GrpcLoop(Reactor& reactor) : reactor_(reactor), thread_("grpc", [this] { run(); }) {}

GrpcLoop::~GrpcLoop() {
  for (const auto& weak : calls_) {
    if (const auto call = weak.lock()) call->context.TryCancel();
  }
  queue_.Shutdown();
  thread_.join();
}

void* GrpcLoop::begin(const std::shared_ptr<Operation>& operation) {
  // Cleans only when the list has doubled since the last cleaning (amortized cost).
  if (calls_.size() == calls_.capacity()) {
    std::erase_if(calls_, [](const auto& weak) { return weak.expired(); });
  }
  calls_.push_back(operation->call);
  return new std::shared_ptr<Operation>(operation);
}

void GrpcLoop::run() {
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
    const std::unique_ptr<std::shared_ptr<Operation>> kept(
        static_cast<std::shared_ptr<Operation>*>(tag));
    (*kept)->ok = ok;
    reactor_.post([operation = std::move(*kept)] {
      if (operation->waiting) operation->waiting.resume();
    });
  }
}

}  // namespace ramcloud
