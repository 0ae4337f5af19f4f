#include "simulator/testing/cluster_oracle.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <utility>

#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "proto/util/step_runs.h"
#include "proto/util/units.h"
#include "schedules/collective/plan.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/collective_call.h"
#include "simulator/program/stream_key.h"

namespace weft::sim {
namespace {

int64_t RanksOf(const Program& program) {
  int64_t ranks = 1;
  for (const MeshAxis& axis : program.mesh().axes()) ranks *= axis.size();
  return ranks;
}

// The device of one rank: its figures are those of the last row of other_devices that names it, else of Cluster.device.
struct OwnDevice {
  const Device* device = nullptr;
  int64_t speed_millionths = 1000000;
};

OwnDevice FindDevice(const Cluster& cluster, int64_t number) {
  const auto names = [](const auto& list, int64_t what) {
    return list.empty() || std::count(list.begin(), list.end(), what) > 0;
  };
  OwnDevice own = {&cluster.device()};
  for (const OtherDevices& row : cluster.other_devices()) {
    const bool named = names(row.nodes(), number / cluster.devices_per_node()) &&
                       names(row.devices(), number % cluster.devices_per_node());
    if (!named) continue;
    own.device = row.has_device() ? &row.device() : &cluster.device();
    own.speed_millionths = row.speed() == 0 ? 1000000 : std::llround(row.speed() * 1000000);
  }
  return own;
}

CollectiveCall CallOf(const NaiveCollective& c) {
  CollectiveCall call;
  call.kind = static_cast<CollectiveKind>(c.kind);
  call.algorithm = *FindCollective(c.algorithm);
  for (size_t i = 0; i < c.source_bytes.size(); ++i) {
    const auto [source, destination] = c.types[i];
    CollectivePart& part = call.parts.emplace_back();
    part.element_bytes = DTypeBytes(source);
    part.elements = c.source_bytes[i] / part.element_bytes;
    if (c.kind == NaiveCollective::kAllGather) part.elements *= static_cast<int64_t>(c.members.size());
    part.one_by_one = c.kind == NaiveCollective::kReduceScatter && destination == EXACT192 && source != EXACT192;
  }
  return call;
}

template <typename T>
T Must(const absl::StatusOr<T>& value) {
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? *value : T{};
}

int64_t BytesOf(const Value& value) {
  int64_t bytes = DTypeBytes(value.dtype());
  for (const int64_t extent : value.shape()) bytes *= extent;
  return bytes;
}

// Joins the steps of one launch (docs/simulator.md) into one step: the step with the most bytes, with the work of all
// steps. If their kernels differ, bytes that a step reads do not count if an earlier step has read or written them.
Step JoinSteps(const Segment& segment, const std::vector<int>& launch) {
  Step one = segment.steps(launch[0]);
  int64_t most = one.work().bytes(), flops = 0, bytes = 0, again = 0;
  std::set<Kernel> kernels;
  // (operand, offset) of values that were read or written so far.
  std::set<std::pair<int32_t, int64_t>> known;
  for (const int s : launch) {
    const Step& step = segment.steps(s);
    flops += step.work().flops();
    bytes += step.work().bytes();
    kernels.insert(step.kernel());
    const auto place = [&](int v) { return std::pair(segment.values(v).operand(), segment.values(v).offset()); };
    for (const int read : step.inputs()) {
      if (known.count(place(read)) > 0) again += BytesOf(segment.values(read));
    }
    for (const auto* values : {&step.inputs(), &step.outputs()}) {
      for (const int v : *values) known.insert(place(v));
    }
    if (step.work().bytes() <= most) continue;
    most = step.work().bytes();
    one = step;
  }
  if (kernels.size() > 1) bytes -= again;
  one.mutable_work()->set_flops(flops);
  one.mutable_work()->set_bytes(std::max<int64_t>(0, bytes));
  return one;
}

// Returns the steps that the device runs when it is the step's turn. On GPUs on which weft's executor joins steps, all
// launches of joined steps run at the turn of the first step, and none at the turns of the others.
std::vector<Step> RunAt(const Program& program, const NaiveStepCall& call, const Device& device) {
  const Segment& segment = program.segments(call.segment);
  const Template& t = program.templates(TemplateOfRank(program, call.rank));
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) {
      if (action.id() != call.action_id || device.compute_capability() < 80) continue;
      for (const StepRange& range : FindStepRuns(action.kind(), PlacedStepsOf(program, t, action))) {
        if (call.step < range.first || call.step >= range.first + range.count) continue;
        std::vector<Step> steps;
        for (const std::vector<int>& launch : range.launches) {
          if (call.step == range.first) steps.push_back(JoinSteps(segment, launch));
        }
        return steps;
      }
    }
  }
  return {segment.steps(call.step)};
}

