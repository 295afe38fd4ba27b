#include "backup/lease_service.h"

#include <gtest/gtest.h>

#include "backup/testing/service_fixture.h"
#include "wire/recovery_messages.h"

namespace ramcloud {
namespace {

using testing::kServiceCrashed;
using testing::kServiceMaster;
using wire::Opcode;

class LeaseServiceTest : public testing::ReplicaServiceTest {
 protected:
  StatusCode renew(uint64_t master_id) {
    return send(Opcode::kRenewLease,
                wire::encode(wire::RenewLeaseRequest{master_id}, wire::kExtensible));
  }
  void freeze(uint64_t master_id) {
    wire::RecoveryQueryRequest query;
    query.term = 1;
    query.master_id = master_id;
    ASSERT_EQ(send(Opcode::kRecoveryQuery, wire::encode(query, wire::kExtensible)),
              StatusCode::kOk);
  }
};

TEST_F(LeaseServiceTest, AMasterThatLivesGetsItsLease) {
  EXPECT_EQ(renew(kServiceMaster), StatusCode::kOk);
}

TEST_F(LeaseServiceTest, AFrozenMasterGetsNone) {
  freeze(kServiceMaster);
  EXPECT_EQ(renew(kServiceMaster), StatusCode::kCrashed) << "whatever the list says";
}

TEST_F(LeaseServiceTest, ACrashedMasterGetsNone) {
  EXPECT_EQ(renew(kServiceCrashed), StatusCode::kCrashed);
}

TEST_F(LeaseServiceTest, AMasterThatTheListDoesNotNameAsksAgain) {
  EXPECT_EQ(renew(99), StatusCode::kRetry);
}

TEST_F(LeaseServiceTest, WhatIsNoRenewalIsRefused) {
  EXPECT_EQ(send(Opcode::kRenewLease, "x"), StatusCode::kInvalidArgument);
}

/// It waits for no device: the answer is there although the open's sync hangs.
TEST_F(LeaseServiceTest, ItDoesNotWaitForTheDevice) {
  node_.disk().set_slow(10s);
  post_open(1, "header");
  scheduler_.run_for(10ms);
  const int before = replies_.count;
  post(Opcode::kRenewLease,
       wire::encode(wire::RenewLeaseRequest{kServiceMaster}, wire::kExtensible));
  EXPECT_EQ(replies_.count, before + 1) << "in the handler itself";
  EXPECT_EQ(replies_.status, StatusCode::kOk);
}

}  // namespace
}  // namespace ramcloud
