#include "compiler/segments/slot_costs.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/network/network_model.h"

namespace weft {
namespace {

constexpr int64_t kUnits = 1'000'000;
constexpr double kLongestTransfer = 1000.0 * kUnits;

// Rank of the first data replica at this pipe rank.
int64_t RankAt(const Mesh& mesh, int pipe) {
  std::vector<int64_t> coordinates;
  for (const MeshAxis& axis : mesh.axes()) coordinates.push_back(axis.name() == "pipe" ? pipe : 0);
  return CoordinatesRank(mesh, coordinates);
}

// Bytes of one microbatch that a stage sends in this role; 0 if it has no such operand.
int64_t BoundaryBytes(const SegmentSet& segments, int stage, ir::Role role) {
  int64_t bytes = 0;
  for (const StageSegment& segment : segments.segments) {
    if (segment.stage != stage || segment.rank >= 0 || segment.width > 1) continue;
    for (const SegmentOperand& operand : segment.operands) {
      if (operand.role == role && operand.use == 0) bytes = std::max(bytes, operand.bytes);
    }
  }
  return bytes;
}

// True if computation waits for a collective step: the next compute step waits for it, or there is no next one.
bool Blocks(const Segment& segment, int index) {
  if (segment.steps(index).detached()) return false;
  for (int i = index + 1; i < segment.steps_size(); ++i) {
    const Step& step = segment.steps(i);
    if (step.stream() != COLLECTIVE)
      return std::find(step.deps().begin(), step.deps().end(), index) != step.deps().end();
  }
  return true;
}

absl::StatusOr<double> SlowestTransfer(const SegmentSet& segments, const PipelineSchedule& schedule, const Mesh& mesh,
                                       const Cluster& cluster) {
  WEFT_ASSIGN_OR_RETURN(const sim::NetworkModelEntry* entry, sim::FindNetworkModel("analytic"));
  const std::unique_ptr<sim::NetworkModel> network = entry->make(mesh, cluster);
  double slowest = 0;
  for (int stage = 0; stage + 1 < schedule.stages; ++stage) {
    const int64_t activation = BoundaryBytes(segments, stage, ir::Role::Output);
    const int64_t gradient = BoundaryBytes(segments, stage + 1, ir::Role::InputGrad);
    for (const std::vector<int>& lane : schedule.placement) {
      if (lane[stage] == lane[stage + 1]) continue;
      const int64_t from = RankAt(mesh, lane[stage]), to = RankAt(mesh, lane[stage + 1]);
      WEFT_ASSIGN_OR_RETURN(const sim::TransferTime forward, network->Transfer(from, to, activation));
      WEFT_ASSIGN_OR_RETURN(const sim::TransferTime backward, network->Transfer(to, from, gradient));
      for (const sim::TransferTime& time : {forward, backward}) {
        slowest = std::max(slowest, static_cast<double>(time.occupancy.ps) + static_cast<double>(time.latency.ps));
      }
    }
  }
  return slowest;
}

}  // namespace

absl::StatusOr<SlotCosts> SlotCostsOf(const SegmentSet& segments, const PipelineSchedule& schedule,
                                      const StepCost& cost, const Mesh& mesh, const Cluster& cluster) {
  double forward = 0, backward = 0, input = 0, weight = 0;
  for (const StageSegment& segment : segments.segments) {
    double* sum = nullptr;
    if (segment.kind == ir::SegmentKind::Forward) sum = &forward;
    if (segment.kind == ir::SegmentKind::Backward) sum = &backward;
    if (segment.kind == ir::SegmentKind::BackwardInput) sum = &input;
    if (segment.kind == ir::SegmentKind::BackwardWeight) sum = &weight;
    if (sum == nullptr) continue;
    for (int i = 0; i < segment.segment.steps_size(); ++i) {
      const Step& step = segment.segment.steps(i);
      // A collective that runs beside computation adds no time to the slot.
      if (step.stream() == COLLECTIVE && !Blocks(segment.segment, i)) continue;
      WEFT_ASSIGN_OR_RETURN(int64_t ps, cost(segment.segment, step, sum == &forward ? FORWARD : BACKWARD));
      *sum += static_cast<double>(ps);
    }
  }
  if (input + weight > 0) backward = input + weight;
  SlotCosts result;
  if (forward + backward <= 0) return result;
  result.forward = std::clamp<int64_t>(std::llround(kUnits * (forward / (forward + backward))), 1, kUnits - 2);
  result.backward = kUnits - result.forward;
  // If no backward is split, nothing uses `weight`, so any share will do.
  const double share = input + weight > 0 ? weight / backward : 0.5;
  result.weight =
      std::clamp<int64_t>(std::llround(static_cast<double>(result.backward) * share), 1, result.backward - 1);
  WEFT_ASSIGN_OR_RETURN(const double transfer, SlowestTransfer(segments, schedule, mesh, cluster));
  const double rank = (forward + backward) / static_cast<double>(schedule.order.size());
  result.p2p = std::llround(std::min(kUnits * (transfer / rank), kLongestTransfer));
  return result;
}

}  // namespace weft
