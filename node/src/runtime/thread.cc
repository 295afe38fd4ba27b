#include "runtime/thread.h"

#include <pthread.h>
#include <signal.h>

namespace ramcloud {

Thread::Thread(const std::string& name, std::function<void()> body) {
  // Signals go to the main thread only.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread(std::move(body));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
}

}  // namespace ramcloud
