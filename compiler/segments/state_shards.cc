#include "compiler/segments/state_shards.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/util/mesh.h"

namespace weft {
namespace {

// NameOfLayerSteps puts the layer's number between these two texts.
constexpr absl::string_view kLayer = "layer", kMoved = ".zero";

}  // namespace

StateShards StateShardsOf(const Plan& plan) {
  const int64_t data = AxisSize(plan.mesh(), "data");
  const int64_t members = plan.zero().group() > 0 ? plan.zero().group() : data;
  if (plan.zero().stage() == 0 || members == 1) return {};
  const Zero& zero = plan.zero();
  StateShards shards{zero.stage(), members, members < data ? members : 0};
  if (zero.reshard() == Zero::NEVER) shards.stage = 2;
  if (zero.reshard() == Zero::LAYERS) shards.kept_layers = {zero.kept_layers().begin(), zero.kept_layers().end()};
  shards.keep_for_backward = zero.reshard() == Zero::AFTER_BACKWARD;
  if (zero.has_prefetch()) shards.prefetch = zero.prefetch();
  return shards;
}

std::string NameOfLayerSteps(int64_t layer) { return absl::StrCat(kLayer, layer, kMoved); }

std::optional<int32_t> LayerOfNamedStep(absl::string_view name) {
  int32_t layer = 0;
  if (!absl::ConsumePrefix(&name, kLayer)) return std::nullopt;
  const size_t digits = std::min(name.find('.'), name.size());
  const bool named = absl::SimpleAtoi(name.substr(0, digits), &layer) && absl::StartsWith(name.substr(digits), kMoved);
  return named ? std::optional<int32_t>(layer) : std::nullopt;
}

}  // namespace weft
