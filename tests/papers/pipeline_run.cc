#include "tests/papers/pipeline_run.h"

#include <map>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"
#include "tests/e2e/published_run.h"
#include "tests/papers/rank_memory.h"

namespace weft {
namespace {

bool UpdatesEveryMicrobatch(const PipelineChoice& choice) { return choice.schedule == "pipedream"; }

// Sequences of one optimizer step.
int64_t BatchOf(const PipelineJob& job, const PipelineChoice& choice) {
  return UpdatesEveryMicrobatch(choice) ? choice.microbatch * (job.ranks / choice.depth) : job.batch;
}

// Returns the number of layers of each stage for a graph from a config.json. The layers are the embedding, the blocks
// and the head.
std::vector<int64_t> EvenLayers(const ModelGraph& model, int64_t stages) {
  const int64_t blocks = model.ops(model.ops_size() - 1).layer() - 1;
  std::vector<int64_t> layers(stages, blocks / stages);
  for (int64_t i = 0; i < blocks % stages; ++i) ++layers[i];
  ++layers.front();
  ++layers.back();
  return layers;
}

// Returns plan fields that recompute whole stages, including the loss, which FULL leaves out. The authors of the
// Chimera paper do so (github.com/Shigangli/Chimera, pipeline.py, call_backward).
std::string RecomputeAll(const ModelGraph& model) {
  std::vector<int64_t> layers(model.ops(model.ops_size() - 1).layer() + 1);
  std::iota(layers.begin(), layers.end(), 0);
  return absl::StrCat(" recompute { mode: LAYERS layers: [", absl::StrJoin(layers, ","), "] }");
}

absl::StatusOr<SimulatedRun> Simulated(const PipelineJob& job, const PipelineChoice& choice, int64_t batch) {
  const int64_t width = job.ranks / choice.depth;
  PublishedRun run;
  run.recipe = absl::StrCat("sequence_length: ", job.sequence_length, " global_batch_sequences: ", batch,
                            " microbatch_sequences: ", choice.microbatch, " clip_norm: 0 dropout: 0.1");
  const int64_t stages_per_rank = choice.schedule == "chimera-wave" ? 2 : 1;
  run.plan =
      absl::StrCat("mesh { axes { name: 'pipe' size: ", choice.depth, " } axes { name: 'data' size: ", width,
                   " } } schedule { name: '", choice.schedule, "' ", choice.parameters,
                   " } gradient_sync: ", choice.sync, choice.recompute ? RecomputeAll(job.model) : "", " ", job.plan);
  if (choice.parameters.find("waves") == std::string::npos && stages_per_rank == 1) {
    absl::StrAppend(&run.plan, " partition { layers_per_stage: [",
                    absl::StrJoin(EvenLayers(job.model, choice.depth), ","), "] }");
  }
  run.allow_oom = true;
  run.cost = "tiles";
  run.network = job.network;
  run.runtime = job.runtime;
  return RunOn(job.model, run, job.cluster);
}

// Bytes that each stage saves of one microbatch if nothing is recomputed.
absl::StatusOr<std::map<int32_t, double>> StageActivations(const PipelineJob& job, const PipelineChoice& choice) {
  PipelineJob pipeline = job;
  pipeline.ranks = choice.depth;
  const PipelineChoice one = {.schedule = "1f1b", .depth = choice.depth, .microbatch = choice.microbatch};
  WEFT_ASSIGN_OR_RETURN(const SimulatedRun run, Simulated(pipeline, one, choice.microbatch));
  return SavedByStage(run.program);
}

}  // namespace

std::string PipelineRun::Text() const {
  return absl::StrCat("W=", width, " D=", choice.depth, " B=", choice.microbatch, choice.recompute ? " R" : "");
}

absl::StatusOr<PipelineRun> RunPipeline(const PipelineJob& job, const PipelineChoice& choice) {
  PipelineRun made;
  made.choice = choice;
  made.width = job.ranks / choice.depth;
  const int64_t batch = BatchOf(job, choice);
  if (made.width * choice.depth != job.ranks || batch % (made.width * choice.microbatch) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(made.Text(), " does not divide ", job.ranks, " ranks and a batch of ", batch));
  }
  WEFT_ASSIGN_OR_RETURN(const SimulatedRun run, Simulated(job, choice, batch));
  const SimulationReport& report = run.simulation.report;
  made.sequences_per_second = report.tokens_per_second() / static_cast<double>(job.sequence_length);
  FrameworkMemory framework = {.activation_factor = job.activation_factor, .gradient_factor = job.gradient_factor};
  if (choice.recompute && job.recomputes_stages) {
    WEFT_ASSIGN_OR_RETURN(framework.recomputed, StageActivations(job, choice));
  }
  made.bytes = MostBytes(run.program, framework) + static_cast<double>(report.device_bytes() - report.planned_bytes());
  made.fits = made.bytes <= static_cast<double>(report.capacity_bytes());
  return made;
}

std::optional<PipelineRun> BestPipeline(const PipelineJob& job, const PipelineChoice& base, const PipelineSpace& space,
                                        std::vector<PipelineRun>* all) {
  std::optional<PipelineRun> best;
  for (const int64_t depth : space.depths) {
    for (const int64_t microbatch : space.microbatches) {
      for (const bool recompute : {false, true}) {
        if (!(recompute ? space.with_recompute : space.without_recompute)) continue;
        PipelineChoice choice = base;
        choice.depth = depth;
        choice.microbatch = microbatch;
        choice.recompute = recompute;
        // Skip a choice that does not divide the job or has too few microbatches for its schedule.
        const absl::StatusOr<PipelineRun> run = RunPipeline(job, choice);
        if (!run.ok()) break;
        if (all != nullptr) all->push_back(*run);
        if (!run->fits) continue;
        if (!best || run->sequences_per_second > best->sequences_per_second) best = *run;
        break;
      }
    }
  }
  return best;
}

}  // namespace weft
