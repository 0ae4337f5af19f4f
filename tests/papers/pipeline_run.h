// Simulates runs of papers on pipeline schedules: one model on a number of ranks with a batch of sequences. Finds the
// fastest setting that fits for everything that a schedule leaves open (pipelines W, stages D, microbatch B,
// recomputation).
#ifndef WEFT_TESTS_PAPERS_PIPELINE_RUN_H_
#define WEFT_TESTS_PAPERS_PIPELINE_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "proto/model_graph.pb.h"

namespace weft {

struct PipelineJob {
  ModelGraph model = {};
  int64_t sequence_length = 0;
  int64_t ranks = 0;
  // Sequences of one optimizer step. A schedule that updates after every microbatch ignores it.
  int64_t batch = 0;
  Cluster cluster = {};
  // Further fields of the plan, as text.
  std::string plan = {};
  std::string network = "analytic";
  // Name in the catalog, or a file; empty = weft's own executor.
  std::string runtime = {};
  // Bytes of activations that the paper's framework keeps, relative to weft's.
  double activation_factor = 1;
  // Bytes of gradients that the paper's framework keeps, relative to weft's.
  double gradient_factor = 1;
  // True if the framework recomputes a whole stage before its backward begins. It then holds everything that the stage
  // saves of one microbatch, in addition to what is kept. weft recomputes layer by layer.
  bool recomputes_stages = false;
};

struct PipelineChoice {
  // Name as in `weft list schedules`.
  std::string schedule = {};
  // Stages of a pipeline (the paper's D, which gives W = ranks / D pipelines), and sequences of a microbatch (its B).
  int64_t depth = 0;
  int64_t microbatch = 0;
  bool recompute = false;
  // Further fields of the plan's schedule, as text, e.g. "lanes: 4".
  std::string parameters = {};
  std::string sync = "EAGER_OPT";
};

struct PipelineRun {
  PipelineChoice choice;
  int64_t width = 0;
  double sequences_per_second = 0;
  double bytes = 0;
  bool fits = false;

  // The choice in the paper's terms: "W=8 D=4 B=4 R", where R stands for recomputation.
  std::string Text() const;
};

// Simulates one choice. Blocks are divided evenly over the stages; the first stage also has the embedding, the last the
// head.
absl::StatusOr<PipelineRun> RunPipeline(const PipelineJob& job, const PipelineChoice& choice);

// BestPipeline returns the fastest run that fits, over all depths and microbatches of the space that divide the job's
// ranks and batch. It recomputes only what does not fit without recomputation. Empty if nothing fits. `all` receives
// every run.
struct PipelineSpace {
  std::vector<int64_t> depths;
  std::vector<int64_t> microbatches;
  bool without_recompute = true;
  bool with_recompute = true;
};
std::optional<PipelineRun> BestPipeline(const PipelineJob& job, const PipelineChoice& base, const PipelineSpace& space,
                                        std::vector<PipelineRun>* all = nullptr);

}  // namespace weft

#endif  // WEFT_TESTS_PAPERS_PIPELINE_RUN_H_
