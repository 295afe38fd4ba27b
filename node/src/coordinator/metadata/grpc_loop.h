// gRPC calls for tasks on a reactor: one completion queue with its own thread, which posts each
// event to the reactor. gRPC objects are never released on gRPC's own threads.
#pragma once

#include <grpcpp/grpcpp.h>

#include <coroutine>
#include <memory>
#include <vector>

#include "runtime/reactor.h"
#include "runtime/thread.h"

namespace ramcloud {

/// The state of one call; lives until gRPC has released it, whether or not a caller still waits.
struct GrpcCall {
  grpc::ClientContext context;
  virtual ~GrpcCall() = default;
};

class GrpcLoop {
 public:
  explicit GrpcLoop(Reactor& reactor);
  /// Cancels all calls and waits until gRPC is done with them. Tasks that wait for one must have
  /// been destroyed.
  ~GrpcLoop();
  GrpcLoop(const GrpcLoop&) = delete;
  GrpcLoop& operator=(const GrpcLoop&) = delete;
  grpc::CompletionQueue& queue() { return queue_; }

  /// `bool ok = co_await loop.event(call, [&](void* tag) { …begins one operation with the tag… })`.
  /// A task that is destroyed meanwhile cancels the call.
  template <typename Begin>
  auto event(std::shared_ptr<GrpcCall> call, Begin begin) {
    return Awaiter<Begin>(*this, std::move(call), std::move(begin));
  }

 private:
  struct Operation {
    std::shared_ptr<GrpcCall> call;
    std::coroutine_handle<> waiting;  // reactor's thread; null if no task waits
    bool ok = false;
  };

  template <typename Begin>
  class Awaiter {
   public:
    Awaiter(GrpcLoop& loop, std::shared_ptr<GrpcCall> call, Begin begin)
        : loop_(loop), operation_(std::make_shared<Operation>()), begin_(std::move(begin)) {
      operation_->call = std::move(call);
    }
    ~Awaiter() {
      operation_->waiting = {};
      if (!resumed_) operation_->call->context.TryCancel();
    }
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
      operation_->waiting = handle;
      begin_(loop_.begin(operation_));
    }
    bool await_resume() {
      resumed_ = true;
      return operation_->ok;
    }

   private:
    GrpcLoop& loop_;
    std::shared_ptr<Operation> operation_;
    Begin begin_;
    bool resumed_ = false;
  };

  /// Returns the tag, which keeps the operation alive until its event.
  void* begin(const std::shared_ptr<Operation>& operation);
  void run();

  Reactor& reactor_;
  grpc::CompletionQueue queue_;
  std::vector<std::weak_ptr<GrpcCall>> calls_;  // reactor's thread; cancelled at the end
  Thread thread_;                               // last member: starts when the others are
                                                // constructed
};

}  // namespace ramcloud
