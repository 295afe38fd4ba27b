// For tests: a client core with a scripted coordinator and two scripted servers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "client/core.h"
#include "client/fake_cluster.h"

namespace ramcloud {

/// A coordinator, two servers, and a client; tests replace the answers that they need.
class CoreTest : public testing::Test {
 protected:
  using Answer = std::function<void(FakeNode&, const FakeNode::Call&)>;

  FakeWorld world_;
  FakeStore stores_[2];
  Answer answers_[2] = {
      [this](FakeNode& node, const FakeNode::Call& call) { stores_[0].answer(node, call); },
      [this](FakeNode& node, const FakeNode::Call& call) { stores_[1].answer(node, call); }};
  FakeNode first_{world_, 1,
                  [this](FakeNode& node, const FakeNode::Call& call) { answers_[0](node, call); }};
  FakeNode second_{world_, 2,
                   [this](FakeNode& node, const FakeNode::Call& call) { answers_[1](node, call); }};
  wire::TableInfo table_ = table_over({{1, first_.locator()}});
  Answer coordinate_ = [this](FakeNode& node, const FakeNode::Call& call) {
    answer_as_coordinator(node, call, table_);
  };
  FakeNode coordinator_{
      world_, 0, [this](FakeNode& node, const FakeNode::Call& call) { coordinate_(node, call); }};
  TcpTransport transport_{world_.reactor, world_.events};

  std::unique_ptr<ClientCore> make(Duration timeout = 20s, std::vector<Locator> coordinators = {}) {
    if (coordinators.empty()) coordinators = {coordinator_.locator()};
    return std::make_unique<ClientCore>(world_.reactor, transport_,
                                        ClientCore::Options{std::move(coordinators), timeout});
  }
};

}  // namespace ramcloud
