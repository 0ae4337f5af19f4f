#include "planner/fit/fit.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/inputs/plan_inputs.h"
#include "planner/fit/changes.h"
#include "planner/fit/node_bytes.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/network/placement.h"

namespace weft::planner {
namespace {

constexpr int kSchemaVersion = 1;
// Plans with at most this much work are compiled: layers, and pairs of a stage and a microbatch.
constexpr int64_t kQuickLayers = 26;
constexpr int64_t kQuickPairs = 256;

bool IsQuick(const PlanInputs& inputs) {
  const ModelGraph& model = inputs.model;
  const int64_t layers = model.ops_size() == 0 ? 1 : model.ops(model.ops_size() - 1).layer() + 1;
  // The compiler compiles the plan several times for these settings.
  const bool chooses = inputs.plan.recompute().mode() == Recompute::FIT ||
                       inputs.plan.transfer_placement() == FASTEST || inputs.plan.zero().reshard() == Zero::BY_BENEFIT;
  return !chooses && layers <= kQuickLayers &&
         int64_t{inputs.schedule.stages} * inputs.schedule.lanes * inputs.microbatches <= kQuickPairs;
}

// The rows of a report, and the least headroom of a device: its capacity minus everything on it. The headroom is
// INT64_MAX if no device states its memory.
struct Rows {
  std::vector<FitStage> stages;
  int64_t headroom = std::numeric_limits<int64_t>::max();
};

// Writes ranks as text, e.g. "0-7, 64-71", and shortens the text after four ranges.
class RankRanges {
 public:
  void Add(int64_t rank) {
    if (!ranges_.empty() && ranges_.back().second == rank - 1) {
      ranges_.back().second = rank;
    } else {
      ranges_.emplace_back(rank, rank);
    }
    ++count_;
  }
  int64_t count() const { return count_; }
  std::string Text() const {
    constexpr size_t kShown = 4;
    std::string text;
    for (size_t i = 0; i < std::min(kShown, ranges_.size()); ++i) {
      const auto& [first, last] = ranges_[i];
      absl::StrAppend(&text, i == 0 ? "" : ", ", first, first == last ? "" : absl::StrCat("-", last));
    }
    return ranges_.size() > kShown ? absl::StrCat(text, ", …") : text;
  }

