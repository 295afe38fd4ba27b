#include "coordinator/metadata/etcd_options.h"

#include <fmt/format.h>

#include <algorithm>

namespace ramcloud {
namespace {

constexpr size_t kMaxPrefixBytes = 255;

Status check_prefix(const std::string& prefix) {
  const bool good = prefix.size() >= 2 && prefix.size() <= kMaxPrefixBytes && prefix[0] == '/' &&
                    prefix.back() != '/' &&
                    std::ranges::all_of(prefix, [](char c) { return c > 0x20 && c < 0x7f; });
  if (good) return {};
  return {StatusCode::kInvalidArgument,
          fmt::format("prefix '{}' is not accepted; accepted: 2 to {} printable bytes that begin "
                      "with a slash and do not end with one, for example /ramcloud/my-cluster",
                      prefix, kMaxPrefixBytes)};
}

Status set_parameter(EtcdOptions& options, std::string_view name, std::string value) {
  if (name == "prefix") {
    options.prefix = std::move(value);
    return check_prefix(options.prefix);
  }
  std::string* target = name == "ca"     ? &options.ca
                        : name == "cert" ? &options.cert
                        : name == "key"  ? &options.key
                                         : nullptr;
  if (target == nullptr || value.empty()) {
    return {StatusCode::kInvalidArgument,
            fmt::format("parameter '{}={}' is not accepted; accepted: prefix=/PATH, ca=FILE, "
                        "cert=FILE, key=FILE",
                        name, value)};
  }
  *target = std::move(value);
  return {};
}

}  // namespace

Result<EtcdOptions> parse_etcd_options(std::string_view text) {
  EtcdOptions options;
  const size_t question = text.find('?');
  auto endpoints = parse_host_port_list(text.substr(0, question));
  if (!endpoints) return fail(std::move(endpoints.error()));
  options.endpoints = std::move(*endpoints);
  std::string_view rest =
      question == std::string_view::npos ? std::string_view() : text.substr(question + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view parameter = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = std::min(parameter.find('='), parameter.size());
    const auto value = std::string(parameter.substr(std::min(equals + 1, parameter.size())));
    Status set = set_parameter(options, parameter.substr(0, equals), value);
    if (!set.ok()) return fail(std::move(set));
  }
  if (options.cert.empty() != options.key.empty()) {
    return fail(StatusCode::kInvalidArgument, "cert and key are only accepted together");
  }
  return options;
}

}  // namespace ramcloud
