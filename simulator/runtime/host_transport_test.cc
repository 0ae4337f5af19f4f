#include "simulator/runtime/host_transport.h"

#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::sim {
namespace {

// A transfer takes 1 ns per byte, and a collective takes 10 us.
class FakeNetwork : public NetworkModel {
 public:
  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t bytes) const override {
    return TransferTime{Time{1000 * bytes}, Time{3}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall&, const GroupForm&,
                                          absl::Span<const int64_t>) const override {
    return TransferTime{Time{10'000'000}, Time{7}};
  }
};

struct Asked {
  Runtime runtime;
  Program program;
  CollectiveCall call = {.kind = CollectiveKind::kAllReduce, .parts = {{1000, 4}}};

  explicit Asked(const std::string& text) {
    EXPECT_TRUE(ParseMessage(text, "test", &runtime).ok());
    EXPECT_TRUE(ParseMessage(R"(templates { body { id: 0 kind: ALL_REDUCE purpose: GRADIENT_SYNC stage: 0 }
                                            body { id: 1 kind: ALL_REDUCE purpose: GRADIENT_SYNC stage: 3 } })",
                             "test", &program)
                    .ok());
    call.algorithm = *FindCollective("ring");
  }

  std::unique_ptr<NetworkModel> Network() const {
    return ThroughHosts(runtime, program, std::make_unique<FakeNetwork>());
  }
  int64_t Collective() const { return Network()->Collective(call, {}, std::vector<int64_t>{0, 1, 2, 3})->occupancy.ps; }
};

TEST(HostTransport, TransfersAreMovedByAThread) {
  // 1000 bytes take 2 us on the thread and 5 us of latency.
  const Asked asked("host_transport { bytes_per_second: 5e8 latency_seconds: 5e-6 }");
  EXPECT_EQ(asked.Network()->Transfer(0, 1, 1000)->occupancy, Time{7'000'000});
  EXPECT_EQ(asked.Network()->Transfer(0, 1, 1000)->latency, Time{3});
  // Here the network is slower than the thread.
  EXPECT_EQ(Asked("host_transport { bytes_per_second: 1e12 }").Network()->Transfer(0, 1, 1000)->occupancy,
            Time{1'000'000});
}

TEST(HostTransport, CollectivesWaitForTheThreadAndEachRound) {
  // With four members, a ring sends 6 x 1000 bytes in 6 rounds.
  EXPECT_NEAR(Asked("host_transport { bytes_per_second: 1e8 latency_seconds: 1e-6 }").Collective(), 66e6, 1);
  EXPECT_EQ(Asked("host_transport { bytes_per_second: 1e12 }").Collective(), 10'000'000);
}

TEST(HostTransport, SumsOfSeveralStagesShareTheNetwork) {
  EXPECT_EQ(Asked("host_transport { } communicators_by_stage: true").Collective(), 20'000'000);
  // The time of the thread does not grow with the number of stages.
  EXPECT_NEAR(Asked("host_transport { bytes_per_second: 1e8 } communicators_by_stage: true").Collective(), 60e6, 1);
}

TEST(HostTransport, BytesOfMessagesAreThoseThatAnActionReadsAndMakes) {
  Program program;
  ASSERT_TRUE(ParseMessage(R"(templates {
      buffers { bytes: 100 } buffers { bytes: 1000 } buffers { bytes: 10000 }
      body { id: 0 kind: RECV destinations: 0 }
      body { id: 1 kind: FORWARD segment: 2 operands: [ 0, 1 ] deps { action: 0 } }
      body { id: 2 kind: SEND sources: 1 deps { action: 1 } }
      body { id: 3 kind: FORWARD segment: 3 operands: 2 deps { action: 0 distance: 1 } deps { action: 2 } }
      body { id: 4 kind: SEND sources: 2 deps { action: 3 } deps { action: 1 distance: 1 } }
      body { id: 5 kind: FORWARD segment: 2 operands: 0 deps { action: 0 } }
      body { id: 6 kind: FORWARD_BACKWARD segment: 4 operands: [ 0, 2 ] deps { action: 0 } }
      body { id: 7 kind: SEND sources: 2 deps { action: 6 } } })",
                           "test", &program)
                  .ok());
  EXPECT_EQ(MessageBytesOfSegments(program), (std::map<int32_t, int64_t>{{2, 1100}, {3, 10000}, {4, 10100}}));
}

// The forward reads a message that was sent at the end of the previous repetition. The message that the forward makes
// is sent in the next repetition.
TEST(HostTransport, MessagesMayBeUnderWayFromOneRepetitionToTheNext) {
  Program program;
  ASSERT_TRUE(ParseMessage(R"(templates {
      buffers { bytes: 100 } buffers { bytes: 1000 }
      body { id: 3 kind: SEND sources: 1 deps { action: 1 distance: 1 } }
      body { id: 1 kind: FORWARD segment: 0 operands: [ 0, 1 ] deps { action: 2 distance: 1 } deps { action: 3 } }
      body { id: 2 kind: RECV destinations: 0 deps { action: 1 } } })",
                           "test", &program)
                  .ok());
  EXPECT_EQ(MessageBytesOfSegments(program), (std::map<int32_t, int64_t>{{0, 1100}}));
}

TEST(HostTransport, IsTheNetworkIfNothingIsAsked) {
  EXPECT_EQ(Asked("host { transfer_seconds: 1e-6 }").Network()->Transfer(0, 1, 1000)->occupancy, Time{2'000'000});
  EXPECT_EQ(Asked("name: 'plain'").Network()->Transfer(0, 1, 1000)->occupancy, Time{1'000'000});
}

}  // namespace
}  // namespace weft::sim
