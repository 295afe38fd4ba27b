#include "coordinator/core/volumes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "coordinator/metadata/metadata_export.h"

namespace ramcloud {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using wire::ServerState;

class VolumesTest : public ::testing::Test {
 protected:
  /// Records a server, as Membership does. 0: on a fresh volume.
  void enlist(uint64_t id, uint64_t former = 0, ServerState now = ServerState::kUp) {
    ServerRecord& record = state.servers[id].record;
    record.volume = volume_with(state, former, id);
    record.id = id;
    record.state = now;
    state.ids.last_server_id = std::max(state.ids.last_server_id, id);
  }
  void crash(uint64_t id) { state.servers.at(id).record.state = ServerState::kCrashed; }
  void give_tablet(uint64_t id) {
    TableRecord& table = state.tables[1];
    table.id = 1;
    table.tablets.push_back({.start_hash = 0, .end_hash = ~uint64_t{0}, .server_id = id});
  }
  auto objections(uint64_t id) { return objections_to_release(state, id); }
  ClusterState state;
};

TEST_F(VolumesTest, AServerThatStartsAgainHasTheVolumeOfItsFormerOnes) {
  enlist(1);
  enlist(2);
  enlist(3, 1);
  enlist(4, 3);
  EXPECT_THAT(servers_of_volume(state, 1), ElementsAre(1, 3, 4));
  EXPECT_THAT(servers_of_volume(state, 4), ElementsAre(1, 3, 4));
  EXPECT_THAT(servers_of_volume(state, 2), ElementsAre(2));
  EXPECT_THAT(servers_of_volume(state, 9), IsEmpty());
}

/// It enlisted, and ended before it wrote its id onto the volume.
TEST_F(VolumesTest, TwoServersMayNameTheSameFormerOne) {
  enlist(1, 0, ServerState::kCrashed);
  enlist(2, 1, ServerState::kCrashed);
  enlist(3, 1);
  EXPECT_THAT(objections(2), ElementsAre(HasSubstr("server 3, which is UP, has the volume")));
}

TEST_F(VolumesTest, OnlyAServerThatIsNotUpLosesItsVolume) {
  enlist(1);
  enlist(2);
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("server 1 is UP")));
  EXPECT_THAT(objections(7), ElementsAre(HasSubstr("not known")));
  EXPECT_THAT(objections(0), ElementsAre(HasSubstr("not known")));
  crash(1);
  EXPECT_THAT(objections(1), IsEmpty());
  state.servers.at(1).record.state = ServerState::kRemoved;
  EXPECT_THAT(objections(1), IsEmpty());
}

TEST_F(VolumesTest, AVolumeThatIsInUseAgainIsNeeded) {
  enlist(1, 0, ServerState::kCrashed);
  enlist(2, 1, ServerState::kCrashed);
  enlist(3, 2);
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("server 3, which is UP, has the volume")));
  EXPECT_THAT(objections(2), ElementsAre(HasSubstr("server 3, which is UP, has the volume")));
  crash(3);
  EXPECT_THAT(objections(1), IsEmpty());
}

TEST_F(VolumesTest, TheLogOfACrashedMasterIsNeededWhileItHasTablets) {
  enlist(1, 0, ServerState::kCrashed);
  enlist(2, 0, ServerState::kCrashed);
  EXPECT_THAT(objections(1), IsEmpty()) << "neither has data";
  give_tablet(1);
  EXPECT_THAT(objections(1), IsEmpty()) << "its log has no replica on its own volume";
  EXPECT_THAT(objections(2), ElementsAre(HasSubstr("server 1 crashed and its tablets are not")));
  give_tablet(2);
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("server 2 crashed and its tablets are not")));
}

/// Of a volume that was copied both copies have the same chain, and the log of one may be on the
/// other.
TEST_F(VolumesTest, TheLogOfAnotherServerOfTheVolumeIsNeededToo) {
  enlist(1, 0, ServerState::kCrashed);
  enlist(2, 1, ServerState::kCrashed);
  give_tablet(1);
  EXPECT_THAT(objections(2), ElementsAre(HasSubstr("server 1 crashed")));
}

TEST_F(VolumesTest, AServerWhoseVolumeIsNotRecordedMayHaveAnyOfBefore) {
  enlist(1, 0, ServerState::kCrashed);
  state.format = 1;
  enlist(2);
  EXPECT_EQ(state.servers.at(2).record.volume, 0u);
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("server 2, which is UP, may have the volume")));
  state.format = 2;
  enlist(3, 2);
  crash(2);
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("server 3, which is UP, may have the volume")));
  EXPECT_THAT(objections(2), ElementsAre(HasSubstr("server 3, which is UP, has the volume")));
  crash(3);
  EXPECT_THAT(objections(1), IsEmpty());
  enlist(4);
  EXPECT_THAT(objections(1), IsEmpty()) << "a fresh volume is nobody's";
}

TEST_F(VolumesTest, AfterAnImportVolumesOfBeforeMayBeInUse) {
  enlist(1, 0, ServerState::kCrashed);
  enlist(2);
  state.ids.last_server_id += kImportGap;
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("metadata was imported since server 1")));
  const uint64_t later = state.ids.last_server_id + 1;
  enlist(later);
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("metadata was imported since server 1")));
  crash(later);
  EXPECT_THAT(objections(later), IsEmpty());
}

TEST_F(VolumesTest, UntilLiveServersHaveRestatedWhatTheyOwnNothingIsReleased) {
  enlist(1, 0, ServerState::kCrashed);
  state.restate = RestateRecord{};
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("have not said yet what they own")));
  state.restate.reset();
  EXPECT_THAT(objections(1), IsEmpty());
}

/// It names a server of which the import lost the record.
TEST_F(VolumesTest, AServerWithAVolumeOfALostServerMayHaveAnyOfBefore) {
  enlist(1, 0, ServerState::kCrashed);
  enlist(9, 5);
  EXPECT_THAT(objections(1), ElementsAre(HasSubstr("server 9, which is UP, may have the volume")));
}

}  // namespace
}  // namespace ramcloud