 private:
  std::vector<std::pair<int64_t, int64_t>> ranges_;
  int64_t count_ = 0;
};

void FillBytes(const RankMemory& memory, const Device& device, FitStage* row) {
  const auto bytes = [&](BufferClass c) { return memory.classes[c]; };
  FitClasses& classes = *row->mutable_classes();
  classes.set_parameters_bytes(bytes(PARAMETER));
  classes.set_gradients_bytes(bytes(GRADIENT));
  classes.set_optimizer_bytes(bytes(OPTIMIZER));
  classes.set_saved_activations_bytes(bytes(SAVED_ACTIVATION) + bytes(SAVED_GRADIENT));
  classes.set_in_flight_bytes(bytes(IN_FLIGHT_ACTIVATION) + bytes(COMMUNICATION));
  classes.set_workspace_bytes(bytes(WORKSPACE));
  int64_t sum = bytes(BUFFER_CLASS_UNSPECIFIED);
  for (int c = 1; c < BufferClass_ARRAYSIZE; ++c) sum += memory.classes[c];
  classes.set_gaps_bytes(std::max<int64_t>(0, memory.planned_bytes - sum));
  row->set_planned_bytes(memory.planned_bytes);
  row->set_reserve_bytes(device.reserved_bytes() + memory.device_bytes - memory.planned_bytes);
  row->set_capacity_bytes(device.memory_bytes());
  const int64_t headroom = device.memory_bytes() - row->planned_bytes() - row->reserve_bytes();
  row->set_headroom_bytes(device.memory_bytes() > 0 ? headroom : 0);
  row->set_fits(device.memory_bytes() <= 0 || headroom >= 0);
}

// Returns one row for each pipe rank and kind of device.
absl::StatusOr<Rows> RowsOf(const PlanMemory& memory, const PlanInputs& inputs) {
  const Mesh& mesh = inputs.plan.mesh();
  WEFT_ASSIGN_OR_RETURN(const sim::RankPlacement placement, sim::RankPlacement::Make(MeshRanks(mesh), inputs.cluster));
  // By pipe rank and kind of device.
  std::map<std::pair<int64_t, int32_t>, RankRanges> groups;
  for (int64_t rank = 0; rank < placement.ranks(); ++rank) {
    groups[{AxisCoordinate(mesh, rank, "pipe"), placement.KindOf(rank)}].Add(rank);
  }
  Rows rows;
  for (const auto& [key, ranks] : groups) {
    const auto& [pipe, kind] = key;
    FitStage row;
    row.set_ranks(ranks.Text());
    row.set_rank_count(ranks.count());
    for (const std::vector<int>& lane : inputs.schedule.placement) {
      for (size_t stage = 0; stage < lane.size(); ++stage) {
        const bool known = std::count(row.stages().begin(), row.stages().end(), static_cast<int32_t>(stage)) > 0;
        if (lane[stage] == pipe && !known) row.add_stages(static_cast<int32_t>(stage));
      }
    }
    FillBytes(memory.ranks[pipe], *placement.kinds()[kind], &row);
    if (row.capacity_bytes() > 0) rows.headroom = std::min(rows.headroom, row.headroom_bytes());
    rows.stages.push_back(std::move(row));
  }
  return rows;
}

// Compiles the plan or estimates it.
absl::StatusOr<PlanMemory> MemoryOfPlan(const FitOptions& options, const PlanInputs& inputs,
                                        MemoryEstimator* estimator) {
  if (options.exact || IsQuick(inputs)) return estimator->Compile(options.recipe, options.plan);
  absl::StatusOr<PlanMemory> estimate = estimator->Estimate(options.recipe, options.plan);
  if (absl::IsUnimplemented(estimate.status())) return estimator->Compile(options.recipe, options.plan);
  WEFT_RETURN_IF_ERROR(estimate.status());
  // Compile the plan if the estimate is too close to the capacity to decide. Recompute FIT always comes close to the
  // capacity, so an estimate that fits is enough.
  const auto most = static_cast<double>(estimate->MostDeviceBytes()),
             capacity = static_cast<double>(estimator->capacity());
  const bool unclear = most < capacity * (1 + estimate->error) && most * (1 + estimate->error) > capacity;
  const bool fit = options.plan.recompute().mode() == Recompute::FIT && most <= capacity;
  if (!unclear || fit) return estimate;
  absl::StatusOr<PlanMemory> quick = estimator->Compile(options.recipe, options.plan, /*quickly=*/true);
  if (!quick.ok() || quick->MostDeviceBytes() <= estimator->capacity()) return quick;
  return estimator->Compile(options.recipe, options.plan);
}

}  // namespace

absl::StatusOr<FitReport> Fit(const FitOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const PlanInputs inputs,
                        ResolveInputs(options.model, options.recipe, options.plan, options.cluster, /*notes=*/nullptr));
  MemoryEstimator estimator(options.model, options.cluster, options.cost, options.runtime);
  WEFT_ASSIGN_OR_RETURN(const PlanMemory memory, MemoryOfPlan(options, inputs, &estimator));
  WEFT_ASSIGN_OR_RETURN(Rows rows, RowsOf(memory, inputs));
  FitReport report;
  report.set_schema_version(kSchemaVersion);
  report.set_runtime(options.runtime == nullptr ? "weft" : options.runtime->name());
  report.set_model(options.model.name());
  report.set_cluster(options.cluster.name());
  report.set_devices(MeshRanks(inputs.plan.mesh()));
  report.set_basis(memory.basis == Basis::kCompiled ? COMPILED : ESTIMATED);
  report.set_error(memory.error);
  report.mutable_stages()->Add(rows.stages.begin(), rows.stages.end());
  const bool known = rows.headroom < std::numeric_limits<int64_t>::max();
  report.set_headroom_bytes(known ? rows.headroom : 0);
  report.set_planned_host_bytes(FullestNodeBytes(memory, inputs.plan.mesh(), options.cluster));
  report.set_host_capacity_bytes(options.cluster.host_memory_bytes());
  const bool device_fits = !known || rows.headroom >= 0;
  const bool host_fits =
      options.cluster.host_memory_bytes() <= 0 || report.planned_host_bytes() <= options.cluster.host_memory_bytes();
  report.set_fits(device_fits && host_fits);
  if (options.wanted <= 0 || !known) return report;
  if (report.fits()) {
    for (FitChange& change : RelaxationsOf(options, &estimator)) *report.add_relaxations() = std::move(change);
    return report;
  }
  const Shortage shortage{.host = device_fits,
                          .capacity = device_fits ? options.cluster.host_memory_bytes() : estimator.capacity()};
  for (FitChange& change : RemediesOf(options, shortage, &estimator)) *report.add_remedies() = std::move(change);
  return report;
}

}  // namespace weft::planner
