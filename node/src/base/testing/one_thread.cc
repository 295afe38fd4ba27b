// Linked into test programs that say ONE_THREAD, which the thread sanitizer does not look at: to
// start a thread there ends the program, so that the word stays true.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) {
  std::fputs("this test program starts a thread: take ONE_THREAD from its ramcloud_test\n", stderr);
  std::abort();
}
