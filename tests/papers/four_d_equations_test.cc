// Compares one fully connected layer on axes x, y, z and data with the communication model of Singh et al., "A 4D
// hybrid algorithm to scale parallel training to thousands of GPUs" (arXiv:2305.13525): bytes by equations 4 to 8, time
// by their sum (9) with the bandwidths of equation 10. Latency and overhead are 0 and transfers form rings, as the
// model assumes.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "planner/presets/four_d_model.h"
#include "simulator/engine/engine.h"
#include "simulator/metrics/sent_bytes.h"

namespace weft {
namespace {

constexpr int64_t kM = 64, kK = 48, kN = 96;  // rows of the batch, inputs, outputs
constexpr int64_t kElement = 4;
constexpr double kInter = 1e9, kIntra = 1e10;
const char* const kAxes[] = {"x", "y", "z", "data"};

struct Sizes {
  std::array<int64_t, 4> g;
  int64_t node = 1;
};

int AddValue(Segment& segment, int64_t elements) {
  segment.add_values()->set_dtype(FP32);
  segment.mutable_values(segment.values_size() - 1)->add_shape(elements);
  return segment.values_size() - 1;
}

// Adds a blocking collective of `whole` elements after the segment's last step.
void AddCollective(Segment& segment, Kernel kernel, int axis, Purpose purpose, int64_t whole, const Sizes& sizes) {
  const int before = segment.steps_size() - 1;
  const int64_t part = whole / sizes.g[axis];
  Step* step = segment.add_steps();
  if (before >= 0) step->add_deps(before);
  step->set_stream(COLLECTIVE);
  step->set_kernel(kernel);
  step->add_inputs(AddValue(segment, kernel == GROUP_ALL_GATHER ? part : whole));
  step->add_outputs(AddValue(segment, kernel == GROUP_REDUCE_SCATTER ? part : whole));
  step->mutable_collective()->mutable_group()->add_axes()->set_axis(kAxes[axis]);
  step->mutable_collective()->set_purpose(purpose);
  step->mutable_collective()->set_algorithm("ring");
}

// Algorithm 1 of the paper, with one collective after the other.
Program Layer(const Sizes& sizes) {
  Program program;
  for (int i = 0; i < 4; ++i) {
    program.mutable_mesh()->add_axes()->set_name(kAxes[i]);
    program.mutable_mesh()->mutable_axes(i)->set_size(sizes.g[i]);
  }
  const auto [x, y, z, data] = sizes.g;
  Segment& forward = *program.add_segments();
  AddCollective(forward, GROUP_ALL_GATHER, 2, GATHER_WEIGHTS, kK * kN / (x * y), sizes);
  AddCollective(forward, GROUP_ALL_REDUCE, 1, TENSOR, kM * kN / (z * x), sizes);
  Segment& backward = *program.add_segments();
  AddCollective(backward, GROUP_ALL_REDUCE, 0, TENSOR, kM * kK / (z * y), sizes);
  AddCollective(backward, GROUP_REDUCE_SCATTER, 2, SCATTER_GRADIENTS, kK * kN / (x * y), sizes);
  Template* t = program.add_templates();
  t->add_buffers()->set_dtype(FP32);
  t->mutable_buffers(0)->set_bytes(kElement * kK * kN / (x * y * z));
  t->mutable_buffers(0)->set_persistent(true);
  for (int i = 0; i < 3; ++i) {
    Action* action = t->add_body();
    action->set_id(i);
    action->set_kind(i == 0 ? FORWARD : i == 1 ? BACKWARD : ALL_REDUCE);
    action->set_segment(i);
    if (i > 0) action->add_deps()->set_action(i - 1);
  }
  Action* sync = t->mutable_body(2);
  sync->add_sources(0);
  sync->add_destinations(0);
  sync->set_algorithm("ring");
  sync->set_purpose(GRADIENT_SYNC);
  sync->mutable_group()->add_axes()->set_axis("data");
  return program;
}

TEST(FourDEquations, BytesAndTimes) {
  const Sizes cases[] = {{{2, 2, 2, 2}, 4}, {{2, 2, 2, 2}, 1}, {{4, 1, 2, 2}, 4}, {{1, 4, 2, 2}, 8},
                         {{2, 4, 4, 1}, 4}, {{8, 2, 1, 2}, 4}, {{1, 1, 8, 4}, 4}, {{1, 1, 1, 8}, 4},
                         {{4, 4, 2, 4}, 8}, {{2, 2, 2, 2}, 16}};
  for (const Sizes& sizes : cases) {
    SCOPED_TRACE(testing::Message() << sizes.g[0] << " " << sizes.g[1] << " " << sizes.g[2] << " " << sizes.g[3]
                                    << " on nodes of " << sizes.node);
    const auto [x, y, z, data] = sizes.g;
    const Program program = Layer(sizes);
    const auto view =
        sim::BuildProgramView(program, [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; }, {});
    ASSERT_TRUE(view.ok()) << view.status();

    // Elements by equations 4 to 8, for groups of G members. A gather or scatter sends (G-1) m, where m is the part of
    // one member. A sum sends 2 (G-1)/G m, where m is the whole buffer.
    const int64_t gather = (z - 1) * kK * kN / (x * y * z);
    const int64_t scatter = (z - 1) * kK * kN / (x * y * z);
    const int64_t output = 2 * (y - 1) * kM * kN / (z * x * y);
    const int64_t input = 2 * (x - 1) * kM * kK / (z * y * x);
    const int64_t sync = 2 * (data - 1) * kK * kN / (x * y * z * data);
    std::map<std::string, int64_t> expected = {{"gather_weights", kElement * gather},
                                               {"scatter_gradients", kElement * scatter},
                                               {"tensor", kElement * (output + input)},
                                               {"gradient_sync", kElement * sync}};
    std::erase_if(expected, [](const auto& row) { return row.second == 0; });
    EXPECT_EQ(sim::BytesSent(program.mesh(), view->templates[0]), expected);

    Cluster cluster;
    cluster.set_nodes(16);
    cluster.set_devices_per_node(sizes.node);
    cluster.set_nics_per_node(1);
    cluster.mutable_intra_node()->set_bytes_per_second(kIntra);
    cluster.mutable_inter_node()->set_bytes_per_second(kInter);
    const auto network = (*sim::FindNetworkModel("analytic"))->make(program.mesh(), cluster);
    const auto result = sim::RunEngine(*view, *network, {.devices_per_node = sizes.node});
    ASSERT_TRUE(result.ok()) << result.status();
    const FourDGrid grid = {x, y, z, data};
    const double seconds =
        FourDLayerSeconds({.inputs = kK, .outputs = kN}, grid, static_cast<double>(kM), static_cast<double>(kElement),
                          PlacementAwareBandwidths(grid, sizes.node, kIntra, kInter));
    // Five durations, each rounded up once.
    EXPECT_NEAR(static_cast<double>(result->makespan.ps), seconds * 1e12, 6);
  }
}

}  // namespace
}  // namespace weft
