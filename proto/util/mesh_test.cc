#include "proto/util/mesh.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;

// A mesh with data innermost: rank = data + 2 * pipe.
Mesh DataPipe(int64_t data, int64_t pipe) {
  Mesh mesh;
  MeshAxis* axis = mesh.add_axes();
  axis->set_name("data");
  axis->set_size(data);
  axis = mesh.add_axes();
  axis->set_name("pipe");
  axis->set_size(pipe);
  return mesh;
}

AxisSubset Subset(const char* axis, std::initializer_list<int64_t> indices) {
  AxisSubset subset;
  subset.set_axis(axis);
  for (int64_t index : indices) subset.add_indices(index);
  return subset;
}

TEST(MeshTest, RanksAndCoordinatesAreInverse) {
  for (int64_t data = 1; data <= 3; ++data) {
    for (int64_t pipe = 1; pipe <= 4; ++pipe) {
      const Mesh mesh = DataPipe(data, pipe);
      ASSERT_EQ(MeshRanks(mesh), data * pipe);
      for (int64_t rank = 0; rank < data * pipe; ++rank) {
        EXPECT_EQ(CoordinatesRank(mesh, RankCoordinates(mesh, rank)), rank);
        EXPECT_EQ(AxisCoordinate(mesh, rank, "data"), rank % data);
        EXPECT_EQ(AxisCoordinate(mesh, rank, "pipe"), rank / data);
      }
    }
  }
}

TEST(MeshTest, AxisThatIsNotListedHasSizeOne) {
  const Mesh mesh = DataPipe(2, 4);
  EXPECT_EQ(AxisSize(mesh, "x"), 1);
  EXPECT_EQ(AxisCoordinate(mesh, 5, "x"), 0);
  EXPECT_EQ(MeshRanks(Mesh()), 1);
}

TEST(MeshTest, PeerKeepsTheCoordinatesThatItDoesNotName) {
  const Mesh mesh = DataPipe(2, 4);
  Peer peer;
  Coordinate* at = peer.add_at();
  at->set_axis("pipe");
  at->set_index(3);
  EXPECT_EQ(PeerRank(mesh, 0, peer), 6);
  EXPECT_EQ(PeerRank(mesh, 1, peer), 7);
  EXPECT_EQ(PeerRank(mesh, 5, Peer()), 5);
}

TEST(MeshTest, GroupMembersAreInRankOrder) {
  const Mesh mesh = DataPipe(2, 4);
  Group replicas;
  *replicas.add_axes() = Subset("data", {});
  EXPECT_THAT(GroupMembers(mesh, 5, replicas), ElementsAre(4, 5));
  Group ends;
  *ends.add_axes() = Subset("pipe", {0, 3});
  EXPECT_THAT(GroupMembers(mesh, 1, ends), ElementsAre(1, 7));
  Group all;
  *all.add_axes() = Subset("pipe", {});
  *all.add_axes() = Subset("data", {});
  EXPECT_THAT(GroupMembers(mesh, 2, all), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(GroupMembers(mesh, 3, Group()), ElementsAre(3));
}

TEST(MeshTest, BlocksAndStridesAreThoseOfTheCaller) {
  const Mesh mesh = DataPipe(6, 2);
  Group block, stride;
  *block.add_axes() = Subset("data", {});
  stride = block;
  block.mutable_axes(0)->set_block(3);
  stride.mutable_axes(0)->set_stride(2);
  EXPECT_THAT(GroupMembers(mesh, 4, block), ElementsAre(3, 4, 5));
  EXPECT_THAT(GroupMembers(mesh, 8, block), ElementsAre(6, 7, 8));
  EXPECT_THAT(GroupMembers(mesh, 3, stride), ElementsAre(1, 3, 5));
  EXPECT_THAT(GroupMembers(mesh, 10, stride), ElementsAre(6, 8, 10));
  // A block of size 1 contains only the rank itself, and so does a stride of the whole axis.
  block.mutable_axes(0)->set_block(1);
  stride.mutable_axes(0)->set_stride(6);
  EXPECT_THAT(GroupMembers(mesh, 4, block), ElementsAre(4));
  EXPECT_THAT(GroupMembers(mesh, 4, stride), ElementsAre(4));
}

TEST(MeshTest, GroupSizeIsTheNumberOfMembers) {
  const Mesh mesh = DataPipe(6, 4);
  for (int64_t cut : {1, 2, 3, 6}) {
    for (const bool stride : {false, true}) {
      Group group;
      *group.add_axes() = Subset("pipe", {0, 3});
      *group.add_axes() = Subset("data", {});
      stride ? group.mutable_axes(1)->set_stride(cut) : group.mutable_axes(1)->set_block(cut);
      for (int64_t rank = 0; rank < MeshRanks(mesh); ++rank) {
        EXPECT_EQ(GroupMembers(mesh, rank, group).size(), static_cast<size_t>(GroupSize(mesh, group)));
      }
    }
  }
  EXPECT_EQ(GroupSize(mesh, Group()), 1);
}

TEST(MeshTest, ShiftsAndFirstOnes) {
  const Mesh mesh = DataPipe(6, 2);
  Shift shift;
  for (const auto& [axis, stride] : {std::pair("data", 10), std::pair("pipe", 100), std::pair("x", 7)}) {
    ShiftTerm* term = shift.add_terms();
    term->set_axis(axis);
    term->set_stride(stride);
  }
  EXPECT_EQ(ShiftAt(mesh, 0, shift), 0);
  EXPECT_EQ(ShiftAt(mesh, 4, shift), 40);
  EXPECT_EQ(ShiftAt(mesh, 11, shift), 150);
  StepAttributes attributes;
  EXPECT_TRUE(IsFirstOn(mesh, 11, attributes.counted_once()));
  attributes.add_counted_once("pipe");
  attributes.add_counted_once("x");
  EXPECT_TRUE(IsFirstOn(mesh, 5, attributes.counted_once()));
  EXPECT_FALSE(IsFirstOn(mesh, 6, attributes.counted_once()));
}

TEST(MeshTest, TemplateIsFoundByItsPins) {
  Program program;
  *program.mutable_mesh() = DataPipe(2, 2);
  for (int64_t pipe = 0; pipe < 2; ++pipe) {
    Coordinate* pin = program.add_templates()->add_pins();
    pin->set_axis("pipe");
    pin->set_index(pipe);
  }
  EXPECT_EQ(TemplateOfRank(program, 1), 0);
  EXPECT_EQ(TemplateOfRank(program, 2), 1);
  program.mutable_templates()->RemoveLast();
  EXPECT_EQ(TemplateOfRank(program, 2), -1);
}

}  // namespace
}  // namespace weft
