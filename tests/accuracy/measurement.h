// Reads published measurements from files: runs (JSON, a list of objects), and sets of runs whose order was measured.
//
// README.md describes the fields. A field is null or absent if the source does not state it. A file that is not a list
// is an error. A run or set that cannot be read is kept, with a line that names the field, the value given and what is
// allowed, so that the others can still be read.
#ifndef WEFT_TESTS_ACCURACY_MEASUREMENT_H_
#define WEFT_TESTS_ACCURACY_MEASUREMENT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace weft {

struct Measurement {
  struct Model {
    std::optional<int64_t> layers, hidden, heads, kv_heads, ffn_hidden, vocabulary, sequence;
    // Number of parameters, in billions.
    std::optional<double> billions;
    // Architecture as the source words it: "dense-gpt", "dense-llama (tied embeddings)", "moe", ...
    std::string kind;
  };
  struct Machine {
    // Name of the device, e.g. "A100-SXM4-80GB". Links are as the source words them, or empty.
    std::string gpu, intra_node_link, inter_node_link;
    std::optional<int64_t> gpus, gpus_per_node;
  };
  struct Plan {
    std::optional<int64_t> tp, pp, dp, cp, ep, vpp, micro_batch, global_batch, zero_stage;
    std::optional<bool> sequence_parallel;
    // These texts are as the source words them, or empty.
    std::string schedule, recompute, precision, offload;
  };
  std::string id, family, source, group, notes;
  // Why the run cannot be read; empty if it can. If set, only `id` and `family` are valid.
  std::string unreadable;
  // True if the run is in the subset in which no large sweep dominates.
  bool core = false;
  Model model;
  Machine machine;
  Plan plan;
  // Settings that are not part of the plan, by name, as text: "FlashAttention-2", "true", "8".
  std::map<std::string, std::string> extra;

  // Seconds of one iteration, as the source prints them or derived from other printed figures.
  std::optional<double> seconds;
  std::optional<double> tokens_per_second_per_gpu;
  // Sequences per second over all devices.
  std::optional<double> samples_per_second;
  // True if the source prints flops per second or a utilization. Sources count these in different ways.
  bool states_flops = false;
  // Relative rounding error: half a unit of the last printed digit.
  double rounding = 0;
  std::optional<double> peak_memory_gb;
  std::optional<bool> out_of_memory;
};

struct RankingSet {
  std::string group;
  // Why the set cannot be read; empty if it can. If set, only `group` is valid.
  std::string unreadable;
  // The measured quantity, where higher is better, as in "tokens_per_s_per_gpu".
  std::string metric;
  // Ids of the runs, best first, and their measured values.
  std::vector<std::string> ids;
  std::vector<double> values;
};

struct Measurements {
  std::vector<Measurement> runs;
  // Paths of members that the parser does not read, such as "cluster.switch", each once, in the order of the file.
  std::vector<std::string> unread;
};

// Errors begin with `source`.
absl::StatusOr<Measurements> ParseMeasurements(absl::string_view json, absl::string_view source);
absl::StatusOr<std::vector<RankingSet>> ParseRankingSets(absl::string_view json, absl::string_view source);

// True if device figures may be fitted to this source's runs: the top bit of the FNV-1a hash of its name is 0.
bool IsFittedSource(absl::string_view source);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_MEASUREMENT_H_
