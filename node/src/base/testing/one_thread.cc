// Linked into test programs marked ONE_THREAD, which are not run with the thread sanitizer.
// Starting a thread ends the program, so that the mark stays true.
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

extern "C" int pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) {
  std::fputs("this test program starts a thread: take ONE_THREAD from its ramcloud_test\n", stderr);
  std::abort();
}
