// Being on a certain reactor, as a permission that the compiler checks: a field that only that
// reactor may touch is RC_GUARDED_BY a role, and a function that touches it RC_REQUIRES the role.
#pragma once

#include "base/spin_lock.h"

#if defined(__clang__)
#define RC_ASSERT_CAPABILITY(...) __attribute__((assert_capability(__VA_ARGS__)))
#else
#define RC_ASSERT_CAPABILITY(...)
#endif

namespace ramcloud {

/// Nothing at run time. A function that another layer calls on that reactor says so at its begin;
/// whether that is true is the thread sanitizer's to find out.
class RC_CAPABILITY("reactor") ReactorRole {
 public:
  ReactorRole() = default;
  ReactorRole(const ReactorRole&) = delete;
  ReactorRole& operator=(const ReactorRole&) = delete;
  void assert_here() const RC_ASSERT_CAPABILITY() {}
};

}  // namespace ramcloud