NaiveTime TimeOf(const TransferTime& time) { return {time.occupancy.ps, time.latency.ps}; }

NaiveTime TimeOf(const Flow& flow) {
  NaiveTime time = {0, flow.latency.ps};
  for (const FlowPhase& phase : flow.phases) {
    time.phases.push_back({phase.fixed_ps, phase.bytes, {phase.loads.begin(), phase.loads.end()}});
  }
  return time;
}

}  // namespace

std::vector<int64_t> DevicesOfRanks(const Cluster& cluster, int64_t ranks) {
  const Placement& placement = cluster.placement();
  if (placement.devices_of_ranks_size() > 0) {
    return {placement.devices_of_ranks().begin(), placement.devices_of_ranks().begin() + ranks};
  }
  std::vector<int64_t> nodes(placement.nodes().begin(), placement.nodes().end());
  if (nodes.empty()) {
    nodes.resize(cluster.nodes());
    std::iota(nodes.begin(), nodes.end(), 0);
  }
  std::vector<int64_t> devices(placement.devices().begin(), placement.devices().end());
  if (devices.empty()) {
    // Use the fewest nodes. If the ranks divide evenly over them, use the same number of devices on each node.
    int64_t each = cluster.devices_per_node();
    const int64_t used = ranks / each + (ranks % each != 0);
    if (used > 1 && ranks % used == 0) each = ranks / used;
    devices.resize(each);
    std::iota(devices.begin(), devices.end(), 0);
  }
  std::vector<int64_t> of_ranks;
  for (const int64_t node : nodes) {
    for (const int64_t device : devices) of_ranks.push_back(node * cluster.devices_per_node() + device);
  }
  of_ranks.resize(ranks);
  return of_ranks;
}

NaiveDurations ClusterDurations(const Program& program, const Cluster& cluster, const std::string& cost,
                                const NetworkModel& network) {
  struct Figures {
    const CostModelEntry* cost = nullptr;
    std::vector<OwnDevice> devices;
    // For each device, the cluster with devices of that kind only.
    std::map<const Device*, Cluster> clusters;
  };
  const auto figures = std::make_shared<Figures>();
  figures->cost = Must(FindCostModel(cost));
  for (const int64_t device : DevicesOfRanks(cluster, RanksOf(program))) {
    const OwnDevice own = FindDevice(cluster, device);
    figures->devices.push_back(own);
    Cluster alike = cluster;
    *alike.mutable_device() = *own.device;
    figures->clusters.insert({own.device, std::move(alike)});
  }

  NaiveDurations durations;
  durations.capacities = {network.LinkCapacities().begin(), network.LinkCapacities().end()};
  const bool flows = !durations.capacities.empty();
  durations.step = [&program, figures](const NaiveStepCall& call) -> int64_t {
    const Segment& segment = program.segments(call.segment);
    const Step& step = segment.steps(call.step);
    const OwnDevice& own = figures->devices[call.rank];
    CostOptions options;
    options.collectives = call.load;
    int64_t cost = 0;
    for (const Step& run : RunAt(program, call, *own.device)) {
      cost += Must(figures->cost->cost(run, ShapesOf(segment, run), call.kind, call.step,
                                       figures->clusters.at(own.device), options))
                  .ps;
    }
    if (step.stream() != COMPUTE) return cost;
    const __int128 slowed = static_cast<__int128>(cost) * 1000000 + own.speed_millionths - 1;
    return static_cast<int64_t>(slowed / own.speed_millionths);
  };
  durations.transfer = [&network, flows](int64_t source, int64_t destination, int64_t bytes) {
    if (flows) return TimeOf(Must(network.TransferFlow(source, destination, bytes)));
    return TimeOf(Must(network.Transfer(source, destination, bytes)));
  };
  durations.collective = [&program, &network, flows](const NaiveCollective& c) {
    const GroupForm form = CollectiveStream(program.mesh(), *c.t, *c.group, GRADIENT_SYNC).group;
    if (flows) return TimeOf(Must(network.CollectiveFlow(CallOf(c), form, c.members)));
    return TimeOf(Must(network.Collective(CallOf(c), form, c.members)));
  };
  return durations;
}

NaiveOptions ClusterOptions(const Program& program, const Cluster& cluster, int repetitions) {
  NaiveOptions options = {.repetitions = repetitions};
  if (cluster.compute_slots_per_node() < cluster.devices_per_node()) {
    options.slots_per_node = cluster.compute_slots_per_node();
  }
  options.turn = FromSeconds(cluster.compute_turn_seconds()).ps;
  for (const int64_t device : DevicesOfRanks(cluster, RanksOf(program))) {
    options.nodes.push_back(device / cluster.devices_per_node());
  }
  return options;
}

}  // namespace weft::sim
