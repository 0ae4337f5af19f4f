#include "compiler/compile.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "compiler/asynchronous.h"
#include "compiler/choose_recompute.h"
#include "compiler/collective_cost.h"
#include "compiler/diagnostic_status.h"
#include "compiler/export_program.h"
#include "compiler/freeze_schedule.h"
#include "compiler/import_graph.h"
#include "compiler/memory_fit.h"
#include "compiler/plan_check.h"
#include "compiler/plan_schedule.h"
#include "compiler/post_validation.h"
#include "compiler/rank_passes.h"
#include "compiler/rank_program.h"
#include "compiler/schedule_segments.h"
#include "compiler/segments.h"
#include "compiler/slot_costs.h"
#include "compiler/ways_out.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "proto/io.h"
#include "proto/mesh.h"
#include "proto/status.h"
#include "proto/validate.h"
#include "proto/verify/verify.h"
#include "proto/version.h"
#include "schedules/collective/plan.h"
#include "schedules/pipeline/check.h"
#include "schedules/pipeline/schedule.h"
#include "schedules/pipeline/schedule_text.h"
#include "simulator/cost/cost_model.h"
#include "simulator/simulate.h"

namespace weft {
namespace {

// Specs with their defaults filled in, and what follows from them together.
struct Inputs {
  ModelGraph model;
  Recipe recipe;
  Plan plan;
  Cluster cluster;
  int32_t microbatches = 1;
  // Stages, lanes and placement are as with the costs of this plan, the order of slots need not be.
  PipelineSchedule schedule = {};
  // Of a schedule that never flushes; `microbatches` are those of an optimizer step.
  std::optional<AsynchronousPlan> asynchronous = {};
};

// Without `recipe.dropout` a model trains without dropout, whatever its config says; that is worth a note.
void ResolveDropout(const ModelGraph& model, Recipe& recipe, std::vector<std::string>* notes) {
  if (recipe.has_dropout()) return;
  double most = 0;
  for (const GraphOp& op : model.ops()) most = std::max(most, op.attributes().dropout());
  recipe.set_dropout(0);
  if (most > 0 && notes != nullptr) {
    notes->push_back(absl::StrFormat(
        "the model's config has dropout %g, but recipe.dropout is not set: training is without dropout", most));
  }
}

// Costing a collective needs no list of its messages, running it does; a plan that is only simulated may be larger.
void NoteLargeGroups(const Mesh& mesh, std::vector<std::string>* notes) {
  if (notes == nullptr) return;
  for (const MeshAxis& axis : mesh.axes()) {
    if (axis.size() <= kMaximumPlanMembers) continue;
    notes->push_back(absl::StrCat("plan.mesh: axis '", axis.name(), "' has ", axis.size(),
                                  " ranks; sums over more than ", kMaximumPlanMembers,
                                  " can be simulated, but weft run refuses them"));
  }
}

// With backward halving, what the recipe calls a microbatch is forwarded at once, and each half of it has a backward:
// the halves are the program's microbatches.
absl::Status HalveMicrobatches(Recipe& recipe) {
  const int64_t sequences = recipe.microbatch_sequences();
  if (sequences % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.schedule.scaling = BACKWARD_HALVING halves microbatches: "
        "recipe.microbatch_sequences = ",
        sequences, " must be even; nearest: ", sequences > 1 ? absl::StrCat(sequences - 1, ", ") : "", sequences + 1));
  }
  recipe.set_microbatch_sequences(sequences / 2);
  return absl::OkStatus();
}

absl::Status CheckLayersPerStage(const Plan& plan, int stages) {
  const int given = plan.partition().layers_per_stage_size();
  if (given == 0 || given == stages) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plan.partition.layers_per_stage has ", given,
                                                 " entries; it must have ", stages, ", one per stage, or none"));
}

