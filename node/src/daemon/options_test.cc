#include "daemon/options.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "base/testing/temporary_folder.h"
#include "daemon/option_values.h"

namespace ramcloud::daemon {
namespace {

struct Parsed {
  Command command;
  std::string err;
};

Parsed parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ramcloudd");
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  Parsed parsed;
  parsed.command = parse_command_line(static_cast<int>(arguments.size()), arguments.data());
  parsed.err = testing::internal::GetCapturedStderr();
  testing::internal::GetCapturedStdout();
  return parsed;
}

TEST(Options, ServerDefaults) {
  const auto parsed = parse({"server", "--dir", "/tmp/x"});
  ASSERT_EQ(parsed.command.kind, Command::Kind::kServer) << parsed.err;
  const auto& o = parsed.command.server;
  EXPECT_EQ(o.listen, (HostPort{"127.0.0.1", 11200}));
  EXPECT_EQ(o.log_bytes, 256u << 20);
  EXPECT_EQ(o.huge_page_bytes, 0u);
  EXPECT_EQ(o.hash_table_bytes, 32u << 20);
  EXPECT_EQ(o.replicas, 3u);
  EXPECT_EQ(o.backup_bytes, 1536u << 20);
  EXPECT_EQ(o.flush_interval, 10ms);
  EXPECT_EQ(o.common.poll_for, 50us);
  EXPECT_FALSE(o.advertise);
  ASSERT_EQ(o.coordinators.size(), 1u);
}

TEST(Options, TheWaysToTheDeviceHaveTheNamesThatAreAccepted) {
  const auto usual = parse({"server", "--dir", "/d"});
  EXPECT_EQ(usual.command.server.disk_io, DiskIo::kAuto);
  EXPECT_EQ(usual.command.server.direct_io, DirectIo::kAuto);
  for (const DiskIo io : {DiskIo::kAuto, DiskIo::kUring, DiskIo::kThreads}) {
    const auto parsed = parse({"server", "--dir", "/d", "--disk-io", disk_io_name(io)});
    EXPECT_EQ(parsed.command.server.disk_io, io) << parsed.err;
  }
  for (const DirectIo direct : {DirectIo::kAuto, DirectIo::kAlways, DirectIo::kNever}) {
    const auto parsed = parse({"dev", "--dir", "/d", "--direct-io", direct_io_name(direct)});
    EXPECT_EQ(parsed.command.dev.direct_io, direct) << parsed.err;
  }
}

TEST(Options, CoordinatorNeedsMetadata) {
  EXPECT_EQ(parse({"coordinator"}).command.exit_code, 2);
  const auto parsed = parse({"coordinator", "--metadata", "sqlite:/tmp/m.db", "--listen",
                             "0.0.0.0:1", "--advertise", "c:1", "--listen-outside", "0.0.0.0:2"});
  ASSERT_EQ(parsed.command.kind, Command::Kind::kCoordinator) << parsed.err;
  EXPECT_EQ(parsed.command.coordinator.metadata.sqlite_path, "/tmp/m.db");
  EXPECT_EQ(parsed.command.coordinator.advertise, (HostPort{"c", 1}));
  EXPECT_EQ(parsed.command.coordinator.listen_outside, (HostPort{"0.0.0.0", 2}));
}

TEST(Options, MetadataInEtcd) {
  const auto parsed =
      parse({"coordinator", "--metadata",
             "etcd:a:2379,[::1]:2380?prefix=/rc/one&ca=/c&cert=/d&key=/e", "--leader-lease", "3s"});
  ASSERT_EQ(parsed.command.kind, Command::Kind::kCoordinator) << parsed.err;
  const auto& etcd = parsed.command.coordinator.metadata.etcd;
  ASSERT_TRUE(etcd.has_value());
  EXPECT_EQ(etcd->endpoints, (std::vector<HostPort>{{"a", 2379}, {"::1", 2380}}));
  EXPECT_EQ(etcd->prefix, "/rc/one");
  EXPECT_EQ(etcd->ca, "/c");
  EXPECT_EQ(etcd->cert, "/d");
  EXPECT_EQ(etcd->key, "/e");
  EXPECT_EQ(etcd->lease, 3s);
  EXPECT_EQ(parse({"metadata", "export", "--metadata", "etcd:a:1"})
                .command.metadata.metadata.etcd->prefix,
            "/ramcloud");
}

TEST(Options, MetadataCommands) {
  const auto out = parse({"metadata", "export", "--metadata", "sqlite:/m", "--file", "/f"});
  ASSERT_EQ(out.command.kind, Command::Kind::kExport) << out.err;
  EXPECT_EQ(out.command.metadata.file, "/f");
  EXPECT_EQ(out.command.metadata.metadata.sqlite_path, "/m");
  const auto in = parse({"metadata", "import", "--metadata", "sqlite:/n"});
  ASSERT_EQ(in.command.kind, Command::Kind::kImport) << in.err;
  EXPECT_EQ(in.command.metadata.file, "-");
  EXPECT_EQ(in.command.metadata.metadata.sqlite_path, "/n");
  EXPECT_EQ(parse({"metadata"}).command.exit_code, 2);
  EXPECT_EQ(parse({"metadata", "export"}).command.exit_code, 2);
}

TEST(Options, RefusesMetadataPlacesThatAreNone) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"etcd:", "host:port"},
      {"etcd:a", "a"},
      {"etcd:a:1?prefix=x", "accepted: 2 to 255 printable bytes"},
      {"etcd:a:1?prefix=/x/", "accepted: 2 to 255 printable bytes"},
      {"etcd:a:1?cert=/x", "cert and key are only accepted together"},
      {"etcd:a:1?user=me", "accepted: prefix=/PATH"},
      {"sqlite:", "accepted are sqlite:PATH and etcd:"},
      {"zookeeper:a:1", "accepted are sqlite:PATH and etcd:"},
  };
  for (const auto& [text, expected] : kWrong) {
    const auto parsed = parse({"coordinator", "--metadata", text});
    EXPECT_EQ(parsed.command.exit_code, 2) << text;
    EXPECT_THAT(parsed.err, testing::HasSubstr(expected)) << text;
    EXPECT_THAT(parsed.err, testing::HasSubstr("--metadata")) << text;
  }
  EXPECT_EQ(
      parse({"coordinator", "--metadata", "etcd:a:1", "--leader-lease", "1ms"}).command.exit_code,
      2);
}

