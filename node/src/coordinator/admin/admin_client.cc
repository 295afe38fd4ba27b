#include "coordinator/admin/admin_client.h"

#include <grpcpp/grpcpp.h>

#include "admin.grpc.pb.h"
#include "coordinator/admin/admin_convert.h"

namespace ramcloud {
namespace pb = admin::v1;

struct AdminClient::Impl {
  std::string address;
  Duration timeout;
  std::unique_ptr<pb::Admin::Stub> stub;

  void connect(std::string to) {
    address = std::move(to);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(64 << 20);  // a big cluster's tables in one answer
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub = pb::Admin::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  /// The leader that a standby names; empty if it names none.
  static std::string leader_of(const grpc::ClientContext& context) {
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto found = trailers.find(kLeaderTrailer);
    if (found == trailers.end()) return {};
    return {found->second.data(), found->second.size()};
  }

  template <typename Method, typename Request, typename Response>
  Status call(Method method, const Request& request, Response& response) {
    constexpr int kRedirects = 3;
    for (int redirects = 0;; ++redirects) {
      std::string leader;
      Status status = call_once(method, request, response, leader);
      if (leader.empty() || leader == address || redirects == kRedirects) return status;
      connect(std::move(leader));
    }
  }

  template <typename Method, typename Request, typename Response>
  Status call_once(Method method, const Request& request, Response& response, std::string& leader) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
    const grpc::Status status = ((*stub).*method)(&context, request, &response);
    if (status.ok()) return {};
    leader = leader_of(context);
    const StatusCode code = from_grpc_code(status.error_code());
    std::string message = status.error_message();
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && message.empty()) {
      message = fmt::format(
          "the coordinator at {} is of a former build, and does not know this call", address);
    }
    if (code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded) {
      message = fmt::format("admin API at {}: {}", address, message);
    }
    return {code, std::move(message)};
  }
};

AdminClient::AdminClient(const HostPort& address, Duration timeout)
    : impl_(std::make_unique<Impl>()) {
  impl_->timeout = timeout;
  impl_->connect(address.to_string());
}

AdminClient::~AdminClient() = default;

Result<ClusterStatus> AdminClient::status() {
  pb::ClusterStatus response;
  Status called = impl_->call(&pb::Admin::Stub::GetStatus, pb::GetStatusRequest(), response);
  if (!called.ok()) return fail(std::move(called));
  return from_proto(response);
}

Result<std::vector<ServerView>> AdminClient::servers() {
  pb::ListServersResponse response;
  Status called = impl_->call(&pb::Admin::Stub::ListServers, pb::ListServersRequest(), response);
  if (!called.ok()) return fail(std::move(called));
  std::vector<ServerView> servers;
  for (const auto& server : response.servers()) servers.push_back(from_proto(server));
  return servers;
}

Result<std::vector<wire::TableInfo>> AdminClient::tables(const std::string& name) {
  pb::ListTablesRequest request;
  request.set_name(name);
  pb::ListTablesResponse response;
  Status called = impl_->call(&pb::Admin::Stub::ListTables, request, response);
  if (!called.ok()) return fail(std::move(called));
  std::vector<wire::TableInfo> tables;
  for (const auto& table : response.tables()) tables.push_back(from_proto(table));
  return tables;
}

Result<AdminClient::Condemnation> AdminClient::condemn(uint64_t server_id, bool confirmed,
                                                       bool force, const std::string& reason) {
  pb::CondemnServerRequest request;
  request.set_server_id(server_id);
  request.set_confirmed(confirmed);
  request.set_force(force);
  request.set_reason(reason);
  pb::CondemnServerResponse response;
  Status called = impl_->call(&pb::Admin::Stub::CondemnServer, request, response);
  if (!called.ok()) return fail(std::move(called));
  return Condemnation{response.condemned(), response.answers(), response.effect()};
}

Result<wire::ResizeLogReply> AdminClient::set_log_memory(uint64_t server_id, uint64_t bytes) {
  pb::SetServerMemoryRequest request;
  request.set_server_id(server_id);
  request.set_log_bytes(bytes);
  pb::SetServerMemoryResponse response;
  Status called = impl_->call(&pb::Admin::Stub::SetServerMemory, request, response);
  if (!called.ok()) return fail(std::move(called));
  return from_proto(response);
}

Result<VolumeRelease> AdminClient::volume_release(uint64_t server_id) {
  pb::GetVolumeReleaseRequest request;
  request.set_server_id(server_id);
  pb::GetVolumeReleaseResponse response;
  Status called = impl_->call(&pb::Admin::Stub::GetVolumeRelease, request, response);
  if (!called.ok()) return fail(std::move(called));
  return VolumeRelease{response.releasable(), response.reason(), response.token(),
                       response.expires_at_ms()};
}

Result<LossAnswer> AdminClient::accept_loss(const LossRequest& wanted) {
  pb::AcceptLossRequest request;
  request.set_server_id(wanted.server_id);
  request.set_confirmed(wanted.confirmed);
  request.set_token(wanted.token);
  request.set_by(wanted.by);
  request.set_reason(wanted.reason);
  pb::AcceptLossResponse response;
  Status called = impl_->call(&pb::Admin::Stub::AcceptLoss, request, response);
  if (!called.ok()) return fail(std::move(called));
  return from_proto(response);
}

Result<std::vector<AcceptedLossRecord>> AdminClient::accepted_losses() {
  pb::ListAcceptedLossesResponse response;
  Status called =
      impl_->call(&pb::Admin::Stub::ListAcceptedLosses, pb::ListAcceptedLossesRequest(), response);
  if (!called.ok()) return fail(std::move(called));
  std::vector<AcceptedLossRecord> losses;
  for (const auto& loss : response.losses()) losses.push_back(from_proto(loss));
  return losses;
}

Status AdminClient::hint(uint64_t server_id) {
  pb::HintServerRequest request;
  request.set_server_id(server_id);
  pb::HintServerResponse response;
  return impl_->call(&pb::Admin::Stub::HintServer, request, response);
}

Result<uint32_t> AdminClient::upgrade_metadata() {
  pb::UpgradeMetadataResponse response;
  Status called =
      impl_->call(&pb::Admin::Stub::UpgradeMetadata, pb::UpgradeMetadataRequest(), response);
  if (!called.ok()) return fail(std::move(called));
  return response.format();
}

}  // namespace ramcloud
