// The only place that starts threads: each has a name (shown by top and debuggers) and is joined by
// its owner's destructor.
#pragma once

#include <functional>
#include <string>
#include <thread>

namespace ramcloud {

class Thread {
 public:
  Thread() = default;
  /// `name`: at most 15 bytes are shown.
  Thread(const std::string& name, std::function<void()> body);
  ~Thread() { join(); }
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other) noexcept {
    join();
    thread_ = std::move(other.thread_);
    return *this;
  }
  /// Lets it end by itself: only for threads that share everything they touch with their owner.
  void detach() { thread_.detach(); }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::thread thread_;
};

}  // namespace ramcloud
