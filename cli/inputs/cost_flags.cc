#include "cli/inputs/cost_flags.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "simulator/cost/cost_model.h"
#include "simulator/network/network_model.h"

namespace weft {
namespace {

// 10 seconds.
constexpr int64_t kLargestUnitNs = 10'000'000'000;

template <typename Entry>
std::vector<std::string> NamesOf(absl::Span<const Entry> entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.emplace_back(entry.name);
  return names;
}

}  // namespace

CostFlags::CostFlags(Flags* flags, CostRequest* request) : flags_(flags), request_(request) {
  request->options.cost.clear();
  const sim::CostOptions unit;
  forward_ns_ = unit.unit_forward.ps / 1000;
  backward_ns_ = unit.unit_backward.ps / 1000;
  weight_ns_ = unit.unit_weight.ps / 1000;
  pair_ns_ = unit.unit_pair.ps / 1000;
  sim::SimulateOptions& options = request->options;
  flags->Choice("network", NamesOf(sim::NetworkModels()), "the model that predicts the time of transfers",
                &options.network);
  flags->Choice("cost", NamesOf(sim::CostModels()),
                "the model that predicts the time of kernels [tiles if the cluster has figures for it, else roofline]",
                &options.cost);
  flags->Thousandths("forward", "US", "with --cost=unit: microseconds of a forward", &forward_ns_, 1, kLargestUnitNs);
  flags->Thousandths("backward", "US", "with --cost=unit: microseconds of a backward", &backward_ns_, 1,
                     kLargestUnitNs);
  flags->Thousandths(
      "weight", "US",
      "with --cost=unit: the part of --backward for the weight gradients; by default half, if --backward is given",
      &weight_ns_, 0, kLargestUnitNs);
  flags->Thousandths("pair", "US",
                     "with --cost=unit: microseconds of a forward and a backward that overlap; 0 = the sum of both",
                     &pair_ns_, 0, kLargestUnitNs);
  flags->String("runtime", "NAME|FILE",
                "the framework to predict, or weft for its own executor; see weft list runtimes", &request->runtime);
  flags->Int("runs", "N",
             "also simulate N runs with random noise (cluster.noise) and print percentiles of the iteration time",
             &options.runs, 0, 1'000'000);
  flags->Int("seed", "S", "with --runs: the seed of the noise; with --goodput --days: of the interruptions",
             &options.seed, 0, INT64_MAX);
  flags->Choice("fold", {"auto", "off"},
                "auto: simulate one rank for all ranks that behave alike; off: simulate every rank", &fold_);
  flags->Bool("exceeded",
              "with plan.post_validation: simulate steps in which every gradient norm is too large; by default none is",
              &options.exceeded);
}

absl::Status CostFlags::Finish() {
  WEFT_RETURN_IF_ERROR(SetUnitCosts());
  request_->options.fold = fold_ == "auto";
  const bool draws = request_->options.runs > 0 || (request_->goodput && request_->goodput->days > 0);
  if (flags_->Given("seed") && !draws) return UsageError("--seed needs --runs=N, or --goodput with --days=N");
  if (request_->runtime != "weft" && !sim::KnowsDevice(request_->options.cost)) {
    return UsageError(absl::StrCat("--cost=", request_->options.cost,
                                   " does not know the times of kernels, so it cannot predict --runtime=",
                                   Quoted(request_->runtime), "; nearest: --cost=roofline or tiles"));
  }
  return absl::OkStatus();
}

absl::Status CostFlags::SetUnitCosts() {
  const sim::SimulateOptions& options = request_->options;
  for (const char* flag : {"forward", "backward", "weight", "pair"}) {
    if (sim::KnowsDevice(options.cost) && flags_->Given(flag)) {
      return UsageError(
          absl::StrCat("--", flag, " is for --cost=unit",
                       options.cost.empty() ? "" : absl::StrCat(", but the cost model is ", options.cost)));
    }
  }
  if (flags_->Given("backward") && !flags_->Given("weight")) weight_ns_ = backward_ns_ / 2;
  if (weight_ns_ > backward_ns_) {
    return UsageError(absl::StrCat("--weight=", weight_ns_ / 1000.0,
                                   " is too large; allowed: at most --backward=", backward_ns_ / 1000.0));
  }
  request_->options.cost_options = {.unit_forward = {forward_ns_ * 1000},
                                    .unit_backward = {backward_ns_ * 1000},
                                    .unit_weight = {weight_ns_ * 1000},
                                    .unit_pair = {pair_ns_ * 1000}};
  return absl::OkStatus();
}

}  // namespace weft
