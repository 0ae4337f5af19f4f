#include "simulator/network/group_form.h"

#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"

namespace weft::sim {
namespace {

TEST(GroupForm, LowestAndHighestAreThoseOfTheMembers) {
  Mesh mesh;
  for (const auto& [name, size] : {std::pair<const char*, int64_t>{"x", 4}, {"z", 6}, {"pipe", 3}}) {
    mesh.add_axes()->set_name(name);
    mesh.mutable_axes(mesh.axes_size() - 1)->set_size(size);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    SCOPED_TRACE(testing::Message() << "seed 1, group " << i);
    GroupForm form(3);
    for (int axis = 0; axis < 3; ++axis) {
      AxisPart& part = form[axis];
      part.kind = static_cast<AxisPart::Kind>(random() % 5);
      const int64_t sizes[3][2] = {{2, 2}, {2, 3}, {1, 3}};
      if (part.kind >= AxisPart::kBlock) part.size = sizes[axis][random() % 2];
      if (part.kind == AxisPart::kListed) part.listed = {0, 2};
    }
    for (int64_t rank = 0; rank < MeshRanks(mesh); ++rank) {
      const std::vector<int64_t> own = RankCoordinates(mesh, rank);
      const std::vector<int64_t> members = FormMembers(mesh, rank, form);
      EXPECT_EQ(CoordinatesRank(mesh, LowestCoordinates(form, own)), members.front());
      EXPECT_EQ(FormSize(mesh, form), static_cast<int64_t>(members.size()));
      EXPECT_EQ(TakesPart(form, own), std::count(members.begin(), members.end(), rank) == 1);
    }
  }
}

}  // namespace
}  // namespace weft::sim
