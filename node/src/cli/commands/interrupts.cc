#include "cli/commands/interrupts.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace ramcloud::cli {
namespace {

// A signal handler can use only globals.
std::atomic<int> write_end{-1};
struct sigaction former;

void on_interrupt(int) {
  const int error = errno;
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(write_end, &byte, 1);
  sigaction(SIGINT, &former, nullptr);
  errno = error;
}

}  // namespace

Interrupts::Interrupts() {
  sigaction(SIGINT, nullptr, &before_);
  // Without a pipe SIGINT keeps its previous effect.
  if (pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) return;
  former = before_;
  write_end = pipe_[1];
  struct sigaction own{};
  own.sa_handler = on_interrupt;
  sigaction(SIGINT, &own, nullptr);
}

Interrupts::~Interrupts() {
  sigaction(SIGINT, &before_, nullptr);
  write_end = -1;
  for (const int end : pipe_) {
    if (end >= 0) close(end);
  }
}

bool Interrupts::wait(Duration most) {
  const SystemClock clock;
  const Time until = clock.now() + most;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock.now());
    pollfd readable{pipe_[0], POLLIN, 0};
    // The byte stays in the pipe, so that the next call returns the same.
    const int ready = poll(&readable, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || left.count() <= 0) return false;
  }
}

}  // namespace ramcloud::cli