absl::StatusOr<Inputs> Resolve(const ModelGraph& model, const Recipe& recipe, const Plan& plan, const Cluster& cluster,
                               std::vector<std::string>* notes) {
  Inputs inputs{model, recipe, plan, cluster};
  WEFT_RETURN_IF_ERROR(Validate(inputs.model));
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&inputs.recipe));
  WEFT_RETURN_IF_ERROR(Validate(inputs.cluster));
  WEFT_RETURN_IF_ERROR(ValidateAndResolve(&inputs.plan, inputs.cluster.device()));
  WEFT_RETURN_IF_ERROR(ValidateTogether(inputs.recipe, inputs.model));
  WEFT_RETURN_IF_ERROR(ValidateTogether(inputs.plan, inputs.cluster));
  const PlanSchedule& schedule = inputs.plan.schedule();
  if (schedule.scaling() == PlanSchedule::BACKWARD_HALVING) WEFT_RETURN_IF_ERROR(HalveMicrobatches(inputs.recipe));
  WEFT_ASSIGN_OR_RETURN(int64_t microbatches, MicrobatchesPerReplica(inputs.recipe, inputs.plan.mesh()));
  // Before any list is built: a program has an action or more per stage and microbatch.
  constexpr int64_t kMostPairs = int64_t{1} << 18;
  const int64_t ranks = AxisSize(inputs.plan.mesh(), "pipe");
  auto check_pairs = [&](int64_t stages) {
    if (microbatches <= kMostPairs / stages) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("recipe.global_batch_sequences = ", inputs.recipe.global_batch_sequences(), " gives ",
                     microbatches, " microbatches per replica; at most ", kMostPairs / stages, " for ", stages,
                     stages == ranks ? " pipe ranks" : " stages",
                     ": use a larger recipe.microbatch_sequences or more data replicas"));
  };
  WEFT_RETURN_IF_ERROR(check_pairs(ranks));
  inputs.microbatches = static_cast<int32_t>(microbatches);
  WEFT_RETURN_IF_ERROR(FindCollective(inputs.plan.collective()).status());
  WEFT_RETURN_IF_ERROR(CheckScheduleName(schedule));
  const ScheduleChoice choice = ChoiceOf(schedule, static_cast<int>(ranks), inputs.microbatches, {});
  Recipe asked = inputs.recipe;
  asked.set_steps(recipe.steps());
  WEFT_ASSIGN_OR_RETURN(inputs.asynchronous, AsynchronousOf(choice, asked, inputs.plan));
  if (inputs.asynchronous) {
    inputs.schedule = inputs.asynchronous->schedule;
    // Where the recipe does not say, the fewest that there can be.
    if (recipe.steps() == 0) inputs.recipe.set_steps(inputs.asynchronous->steps_per_repetition);
  } else {
    WEFT_ASSIGN_OR_RETURN(inputs.schedule, ScheduleOf(choice));
  }
  WEFT_RETURN_IF_ERROR(check_pairs(inputs.schedule.stages));
  WEFT_RETURN_IF_ERROR(CheckFreeze(schedule, inputs.schedule));
  WEFT_RETURN_IF_ERROR(
      CheckTensorParallel(inputs.plan, inputs.recipe, inputs.schedule, inputs.asynchronous.has_value()));
  WEFT_RETURN_IF_ERROR(CheckLayersPerStage(inputs.plan, inputs.schedule.stages));
  WEFT_RETURN_IF_ERROR(CheckStages(inputs.model, ranks, inputs.schedule.stages));
  if (inputs.plan.schedule().name().empty()) inputs.plan.mutable_schedule()->set_name("definition");
  ResolveDropout(inputs.model, inputs.recipe, notes);
  NoteLargeGroups(inputs.plan.mesh(), notes);
  return inputs;
}

using CostFn = std::function<absl::StatusOr<int64_t>(const Step& step, ActionKind kind)>;

absl::StatusOr<CostFn> Costs(const Inputs& inputs) {
  WEFT_ASSIGN_OR_RETURN(const CostModelEntry* model, FindCostModel("roofline"));
  auto compute = [model, &cluster = inputs.cluster](const Step& step, ActionKind kind) -> absl::StatusOr<int64_t> {
    WEFT_ASSIGN_OR_RETURN(Time time, model->cost(step, kind, 0, cluster, {}));
    return time.ps;
  };
  return WithCollectives(compute, inputs.plan.mesh(), inputs.cluster);
}

RankProgramOptions RankOptions(const Inputs& inputs, const SlotCosts& costs, bool evaluation) {
  RankProgramOptions options;
  options.name = inputs.model.name();
  options.plan = inputs.plan;
  options.microbatches = inputs.microbatches;
  options.clip = !evaluation && inputs.recipe.clip_norm() > 0;
  options.evaluation = evaluation;
  options.costs = costs;
  return options;
}

