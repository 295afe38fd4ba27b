#include "runtime/resolver.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <optional>

#include "runtime/epoll_source.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// The C library frees what a thread needed for its questions when the thread ends. The resolver's
// thread may still be at it when the program ends.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:__res_context_send\n";
}
#endif
#endif

namespace ramcloud {
namespace {

TEST(Resolver, NumericAddressesNeedNoLookUp) {
  const auto v4 = numeric_address("127.0.0.1", 80);
  ASSERT_TRUE(v4.has_value());
  EXPECT_EQ(v4->storage.ss_family, AF_INET);
  const auto v6 = numeric_address("::1", 80);
  ASSERT_TRUE(v6.has_value());
  EXPECT_EQ(v6->storage.ss_family, AF_INET6);
  EXPECT_EQ(numeric_address("localhost", 80).error().code(), StatusCode::kInvalidArgument);
}

TEST(Resolver, AnswersOnTheReactorAndNamesAHostThatIsNotFound) {
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 1, {});
  Resolver resolver(reactor);
  std::optional<Result<Resolver::Addresses>> found, missing;
  resolver.resolve("localhost", 80, [&](auto r) { found = std::move(r); });
  resolver.resolve("no-such-host.invalid", 80, [&](auto r) { missing = std::move(r); });
  reactor.run_until([&] { return found && missing; });
  ASSERT_TRUE(found->has_value());
  EXPECT_FALSE((*found)->empty());
  ASSERT_FALSE(missing->has_value());
  EXPECT_EQ(missing->error().code(), StatusCode::kUnavailable);
  EXPECT_NE(missing->error().message().find("no-such-host.invalid"), std::string::npos);
}

/// Answers at once, but for the name "slow" only when `go_on` is ready.
struct NameService {
  Resolver::LookUp look_up() {
    return [this, wait = go_on.get_future().share()](const std::string& host, uint16_t port) {
      ++lookups;
      if (host == "slow") wait.wait();
      return Result<Resolver::Addresses>({*numeric_address("127.0.0.1", port)});
    };
  }
  std::promise<void> go_on;
  std::atomic<int> lookups = 0;
};

class ResolverWithASlowName : public ::testing::Test {
 protected:
  /// False if it takes too long.
  bool run_until(const std::function<bool()>& done) {
    bool late = false;
    Timer alarm(reactor, [&late] { late = true; });
    alarm.start_after(20s);
    reactor.run_until([&] { return done() || late; });
    return done();
  }
  SystemClock clock;
  EpollSource source;
  Reactor reactor{clock, source, 1, {}};
  NameService names;
  Resolver resolver{reactor, names.look_up()};
};

TEST_F(ResolverWithASlowName, DoesNotDelayTheOthers) {
  bool slow = false, quick = false;
  resolver.resolve("slow", 80, [&](auto) { slow = true; });
  resolver.resolve("quick", 80, [&](auto r) { quick = r.has_value(); });
  EXPECT_TRUE(run_until([&] { return quick; }));
  EXPECT_FALSE(slow);
  names.go_on.set_value();
  EXPECT_TRUE(run_until([&] { return slow; }));
}

TEST_F(ResolverWithASlowName, LooksItUpOnceForAllThatWaitForIt) {
  int answered = 0;
  for (int i = 0; i < 1'000; ++i) resolver.resolve("slow", 80, [&](auto) { ++answered; });
  bool other = false;
  resolver.resolve("slow", 81, [&](auto) { other = true; });
  names.go_on.set_value();
  EXPECT_TRUE(run_until([&] { return answered == 1'000 && other; }));
  EXPECT_EQ(names.lookups, 2);
  resolver.resolve("slow", 80, [&](auto) { ++answered; });
  EXPECT_TRUE(run_until([&] { return answered == 1'001; }));
  EXPECT_EQ(names.lookups, 3) << "a result is not kept";
}

TEST(Resolver, NoCallbackComesAfterItsDestruction) {
  SystemClock clock;
  EpollSource source;
  Reactor reactor(clock, source, 1, {});
  bool called = false;
  {
    Resolver resolver(reactor);
    resolver.resolve("localhost", 80, [&](auto) { called = true; });
  }
  for (int i = 0; i < 100; ++i) reactor.turn();
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace ramcloud
