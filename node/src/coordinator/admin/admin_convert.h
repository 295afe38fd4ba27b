// Converts between the coordinator's plain values and the messages of the admin API. Only
// admin_service.cc, admin_client.cc and their tests include this.
#pragma once

#include "admin.pb.h"
#include "coordinator/core/accepted_loss.h"
#include "coordinator/core/cluster_view.h"

namespace ramcloud {

admin::v1::ClusterStatus to_proto(const ClusterStatus& status);
admin::v1::Server to_proto(const ServerView& server);
admin::v1::Table to_proto(const wire::TableInfo& table);

admin::v1::SetServerMemoryResponse to_proto(const wire::ResizeLogReply& reply);
wire::ResizeLogReply from_proto(const admin::v1::SetServerMemoryResponse& reply);
admin::v1::AcceptLossResponse to_proto(const LossAnswer& answer);
admin::v1::AcceptedLoss to_proto(const AcceptedLossRecord& record);

LossAnswer from_proto(const admin::v1::AcceptLossResponse& answer);
AcceptedLossRecord from_proto(const admin::v1::AcceptedLoss& loss);
ClusterStatus from_proto(const admin::v1::ClusterStatus& status);
ServerView from_proto(const admin::v1::Server& server);
wire::TableInfo from_proto(
    const admin::v1::Table& table);  // locators are not part of the admin API

/// Trailers of an answer by a coordinator that does not lead: where the leader's admin API is.
inline constexpr const char* kLeaderTrailer = "ramcloud-leader-admin";
inline constexpr const char* kLeaderOutsideTrailer = "ramcloud-leader-admin-outside";

/// Converts our status code to gRPC's, and back to the nearest one.
int to_grpc_code(StatusCode code);
StatusCode from_grpc_code(int code);

}  // namespace ramcloud