SegmentOptions OptionsOfSegments(const Inputs& inputs, const CostFn& cost) {
  SegmentOptions options;
  options.precision = inputs.plan.precision();
  options.accumulation = inputs.plan.accumulation();
  options.stages = inputs.schedule.stages;
  options.placement = inputs.schedule.placement;
  const Mesh& mesh = inputs.plan.mesh();
  options.tensor_parallel.x = AxisSize(mesh, "x");
  options.tensor_parallel.y = AxisSize(mesh, "y");
  options.tensor_parallel.z = AxisSize(mesh, "z");
  if (inputs.plan.zero().stage() == 3) options.tensor_parallel.zero = AxisSize(mesh, "data");
  options.tensor_parallel.sequence_parallel = inputs.plan.sequence_parallel();
  options.tensor_parallel.algorithm = inputs.plan.collective();
  if (inputs.asynchronous) options.steps_per_repetition = inputs.asynchronous->steps_per_repetition;
  const BackwardKinds backwards = BackwardKindsOf(inputs.schedule);
  options.whole_backward = backwards.whole;
  options.split_backward = backwards.split;
  options.layers_per_stage = {inputs.plan.partition().layers_per_stage().begin(),
                              inputs.plan.partition().layers_per_stage().end()};
  options.recompute = inputs.plan.recompute();
  options.overlap = inputs.plan.overlap();
  options.in_flight = MicrobatchesInFlight(inputs.schedule);
  options.cost = cost;
  return options;
}

// One program on its way through the passes of the rank level.
struct RankLevel {
  SegmentSet segments;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ir::ProgramOp program() { return *module->getOps<ir::ProgramOp>().begin(); }
};

absl::Status RunRankPasses(mlir::MLIRContext& context, RankLevel& level) {
  DiagnosticCollector diagnostics(&context);
  mlir::PassManager passes(&context);
  // Once at the end instead of behind each pass: that is half of the time, and VerifyProgram has the last word.
  passes.enableVerifier(false);
  AddRankPasses(passes.nest<ir::ProgramOp>());
  WEFT_RETURN_IF_ERROR(diagnostics.ToStatus(passes.run(*level.module)));
  return diagnostics.ToStatus(mlir::verify(*level.module));
}

// Fields of a program that do not come from the rank level.
void FillHeader(const Inputs& inputs, const SegmentSet& segments, Program& program) {
  program.set_name(inputs.model.name());
  program.set_compiler_version(kVersion);
  program.set_runtime("weft");
  program.set_cluster_name(inputs.cluster.name());
  program.set_cluster_digest(ClusterDigest(inputs.cluster));
  *program.mutable_recipe() = inputs.recipe;
  *program.mutable_precision() = inputs.plan.precision();
  program.set_accumulation(inputs.plan.accumulation());
  program.set_vocabulary(inputs.model.vocabulary());
  program.set_image_size(inputs.model.image_size());
  program.set_image_channels(inputs.model.image_channels());
  program.set_step_barrier(inputs.plan.step_barrier());
  const double count =
      static_cast<double>(inputs.microbatches) * static_cast<double>(AxisSize(inputs.plan.mesh(), "data"));
  program.set_model_flops(static_cast<double>(segments.model_flops) * count);
  program.set_model_flops_masked(static_cast<double>(segments.model_flops_masked) * count);
}

// A context for one compilation.
struct Context {
  mlir::MLIRContext mlir{mlir::MLIRContext::Threading::DISABLED};
  Context() { mlir.loadDialect<ir::WeftDialect>(); }
};