TEST(Options, DevChecksTheArithmeticOfReplicas) {
  const auto good = parse({"dev", "--servers", "3", "--dir", "/tmp/x"});
  ASSERT_EQ(good.command.kind, Command::Kind::kDev) << good.err;
  EXPECT_EQ(good.command.dev.replicas, 2u);
  EXPECT_EQ(parse({"dev", "--servers", "9", "--dir", "d"}).command.dev.replicas, 3u);
  const auto bad = parse({"dev", "--servers", "3", "--replicas", "3", "--dir", "/tmp/x"});
  EXPECT_EQ(bad.command.exit_code, 2);
  EXPECT_THAT(bad.err,
              testing::AllOf(testing::HasSubstr("--replicas"), testing::HasSubstr("need 4 servers"),
                             testing::HasSubstr("accepted are 0 to 2")));
}

TEST(Options, DevChecksThatThePortsThatFollowAreThere) {
  const auto dev = [](const char* listen) {
    return parse({"dev", "--servers", "20", "--dir", "/tmp/x", "--listen", listen});
  };
  EXPECT_EQ(dev("127.0.0.1:65333").command.kind, Command::Kind::kDev);
  EXPECT_EQ(dev("127.0.0.1:0").command.kind, Command::Kind::kDev);
  const auto bad = dev("127.0.0.1:65334");
  EXPECT_EQ(bad.command.exit_code, 2);
  EXPECT_THAT(bad.err, testing::HasSubstr("--listen: value '127.0.0.1:65334': the ports of 20 "
                                          "servers follow, up to 202 more; accepted are ports "
                                          "from 1 to 65333, or 0 for any"));
}

