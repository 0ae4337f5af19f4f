#include "simulator/program/templates_of_ranks.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

using ::testing::ElementsAre;

constexpr char kMesh[] = "mesh { axes { name: 'data' size: 2 } axes { name: 'pipe' size: 3 } } ";

TEST(TemplatesOfRanksTest, PinsAreOfTheirAxis) {
  const Program program = Parse<Program>(std::string(kMesh) +
                                         "templates { pins { axis: 'pipe' index: 1 } } "
                                         "templates { pins { axis: 'pipe' index: 2 } pins { axis: 'data' index: 1 } }");
  // Rank numbers grow along `data` first.
  EXPECT_THAT(TemplatesOfRanks(program), ElementsAre(-1, -1, 0, 0, -1, 1));
}

TEST(TemplatesOfRanksTest, TheFirstThatMatchesCounts) {
  EXPECT_THAT(TemplatesOfRanks(
                  Parse<Program>(std::string(kMesh) + "templates { pins { axis: 'data' index: 1 } } templates {}")),
              ElementsAre(1, 0, 1, 0, 1, 0));
  // On an axis that the mesh does not have, every rank has coordinate 0.
  EXPECT_THAT(TemplatesOfRanks(Parse<Program>("templates { pins { axis: 'x' index: 1 } } "
                                              "templates { pins { axis: 'x' index: 0 } }")),
              ElementsAre(1));
}

TEST(TemplatesOfRanksTest, IsTemplateOfRankOfEveryRank) {
  Program program = Parse<Program>(
      "mesh { axes { name: 'x' size: 2 } axes { name: 'data' size: 3 } "
      "axes { name: 'pipe' size: 4 } }");
  for (int pipe = 3; pipe >= 0; --pipe) {
    Template& t = *program.add_templates();
    Coordinate& pin = *t.add_pins();
    pin.set_axis("pipe");
    pin.set_index(pipe);
    if (pipe % 2 == 0) continue;
    Coordinate& other = *t.add_pins();
    other.set_axis(pipe == 1 ? "x" : "data");
    other.set_index(1);
  }
  const std::vector<int32_t> all = TemplatesOfRanks(program);
  ASSERT_EQ(all.size(), 24u);
  for (int rank = 0; rank < 24; ++rank) EXPECT_EQ(all[rank], TemplateOfRank(program, rank)) << rank;
}

}  // namespace
}  // namespace weft::sim
