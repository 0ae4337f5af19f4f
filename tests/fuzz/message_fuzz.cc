// Fuzz target: the readers of one contract message, WEFT_FUZZ_MESSAGE. A message that is accepted in any format must
// survive a round trip through all three formats, and its validator must not crash.
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/graph_row.h"
#include "proto/io/io.h"
#include "proto/io/json.h"
#include "proto/program.pb.h"
#include "proto/trace.pb.h"
#include "proto/validate/validate.h"
#include "simulator/compare/compare.h"
#include "simulator/network/placement.h"
#include "simulator/network/topology.h"
#include "tests/fuzz/require.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using Fuzzed = WEFT_FUZZ_MESSAGE;

Fuzzed ReadBack(const std::string& bytes) {
  Fuzzed again;
  Require(ParseMessage(bytes, "again", &again).ok());
  return again;
}

// Ranks can be placed on a valid cluster, and a message has a route between any two devices or is refused.
[[maybe_unused]] void RunTopology(const Cluster& cluster) {
  if (cluster.nodes() > 1024) return;
  const absl::StatusOr<sim::RankPlacement> placement = sim::RankPlacement::Make(5, cluster);
  if (!placement.ok()) return;
  const absl::StatusOr<sim::Topology> topology = sim::Topology::Make(cluster, *placement);
  if (!topology.ok()) return;
  for (int64_t from = 0; from < placement->ranks(); ++from) {
    Require(placement->SpeedOf(from) > 0);
    for (int64_t to = 0; to < placement->ranks(); ++to) {
      const absl::StatusOr<sim::LinkRoute> route = topology->RouteOfRanks(from, to);
      if (!route.ok()) continue;
      Require(route->links.empty() == (from == to));
      for (const int32_t link : route->links) Require(!topology->LinkName(link).empty());
    }
  }
}

// A template, so that only the branch of the fuzzed type is compiled.
template <typename T>
void RunValidator(T message) {
  if constexpr (std::is_same_v<T, Recipe>) {
    // Resolving again succeeds.
    if (ValidateAndResolve(&message).ok()) Require(ValidateAndResolve(&message).ok());
  } else if constexpr (std::is_same_v<T, Plan>) {
    if (ValidateAndResolve(&message, Device()).ok()) {
      Require(ValidateAndResolve(&message, Device()).ok());
      Recipe recipe;
      recipe.set_global_batch_sequences(64);
      MicrobatchesPerReplica(recipe, message.mesh()).IgnoreError();
    }
  } else if constexpr (std::is_same_v<T, Cluster>) {
    if (Validate(message).ok()) RunTopology(message);
  } else if constexpr (std::is_same_v<T, ModelGraph>) {
    kernels::ValidateModelGraph(message).IgnoreError();
  } else if constexpr (std::is_same_v<T, Trace>) {
    if (sim::ValidateTrace(message).ok()) sim::SummarizeTrace(message);
  } else if constexpr (std::is_same_v<T, Program>) {
    for (const Finding& finding : FindViolations(message, {.allow_unfit = true, .max_findings = 3})) {
      Require(!finding.rule.empty() && !finding.message.empty());
    }
  }
}

}  // namespace
}  // namespace weft

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weft;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  Fuzzed message;
  const absl::Status status = ParseMessage(bytes, "fuzz", &message);
  if (!status.ok()) {
    // The error must be a single line.
    RequireMessage(status);
    return 0;
  }
  const std::string text = MessageToText(message);
  // Compare as text, which has one NaN; doubles have many.
  if (!text.empty()) Require(MessageToText(ReadBack(text)) == text);
  const std::string binary = message.SerializeAsString();
  if (!binary.empty()) Require(ReadBack(binary).SerializeAsString() == binary);
  const absl::StatusOr<std::string> json = MessageToJson(message);
  // JSON can represent everything except NaN and infinities.
  if (json.ok()) {
    Require(ReadBack(*json).SerializeAsString() == binary);
  } else {
    Require(json.status().message().find("must be finite") != absl::string_view::npos);
  }
  RunValidator(message);
  return 0;
}