TEST(Options, ErrorsNameFlagValueAndWhatIsAccepted) {
  const struct {
    std::vector<const char*> arguments;
    std::vector<const char*> words;
  } cases[] = {
      {{"server", "--dir", "d", "--log-memory", "12parsecs"}, {"--log-memory", "12parsecs", "MiB"}},
      {{"server", "--dir", "d", "--log-memory", "1MiB"}, {"--log-memory", "1MiB", "at least"}},
      {{"server", "--dir", "d", "--log-memory", "65TiB"}, {"--log-memory", "65TiB", "64.0 TiB"}},
      {{"server", "--dir", "d", "--flush-interval", "2h"}, {"--flush-interval", "2h", "1h"}},
      {{"server", "--dir", "d", "--read-lease", "50ms"}, {"--read-lease", "50ms", "100ms"}},
      {{"server", "--dir", "d", "--recovery-bandwidth", "1KiB"},
       {"--recovery-bandwidth", "1KiB", "1.0 MiB"}},
      {{"server", "--dir", "d", "--backup-silence", "1ms"}, {"--backup-silence", "1ms", "500ms"}},
      {{"server", "--dir", "d", "--restart-grace", "1h"}, {"--restart-grace", "1h", "300s"}},
      {{"server", "--dir", ""}, {"--dir", "path of a folder"}},
      {{"server", "--dir", "d", "--listen", "nowhere"}, {"--listen", "nowhere", "host:port"}},
      {{"server", "--dir", "d", "--replicas", "8"}, {"--replicas", "8", "0 to 7"}},
      {{"server", "--dir", "d", "--replicas", "-1"}, {"--replicas", "-1", "0 to 7"}},
      {{"server", "--dir", "d", "--poll-us", "fast"}, {"--poll-us", "fast", "-1"}},
      {{"server", "--dir", "d", "--reactors", "0"}, {"--reactors", "'0'", "1 to 64"}},
      {{"dev", "--dir", "d", "--reactors", "65"}, {"--reactors", "'65'", "1 to 64"}},
      {{"server", "--dir", "d", "--log-level", "loud"}, {"--log-level", "loud", "debug"}},
      {{"server", "--dir", "d", "--huge-pages", "4Mi"}, {"--huge-pages", "4Mi", "none, 2Mi"}},
      {{"server", "--dir", "d", "--disk-io", "aio"}, {"--disk-io", "aio", "auto, io_uring"}},
      {{"dev", "--dir", "d", "--direct-io", "yes"}, {"--direct-io", "yes", "auto, always"}},
      {{"server", "--dir", "d", "--huge-pages", "1Gi"}, {"--log-memory", "256", "multiples of 1"}},
      {{"server"}, {"--dir"}},
      {{"coordinator", "--metadata", "zookeeper:x"}, {"--metadata", "zookeeper:x", "sqlite:PATH"}},
      {{"coordinator", "--metadata", "sqlite:m", "--cluster-name", "a\xff"},
       {"--cluster-name", "'a\\xff'", "UTF-8"}},
      {{"coordinator", "--metadata", "sqlite:m", "--cluster-name", "a\nb"}, {"--cluster-name"}},
      {{"dev", "--dir", "d", "--servers", "0"}, {"--servers", "0", "1 to 64"}},
      {{}, {"subcommand"}},
  };
  for (const auto& c : cases) {
    const auto parsed = parse(c.arguments);
    EXPECT_EQ(parsed.command.kind, Command::Kind::kExit);
    EXPECT_EQ(parsed.command.exit_code, 2);
    for (const char* word : c.words) EXPECT_THAT(parsed.err, testing::HasSubstr(word));
  }
}

class ConfigFile {
 public:
  explicit ConfigFile(const std::string& text) { std::ofstream(path) << text; }

 private:
  const TemporaryFolder folder_;

 public:
  const std::string path = folder_ / "options.conf";
};

TEST(Options, AConfigFileCountsLessThanTheEnvironmentAndTheCommandLine) {
  const ConfigFile file(
      "# of this machine\n\nreplicas = 4\nlog-memory=128MiB\r\nflush-interval=20ms\n"
      "name= a = b \n");
  setenv("RAMCLOUD_REPLICAS", "1", 1);
  const auto parsed =
      parse({"server", "--dir", "d", "--flush-interval", "30ms", "--config", file.path.c_str()});
  unsetenv("RAMCLOUD_REPLICAS");
  ASSERT_EQ(parsed.command.kind, Command::Kind::kServer) << parsed.err;
  EXPECT_EQ(parsed.command.server.replicas, 1u);
  EXPECT_EQ(parsed.command.server.flush_interval, 30ms);
  EXPECT_EQ(parsed.command.server.log_bytes, 128u << 20);
  EXPECT_EQ(parsed.command.server.name, "a = b");
  setenv("RAMCLOUD_CONFIG", file.path.c_str(), 1);
  EXPECT_EQ(parse({"server", "--dir", "d"}).command.server.replicas, 4u);
  unsetenv("RAMCLOUD_CONFIG");
}

