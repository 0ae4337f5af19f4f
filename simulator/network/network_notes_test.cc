#include "simulator/network/network_notes.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace weft::sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Eight ranks all-reduce over all ranks in one ring.
Program RingProgram(const std::string& algorithm = "ring") {
  Program program;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString("mesh { axes { name: 'data' size: 8 } } "
                                                    "templates { body { id: 1 kind: ALL_REDUCE algorithm: '" +
                                                        algorithm + "' group { axes { axis: 'data' } } } }",
                                                    &program));
  return program;
}

Cluster MakeCluster(const std::string& text) {
  Cluster cluster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("name: 'c' nodes: 4 devices_per_node: 4 " + text, &cluster))
      << text;
  return cluster;
}

TEST(NotesOnNetwork, NothingIsSaidOfWhatIsModeled) {
  for (const char* fabric : {"", "fabric { kind: FAT_TREE nodes_per_switch: 1 oversubscription: 8 }",
                             "fabric { kind: DRAGONFLY nodes_per_switch: 1 }", "node_links { all_pairs: true }"}) {
    for (const char* network : {"analytic", "nccl", "flow", "none", "agnostic"}) {
      EXPECT_THAT(NotesOnNetwork(RingProgram(), MakeCluster(fabric), network), IsEmpty()) << fabric << " " << network;
    }
  }
}

TEST(NotesOnNetwork, BridgesOfANode) {
  const Cluster bridges = MakeCluster("node_links { devices_per_bridge: 2 }");
  for (const char* network : {"analytic", "nccl"}) {
    EXPECT_THAT(NotesOnNetwork(RingProgram(), bridges, network),
                ElementsAre(AllOf(HasSubstr("bridges"), HasSubstr(network), HasSubstr("--network=flow"))));
  }
  EXPECT_THAT(NotesOnNetwork(RingProgram(), bridges, "flow"), IsEmpty());
  // All ranks of a node are below one bridge.
  EXPECT_THAT(
      NotesOnNetwork(RingProgram(), MakeCluster("node_links { devices_per_bridge: 2 } placement { devices: [ 0, 1 ] }"),
                     "analytic"),
      IsEmpty());
}

// On a torus, other nodes may lie between two nodes of the program, and interfaces may carry more than the torus links.
TEST(NotesOnNetwork, ATorusOfSeveralNodes) {
  for (const char* placement : {"", "placement { nodes: [ 0, 2 ] }", "placement { devices: [ 0, 1 ] }"}) {
    const Cluster torus = MakeCluster(absl::StrCat("fabric { kind: TORUS torus: 4 } ", placement));
    EXPECT_THAT(NotesOnNetwork(RingProgram(), torus, "nccl"), ElementsAre(HasSubstr("torus"))) << placement;
    EXPECT_THAT(NotesOnNetwork(RingProgram(), torus, "flow"), IsEmpty()) << placement;
  }
}

TEST(NotesOnNetwork, ALastNodeWithFewerRanks) {
  Program program = RingProgram();
  MeshAxis& data = *program.mutable_mesh()->mutable_axes(0);
  data.set_size(13);
  for (const char* network : {"analytic", "flow"}) {
    EXPECT_THAT(NotesOnNetwork(program, MakeCluster(""), network),
                ElementsAre("the last of 4 nodes has 1 rank, the others have 4, so the number of parallel rings over "
                            "the nodes is 1 instead of 4; 12 ranks would fill 3 nodes"));
  }
  EXPECT_THAT(NotesOnNetwork(program, MakeCluster("placement { nodes: [ 3, 2, 1, 0 ] }"), "analytic"),
              ElementsAre(HasSubstr("the last of 4 nodes has 1 rank,")));
  data.set_size(7);
  EXPECT_THAT(NotesOnNetwork(program, MakeCluster(""), "analytic"),
              ElementsAre(AllOf(HasSubstr("the last of 2 nodes has 3 ranks"), HasSubstr("is 3 instead of 4"),
                                HasSubstr("4 ranks would fill 1 node"))));
  // These numbers of ranks spread evenly over all nodes.
  for (const int ranks : {1, 3, 4, 6, 8, 9, 12}) {
    data.set_size(ranks);
    EXPECT_THAT(NotesOnNetwork(program, MakeCluster(""), "analytic"), IsEmpty()) << ranks;
  }
  // There is no note for other collectives, or for rings that have one member on every node.
  Program trees = RingProgram("tree");
  trees.mutable_mesh()->mutable_axes(0)->set_size(13);
  EXPECT_THAT(NotesOnNetwork(trees, MakeCluster(""), "analytic"), IsEmpty());
  data.set_size(3);
  EXPECT_THAT(NotesOnNetwork(program, MakeCluster("placement { devices: [ 0 ] }"), "analytic"), IsEmpty());
  EXPECT_THAT(NotesOnNetwork(program, MakeCluster("placement { devices: [ 0, 1 ] }"), "analytic"),
              ElementsAre(HasSubstr("the last of 2 nodes has 1 rank, the others have 2, so")));
  EXPECT_THAT(NotesOnNetwork(program, MakeCluster("placement { devices: [ 0, 1 ] }"), "nccl"), IsEmpty());
}

TEST(NotesOnNetwork, DevicesOfRanksThatThereAreNot) {
  const Cluster more = MakeCluster("placement { devices_of_ranks: [ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 ] }");
  for (const char* network : {"analytic", "nccl", "flow"}) {
    EXPECT_THAT(
        NotesOnNetwork(RingProgram(), more, network),
        ElementsAre(
            "cluster.placement.devices_of_ranks has 10 devices, but the program has 8 ranks; weft uses the first 8"))
        << network;
  }
}

TEST(NotesOnNetwork, RingsThatComeBackToANode) {
  const Cluster strided = MakeCluster("placement { devices_of_ranks: [ 0, 4, 8, 12, 1, 5, 9, 13 ] }");
  EXPECT_THAT(
      NotesOnNetwork(RingProgram(), strided, "analytic"),
      ElementsAre(AllOf(HasSubstr("8 times per round, although 4 would be enough"), HasSubstr("devices_of_ranks"))));
  for (const char* network : {"nccl", "flow"}) EXPECT_THAT(NotesOnNetwork(RingProgram(), strided, network), IsEmpty());
  // There is no note if the ranks of a node follow each other, in whatever order, or for another algorithm.
  EXPECT_THAT(NotesOnNetwork(RingProgram(), MakeCluster("placement { devices_of_ranks: [ 8, 9, 3, 2, 1, 0, 10, 11 ] }"),
                             "analytic"),
              IsEmpty());
  EXPECT_THAT(NotesOnNetwork(RingProgram("direct"), strided, "analytic"), IsEmpty());
  // This placement has fewer devices than the program has ranks.
  EXPECT_THAT(NotesOnNetwork(RingProgram(), MakeCluster("placement { devices_of_ranks: [ 0, 4 ] }"), "analytic"),
              IsEmpty());
}

}  // namespace
}  // namespace weft::sim
