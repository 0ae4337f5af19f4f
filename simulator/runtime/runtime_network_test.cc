#include "simulator/runtime/runtime_network.h"

#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::sim {
namespace {

// A collective takes 1 us plus 1 ns per byte.
class FakeNetwork : public NetworkModel {
 public:
  absl::StatusOr<TransferTime> Transfer(int64_t, int64_t, int64_t bytes) const override {
    return TransferTime{Time{bytes}, Time{3}};
  }
  absl::StatusOr<TransferTime> Collective(const CollectiveCall& call, const GroupForm&,
                                          absl::Span<const int64_t>) const override {
    int64_t bytes = 0;
    for (const CollectivePart& part : call.parts) bytes += part.elements * part.element_bytes;
    // An all-reduce on a ring moves twice the bytes of a gather.
    if (call.kind == CollectiveKind::kAllReduce) bytes *= 2;
    return TransferTime{Time{1'000'000 + 1000 * bytes}, Time{7}};
  }
  absl::StatusOr<Flow> CollectiveFlow(const CollectiveCall& call, const GroupForm&,
                                      absl::Span<const int64_t>) const override {
    return Flow{.phases = {{.fixed_ps = static_cast<int64_t>(call.parts.size())}}, .latency = Time{7}};
  }
};

AxisPart Part(AxisPart::Kind kind) { return {.kind = kind, .size = 0, .listed = {}}; }

struct Asked {
  Runtime runtime;
  Program program;
  GroupForm replicas, tensor, both;
  std::vector<int64_t> members = {0, 2, 4, 6};
  CollectiveCall gather = {.kind = CollectiveKind::kAllGather, .parts = {{10, 2}, {30, 2}}};

  explicit Asked(const std::string& text) {
    EXPECT_TRUE(ParseMessage(text, "test", &runtime).ok());
    EXPECT_TRUE(
        ParseMessage(R"(axes { name: "x" size: 2 } axes { name: "data" size: 4 })", "test", program.mutable_mesh())
            .ok());
    replicas = {Part(AxisPart::kOwn), Part(AxisPart::kAll)};
    tensor = {Part(AxisPart::kAll), Part(AxisPart::kOwn)};
    both = {Part(AxisPart::kAll), Part(AxisPart::kAll)};
  }

