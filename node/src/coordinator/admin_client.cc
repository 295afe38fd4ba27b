#include "coordinator/admin_client.h"

#include <grpcpp/grpcpp.h>

#include "admin.grpc.pb.h"
#include "coordinator/admin_convert.h"

namespace ramcloud {
namespace pb = admin::v1;

struct AdminClient::Impl {
  std::string address;
  Duration timeout;
  std::unique_ptr<pb::Admin::Stub> stub;

  template <typename Method, typename Request, typename Response>
  Status call(Method method, const Request& request, Response& response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::milliseconds>(timeout));
    const grpc::Status status = ((*stub).*method)(&context, request, &response);
    if (status.ok()) return {};
    const StatusCode code = from_grpc_code(status.error_code());
    std::string message = status.error_message();
    if (code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded) {
      message = fmt::format("admin API at {}: {}", address, message);
    }
    return {code, std::move(message)};
  }
};

AdminClient::AdminClient(const HostPort& address, Duration timeout)
    : impl_(std::make_unique<Impl>()) {
  impl_->address = address.to_string();
  impl_->timeout = timeout;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(64 << 20);  // a big cluster's tables in one answer
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  impl_->stub = pb::Admin::NewStub(
      grpc::CreateCustomChannel(impl_->address, grpc::InsecureChannelCredentials(), arguments));
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

}  // namespace ramcloud
