#include "planner/search/expected_network.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "planner/search/plan_bound.h"
#include "proto/program.pb.h"
#include "proto/util/mesh.h"
#include "schedules/collective/plan.h"
#include "simulator/network/network_model.h"
#include "simulator/runtime/host_transport.h"
#include "simulator/runtime/runtime_network.h"

namespace weft::planner {
namespace {

// Bytes of the elements of collectives. Only their product with the number of elements matters.
constexpr int64_t kElementBytes = 4;

class Network {
 public:
  // Everything is borrowed. Null `network` = no times are known.
  Network(const sim::NetworkModel& network, const Mesh& mesh) : network_(network), mesh_(mesh) {}

  int64_t Message(int64_t from, int64_t to, int64_t bytes) const {
    const auto time = network_.Transfer(from, to, bytes);
    return time.ok() ? time->occupancy.ps + time->latency.ps : 0;
  }

  // A collective over one axis.
  int64_t Collective(CollectiveKind kind, const CollectiveEntry& algorithm, absl::string_view axis, sim::AxisPart part,
                     int64_t bytes) const {
    sim::GroupForm form(mesh_.axes_size());
    for (int i = 0; i < mesh_.axes_size(); ++i) {
      if (mesh_.axes(i).name() == axis) form[i] = part;
    }
    const sim::CollectiveCall call{kind, &algorithm, {{std::max<int64_t>(1, bytes / kElementBytes), kElementBytes}}};
    const auto time = network_.Collective(call, form, sim::FormMembers(mesh_, 0, form));
    return time.ok() ? time->occupancy.ps + time->latency.ps : 0;
  }

  CollectiveTimes TimesOf(CollectiveKind kind, const CollectiveEntry& algorithm, const sim::AxisPart& part,
                          absl::string_view axis = "data") const {
    std::array<int64_t, CollectiveTimes::kSizes.size()> times = {};
    for (size_t i = 0; i < times.size(); ++i) {
      times[i] = Collective(kind, algorithm, axis, part, CollectiveTimes::kSizes[i]);
    }
    return CollectiveTimes(times);
  }

 private:
  const sim::NetworkModel& network_;
  const Mesh& mesh_;
};

// The network as the runtime uses it. Its figures that depend on the program, other than its mesh, are left out.
std::unique_ptr<sim::NetworkModel> NetworkOf(const SearchContext& context, const Program& program,
                                             const Runtime& runtime) {
  const absl::StatusOr<const sim::NetworkModelEntry*> entry = sim::FindNetworkModel(context.network);
  if (!entry.ok()) return nullptr;
  std::unique_ptr<sim::NetworkModel> network = (*entry)->make(program.mesh(), context.cluster);
  if (context.runtime == nullptr) return network;
  return sim::ThroughHosts(runtime, program, sim::NetworkUnder(runtime, program, std::move(network)));
}

}  // namespace

int64_t CollectiveTimes::At(double bytes) const {
  if (!(bytes > 0)) return 0;
  size_t i = 1;
  while (i + 1 < kSizes.size() && bytes > static_cast<double>(kSizes[i])) ++i;
  const auto low = static_cast<double>(kSizes[i - 1]), high = static_cast<double>(kSizes[i]);
  const auto at_low = static_cast<double>(times_[i - 1]), at_high = static_cast<double>(times_[i]);
  const double time = at_low + (at_high - at_low) * (bytes - low) / (high - low);
  return static_cast<int64_t>(std::max(time, 0.0));
}

ExpectedNetwork ExpectedNetworkOf(const SearchContext& context, const Plan& plan, int64_t activation_bytes,
                                  int64_t gradient_bytes) {
  ExpectedNetwork times;
  const auto algorithm = FindCollective(plan.collective().empty() ? "ring" : plan.collective());
  const auto direct = FindCollective("direct");
  if (!algorithm.ok() || !direct.ok()) return times;
  Program program;
  *program.mutable_mesh() = plan.mesh();
  program.set_stages(static_cast<int32_t>(AxisSize(plan.mesh(), "pipe")));
  Runtime runtime = context.runtime == nullptr ? Runtime() : *context.runtime;
  // Each rank then has only its part of the activations anyway.
  if (plan.sequence_parallel()) runtime.set_transfers_in_parts(false);
  const std::unique_ptr<sim::NetworkModel> model = NetworkOf(context, program, runtime);
  if (model == nullptr) return times;
  const Mesh& mesh = program.mesh();
  const Network network(*model, mesh);
  const int64_t pipe = AxisSize(mesh, "pipe"), data = AxisSize(mesh, "data"), group = ReplicasThatShare(plan);
  const sim::AxisPart all{.kind = sim::AxisPart::kAll, .size = 0, .listed = {}};
  if (pipe > 1) {
    int64_t stride = 1;
    for (const MeshAxis& axis : mesh.axes()) {
      if (axis.name() == "pipe") break;
      stride *= axis.size();
    }
    // The slowest of the steps from rank to rank.
    for (int64_t p = 0; p + 1 < pipe; ++p) {
      const int64_t from = p * stride, to = from + stride;
      times.forward_message = std::max(times.forward_message, network.Message(from, to, activation_bytes));
      times.backward_message = std::max(times.backward_message, network.Message(to, from, gradient_bytes));
    }
    times.norm += network.Collective(CollectiveKind::kAllReduce, **direct, "pipe", all, 1 << 10);
    times.tied = network.TimesOf(CollectiveKind::kAllReduce, **direct,
                                 {.kind = sim::AxisPart::kListed, .size = 0, .listed = {0, pipe - 1}}, "pipe");
  }
  if (data == 1) return times;
  times.sum = network.TimesOf(CollectiveKind::kAllReduce, **algorithm, all);
  const sim::AxisPart block{.kind = sim::AxisPart::kBlock, .size = group, .listed = {}};
  const sim::AxisPart& sharing = group == data ? all : block;
  times.gather = network.TimesOf(CollectiveKind::kAllGather, **algorithm, sharing);
  times.scatter = network.TimesOf(CollectiveKind::kReduceScatter, **algorithm, sharing);
  if (group > 1 && group < data) {
    times.sum_of_parts = network.TimesOf(CollectiveKind::kAllReduce, **algorithm,
                                         {.kind = sim::AxisPart::kStride, .size = group, .listed = {}});
  }
  if (plan.zero().stage() >= 1) {
    times.norm += network.Collective(CollectiveKind::kAllReduce, **direct, "data", sharing, 1 << 10);
  }
  return times;
}

}  // namespace weft::planner
