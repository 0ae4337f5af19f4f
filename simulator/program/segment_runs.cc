#include "simulator/program/segment_runs.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"
#include "simulator/program/view_calls.h"

namespace weft::sim {
namespace {

constexpr int64_t kTimeLimit = int64_t{1} << 62;

class Builder {
 public:
  Builder(const Program& program, int segment, ActionKind kind, const std::vector<StepRange>* ranges,
          const StepCostsFn& costs, const ProgramViewOptions& options, TemplateView& view)
      : program_(program),
        index_(segment),
        segment_(program.segments(segment)),
        kind_(kind),
        ranges_(ranges),
        costs_(costs),
        options_(options),
        view_(view),
        named_(segment_.steps_size(), -1) {}

  absl::StatusOr<SegmentRuns> Build() {
    WEFT_RETURN_IF_ERROR(FindStreams());
    FindTails();
    NameSteps();
    for (size_t s = 0; s < keys_.size(); ++s) {
      SegmentStream stream = {.key = *keys_[s], .runs = {}, .has_tail = tails_[s] >= 0};
      stream.runs.begin = static_cast<int32_t>(view_.runs.size());
      WEFT_RETURN_IF_ERROR(AddRuns(static_cast<int>(s)));
      stream.runs.end = static_cast<int32_t>(view_.runs.size());
      result_.tails += stream.has_tail;
      result_.streams.push_back(std::move(stream));
    }
    return std::move(result_);
  }

 private:
  // Numbers the streams in the order of their keys.
  absl::Status FindStreams() {
    std::vector<std::map<StreamKey, int32_t>::iterator> found;
    for (int i = 0; i < segment_.steps_size(); ++i) {
      const Step& step = segment_.steps(i);
      StreamKey key;
      switch (step.stream()) {
        case COMPUTE:
          key.kind = StreamClass::kCompute;
          break;
        case D2H:
          key.kind = StreamClass::kD2h;
          break;
        case H2D:
          key.kind = StreamClass::kH2d;
          break;
        case COLLECTIVE:
          key = CollectiveStream(program_.mesh(), *view_.proto, step.collective().group(), step.collective().purpose());
          break;
        default:
          return Error(i, absl::StrCat("unknown stream ", static_cast<int>(step.stream())));
      }
      for (const int32_t dep : step.deps()) {
        if (dep < 0 || dep >= i) return Error(i, absl::StrCat("dep ", dep, " is not an earlier step"));
      }
      found.push_back(streams_.try_emplace(std::move(key), 0).first);
    }
    for (auto& [key, index] : streams_) {
      index = static_cast<int32_t>(keys_.size());
      keys_.push_back(&key);
    }
    for (const auto& stream : found) stream_of_.push_back(stream->second);
    return absl::OkStatus();
  }

  absl::Status Error(int step, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("segment '", segment_.name(), "' step ", step, ": ", what));
  }

  // Finds the tail of each stream: its last attached step. The step is no tail if a step of another stream waits for
  // it, and the last attached step of that other stream is at or after the waiting step: the other tail then implies
  // this one.
  void FindTails() {
    last_attached_.assign(keys_.size(), -1);
    for (int i = 0; i < segment_.steps_size(); ++i) {
      if (!segment_.steps(i).detached()) last_attached_[stream_of_[i]] = i;
    }
    tails_ = last_attached_;
    for (int i = 0; i < segment_.steps_size(); ++i) {
      if (i > last_attached_[stream_of_[i]]) continue;
      for (const int32_t dep : segment_.steps(i).deps()) {
        const int32_t stream = stream_of_[dep];
        if (stream != stream_of_[i] && dep == last_attached_[stream]) tails_[stream] = -1;
      }
    }
    // The reason for waiting for the action is the reason of a tail that is not computation. If there are several such
    // tails, the last one in the list counts.
    int last = -1;
    for (size_t s = 0; s < keys_.size(); ++s) {
      if (keys_[s]->kind != StreamClass::kCompute) last = std::max(last, tails_[s]);
    }
    if (last >= 0) result_.reason = Reason(last);
  }

  void NameSteps() {
    const auto name = [&](int step) {
      if (named_[step] < 0) named_[step] = result_.named++;
    };
    for (int i = 0; i < segment_.steps_size(); ++i) {
      for (const int32_t dep : segment_.steps(i).deps()) {
        if (!ImpliedByStream(dep, i)) name(dep);
      }
    }
    std::vector<int> last_detached(keys_.size(), -1);
    for (int i = 0; i < segment_.steps_size(); ++i) {
      if (segment_.steps(i).detached() && i > last_attached_[stream_of_[i]]) last_detached[stream_of_[i]] = i;
    }
    for (const int step : last_detached) {
      if (step < 0) continue;
      name(step);
      result_.detached.push_back({named_[step], Reason(step)});
    }
  }