TEST(Options, AConfigFileMayHaveWhatIsRequiredAndFlagsWithoutValues) {
  const ConfigFile file("dir=/d\nprocesses=true\n");
  const auto parsed = parse({"dev", "--config", file.path.c_str()});
  ASSERT_EQ(parsed.command.kind, Command::Kind::kDev) << parsed.err;
  EXPECT_EQ(parsed.command.dev.dir, "/d");
  EXPECT_TRUE(parsed.command.dev.processes);
  const ConfigFile metadata("metadata=sqlite:/m\n");
  EXPECT_EQ(parse({"metadata", "export", "--config", metadata.path.c_str()}).command.kind,
            Command::Kind::kExport);
}

TEST(Options, AWrongConfigFileIsNamedWithItsLine) {
  const std::pair<const char*, std::vector<const char*>> cases[] = {
      {"replicas\n", {"line 1", "'replicas'", "NAME=VALUE"}},
      {"\n--replicas=2\n", {"line 2", "without its dashes"}},
      {"\n\nreplica=2\n", {"line 3", "there is no flag 'replica'", "server --help"}},
      {"config=/x\n", {"line 1", "there is no flag 'config'"}},
      {"replicas=2\nreplicas=1\n", {"line 2", "is in line 1 already"}},
      {"replicas=9\n", {"--replicas", "'9'", "0 to 7"}},
  };
  for (const auto& [text, expected] : cases) {
    const ConfigFile file(text);
    const auto parsed = parse({"server", "--dir", "d", "--config", file.path.c_str()});
    EXPECT_EQ(parsed.command.exit_code, 2) << text;
    for (const char* words : expected) EXPECT_THAT(parsed.err, testing::HasSubstr(words)) << text;
  }
  const auto missing = parse({"server", "--dir", "d", "--config=/nowhere/x"});
  EXPECT_EQ(missing.command.exit_code, 2);
  EXPECT_THAT(missing.err, testing::HasSubstr("'/nowhere/x': cannot be read"));
}

TEST(Options, AConfigFileThatIsNoTextIsNotShownWhole) {
  const std::pair<std::string, const char*> cases[] = {
      {"dir=\n", "line 1: 'dir' has no value"},
      {std::string("name=a\0b\n", 9), "line 1: 'name=a\\x00b' (8 bytes): accepted are"},
      {"name=" + std::string(1u << 17, 'a'), "(131077 bytes): accepted are at most 4096 bytes"},
      {std::string(1u << 20, '\n'), "is longer than 256 KiB"},
  };
  for (const auto& [text, expected] : cases) {
    const ConfigFile file(text);
    const auto parsed = parse({"server", "--dir", "d", "--config", file.path.c_str()});
    EXPECT_EQ(parsed.command.exit_code, 2) << expected;
    EXPECT_THAT(parsed.err, testing::HasSubstr(expected));
    EXPECT_LT(parsed.err.size(), 500u);
  }
  EXPECT_THAT(parse({"server", "--dir", "d", "--config", "/dev/zero"}).err,
              testing::HasSubstr("is longer than 256 KiB"));
}

TEST(Options, OthersAreToldAnAddressThatTheyCanConnectTo) {
  const std::pair<std::vector<const char*>, const char*> cases[] = {
      {{"server", "--dir", "d", "--listen", "0.0.0.0:1"},
       "--advertise: needed because --listen is '0.0.0.0:1'"},
      {{"server", "--dir", "d", "--advertise", "[::]:1"}, "--advertise: value '[::]:1'"},
      {{"server", "--dir", "d", "--advertise-outside", "0:1"}, "--advertise-outside: value '0:1'"},
      {{"coordinator", "--metadata", "sqlite:m", "--listen", "[::]:1"}, "--advertise: needed"},
      {{"coordinator", "--metadata", "sqlite:m", "--admin-listen", "0.0.0.0:1"},
       "--admin-advertise: needed because --admin-listen is '0.0.0.0:1'"},
      {{"coordinator", "--metadata", "sqlite:m", "--admin-advertise-outside", "0.0.0.0:1"},
       "--admin-advertise-outside: value '0.0.0.0:1'"},
  };
  for (const auto& [words, expected] : cases) {
    const auto parsed = parse(words);
    EXPECT_EQ(parsed.command.exit_code, 2) << expected;
    EXPECT_THAT(parsed.err, testing::HasSubstr(expected));
  }
  EXPECT_EQ(parse({"dev", "--dir", "d", "--listen", "0.0.0.0:11100"}).command.kind,
            Command::Kind::kDev);
}