  TransferTime TimeOf(const CollectiveCall& call, const GroupForm& form) const {
    return *NetworkUnder(runtime, program, std::make_unique<FakeNetwork>())->Collective(call, form, members);
  }
};

TEST(RuntimeNetwork, TensorByTensor) {
  const Asked asked("states_per_tensor: true");
  EXPECT_EQ(asked.TimeOf(asked.gather, asked.replicas), (TransferTime{Time{2'080'000}, Time{7}}));
  // Gathers between ranks of one layer, and between all ranks, are not changed.
  EXPECT_EQ(asked.TimeOf(asked.gather, asked.tensor).occupancy, Time{1'080'000});
  EXPECT_EQ(asked.TimeOf(asked.gather, asked.both).occupancy, Time{1'080'000});
  CollectiveCall scatter = asked.gather;
  scatter.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(asked.TimeOf(scatter, asked.replicas).occupancy, Time{2'080'000});
  scatter.kind = CollectiveKind::kAllReduce;
  EXPECT_EQ(asked.TimeOf(scatter, asked.replicas).occupancy, Time{1'160'000});
}

TEST(RuntimeNetwork, TheHostHasWorkForEachMember) {
  const Asked asked("member_seconds: 1e-6");
  CollectiveCall call = asked.gather;
  EXPECT_EQ(asked.TimeOf(call, asked.replicas).occupancy, Time{5'080'000});
  call.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(asked.TimeOf(call, asked.replicas).occupancy, Time{5'080'000});
  call.kind = CollectiveKind::kAllReduce;
  EXPECT_EQ(asked.TimeOf(call, asked.replicas).occupancy, Time{1'160'000});
  EXPECT_EQ(asked.TimeOf(asked.gather, asked.tensor).occupancy, Time{1'080'000});
}

TEST(RuntimeNetwork, WeightsAreGatheredInTheTypeTheyAreKeptIn) {
  const Asked asked("gathered_weight_bytes: 0.5");
  EXPECT_EQ(asked.TimeOf(asked.gather, asked.replicas).occupancy, Time{1'040'000});
  // Gathers of activations and sums keep their bytes.
  EXPECT_EQ(asked.TimeOf(asked.gather, asked.tensor).occupancy, Time{1'080'000});
  CollectiveCall scatter = asked.gather;
  scatter.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(asked.TimeOf(scatter, asked.replicas).occupancy, Time{1'080'000});
  // Half of an odd number of elements is rounded up.
  CollectiveCall odd = asked.gather;
  odd.parts = {{7, 2}};
  EXPECT_EQ(asked.TimeOf(odd, asked.replicas).occupancy, Time{1'008'000});
}

TEST(RuntimeNetwork, GradientsAreSummedAsTheFrameworkDoes) {
  const Asked wide("sums_widened: true"), whole("sums_whole: true"), both("sums_widened: true sums_whole: true");
  CollectiveCall scatter = wide.gather;
  scatter.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(wide.TimeOf(scatter, wide.replicas).occupancy, Time{1'160'000});
  EXPECT_EQ(whole.TimeOf(scatter, whole.replicas).occupancy, Time{1'160'000});
  EXPECT_EQ(both.TimeOf(scatter, both.replicas).occupancy, Time{1'320'000});
  // Three calls do not change: a sum of activations between ranks of one layer, a gather, and a sum that is already in
  // fp32.
  EXPECT_EQ(both.TimeOf(scatter, both.tensor).occupancy, Time{1'080'000});
  EXPECT_EQ(both.TimeOf(both.gather, both.replicas).occupancy, Time{1'080'000});
  CollectiveCall fp32 = scatter;
  fp32.parts = {{10, 4}};
  EXPECT_EQ(wide.TimeOf(fp32, wide.replicas).occupancy, Time{1'040'000});
}

TEST(RuntimeNetwork, FlowsAlike) {
  const Asked asked("states_per_tensor: true member_seconds: 1e-6");
  const auto network = NetworkUnder(asked.runtime, asked.program, std::make_unique<FakeNetwork>());
  const Flow flow = *network->CollectiveFlow(asked.gather, asked.replicas, asked.members);
  ASSERT_EQ(flow.phases.size(), 4u);
  EXPECT_EQ(flow.phases[0].fixed_ps, 4'000'000);
  EXPECT_EQ(flow.phases[1].fixed_ps, 1);
  EXPECT_EQ(flow.phases[2].fixed_ps, 4'000'000);
  EXPECT_EQ(flow.latency, Time{7});
  EXPECT_EQ(network->CollectiveFlow(asked.gather, asked.tensor, asked.members)->phases.size(), 1u);
  EXPECT_EQ(network->Transfer(0, 1, 50)->occupancy, Time{50});
}

TEST(RuntimeNetwork, TransfersInParts) {
  const std::string parts = "transfers_in_parts: true";
  Asked asked(parts);
  const auto transfer = [&] {
    return *NetworkUnder(asked.runtime, asked.program, std::make_unique<FakeNetwork>())->Transfer(0, 2, 51);
  };
  // The transfer sends half of the bytes, rounded up. Then a gather of all bytes follows, with its latency.
  EXPECT_EQ(transfer(), (TransferTime{Time{26}, Time{3 + 1'051'000 + 7}}));
  // With sequence parallelism, each rank has only a part of the sequence and sends just that.
  Step* step = asked.program.add_segments()->add_steps();
  step->set_kernel(GROUP_REDUCE_SCATTER);
  step->mutable_collective()->set_purpose(TENSOR);
  EXPECT_EQ(transfer(), (TransferTime{Time{51}, Time{3}}));
  step->set_kernel(GROUP_ALL_REDUCE);
  EXPECT_EQ(transfer().occupancy, Time{26});
  // There is no other rank to share the transfer with.
  asked.program.mutable_mesh()->mutable_axes(0)->set_size(1);
  EXPECT_EQ(transfer(), (TransferTime{Time{51}, Time{3}}));
}

TEST(RuntimeNetwork, IsTheNetworkWhereARuntimeAddsNothing) {
  const Asked asked("name: 'plain'");
  auto fake = std::make_unique<FakeNetwork>();
  const NetworkModel* address = fake.get();
  EXPECT_EQ(NetworkUnder(asked.runtime, asked.program, std::move(fake)).get(), address);
}

}  // namespace
}  // namespace weft::sim
