#include "compiler/inputs/switch_collectives.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// A cluster of two nodes with four devices each.
Cluster TwoNodes(bool node_sums, const std::string& fabric_sums = "NO_SWITCHES") {
  return Parse<Cluster>(absl::StrCat(R"(nodes: 2 devices_per_node: 4 node_links { switch_reduces: )",
                                     node_sums ? "true" : "false", " } fabric { reduces: ", fabric_sums, " }"));
}

// A program for four data replicas of two stages, with further `fields`.
Program Ranks(const std::string& fields) {
  return Parse<Program>(absl::StrCat("mesh { axes { name: 'data' size: 4 } axes { name: 'pipe' size: 2 } } ", fields));
}

std::string AllReduce(const std::string& algorithm, const std::string& axes) {
  return absl::StrCat("templates { body { kind: ALL_REDUCE algorithm: '", algorithm, "' group { ", axes, " } } }");
}

constexpr char kData[] = "axes { axis: 'data' }";
constexpr char kPipe[] = "axes { axis: 'pipe' }";

std::string Refusal(const Program& program, const Cluster& cluster) {
  const absl::Status status = CheckSwitchCollectives(program, cluster);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  return std::string(status.message());
}

TEST(SwitchCollectivesTest, SwitchesOfNodesAreAskedForGroupsInANode) {
  const Program program = Ranks(AllReduce("switch", kData));
  EXPECT_TRUE(CheckSwitchCollectives(program, TwoNodes(true)).ok());
  EXPECT_THAT(Refusal(program, TwoNodes(false)),
              HasSubstr("collective 'switch' needs cluster.node_links.switch_reduces = true (it is false)"));
}

TEST(SwitchCollectivesTest, SwitchesBetweenNodesAreAskedForGroupsOverNodes) {
  // Each node has one member, so nothing is summed within a node.
  const Program program = Ranks(AllReduce("switch", kPipe));
  EXPECT_THAT(Refusal(program, TwoNodes(true)), HasSubstr("ALL_SWITCHES (it is NO_SWITCHES)"));
  EXPECT_TRUE(CheckSwitchCollectives(program, TwoNodes(false, "ALL_SWITCHES")).ok());
}

TEST(SwitchCollectivesTest, EveryPlaceOfAGroupIsLookedAt) {
  // Three groups of two ranks, on nodes that take three ranks each: the middle group is on both nodes.
  const std::string mesh = "mesh { axes { name: 'data' size: 2 } axes { name: 'pipe' size: 3 } } ";
  const Program all = Parse<Program>(absl::StrCat(mesh, AllReduce("switch", kData)));
  EXPECT_THAT(Refusal(all, TwoNodes(true)), HasSubstr("ALL_SWITCHES (it is NO_SWITCHES)"));
  const std::string outer = absl::StrCat(kData, " axes { axis: 'pipe' indices: ");
  for (const char* rank : {"0", "2"}) {
    const Program one = Parse<Program>(absl::StrCat(mesh, AllReduce("switch", absl::StrCat(outer, rank, " }"))));
    EXPECT_TRUE(CheckSwitchCollectives(one, TwoNodes(true)).ok()) << rank;
  }
  const Program middle = Parse<Program>(absl::StrCat(mesh, AllReduce("switch", absl::StrCat(outer, "1 }"))));
  EXPECT_THAT(Refusal(middle, TwoNodes(true)), HasSubstr("ALL_SWITCHES (it is NO_SWITCHES)"));
}

TEST(SwitchCollectivesTest, StepsAndEvaluationCountToo) {
  const std::string segment =
      absl::StrCat("segments { steps { collective { algorithm: 'switch' group { ", kData, " } } } }");
  EXPECT_NE(Refusal(Ranks(segment), TwoNodes(false)), "");
  EXPECT_NE(Refusal(Ranks(absl::StrCat("evaluation { ", segment, " }")), TwoNodes(false)), "");
  for (const char* list : {"prologue", "epilogue"}) {
    const std::string action =
        absl::StrCat("templates { ", list, " { kind: ALL_REDUCE algorithm: 'switch' group { ", kData, " } } }");
    EXPECT_NE(Refusal(Ranks(action), TwoNodes(false)), "") << list;
  }
}

TEST(SwitchCollectivesTest, OthersAskNothing) {
  for (const std::string& fields : {std::string(), AllReduce("ring", kData)}) {
    EXPECT_TRUE(CheckSwitchCollectives(Ranks(fields), TwoNodes(false)).ok()) << fields;
  }
  // Groups of one rank send nothing.
  const Program alone = Parse<Program>(absl::StrCat(
      "mesh { axes { name: 'data' size: 1 } axes { name: 'pipe' size: 2 } } ", AllReduce("switch", kData)));
  EXPECT_TRUE(CheckSwitchCollectives(alone, TwoNodes(false)).ok());
  EXPECT_TRUE(absl::IsNotFound(CheckSwitchCollectives(Ranks(AllReduce("swich", kData)), TwoNodes(false))));
}

}  // namespace
}  // namespace weft
