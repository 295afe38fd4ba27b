// The addresses and options of an etcd store, as text: HOST:PORT[,…][?prefix=…&ca=…&cert=…&key=…].
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/text.h"

namespace ramcloud {

struct EtcdOptions {
  std::vector<HostPort> endpoints;
  std::string prefix = "/ramcloud";  // of all keys; begins with a slash, ends without one
  // Files in PEM format. With `ca` or `cert` connections are encrypted.
  std::string ca, cert, key;
  Duration lease = 5s;         // rounded up to seconds; etcd may grant more
  Duration call_timeout = 2s;  // of one try
  int64_t page = 1000;         // records of one answer
  bool tls() const { return !ca.empty() || !cert.empty(); }
};

/// INVALID_ARGUMENT: the message says what is accepted.
Result<EtcdOptions> parse_etcd_options(std::string_view text);

}  // namespace ramcloud