absl::StatusOr<RankLevel> LowerTraining(Context& context, const Inputs& inputs, const CostFn& cost) {
  RankLevel level;
  WEFT_ASSIGN_OR_RETURN(level.segments, CompileSegments(inputs.model, inputs.recipe, OptionsOfSegments(inputs, cost)));
  WEFT_ASSIGN_OR_RETURN(const SlotCosts costs,
                        SlotCostsOf(level.segments, inputs.schedule, cost, inputs.plan.mesh(), inputs.cluster));
  // The order that the rank level will ask for: with what slots really cost.
  WEFT_ASSIGN_OR_RETURN(const PipelineSchedule schedule,
                        ScheduleOf(ChoiceOf(inputs.plan.schedule(), static_cast<int>(inputs.schedule.order.size()),
                                            inputs.microbatches, costs)));
  if (inputs.plan.accumulation() == IN_ORDER) WEFT_RETURN_IF_ERROR(CheckAccumulationOrder(schedule));
  WEFT_RETURN_IF_ERROR(SelectSegments(schedule, cost, &level.segments));
  level.module = BuildRankProgram(&context.mlir, level.segments, RankOptions(inputs, costs, false));
  WEFT_RETURN_IF_ERROR(RunRankPasses(context.mlir, level));
  return level;
}

absl::StatusOr<RankLevel> LowerEvaluation(Context& context, const Inputs& inputs, const CostFn& cost,
                                          RankLevel& training) {
  RankLevel level;
  SegmentOptions options = OptionsOfSegments(inputs, cost);
  options.layers_per_stage = training.segments.layers_per_stage;
  options.evaluation = true;
  WEFT_ASSIGN_OR_RETURN(level.segments, CompileSegments(inputs.model, inputs.recipe, options));
  level.module = BuildRankProgram(&context.mlir, level.segments, RankOptions(inputs, {}, true));
  SharePersistentBuffers(training.program(), level.program());
  WEFT_RETURN_IF_ERROR(RunRankPasses(context.mlir, level));
  return level;
}

}  // namespace

uint64_t ClusterDigest(const Cluster& cluster) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    cluster.SerializeToCodedStream(&coded);
  }
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

int64_t PlannedDeviceBytes(const Program& program) {
  int64_t most = 0;
  for (const Template& t : program.templates()) most = std::max(most, t.device_arena_bytes());
  for (const Template& t : program.evaluation().templates()) most = std::max(most, t.device_arena_bytes());
  return most;
}

