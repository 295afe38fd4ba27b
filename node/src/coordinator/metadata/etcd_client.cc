#include "coordinator/metadata/etcd_client.h"

#include <fmt/format.h>

namespace ramcloud {
namespace pb = etcdserverpb;
namespace {

grpc::ChannelArguments channel_arguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(64 << 20);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // Keepalive pings detect an unreachable peer. (Every call has a deadline as well, because gRPC
  // stops these pings on a connection without other traffic.)
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5'000);
  // Reconnect to a restarted etcd within about a second.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // Resolve the name again, too: a restarted pod has a new address, and gRPC would use the old one
  // for up to half a minute.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 1'000);
  return arguments;
}

template <typename Response>
struct UnaryCall final : GrpcCall {
  Response response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader;
};

template <typename Request, typename Response>
struct StreamCall final : GrpcCall {
  Request request;
  Response response;
  grpc::Status status;
  std::unique_ptr<grpc::ClientAsyncReaderWriter<Request, Response>> stream;
};

}  // namespace

EtcdClient::EtcdClient(Reactor& reactor, const EtcdOptions& options,
                       const std::shared_ptr<grpc::ChannelCredentials>& credentials)
    : call_timeout_(options.call_timeout), loop_(reactor) {
  for (const HostPort& address : options.endpoints) {
    const auto channel =
        grpc::CreateCustomChannel(address.to_string(), credentials, channel_arguments());
    endpoints_.push_back({address.to_string(), pb::KV::NewStub(channel),
                          pb::Lease::NewStub(channel), pb::Watch::NewStub(channel)});
  }
}

void EtcdClient::set_deadline(GrpcCall& call, Duration longest) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(longest).count();
  call.context.set_deadline(gpr_time_from_millis(ms, GPR_TIMESPAN));
}

Status EtcdClient::failed(const Endpoint& endpoint, const grpc::Status& status) {
  if (&endpoint == &endpoints_[current_]) current_ = (current_ + 1) % endpoints_.size();
  return {StatusCode::kUnavailable,
          fmt::format("etcd at {}: {} (gRPC status {})", endpoint.address, status.error_message(),
                      static_cast<int>(status.error_code()))};
}

template <typename Response, typename Prepare>
Task<Result<Response>> EtcdClient::unary(Prepare prepare) {
  const Endpoint& endpoint = endpoints_[current_];
  const auto call = std::make_shared<UnaryCall<Response>>();
  set_deadline(*call, call_timeout_);
  call->reader = prepare(endpoint, &call->context, &loop_.queue());
  co_await loop_.event(call, [&](void* tag) {
    call->reader->StartCall();
    call->reader->Finish(&call->response, &call->status, tag);
  });
  if (!call->status.ok()) co_return fail(failed(endpoint, call->status));
  co_return std::move(call->response);
}

Task<Result<pb::RangeResponse>> EtcdClient::range(pb::RangeRequest request) {
  return unary<pb::RangeResponse>([request = std::move(request)](const Endpoint& endpoint,
                                                                 grpc::ClientContext* context,
                                                                 grpc::CompletionQueue* queue) {
    return endpoint.kv->PrepareAsyncRange(context, request, queue);
  });
}

Task<Result<pb::TxnResponse>> EtcdClient::txn(pb::TxnRequest request) {
  return unary<pb::TxnResponse>([request = std::move(request)](const Endpoint& endpoint,
                                                               grpc::ClientContext* context,
                                                               grpc::CompletionQueue* queue) {
    return endpoint.kv->PrepareAsyncTxn(context, request, queue);
  });
}

Task<Result<pb::LeaseGrantResponse>> EtcdClient::grant(int64_t seconds) {
  pb::LeaseGrantRequest request;
  request.set_ttl(seconds);
  return unary<pb::LeaseGrantResponse>([request](const Endpoint& endpoint,
                                                 grpc::ClientContext* context,
                                                 grpc::CompletionQueue* queue) {
    return endpoint.lease->PrepareAsyncLeaseGrant(context, request, queue);
  });
}

Task<Result<pb::LeaseRevokeResponse>> EtcdClient::revoke(int64_t lease) {
  pb::LeaseRevokeRequest request;
  request.set_id(lease);
  return unary<pb::LeaseRevokeResponse>([request](const Endpoint& endpoint,
                                                  grpc::ClientContext* context,
                                                  grpc::CompletionQueue* queue) {
    return endpoint.lease->PrepareAsyncLeaseRevoke(context, request, queue);
  });
}

/// A stream for each renewal: etcd offers no other way, and a fresh stream needs no handling when
/// it breaks.
Task<Result<int64_t>> EtcdClient::keep_alive(int64_t lease) {
  const Endpoint& endpoint = endpoints_[current_];
  const auto call =
      std::make_shared<StreamCall<pb::LeaseKeepAliveRequest, pb::LeaseKeepAliveResponse>>();
  set_deadline(*call, call_timeout_);
  call->request.set_id(lease);
  call->stream = endpoint.lease->PrepareAsyncLeaseKeepAlive(&call->context, &loop_.queue());
  bool ok = co_await loop_.event(call, [&](void* tag) { call->stream->StartCall(tag); });
  if (ok) {
    ok = co_await loop_.event(call, [&](void* tag) { call->stream->Write(call->request, tag); });
  }
  if (ok) {
    ok = co_await loop_.event(call, [&](void* tag) { call->stream->Read(&call->response, tag); });
  }
  if (ok) call->context.TryCancel();
  co_await loop_.event(call, [&](void* tag) { call->stream->Finish(&call->status, tag); });
  if (ok) co_return call->response.ttl();
  co_return fail(failed(endpoint, call->status));
}

Task<Result<bool>> EtcdClient::watch(std::string key, int64_t from_revision, Duration longest) {
  const Endpoint& endpoint = endpoints_[current_];
  const auto call = std::make_shared<StreamCall<pb::WatchRequest, pb::WatchResponse>>();
  set_deadline(*call, longest);
  call->request.mutable_create_request()->set_key(std::move(key));
  call->request.mutable_create_request()->set_start_revision(from_revision);
  call->stream = endpoint.watch->PrepareAsyncWatch(&call->context, &loop_.queue());
  bool ok = co_await loop_.event(call, [&](void* tag) { call->stream->StartCall(tag); });
  if (ok) {
    ok = co_await loop_.event(call, [&](void* tag) { call->stream->Write(call->request, tag); });
  }
  bool told = false;
  while (ok && !told) {
    ok = co_await loop_.event(call, [&](void* tag) { call->stream->Read(&call->response, tag); });
    told = ok && (call->response.canceled() || !call->response.events().empty());
  }
  if (told) call->context.TryCancel();
  co_await loop_.event(call, [&](void* tag) { call->stream->Finish(&call->status, tag); });
  // Either nothing changed, or the endpoint is unreachable; the next call to it shows which.
  if (!told && call->status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) co_return false;
  if (!told) co_return fail(failed(endpoint, call->status));
  if (!call->response.canceled()) co_return true;
  co_return fail(StatusCode::kUnavailable,
                 fmt::format("etcd at {} ended the watch: {}", endpoint.address,
                             call->response.cancel_reason()));
}

}  // namespace ramcloud
