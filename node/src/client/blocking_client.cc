#include "client/blocking_client.h"

namespace ramcloud {

Result<std::vector<Locator>> parse_cluster(std::string_view cluster) {
  auto addresses = parse_host_port_list(cluster);
  if (!addresses) return fail(std::move(addresses.error()));
  std::vector<Locator> locators;
  for (HostPort& address : *addresses) locators.push_back({"tcp", std::move(address)});
  return locators;
}

BlockingClient::BlockingClient(Options options)
    : core_options_{std::move(options.coordinators), options.timeout},
      reactor_(clock_, events_, entropy_seed(), {.poll_for = options.poll_for}),
      transport_(reactor_, events_),
      core_(reactor_, transport_, core_options_) {}

std::unique_ptr<ClientCore> BlockingClient::another_core() {
  return std::make_unique<ClientCore>(reactor_, transport_, core_options_);
}

BlockingClient::~BlockingClient() = default;

}  // namespace ramcloud
