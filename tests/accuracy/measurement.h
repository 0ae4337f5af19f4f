// Published measurements as files: runs (JSON, a list of objects) and sets of runs whose order was measured.
//
// README.md has the fields. What a source does not state is null or absent. A file that is no list is an error; a run
// or set that cannot be read is kept with a line that names the field, what was given and what is allowed, so that the
// others can be.
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
    // Parameters.
    std::optional<double> billions;
    // "dense-gpt", "dense-llama (tied embeddings)", "moe", ...
    std::string kind;
  };
  struct Machine {
    // "A100-SXM4-80GB"; links as the source words them, empty if it does not.
    std::string gpu, intra_node_link, inter_node_link;
    std::optional<int64_t> gpus, gpus_per_node;
  };
  struct Plan {
    std::optional<int64_t> tp, pp, dp, cp, ep, vpp, micro_batch, global_batch, zero_stage;
    std::optional<bool> sequence_parallel;
    // As the source words them, empty if it does not.
    std::string schedule, recompute, precision, offload;
  };
  std::string id, family, source, group, notes;
  // Why the run cannot be read; then only `id` and `family` hold. Empty if it can.
  std::string unreadable;
  // Of a subset in which no large sweep dominates.
  bool core = false;
  Model model;
  Machine machine;
  Plan plan;
  // Switches outside of the plan, as text: "FlashAttention-2", "true", "8".
  std::map<std::string, std::string> extra;

  // Of one optimizer step: printed, or worked out from what is printed.
  std::optional<double> seconds;
  std::optional<double> tokens_per_second_per_gpu;
  // Sequences, of all devices.
  std::optional<double> samples_per_second;
  // It prints flops per second or a utilisation, which sources count in different ways.
  bool states_flops = false;
  // Half of the last printed digit, relative.
  double rounding = 0;
  std::optional<double> peak_memory_gb;
  std::optional<bool> out_of_memory;
};

struct RankingSet {
  std::string group;
  // As of a run; then only `group` holds.
  std::string unreadable;
  // Higher is better, as in "tokens_per_s_per_gpu".
  std::string metric;
  // Best first, with what was measured.
  std::vector<std::string> ids;
  std::vector<double> values;
};

struct Measurements {
  std::vector<Measurement> runs;
  // Members of objects that are not read, "cluster.switch", each once, in the order of the file.
  std::vector<std::string> unread;
};

// `source` begins an error.
absl::StatusOr<Measurements> ParseMeasurements(absl::string_view json, absl::string_view source);
absl::StatusOr<std::vector<RankingSet>> ParseRankingSets(absl::string_view json, absl::string_view source);

// Whether figures of devices may be fitted to runs of this source: the top bit of FNV-1a of its name is 0.
bool IsFittedSource(absl::string_view source);

}  // namespace weft

#endif  // WEFT_TESTS_ACCURACY_MEASUREMENT_H_
