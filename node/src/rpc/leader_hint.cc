#include "rpc/leader_hint.h"

#include <algorithm>
#include <string>

namespace ramcloud {

std::optional<Locator> leader_of(const RpcReply& reply, std::string_view transport) {
  for (const std::string* text : {&reply.details.leader, &reply.details.leader_outside}) {
    if (text->empty()) continue;
    if (auto locator = parse_locator(*text)) return *locator;
  }
  return leader_in(reply.status.message(), transport);
}

std::optional<Locator> leader_in(std::string_view message, std::string_view transport) {
  while (!message.empty()) {
    const size_t end = std::min(message.find_first_of(" \t\n'\""), message.size());
    std::string_view word = message.substr(0, end);
    message.remove_prefix(std::min(end + 1, message.size()));
    while (!word.empty() && (word.back() == ',' || word.back() == '.' || word.back() == ';')) {
      word.remove_suffix(1);
    }
    if (auto locator = parse_locator(word)) return *locator;
    if (auto address = parse_host_port(word)) return Locator{std::string(transport), *address};
  }
  return std::nullopt;
}

}  // namespace ramcloud
