#include "simulator/program/rank_links.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "simulator/testing/test_programs.h"

namespace weft::sim {
namespace {

ProgramView MakeView(const Program& program) {
  auto view = BuildProgramView(program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{1}; }, {});
  EXPECT_TRUE(view.ok()) << view.status();
  return *std::move(view);
}

int64_t PeerOf(const Mesh& mesh, int64_t rank, const ChannelView& channel) {
  std::vector<int64_t> coordinates = RankCoordinates(mesh, rank);
  for (size_t i = 0; i < coordinates.size(); ++i) {
    if (channel.peer[i] >= 0) coordinates[i] = channel.peer[i];
  }
  return CoordinatesRank(mesh, coordinates);
}

// Checks the links against the coordinates of every rank.
TEST(RankLinks, RandomPrograms) {
  int64_t channels = 0, communicators = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Program program = RandomEngineProgram(seed);
    for (MeshAxis& axis : *program.mutable_mesh()->mutable_axes()) {
      if (axis.name() == "x" && seed % 2 == 0) axis.set_size(8);
    }
    const Mesh& mesh = program.mesh();
    const ProgramView view = MakeView(program);
    const auto links = LinkRanks(view);
    ASSERT_TRUE(links.ok()) << links.status();
    ASSERT_EQ(links->ranks.size(), static_cast<size_t>(MeshRanks(mesh)));
    EXPECT_TRUE(links->simulated_as.empty());
    std::map<std::pair<Purpose, std::vector<int64_t>>, int32_t> known;
    for (int64_t rank = 0; rank < MeshRanks(mesh); ++rank) {
      const LinkedRank& own = links->ranks[rank];
      EXPECT_EQ(own.rank, rank);
      EXPECT_EQ(own.stands_for, 1);
      const TemplateView& t = view.templates[view.template_of_rank[rank]];
      for (size_t i = 0; i < t.channels.size(); ++i) {
        const int32_t side = own.first_side + static_cast<int32_t>(i);
        EXPECT_EQ(links->sides[side].owner, rank);
        EXPECT_EQ(links->sides[side].index, static_cast<int32_t>(i));
        const ChannelLink& channel = links->channels[links->sides[side].channel];
        EXPECT_EQ(t.channels[i].send ? channel.send : channel.recv, side);
        const int32_t other_side = t.channels[i].send ? channel.recv : channel.send;
        ASSERT_GE(other_side, 0);
        const ChannelSide& other = links->sides[other_side];
        EXPECT_EQ(other.owner, PeerOf(mesh, rank, t.channels[i]));
        const ChannelView& mirrored = view.templates[view.template_of_rank[other.owner]].channels[other.index];
        EXPECT_NE(mirrored.send, t.channels[i].send);
        EXPECT_EQ(PeerOf(mesh, other.owner, mirrored), rank);
        EXPECT_EQ(mirrored.lane, t.channels[i].lane);
        EXPECT_EQ(mirrored.direction, t.channels[i].direction);
        EXPECT_EQ(mirrored.skip, t.channels[i].skip);
        EXPECT_EQ(mirrored.slot, t.channels[i].slot);
        ++channels;
      }
      for (size_t s = 0; s < t.streams.size(); ++s) {
        const int32_t c = links->streams[own.first_stream + s];
        EXPECT_EQ(c >= 0, t.streams[s].key.kind == StreamClass::kCollective);
        if (c < 0) continue;
        const CommunicatorLink& communicator = links->communicators[c];
        const std::vector<int64_t> members = FormMembers(mesh, rank, t.streams[s].key.group);
        EXPECT_EQ(communicator.members, members);
        EXPECT_EQ(communicator.needed, static_cast<int64_t>(members.size()));
        EXPECT_EQ(known.try_emplace({t.streams[s].key.purpose, members}, c).first->second, c);
        int found = 0;
        for (const CommunicatorStream& stream : communicator.streams) {
          found += stream.owner == rank && stream.stream == static_cast<int32_t>(s);
        }
        EXPECT_EQ(found, 1);
        ++communicators;
      }
    }
    EXPECT_EQ(known.size(), links->communicators.size());
    if (HasFailure()) return;
  }
  EXPECT_GT(channels, 1000);
  EXPECT_GT(communicators, 1000);
}

TEST(RankLinks, RanksWithoutAPartnerAreAlone) {
  Program program = GPipeProgram(2, 1, 100);
  // Rank 1 receives nothing.
  google::protobuf::RepeatedPtrField<Action>& body = *program.mutable_templates(1)->mutable_body();
  for (int i = body.size() - 1; i >= 0; --i) {
    if (body[i].kind() == RECV) body.DeleteSubrange(i, 1);
  }
  for (Action& action : body) action.clear_deps();
  const ProgramView view = MakeView(program);
  const auto links = LinkRanks(view);
  ASSERT_TRUE(links.ok()) << links.status();
  int alone = 0;
  for (const ChannelLink& channel : links->channels) alone += channel.recv < 0;
  EXPECT_EQ(alone, 1);
}

}  // namespace
}  // namespace weft::sim
