#include "runtime/thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/logging.h"

namespace ramcloud {

namespace {

/// Gets a tenth of the processor time of a normal thread on the same core, which also preempts it
/// (nice(7); on Linux each thread has its own value).
constexpr int kBackgroundNice = 10;

/// Lowering the own priority needs no privileges.
void give_way() {
  const auto self = static_cast<id_t>(gettid());
  if (getpriority(PRIO_PROCESS, self) >= kBackgroundNice)
    return;  // the process has a low priority
             // already
  if (setpriority(PRIO_PROCESS, self, kBackgroundNice) != 0) {
    log_warn("thread.priority_not_lowered",
             {{"error", std::strerror(errno)}});  // slower for others, not wrong
  }
}

}  // namespace

Thread::Thread(const std::string& name, std::function<void()> body, Priority priority) {
  if (priority == Priority::kBackground) {
    body = [then = std::move(body)] {
      give_way();
      then();
    };
  }
  // Signals go to the main thread only.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

}  // namespace ramcloud
