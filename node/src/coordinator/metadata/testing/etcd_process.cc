#include "coordinator/metadata/testing/etcd_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

namespace ramcloud::testing {
namespace {

constexpr auto kLimit = std::chrono::seconds(60);

bool connects(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool ok = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(fd);
  return ok;
}

/// A port below the ephemeral ones, so that no outgoing connection uses it.
uint16_t some_port() {
  std::random_device random;
  return static_cast<uint16_t>(10'000 + random() % 10'000);
}

}  // namespace

std::string EtcdProcess::program() {
  if (const char* given = std::getenv("RAMCLOUD_ETCD")) return given;
  const char* cache = std::getenv("RAMCLOUD_CACHE");
  const char* home = std::getenv("HOME");
  const std::filesystem::path folder =
      std::filesystem::path(cache != nullptr
                                ? std::string(cache)
                                : std::string(home != nullptr ? home : "") + "/.cache/ramcloud") /
      "components";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("etcd-v")) return entry.path();
  }
  return {};
}

EtcdProcess::EtcdProcess(std::filesystem::path certificates)
    : certificates_(std::move(certificates)) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    port_ = some_port();
    if (connects(port_) || connects(port_ + 1)) continue;
    if (start()) return;
  }
  std::ifstream log(folder_ / "log");
  const std::string text((std::istreambuf_iterator<char>(log)), std::istreambuf_iterator<char>());
  throw std::runtime_error("etcd does not start:\n" + text);
}

EtcdProcess::~EtcdProcess() {
  kill_and_collect();
}

/// False if the process ended, for example because its port was in use.
bool EtcdProcess::start() {
  const bool tls = !certificates_.empty();
  const std::string client = fmt::format("{}://127.0.0.1:{}", tls ? "https" : "http", port_);
  const std::string peer = fmt::format("http://127.0.0.1:{}", port_ + 1);
  std::vector<std::string> arguments = {
      program(), "--name=test", "--data-dir=" + (folder_ / "data"),
      "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
      "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
      "--initial-cluster=test=" + peer, "--log-level=error", "--unsafe-no-fsync",
      // The shortest lease is one and a half times the time of an election, in whole seconds.
      "--heartbeat-interval=50", "--election-timeout=500"};
  if (tls) {
    const std::string certificate = (certificates_ / "cert.pem").string();
    arguments.push_back("--cert-file=" + certificate);
    arguments.push_back("--key-file=" + (certificates_ / "key.pem").string());
    arguments.push_back("--trusted-ca-file=" + certificate);
    arguments.emplace_back("--client-cert-auth");
  }
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string log = folder_ / "log";
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(fd, 1);
    ::dup2(fd, 2);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  const auto end = std::chrono::steady_clock::now() + kLimit;
  while (!connects(port_)) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return false;
    }
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("etcd does not listen");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

void EtcdProcess::kill_and_collect() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void EtcdProcess::freeze() {
  ::kill(pid_, SIGSTOP);
  ::waitpid(pid_, nullptr, WUNTRACED);
}

void EtcdProcess::thaw() {
  ::kill(pid_, SIGCONT);
}

void EtcdProcess::crash_and_restart() {
  kill_and_collect();
  if (!start()) throw std::runtime_error("etcd does not start again");
}

}  // namespace ramcloud::testing
