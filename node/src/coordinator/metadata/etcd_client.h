// The calls to etcd that EtcdMetadata uses. Each is tried once at one endpoint; after a failure the
// next call goes to the next endpoint. Only etcd_*.cc include this.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/metadata/etcd_options.h"
#include "coordinator/metadata/grpc_loop.h"
#include "etcd.grpc.pb.h"

namespace ramcloud {

class EtcdClient {
 public:
  EtcdClient(Reactor& reactor, const EtcdOptions& options,
             const std::shared_ptr<grpc::ChannelCredentials>& credentials);

  // Errors: UNAVAILABLE naming the endpoint; it is then unknown whether the call took effect.
  Task<Result<etcdserverpb::RangeResponse>> range(etcdserverpb::RangeRequest request);
  Task<Result<etcdserverpb::TxnResponse>> txn(etcdserverpb::TxnRequest request);
  Task<Result<etcdserverpb::LeaseGrantResponse>> grant(int64_t seconds);
  Task<Result<etcdserverpb::LeaseRevokeResponse>> revoke(int64_t lease);
  /// The remaining seconds of the lease; 0: it has expired.
  Task<Result<int64_t>> keep_alive(int64_t lease);
  /// Waits for the first change of a key at or after a revision; false: there was none within
  /// `longest`. An error also when the watch breaks.
  Task<Result<bool>> watch(std::string key, int64_t from_revision, Duration longest);

 private:
  struct Endpoint {
    std::string address;
    std::unique_ptr<etcdserverpb::KV::Stub> kv;
    std::unique_ptr<etcdserverpb::Lease::Stub> lease;
    std::unique_ptr<etcdserverpb::Watch::Stub> watch;
  };
  template <typename Response, typename Prepare>
  Task<Result<Response>> unary(Prepare prepare);
  static void set_deadline(GrpcCall& call, Duration longest);
  Status failed(const Endpoint& endpoint, const grpc::Status& status);

  Duration call_timeout_;
  std::vector<Endpoint> endpoints_;
  size_t current_ = 0;
  GrpcLoop loop_;
};

}  // namespace ramcloud
