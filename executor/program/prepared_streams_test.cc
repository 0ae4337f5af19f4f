#include "executor/program/prepared_streams.h"

#include <memory>
#include <string>
#include <vector>

#include "executor/testing/deferred_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "tests/parse_text.h"

namespace weft::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A pipeline of three ranks. The middle rank passes activations one way and gradients the other. It takes part in two
// sums over all ranks, one of them in a segment. A third sum is over the two other ranks.
Program Pipeline() {
  return Parse<Program>(R"(
    mesh { axes { name: "pipe" size: 3 } }
    segments { steps { stream: COLLECTIVE collective { purpose: TENSOR group { axes { axis: "pipe" } } } } }
    templates { name: "first" pins { axis: "pipe" index: 0 } }
    templates { name: "middle" pins { axis: "pipe" index: 1 }
      body { id: 0 name: "from first" kind: RECV direction: TOWARDS_LOSS peer { at { axis: "pipe" index: 0 } } }
      body { id: 1 name: "to last" kind: SEND direction: TOWARDS_LOSS peer { at { axis: "pipe" index: 2 } } }
      body { id: 2 name: "from last" kind: RECV direction: FROM_LOSS peer { at { axis: "pipe" index: 2 } } }
      body { id: 3 name: "to first" kind: SEND direction: FROM_LOSS peer { at { axis: "pipe" index: 0 } } }
      body { id: 4 name: "norm" kind: ALL_REDUCE purpose: NORM_SYNC group { axes { axis: "pipe" } } }
      body { id: 5 name: "forward" kind: FORWARD segment: 0 }
      body { id: 6 name: "others" kind: ALL_REDUCE purpose: NORM_SYNC
        group { axes { axis: "pipe" indices: [0, 2] } } } })");
}

// The streams of the middle rank.
struct Middle {
  explicit Middle(const StreamPlan& plan = {}, ComputeDevice* device = nullptr)
      : host(MakeHostDevice()),
        made(program, 1, program.templates(1), device != nullptr ? *device : *host, nullptr, plan, streams) {
    EXPECT_EQ(made.Begin(), absl::OkStatus());
  }
  const Action& action(int i) const { return program.templates(1).body(i); }
  int Transfer(int i) {
    const absl::StatusOr<int> stream = made.TransferStream(action(i), PeerRank(program.mesh(), 1, action(i).peer()));
    EXPECT_TRUE(stream.ok()) << stream.status();
    return stream.value_or(-1);
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const PreparedStream& stream : streams) names.push_back(stream.name);
    return names;
  }

  const Program program = Pipeline();
  const std::unique_ptr<ComputeDevice> host;
  std::vector<PreparedStream> streams;
  PreparedStreams made;
};

TEST(PreparedStreams, TransfersShareThemAsThePlanSays) {
  Middle edges({.transfer_streams = PER_EDGE}), directions({.transfer_streams = PER_DIRECTION}),
      shared({.transfer_streams = SHARED});
  std::vector<int> of_edges, of_directions, of_all;
  for (int i = 0; i < 4; ++i) {
    of_edges.push_back(edges.Transfer(i));
    of_directions.push_back(directions.Transfer(i));
    of_all.push_back(shared.Transfer(i));
  }
  EXPECT_THAT(of_edges, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(of_directions, ElementsAre(3, 3, 4, 4));
  EXPECT_THAT(of_all, ElementsAre(3, 3, 3, 3));
  // A stream that exists is not made again.
  EXPECT_EQ(edges.Transfer(2), 5);
  EXPECT_EQ(edges.streams.size(), 7u);
  EXPECT_EQ(edges.streams[5].type, StreamType::kTransfers);
  EXPECT_THAT(shared.Names(), ElementsAre("compute", "d2h", "h2d", "p2p"));
}

TEST(PreparedStreams, ACommunicatorIsItsMembersAndItsPurpose) {
  Middle middle;
  const Action &norm = middle.action(4), &forward = middle.action(5), &others = middle.action(6);
  EXPECT_EQ(*middle.made.CommunicatorStream(norm.group(), norm.purpose(), norm), 3);
  const Step& step = middle.program.segments(0).steps(0);
  for (int again = 0; again < 2; ++again) EXPECT_EQ(*middle.made.StepStream(step, forward), 4);
  EXPECT_EQ(*middle.made.CommunicatorStream(norm.group(), norm.purpose(), norm), 3);
  ASSERT_EQ(middle.streams.size(), 5u);
  EXPECT_EQ(middle.streams[3].type, StreamType::kCollective);
  EXPECT_EQ(middle.streams[3].communicator->members(), 3);
  EXPECT_EQ(middle.streams[4].communicator->members(), 3);
  EXPECT_THAT(std::string(middle.made.CommunicatorStream(others.group(), others.purpose(), others).status().message()),
              HasSubstr("rank 1: action 6 'others': the rank is not in its own group"));
}

TEST(PreparedStreams, TheBackwardQueueIsOnTheStreamOfCompute) {
  DeferredDevice device(1);
  Middle middle({}, &device);
  EXPECT_EQ(middle.made.AddBackwardQueue(), 3);
  EXPECT_THAT(middle.Names(), ElementsAre("compute", "d2h", "h2d", "compute"));
  EXPECT_GE(middle.streams[0].device_stream, 0);
  EXPECT_EQ(middle.streams[3].device_stream, middle.streams[0].device_stream);
}

TEST(PreparedStreams, OnlyCopiesThatAreMadeGetAStreamOfTheDevice) {
  DeferredDevice device(1);
  Middle middle({}, &device);
  middle.streams[2].steps[kBodyList].push_back({});
  ASSERT_EQ(middle.made.UseCopies(), absl::OkStatus());
  EXPECT_EQ(middle.streams[1].device_stream, -1);
  EXPECT_GE(middle.streams[2].device_stream, 0);
  EXPECT_NE(middle.streams[2].device_stream, middle.streams[0].device_stream);
}

TEST(PreparedStreams, OneThatIsSharedSaysSo) {
  DeferredDevice device(1);
  // The budget has fewer streams than there are uses.
  Middle middle({.fold_budget = 2}, &device);
  for (int i = 0; i < 4; ++i) middle.Transfer(i);
  EXPECT_EQ(middle.Names()[0], "compute");
  EXPECT_THAT(middle.Names()[3], HasSubstr(" (device stream "));
  EXPECT_EQ(middle.streams[3].device_stream, middle.streams[5].device_stream);
  // The host has no device streams.
  Middle host;
  EXPECT_EQ(host.streams[0].device_stream, -1);
}

}  // namespace
}  // namespace weft::exec