namespace {

// The training program alone, not verified.
absl::StatusOr<Program> CompileTraining(Context& context, const Inputs& inputs, const CostFn& cost,
                                        RankLevel* training) {
  WEFT_ASSIGN_OR_RETURN(*training, LowerTraining(context, inputs, cost));
  WEFT_ASSIGN_OR_RETURN(Program program, ExportProgram(training->program(), training->segments));
  FillHeader(inputs, training->segments, program);
  return program;
}

// Replaces modes of recompute that ask for a choice. The partition stays that of the first candidate.
absl::Status ResolveRecompute(Inputs& inputs, const CostFn& cost, std::vector<std::string>* notes) {
  const Recompute& asked = inputs.plan.recompute();
  const bool fit = asked.mode() == Recompute::FIT;
  if (!fit && (asked.mode() != Recompute::INTERVAL || asked.interval() != 0)) return absl::OkStatus();
  if (inputs.asynchronous) {
    return absl::InvalidArgumentError(absl::StrCat(
        "plan.recompute.", fit ? "mode = FIT" : "interval = 0", " is not for schedule '", inputs.plan.schedule().name(),
        "', which updates the weights without a flush; give ", fit ? "another mode" : "an interval"));
  }
  Inputs tried = inputs;
  if (tried.plan.transfer_placement() == FASTEST) tried.plan.set_transfer_placement(EARLY);
  const int64_t ranks = AxisSize(inputs.plan.mesh(), "pipe");
  const PlanArenas plan = [&](const Recompute& recompute) -> absl::StatusOr<PlannedArenas> {
    *tried.plan.mutable_recompute() = recompute;
    Context context;
    RankLevel training;
    WEFT_ASSIGN_OR_RETURN(const Program program, CompileTraining(context, tried, cost, &training));
    const std::vector<int32_t>& counts = training.segments.layers_per_stage;
    tried.plan.mutable_partition()->mutable_layers_per_stage()->Assign(counts.begin(), counts.end());
    PlannedArenas arenas;
    arenas.bytes.resize(ranks);
    arenas.layers.resize(ranks);
    for (const Template& t : program.templates()) {
      int64_t rank = 0;
      for (const Coordinate& pin : t.pins()) {
        if (pin.axis() == "pipe") rank = pin.index();
      }
      arenas.bytes[rank] = t.device_arena_bytes();
    }
    for (const std::vector<int>& lane : inputs.schedule.placement) {
      int32_t layer = 0;
      for (size_t stage = 0; stage < counts.size(); ++stage) {
        for (int32_t end = layer + counts[stage]; layer < end; ++layer) {
          const bool loss = stage + 1 == counts.size() && layer + 1 == end;
          if (!loss) arenas.layers[lane[stage]].push_back(layer);
        }
      }
    }
    for (std::vector<int32_t>& layers : arenas.layers) std::sort(layers.begin(), layers.end());
    return arenas;
  };
  const Device& device = inputs.cluster.device();
  // A device without a figure has room for everything.
  const int64_t capacity =
      device.memory_bytes() > 0 ? device.memory_bytes() - device.reserved_bytes() : std::numeric_limits<int64_t>::max();
  WEFT_ASSIGN_OR_RETURN(RecomputeDecision decision, fit ? ChooseFit(plan, capacity) : ChooseInterval(plan));
  *inputs.plan.mutable_recompute() = std::move(decision.recompute);
  *inputs.plan.mutable_partition() = tried.plan.partition();
  if (notes != nullptr) notes->push_back(std::move(decision.note));
  return absl::OkStatus();
}

absl::Status VerifyForSimulation(const Program& program) {
  VerifyOptions verify;
  verify.allow_unfit = true;
  verify.algorithms = KnownCollectives();
  return VerifyProgram(program, verify);
}

// The program of the schedule as it is before plan.schedule.freeze, proven.
absl::StatusOr<Program> CompileMessageDriven(const Inputs& inputs, const CostFn& cost) {
  Context context;
  RankLevel training;
  WEFT_ASSIGN_OR_RETURN(Program program, CompileTraining(context, inputs, cost, &training));
  WEFT_RETURN_IF_ERROR(VerifyForSimulation(program));
  return program;
}

// With plan.schedule.freeze, replaces a message-driven schedule by the order of a simulated step of it, as a
// definition. Ranks that choose while running cannot promise an order of all their messages; where the plan asks for
// one, the step is simulated without it. Returns nothing if there is nothing to freeze.
absl::StatusOr<std::optional<FrozenSchedule>> Freeze(Inputs& inputs, const CostFn& cost) {
  if (!inputs.plan.schedule().freeze() || !inputs.schedule.message_driven) return std::optional<FrozenSchedule>();
  Inputs simulated = inputs;
  if (simulated.plan.transfer_placement() == FASTEST) simulated.plan.set_transfer_placement(EARLY);
  absl::StatusOr<Program> program = CompileMessageDriven(simulated, cost);
  if (!program.ok() && inputs.plan.transfer_order() != BY_EDGE) {
    simulated.plan.set_transfer_order(BY_EDGE);
    program = CompileMessageDriven(simulated, cost);
  }
  if (!program.ok()) return program.status();
  WEFT_ASSIGN_OR_RETURN(FrozenSchedule frozen, FreezeRun(inputs.schedule, *program, inputs.cluster));
  inputs.schedule = frozen.schedule;
  PlanSchedule plan;
  plan.set_name(inputs.plan.schedule().name());
  plan.set_definition(FormatSchedule({"", frozen.schedule, inputs.microbatches, {}}));
  *inputs.plan.mutable_schedule() = std::move(plan);
  return frozen;
}

// What `program`, proven, gained or lost by having been frozen.
absl::StatusOr<std::string> NoteOfFreezing(const FrozenSchedule& frozen, const Program& program,
                                           const Cluster& cluster) {
  WEFT_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, cluster, {}));
  return absl::StrFormat(
      "plan.schedule.freeze: the order is that of a simulated step of '%s'%s: %.6g s message-driven, %.6g s static",
      program.schedule(),
      frozen.replicas_differ ? ", as the first data replica ran it (others ran it differently)" : "",
      frozen.message_driven_seconds, simulation.report.makespan_seconds());
}