  // True if the stream's order implies the wait of `step` for `dep`: on one stream a step ends before the next one
  // starts. A collective finishes later than it ends, so the order of its stream implies nothing.
  bool ImpliedByStream(int dep, int step) const {
    return stream_of_[dep] == stream_of_[step] && keys_[stream_of_[dep]]->kind != StreamClass::kCollective;
  }

  IdleReason Reason(int step) const {
    const StreamKey& key = *keys_[stream_of_[step]];
    return key.kind == StreamClass::kCollective ? CollectiveReason(key.purpose) : IdleReason::kHostCopy;
  }

  absl::StatusOr<std::array<int64_t, kLoads>> Costs(int step) const {
    WEFT_ASSIGN_OR_RETURN(
        const LoadTimes times,
        costs_({.segment = index_, .step = step, .kind = kind_, .device = view_.device, .ranges = ranges_}));
    const bool grows = times[0] <= times[1] && times[1] <= times[2] && (times[0].ps > 0 || times[2].ps == 0);
    if (!grows) {
      return absl::InternalError(absl::StrCat("segment '", segment_.name(), "' step '", segment_.steps(step).name(),
                                              "' costs ", times[0].ps, ", ", times[1].ps, ", ", times[2].ps,
                                              " ps beside 0, 1, 2 collectives; costs must not fall with more "
                                              "collectives, and either all or none must be 0"));
    }
    return std::array<int64_t, kLoads>{times[0].ps, times[1].ps, times[2].ps};
  }

  absl::Status AddRuns(int stream) {
    bool open = false;
    for (int i = 0; i < segment_.steps_size(); ++i) {
      const Step& step = segment_.steps(i);
      if (stream_of_[i] != stream) continue;
      Range waits = {.begin = static_cast<int32_t>(view_.run_waits.size()), .end = 0};
      for (const int32_t dep : step.deps()) {
        if (!ImpliedByStream(dep, i)) view_.run_waits.push_back({named_[dep], Reason(dep)});
      }
      waits.end = static_cast<int32_t>(view_.run_waits.size());
      const bool collective = keys_[stream]->kind == StreamClass::kCollective;
      if (!open || !waits.empty() || !options_.join_steps || collective) {
        const int32_t first = static_cast<int32_t>(view_.steps.size());
        Run run;
        run.steps = {first, first};
        run.waits = waits;
        view_.runs.push_back(run);
      }
      Run& run = view_.runs.back();
      StepRef ref = {.step = i, .range = ranges_ == nullptr ? nullptr : RangeOf(*ranges_, i), .cost_ps = {}};
      if (collective) {
        WEFT_ASSIGN_OR_RETURN(run.collective, AddStepCall(segment_, step, view_));
      } else {
        WEFT_ASSIGN_OR_RETURN(ref.cost_ps, Costs(i));
      }
      view_.steps.push_back(ref);
      run.steps.end = static_cast<int32_t>(view_.steps.size());
      for (int load = 0; load < kLoads; ++load) {
        run.cost_ps[load] += std::min(ref.cost_ps[load], kTimeLimit - run.cost_ps[load]);
      }
      run.signal = named_[i];
      run.is_tail = i == tails_[stream];
      open = run.signal < 0 && !run.is_tail;
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const int index_;
  const Segment& segment_;
  const ActionKind kind_;
  const std::vector<StepRange>* const ranges_;
  const StepCostsFn& costs_;
  const ProgramViewOptions& options_;
  TemplateView& view_;
  std::map<StreamKey, int32_t> streams_;
  // For each stream: its key, its last attached step, and its tail (-1 = none).
  std::vector<const StreamKey*> keys_;
  std::vector<int> last_attached_;
  std::vector<int> tails_;
  // For each step: its stream, and its index among the steps that others wait for, or -1.
  std::vector<int32_t> stream_of_;
  std::vector<int32_t> named_;
  SegmentRuns result_;
};

}  // namespace

absl::StatusOr<SegmentRuns> BuildSegmentRuns(const Program& program, int segment, ActionKind kind,
                                             const std::vector<StepRange>* ranges, const StepCostsFn& costs,
                                             const ProgramViewOptions& options, TemplateView& view) {
  return Builder(program, segment, kind, ranges, costs, options, view).Build();
}

}  // namespace weft::sim
