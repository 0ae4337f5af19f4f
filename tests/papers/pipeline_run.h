// Runs of papers on pipeline schedules: one model on so many ranks with a batch of so many sequences, and of everything
// that a schedule leaves open (pipelines W, stages D, microbatch B, recomputation) what is fastest and fits.
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
  // Sequences of a step; of an asynchronous schedule that updates after every microbatch that is what fits.
  int64_t batch = 0;
  Cluster cluster = {};
  // More of the plan, as text.
  std::string plan = {};
  std::string network = "analytic";
  // In the catalog, or a file; empty = weft's own executor.
  std::string runtime = {};
  // Bytes that the paper's framework keeps of activations, relative to weft's.
  double activation_factor = 1;
  // The same of gradients.
  double gradient_factor = 1;
  // What is computed again is all of a stage, before its backward begins: all that the stage saves of a microbatch is
  // held beside what is kept. weft's own goes layer by layer.
  bool recomputes_stages = false;
};

struct PipelineChoice {
  // As in `weft list schedules`.
  std::string schedule = {};
  // D, and with it W = ranks / D; B.
  int64_t depth = 0;
  int64_t microbatch = 0;
  bool recompute = false;
  // More of the plan's schedule, as text, e.g. "lanes: 4".
  std::string parameters = {};
  std::string sync = "EAGER_OPT";
};

struct PipelineRun {
  PipelineChoice choice;
  int64_t width = 0;
  double sequences_per_second = 0;
  double bytes = 0;
  bool fits = false;

  // "W=8 D=4 B=4 R".
  std::string Text() const;
};

// Blocks are cut evenly over the stages; the first also has the embedding, the last the head.
absl::StatusOr<PipelineRun> RunPipeline(const PipelineJob& job, const PipelineChoice& choice);

// The fastest that fits, of all depths and microbatches that divide the job; with recomputation only where it does not
// fit without. Empty if none fits. `all` receives every run.
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
