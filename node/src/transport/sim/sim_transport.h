// One simulated process's end of a SimNetwork.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transport/sim/sim_network.h"
#include "wire/hello.h"

namespace ramcloud {

class SimSession;

/// State shared by both ends of a connection.
struct SimConnection {
  SimNode* client_node = nullptr;
  SimNode* server_node = nullptr;
  std::weak_ptr<SimSession> session;
  std::weak_ptr<SimTransport*> server;  // expires with the transport
  uint32_t slot = 0;
  uint32_t generation = 0;
  uint64_t expected_server_id = 0;
  Side side = Side::kInside;
  uint16_t version = 0;
  Time to_server{}, to_client{};  // lanes
};

class SimTransport final : public Transport {
 public:
  SimTransport(SimNetwork& network, SimNode& node);
  /// The peers' connections break a little later.
  ~SimTransport() override;
  SimNode& node() { return node_; }
  SimNetwork& network() { return network_; }
  /// Limits the protocol version from now on, like an earlier version of the program.
  void set_highest_version(uint16_t version) { highest_version_ = version; }
  uint16_t highest_version() const { return highest_version_; }

  Result<std::shared_ptr<Session>> connect(const Locator& locator,
                                           const PeerIdentity& expected) override;
  Result<HostPort> listen(const HostPort& address, Side side, RequestHandler& handler) override;
  void set_identity(const PeerIdentity& self) override;
  void reply(const ReplyHandle& handle, StatusCode status, std::span<const Slice> body) override;
  bool is_open(const ReplyHandle& handle) const override;
  uint64_t closed_connections() const override { return closed_; }

 private:
  friend class SimSession;
  struct Listener {
    HostPort address;
    Side side;
    RequestHandler* handler;
  };
  struct Slot {
    std::shared_ptr<SimConnection> connection;
    RequestHandler* handler = nullptr;
    uint32_t generation = 0;
  };
  void accept(const HostPort& address, const std::shared_ptr<SimConnection>& connection,
              wire::Hello asked);
  void receive(const SimConnection& connection, const wire::MessageHeader& header, ByteView body);
  friend class SimNetwork;
  void closed_by_client(const SimConnection& connection);
  void close(uint32_t slot);
  size_t close_all();  // closes its accepted connections; returns how many

  SimNetwork& network_;
  SimNode& node_;
  PeerIdentity self_;
  std::vector<Listener> listeners_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  uint64_t closed_ = 0;
  std::vector<std::weak_ptr<SimSession>> sessions_;
  uint16_t next_port_ = 40'000;
  uint16_t highest_version_ = wire::kVersionMax;
  std::shared_ptr<SimTransport*> alive_ = std::make_shared<SimTransport*>(this);
};

/// The client's end. Always held by shared_ptr.
class SimSession final : public Session, public std::enable_shared_from_this<SimSession> {
 public:
  SimSession(SimTransport& transport, const HostPort& address, const PeerIdentity& expected);
  ~SimSession() override;
  void start();

  void send(ClientCall& call, wire::MessageHeader header, std::span<const Slice> body) override;
  bool broken() const override { return state_ == State::kBroken; }
  uint64_t peer_server_id() const override { return peer_server_id_; }
  uint16_t version() const override { return version_; }
  void when_open(ClientCall& call) override;
  Absence absence() const override { return absence_; }

 private:
  friend class SimTransport;
  enum class State : uint8_t { kConnecting, kOpen, kBroken };
  struct Held {
    wire::MessageHeader header;
    std::string body;
  };
  void on_answer(const wire::Hello& answer);
  void on_reply(const wire::MessageHeader& header, ByteView body);
  void transmit(const wire::MessageHeader& header, std::string body);
  void repeat(const wire::MessageHeader& header, const std::string& body, Duration after);
  void break_with(Status why);
  void fail_later();

  SimNetwork& network_;
  SimNode& node_;
  Reactor& reactor_;
  const uint64_t life_;  // incarnation of the node
  HostPort address_;
  wire::Hello hello_;
  std::shared_ptr<SimConnection> connection_ = std::make_shared<SimConnection>();
  State state_ = State::kConnecting;
  bool was_open_ = false;
  Absence absence_ = Absence::kUnknown;
  bool failing_scheduled_ = false;
  uint64_t peer_server_id_ = 0;
  uint16_t version_ = 0;
  std::vector<Held> held_;  // until the connection is established
  Status why_;
  Timer connect_timer_;
};

}  // namespace ramcloud
