// Texts that people, flags and other processes write: sizes, durations, addresses, locators, where
// metadata is kept. A parsed value must be the same after formatting and parsing it again.
#include <cstdlib>

#include "base/text.h"
#include "coordinator/metadata/etcd_options.h"

using namespace ramcloud;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

template <typename T>
void check_error(const Result<T>& result) {
  require(result.has_value() || (!result.error().ok() && !result.error().message().empty()));
}

void check_addresses(std::string_view text) {
  const auto one = parse_host_port(text);
  check_error(one);
  if (one) require(parse_host_port(one->to_string()) == *one);
  const auto list = parse_host_port_list(text);
  check_error(list);
  if (!list) return;
  require(!list->empty());
  std::string again;
  for (const auto& address : *list) again += (again.empty() ? "" : ",") + address.to_string();
  require(parse_host_port_list(again) == *list);
}

void check_locators(std::string_view text) {
  const auto locator = parse_locator(text);
  check_error(locator);
  if (locator) require(parse_locator(locator->to_string()) == *locator);
}

void check_numbers(std::string_view text) {
  const auto size = parse_size(text);
  check_error(size);
  if (size) require(!format_size(*size).empty());
  const auto duration = parse_duration(text);
  check_error(duration);
  if (duration) require(*duration >= Duration(0) && !format_duration(*duration).empty());
}

void check_etcd(std::string_view text) {
  const auto options = parse_etcd_options(text);
  check_error(options);
  if (!options) return;
  require(!options->endpoints.empty() && options->prefix.starts_with("/"));
  require(options->cert.empty() == options->key.empty());
}

void check_json(std::string_view text) {
  const std::string json = json_string(text);
  require(is_valid_utf8(json) && json.size() >= 2 && json.front() == '"' && json.back() == '"');
  for (const char c : json) require(static_cast<uint8_t>(c) >= 0x20);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_addresses(text);
  check_locators(text);
  check_numbers(text);
  check_etcd(text);
  check_json(text);
  return 0;
}