TEST(Options, TheHostToAdvertiseNeedsNoPort) {
  const auto advertised = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"server", "--dir", "d", "--listen", "0.0.0.0:7"});
    const auto parsed = parse(words);
    EXPECT_EQ(parsed.command.kind, Command::Kind::kServer) << parsed.err;
    return parsed.command.server.advertise.value_or(HostPort());
  };
  EXPECT_EQ(advertised({"--advertise-host", "10.0.0.1"}), (HostPort{"10.0.0.1", 7}));
  EXPECT_EQ(advertised({"--advertise", "a:9", "--advertise-host", "b"}), (HostPort{"b", 9}));
  const HostPort v6 = advertised({"--advertise-host", "fd00::1"});
  EXPECT_EQ(v6, (HostPort{"fd00::1", 7}));
  EXPECT_EQ((Locator{"tcp", v6}.to_string()), "tcp:host=[fd00::1],port=7");
  EXPECT_EQ(advertised({"--advertise-host", "[fd00::2]"}), (HostPort{"fd00::2", 7}));
  for (const char* bad :
       {"10.0.0.1:80", "[::1]:80", "fd00::1:11200", "a b", "a?", "::", "0.0.0.0"}) {
    const auto parsed = parse({"server", "--dir", "d", "--advertise-host", bad});
    EXPECT_EQ(parsed.command.exit_code, 2) << bad;
    EXPECT_THAT(parsed.err, testing::HasSubstr("--advertise-host")) << bad;
  }
}

TEST(Options, LimitsAreCheckedAndGivenOn) {
  const auto parsed = parse({"dev", "--dir", "d", "--max-connections", "50",
                             "--max-connections-per-peer", "5", "--max-buffered", "32MiB",
                             "--message-timeout", "1500ms", "--max-admin-connections", "7"});
  ASSERT_EQ(parsed.command.kind, Command::Kind::kDev) << parsed.err;
  const LimitOptions& limits = parsed.command.dev.limits;
  EXPECT_EQ(limits.data.max_connections, 50u);
  EXPECT_EQ(limits.data.max_connections_per_peer, 5u);
  EXPECT_EQ(limits.data.max_buffered_bytes, 32u << 20);
  EXPECT_EQ(limits.data.message_timeout, 1500ms);
  EXPECT_EQ(limits.data.max_silent_connections, TcpOptions().max_silent_connections);
  EXPECT_EQ(limits.http.max_connections, HttpOptions().max_connections);
  EXPECT_EQ(limits.max_admin_connections, 7u);
  EXPECT_EQ(exact_duration(1500ms), "1500ms");
  EXPECT_EQ(exact_duration(30s), "30s");
  EXPECT_EQ(exact_size(64u << 20), "64MiB");
  EXPECT_EQ(parse_size(exact_size((64u << 20) + 1)).value(), (64u << 20) + 1);
  const std::pair<std::vector<const char*>, const char*> wrong[] = {
      {{"--max-connections", "0"}, "1 to 1000000"},
      {{"--max-outstanding", "many"}, "1 to 1000000"},
      {{"--max-unsent", "1MiB"}, "at least 8.0 MiB"},
      {{"--max-buffered", "1MiB"}, "at least 16.0 MiB"},
      {{"--hello-timeout", "1ms"}, "100ms to 600s"},
      {{"--message-timeout", "2h"}, "1s to 3600s"},
      {{"--max-http-connections", "-1"}, "1 to 10000"},
  };
  for (auto [flags, expected] : wrong) {
    const auto refused = parse({"server", "--dir", "d", flags[0], flags[1]});
    EXPECT_EQ(refused.command.exit_code, 2) << flags[0];
    EXPECT_THAT(refused.err,
                testing::AllOf(testing::HasSubstr(flags[0]), testing::HasSubstr(flags[1]),
                               testing::HasSubstr(expected)));
  }
}

TEST(Options, EnvironmentCounts) {
  setenv("RAMCLOUD_REPLICAS", "1", 1);
  const auto parsed = parse({"server", "--dir", "d"});
  unsetenv("RAMCLOUD_REPLICAS");
  ASSERT_EQ(parsed.command.kind, Command::Kind::kServer) << parsed.err;
  EXPECT_EQ(parsed.command.server.replicas, 1u);
}

}  // namespace
}  // namespace ramcloud::daemon
