// The permission to touch what belongs to one reactor, checked by the compiler. A field that only
// that reactor may touch is RC_GUARDED_BY a role; a function that touches it RC_REQUIRES the role.
#pragma once

#include "base/spin_lock.h"

#if defined(__clang__)
#define RC_ASSERT_CAPABILITY(...) __attribute__((assert_capability(__VA_ARGS__)))
#else
#define RC_ASSERT_CAPABILITY(...)
#endif

namespace ramcloud {

/// It costs nothing at run time. A function that another layer calls on that reactor begins with
/// assert_here(). The compiler believes it; the thread sanitizer finds a wrong thread.
class RC_CAPABILITY("reactor") ReactorRole {
 public:
  ReactorRole() = default;
  ReactorRole(const ReactorRole&) = delete;
  ReactorRole& operator=(const ReactorRole&) = delete;
  void assert_here() const RC_ASSERT_CAPABILITY() {}
};

}  // namespace ramcloud
