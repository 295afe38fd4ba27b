/* The process that holds a pod's namespaces open: it does nothing, reaps what is left to it, and ends on
 * a signal. */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal_number) {
  (void)signal_number;
  _exit(0);
}

static void reap(int signal_number) {
  (void)signal_number;
  while (waitpid(-1, NULL, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction on_end = {.sa_handler = end};
  struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
  if (sigaction(SIGINT, &on_end, NULL) != 0 || sigaction(SIGTERM, &on_end, NULL) != 0 ||
      sigaction(SIGCHLD, &on_child, NULL) != 0)
    return 1;
  for (;;) pause();
}
