#include "base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ramcloud {
namespace {

TEST(Text, Sizes) {
  EXPECT_EQ(parse_size("256MiB").value(), 256u << 20);
  EXPECT_EQ(parse_size("4Ki").value(), 4096u);
  EXPECT_EQ(parse_size("17").value(), 17u);
  for (const char* bad : {"", "MiB", "-1", "1.5GiB", "1 MiB", "99999999999TiB", "1mb"}) {
    const auto result = parse_size(bad);
    ASSERT_FALSE(result) << bad;
    EXPECT_THAT(result.error().message(), testing::HasSubstr("accepted"));
  }
  EXPECT_EQ(format_size(1536), "1.5 KiB");
  EXPECT_EQ(format_size(12), "12 B");
}

TEST(Text, Durations) {
  EXPECT_EQ(parse_duration("10ms").value(), 10ms);
  EXPECT_EQ(parse_duration("2m").value(), 120s);
  EXPECT_FALSE(parse_duration("10"));
  EXPECT_FALSE(parse_duration("ms"));
  EXPECT_EQ(format_duration(1500us), "1.5 ms");
}

TEST(Text, Addresses) {
  EXPECT_EQ(parse_host_port("localhost:80").value(), (HostPort{"localhost", 80}));
  EXPECT_EQ(parse_host_port("[::1]:80").value(), (HostPort{"::1", 80}));
  EXPECT_EQ(parse_host_port("[::1]:80")->to_string(), "[::1]:80");
  for (const char* bad : {"", ":", "a:", ":1", "a:65536", "::1:80", "a:b", "a b:1", "[]:1",
                          "[[a]]:1", "a\t:1", "a]:1", "\xc3\xa4:1"}) {
    EXPECT_FALSE(parse_host_port(bad)) << bad;
  }
  EXPECT_EQ(parse_host_port_list("a:1,b:2")->size(), 2u);
  EXPECT_FALSE(parse_host_port_list("a:1,"));
}

TEST(Text, WildcardAddresses) {
  for (const char* host : {"0.0.0.0", "0", "::", "0:0::0", "::ffff:0.0.0.0"}) {
    EXPECT_TRUE((HostPort{host, 1}).is_wildcard()) << host;
  }
  for (const char* host : {"", "localhost", "127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.0"}) {
    EXPECT_FALSE((HostPort{host, 1}).is_wildcard()) << host;
  }
}

TEST(Text, Locators) {
  const auto locator = parse_locator("tcp:host=10.0.0.1,port=11200");
  ASSERT_TRUE(locator);
  EXPECT_EQ(locator->address, (HostPort{"10.0.0.1", 11200}));
  EXPECT_EQ(locator->to_string(), "tcp:host=10.0.0.1,port=11200");
  EXPECT_EQ(parse_locator("tcp:host=[fd00::1],port=1")->to_string(), "tcp:host=[fd00::1],port=1");
  for (const char* bad : {"", "tcp:", "tcp:host=a", "udp:host=a,port=1", "tcp:port=1,host=a",
                          "tcp:host=,port=1", "tcp:host=a,port=x"}) {
    EXPECT_FALSE(parse_locator(bad)) << bad;
  }
}

TEST(Text, Json) {
  EXPECT_EQ(json_string("a\"b\\\n\x01"), R"("a\"b\\\n\u0001")");
  EXPECT_EQ(json_string("\xff"), "\"\xef\xbf\xbd\"");
  EXPECT_EQ(json_string("grün"), "\"grün\"");
  EXPECT_TRUE(is_valid_utf8("grün €𝄞"));
  for (const char* bad : {"\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\x80"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
  }
}

}  // namespace
}  // namespace ramcloud
