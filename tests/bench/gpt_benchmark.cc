// Trains a small GPT in one process on the cpu backend and prints tokens per second, for comparison with
// pytorch_gpt.py.
//   gpt_benchmark [layers width heads sequence sequences vocabulary threads steps]
// Prints one line of JSON: median and best seconds per iteration, tokens/s, processor seconds per iteration, and
// milliseconds per iteration by kernel.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/models/load_model.h"
#include "executor/data/data.h"
#include "executor/run/run.h"
#include "planner/compile.h"
#include "proto/util/status.h"

namespace weft {
namespace {

struct Shape {
  int64_t layers = 4, width = 256, heads = 4, sequence = 128, sequences = 8, vocabulary = 256, threads = 2, steps = 40;
};

Cluster HostCluster() {
  Cluster cluster;
  cluster.set_name("host");
  cluster.set_nodes(1);
  cluster.set_devices_per_node(1);
  cluster.set_nics_per_node(1);
  Device& device = *cluster.mutable_device();
  device.set_name("cpu");
  device.set_memory_bytes(int64_t{8} << 30);
  device.set_memory_bytes_per_second(2e10);
  Peak& peak = *device.add_peaks();
  peak.set_dtype(FP32);
  peak.set_flops_per_second(4e11);
  for (Link* link : {cluster.mutable_intra_node(), cluster.mutable_inter_node(), cluster.mutable_host()}) {
    link->set_bytes_per_second(1e10);
    link->set_latency_seconds(1e-6);
  }
  return cluster;
}

// Generated tokens that cost nothing to read and are the same in every run.
class RampData : public exec::DataSource {
 public:
  explicit RampData(int64_t vocabulary) : vocabulary_(vocabulary) {}
  int64_t windows() const override { return int64_t{1} << 40; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>((sample * 7 + static_cast<int64_t>(i) * 3) % vocabulary_);
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i] = static_cast<int32_t>((sample * 7 + static_cast<int64_t>(i + 1) * 3) % vocabulary_);
    }
    return absl::OkStatus();
  }

 private:
  int64_t vocabulary_;
};

double ProcessSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Milliseconds per iteration by kernel, as members of a JSON object, largest first.
std::string KernelTimes(const Program& program, const Trace& trace) {
  std::map<int, int> segment_of_action;
  for (const Action& action : program.templates(0).body()) segment_of_action[action.id()] = action.segment();
  std::map<int, double> milliseconds;
  for (const TraceEvent& event : trace.ranks(0).events()) {
    const Segment& segment = program.segments(segment_of_action[event.action()]);
    if (event.step() >= segment.steps_size()) continue;
    milliseconds[segment.steps(event.step()).kernel()] +=
        1e-9 * static_cast<double>(event.end_ps() - event.start_ps()) / trace.repetitions();
  }
  std::vector<std::pair<double, int>> sorted;
  for (const auto& [kernel, time] : milliseconds) sorted.emplace_back(-time, kernel);
  std::sort(sorted.begin(), sorted.end());
  std::string text;
  for (const auto& [time, kernel] : sorted) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", Kernel_Name(static_cast<Kernel>(kernel)), "\": ", -time);
  }
  return text;
}

absl::StatusOr<std::string> Measure(const Shape& shape) {
  const std::string config = absl::StrCat("{\"model_type\": \"gpt2\", \"n_layer\": ", shape.layers,
                                          ", \"n_embd\": ", shape.width, ", \"n_head\": ", shape.heads,
                                          ", \"n_positions\": ", shape.sequence, ", \"vocab_size\": ", shape.vocabulary,
                                          ", \"attn_pdrop\": 0, \"embd_pdrop\": 0, \"resid_pdrop\": 0}");
  WEFT_ASSIGN_OR_RETURN(const ModelGraph model, ParseModel(config, "config", "small-gpt"));
  Recipe recipe;
  recipe.set_sequence_length(shape.sequence);
  recipe.set_global_batch_sequences(shape.sequences);
  recipe.set_microbatch_sequences(shape.sequences);
  recipe.set_steps(shape.steps);
  recipe.mutable_adamw();
  planner::CompileOptions compile_options;
  compile_options.evaluation = false;
  Plan plan;
  MeshAxis& axis = *plan.mutable_mesh()->add_axes();
  axis.set_name("pipe");
  axis.set_size(1);
  WEFT_ASSIGN_OR_RETURN(const Program program,
                        planner::CompilePlan(model, recipe, plan, HostCluster(), compile_options));

  const RampData data(shape.vocabulary);
  exec::RunOptions options;
  options.threads_per_rank = static_cast<int>(shape.threads);
  options.trace_repetitions = shape.steps;
  std::vector<double> processor;
  options.on_step = [&](const RunStep&) { processor.push_back(ProcessSeconds()); };
  WEFT_ASSIGN_OR_RETURN(const exec::RunResult result, exec::RunInProcess(program, data, options));

  // The first iterations are not counted: they touch memory for the first time.
  const int warm = 3;
  std::vector<double> seconds;
  for (int i = warm; i < result.report.steps_size(); ++i) seconds.push_back(result.report.steps(i).seconds());
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double tokens = static_cast<double>(shape.sequences * shape.sequence);
  const double processor_step = (processor.back() - processor[warm - 1]) / static_cast<double>(processor.size() - warm);
  return absl::StrCat("{\"median_seconds\": ", median, ", \"best_seconds\": ", seconds.front(),
                      ", \"tokens_per_second\": ", tokens / median,
                      ", \"best_tokens_per_second\": ", tokens / seconds.front(),
                      ", \"processor_seconds\": ", processor_step, ", \"kernel_milliseconds\": {",
                      KernelTimes(program, *result.trace), "}}");
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::Shape shape;
  int64_t* const fields[] = {&shape.layers,    &shape.width,      &shape.heads,   &shape.sequence,
                             &shape.sequences, &shape.vocabulary, &shape.threads, &shape.steps};
  for (int i = 1; i < argc && i <= 8; ++i) *fields[i - 1] = std::atoll(argv[i]);
  if (shape.steps < 5) {
    std::fprintf(stderr, "gpt_benchmark: at least 5 steps\n");
    return 2;
  }
  const absl::StatusOr<std::string> line = weft::Measure(shape);
  if (!line.ok()) {
    std::fprintf(stderr, "gpt_benchmark: %s\n", line.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", line->c_str());
  return 0;
}