// Replaces FASTEST by whichever placement and grouping of transfers simulates fastest; those that the verifier refuses
// do not count. Ties go to the first: early, then without groups.
absl::Status ChooseTransfers(Inputs& inputs, const CostFn& cost, std::vector<std::string>* notes) {
  if (inputs.plan.transfer_placement() != FASTEST) return absl::OkStatus();
  struct Choice {
    TransferPlacement placement;
    bool grouped;
    const char* name;
  };
  constexpr Choice kChoices[] = {{EARLY, false, "early"},
                                 {DEFERRED, false, "deferred"},
                                 {EARLY, true, "early in groups"},
                                 {DEFERRED, true, "deferred in groups"}};
  const Choice* fastest = nullptr;
  double best = 0;
  std::vector<std::string> times;
  absl::Status first_error;
  for (const Choice& choice : kChoices) {
    Inputs tried = inputs;
    tried.plan.set_transfer_placement(choice.placement);
    tried.plan.set_group_transfers(choice.grouped);
    Context context;
    RankLevel training;
    WEFT_ASSIGN_OR_RETURN(const Program program, CompileTraining(context, tried, cost, &training));
    if (absl::Status status = VerifyForSimulation(program); !status.ok()) {
      if (first_error.ok()) first_error = status;
      times.push_back(absl::StrCat(choice.name, " is refused"));
      continue;
    }
    WEFT_ASSIGN_OR_RETURN(const Simulation simulation, Simulate(program, inputs.cluster, {}));
    const double seconds = simulation.report.iteration_seconds();
    times.push_back(absl::StrFormat("%s %.6g s", choice.name, seconds));
    if (fastest == nullptr || seconds < best) {
      fastest = &choice;
      best = seconds;
    }
  }
  if (fastest == nullptr) return first_error;
  inputs.plan.set_transfer_placement(fastest->placement);
  inputs.plan.set_group_transfers(fastest->grouped);
  if (notes != nullptr) {
    notes->push_back(absl::StrCat("plan.transfer_placement = FASTEST: transfers are ", fastest->name,
                                  ", of simulated steps: ", absl::StrJoin(times, ", ")));
  }
  return absl::OkStatus();
}

// Training and, if asked for, evaluation, not verified.
absl::StatusOr<Program> CompileSynchronous(const Inputs& inputs, const CostFn& cost, const CompileOptions& options) {
  Context context;
  RankLevel training;
  WEFT_ASSIGN_OR_RETURN(Program program, CompileTraining(context, inputs, cost, &training));
  if (options.evaluation) {
    WEFT_ASSIGN_OR_RETURN(RankLevel evaluation, LowerEvaluation(context, inputs, cost, training));
    WEFT_ASSIGN_OR_RETURN(*program.mutable_evaluation(), ExportProgram(evaluation.program(), evaluation.segments));
    FillHeader(inputs, evaluation.segments, *program.mutable_evaluation());
    program.mutable_evaluation()->mutable_recipe()->set_dropout(0);
  }
  return program;
}

// The program of a schedule that never flushes, not verified.
absl::StatusOr<Program> CompileAsynchronous(const Inputs& inputs, const CostFn& cost, const CompileOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const SegmentSet segments,
                        CompileSegments(inputs.model, inputs.recipe, OptionsOfSegments(inputs, cost)));
  WEFT_ASSIGN_OR_RETURN(Program program, ExportAsynchronous(*inputs.asynchronous, segments, inputs.plan));
  FillHeader(inputs, segments, program);
  if (options.evaluation && options.notes != nullptr) {
    options.notes->push_back(absl::StrCat("schedule '", program.schedule(),
                                          "' updates the weights without a flush: no evaluation program is made"));
  }
  return program;
}

// Adds changes of recipe and plan, as the user gave them, with which the program fits.
absl::Status WithWaysOut(const absl::Status& refusal, const Recipe& recipe, const Plan& plan, const Inputs& inputs) {
  constexpr int kWanted = 3;
  const int layers = inputs.model.ops_size() == 0 ? 1 : inputs.model.ops(inputs.model.ops_size() - 1).layer() + 1;
  const Device& device = inputs.cluster.device();
  const auto planned = [&](const Recipe& r, const Plan& p) -> absl::StatusOr<int64_t> {
    CompileOptions options;
    options.ways_out = false;
    WEFT_ASSIGN_OR_RETURN(const Program program, Compile(inputs.model, r, p, inputs.cluster, options));
    return PlannedDeviceBytes(program);
  };
  const std::vector<WayOut> ways = FindWaysOut(recipe, plan, inputs.cluster, layers,
                                               device.memory_bytes() - device.reserved_bytes(), kWanted, planned);
  return absl::Status(refusal.code(), absl::StrCat(refusal.message(), "; ", DescribeWaysOut(ways)));
}

}  // namespace

