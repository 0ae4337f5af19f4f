#include "executor/interpreter/deadlines.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/io/crc32c.h"
#include "proto/io/program_file.h"
#include "proto/util/mesh.h"

namespace weft::exec {
namespace {

// The longest deadline: about 30 years.
constexpr int64_t kMaxNanoseconds = int64_t{1000000000} * 1000000000;

int64_t Times(int64_t value, int64_t factor) {
  return value > kMaxNanoseconds / factor ? kMaxNanoseconds : value * factor;
}

}  // namespace

absl::StatusOr<PredictedTimes> PredictedTimes::Make(const Program& program, const Trace& trace) {
  if (trace.origin() != "simulated") {
    return absl::InvalidArgumentError(
        absl::StrCat("the trace is ", trace.origin() == "measured" ? "measured" : "not marked as simulated",
                     "; allowed: a trace that `weft simulate PROGRAM --trace=FILE` wrote"));
  }
  if (trace.program_crc() != ProgramCrc(program)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the trace is of program '", trace.program_name(), "' (CRC ", absl::Hex(trace.program_crc(), absl::kZeroPad8),
        "), but the run is of '", program.name(), "' (CRC ", absl::Hex(ProgramCrc(program), absl::kZeroPad8), ")"));
  }
  PredictedTimes result;
  result.times_.resize(program.templates_size());
  std::map<std::string, int> index;
  for (int t = 0; t < program.templates_size(); ++t) index[program.templates(t).name()] = t;
  for (const RankTrace& rank : trace.ranks()) {
    const auto found = index.find(rank.template_name());
    if (found == index.end()) continue;
    // By repetition and action: when its first step was ready, and when its last step was finished.
    std::map<std::pair<int32_t, int32_t>, std::pair<int64_t, int64_t>> spans;
    for (const TraceEvent& event : rank.events()) {
      const auto [span, is_new] =
          spans.try_emplace({event.repetition(), event.action()}, event.ready_ps(), event.finish_ps());
      span->second.first = std::min(span->second.first, event.ready_ps());
      span->second.second = std::max(span->second.second, event.finish_ps());
    }
    std::map<int32_t, int64_t> longest;
    for (const auto& [key, span] : spans) {
      int64_t& ns = longest[key.second];
      ns = std::max(ns, span.second / 1000 - span.first / 1000);
      result.longest_ = std::max(result.longest_, ns);
    }
    auto& times = result.times_[found->second];
    // Ranks of one template may differ, so the longest time of all of them counts.
    for (const auto& [action, ns] : times) longest[action] = std::max(longest[action], ns);
    times.assign(longest.begin(), longest.end());
  }
  return result;
}

std::string PredictedTimes::Digest() const {
  if (longest_ == 0) return "none";
  std::string text;
  for (const auto& of_template : times_) {
    for (const auto& [action, ns] : of_template) absl::StrAppend(&text, action, ":", ns, " ");
    text += '/';
  }
  return absl::StrCat("times with checksum ", absl::Hex(Crc32c(text), absl::kZeroPad8));
}

int64_t PredictedTimes::Of(int template_index, int32_t action) const {
  if (template_index < 0 || template_index >= static_cast<int>(times_.size())) return 0;
  const auto& times = times_[template_index];
  const auto found = std::lower_bound(times.begin(), times.end(), std::make_pair(action, INT64_MIN));
  return found == times.end() || found->first != action ? 0 : found->second;
}

Deadlines::Deadlines(const Program& program, int rank, std::chrono::nanoseconds timeout,
                     const PredictedTimes& predicted, bool generous)
    : timeout_ns_(std::clamp<int64_t>(timeout.count(), 1, kMaxNanoseconds / kFirstFactor)), generous_(generous) {
  const int index = TemplateOfRank(program, rank);
  if (index < 0) return;
  const Template& t = program.templates(index);
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) {
      const int64_t limit = Times(predicted.Of(index, action.id()), kFactor);
      of_action_.push_back(std::max(timeout_ns_, limit));
      longest_predicted_ns_ = std::max(longest_predicted_ns_, limit);
    }
  }
}

std::chrono::nanoseconds Deadlines::Of(int32_t action) const {
  const bool known = action >= 0 && action < static_cast<int64_t>(of_action_.size());
  return std::chrono::nanoseconds(Times(known ? of_action_[action] : timeout_ns_, Now()));
}

}  // namespace weft::exec
