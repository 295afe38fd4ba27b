// The only place that starts threads: each has a name (shown by top and debuggers) and is joined by
// its owner's destructor.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

namespace ramcloud {

class Thread {
 public:
  /// Its priority relative to other threads of the process.
  enum class Priority : uint8_t {
    kNormal,
    kBackground,  // runs after those: for work that unauthenticated peers can cause
  };

  Thread() = default;
  /// `name`: at most 15 bytes are shown.
  Thread(const std::string& name, std::function<void()> body,
         Priority priority = Priority::kNormal);
  ~Thread() { join(); }
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other) noexcept {
    join();
    thread_ = std::move(other.thread_);
    return *this;
  }
  /// Detaches the thread: only for threads that share ownership of everything they use.
  void detach() { thread_.detach(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace ramcloud