absl::StatusOr<Program> Compile(const ModelGraph& model, const Recipe& recipe, const Plan& plan, const Cluster& cluster,
                                const CompileOptions& options) {
  WEFT_ASSIGN_OR_RETURN(Inputs inputs, Resolve(model, recipe, plan, cluster, options.notes));
  WEFT_ASSIGN_OR_RETURN(CostFn cost, Costs(inputs));
  WEFT_RETURN_IF_ERROR(ResolveRecompute(inputs, cost, options.notes));
  Program program;
  std::optional<FrozenSchedule> frozen;
  if (inputs.asynchronous) {
    WEFT_ASSIGN_OR_RETURN(program, CompileAsynchronous(inputs, cost, options));
  } else {
    WEFT_ASSIGN_OR_RETURN(frozen, Freeze(inputs, cost));
    WEFT_RETURN_IF_ERROR(ChooseTransfers(inputs, cost, options.notes));
    WEFT_ASSIGN_OR_RETURN(program, CompileSynchronous(inputs, cost, options));
  }
  if (inputs.plan.post_validation()) WEFT_RETURN_IF_ERROR(PostValidate(&program));
  if (absl::Status fits = CheckMemoryFit(program, inputs.cluster); !fits.ok()) {
    if (!options.allow_oom) return options.ways_out ? WithWaysOut(fits, recipe, plan, inputs) : fits;
    if (options.notes != nullptr) options.notes->push_back(std::string(fits.message()));
    program.set_does_not_fit(true);
    if (program.has_evaluation()) program.mutable_evaluation()->set_does_not_fit(true);
  }
  VerifyOptions verify;
  verify.allow_unfit = options.allow_oom;
  verify.algorithms = KnownCollectives();
  WEFT_RETURN_IF_ERROR(WithTransferOrder(inputs.plan, VerifyProgram(program, verify)));
  if (frozen && options.notes != nullptr) {
    WEFT_ASSIGN_OR_RETURN(std::string note, NoteOfFreezing(*frozen, program, inputs.cluster));
    options.notes->push_back(std::move(note));
  }
  return program;
}

absl::StatusOr<std::string> EmitIr(const ModelGraph& model, const Recipe& recipe, const Plan& plan,
                                   const Cluster& cluster, absl::string_view level) {
  if (level == "program") {
    CompileOptions options;
    options.allow_oom = true;
    WEFT_ASSIGN_OR_RETURN(Program program, Compile(model, recipe, plan, cluster, options));
    return MessageToText(program);
  }
  WEFT_ASSIGN_OR_RETURN(Inputs inputs, Resolve(model, recipe, plan, cluster, nullptr));
  if (inputs.asynchronous && level == "rank") {
    return absl::InvalidArgumentError(absl::StrCat("schedule '", inputs.plan.schedule().name(),
                                                   "' updates the weights without a flush; its programs have no rank "
                                                   "level; allowed: graph, program"));
  }
  Context context;
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (level == "graph") {
    ImportOptions import;
    import.precision = inputs.plan.precision();
    import.accumulation = inputs.plan.accumulation();
    WEFT_ASSIGN_OR_RETURN(ImportedGraph graph, ImportGraph(&context.mlir, inputs.model, inputs.recipe, import));
    graph.module->print(stream);
    return stream.str();
  }
  if (level == "rank") {
    WEFT_ASSIGN_OR_RETURN(CostFn cost, Costs(inputs));
    WEFT_RETURN_IF_ERROR(ResolveRecompute(inputs, cost, nullptr));
    WEFT_RETURN_IF_ERROR(Freeze(inputs, cost).status());
    WEFT_RETURN_IF_ERROR(ChooseTransfers(inputs, cost, nullptr));
    WEFT_ASSIGN_OR_RETURN(RankLevel training, LowerTraining(context, inputs, cost));
    training.module->print(stream);
    return stream.str();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown level of IR '", level, "'; known: graph, rank, program"));
}

}  // namespace weft
