#include "simulator/report/chrome_trace.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/io/json.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "simulator/program/program_view.h"
#include "simulator/program/view_actions.h"

namespace weft::sim {
namespace {

// Formats picoseconds as microseconds, exactly.
std::string Microseconds(int64_t ps) { return absl::StrFormat("%d.%06d", ps / 1'000'000, ps % 1'000'000); }

// Messages with the same key match in order: (source, destination, lane, direction, skip).
using Edge = std::tuple<int64_t, int64_t, int32_t, int32_t, int32_t>;

struct Slice {
  int64_t rank = 0;
  int32_t stream = 0;
  int64_t start = 0;
  int64_t end = 0;
};

class Writer {
 public:
  Writer(const Trace& trace, const Program& program) : trace_(trace), program_(program) {}

  absl::StatusOr<std::string> Write() {
    const StepDurationFn no_duration = [](int, int, ActionKind) -> absl::StatusOr<Time> { return Time{}; };
    WEFT_ASSIGN_OR_RETURN(view_, BuildProgramView(program_, no_duration, {.exceeded = true}));
    json_ = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    for (const RankTrace& rank : trace_.ranks()) WEFT_RETURN_IF_ERROR(WriteRank(rank));
    WriteFlows();
    absl::StrAppend(&json_, "\n],\"otherData\":{\"origin\":", JsonQuoted(trace_.origin()),
                    ",\"program\":", JsonQuoted(trace_.program_name()), ",\"repetitions\":", trace_.repetitions(),
                    "}}\n");
    return std::move(json_);
  }

 private:
  // Appends one event: {"ph":"X", ...}.
  template <typename... Parts>
  void Event(const Parts&... parts) {
    absl::StrAppend(&json_, first_ ? "\n{" : ",\n{", parts..., "}");
    first_ = false;
  }

  void Metadata(int64_t pid, int64_t tid, absl::string_view kind, absl::string_view argument) {
    Event("\"ph\":\"M\",\"pid\":", pid, ",\"tid\":", tid, ",\"name\":\"", kind, "\",\"args\":{", argument, "}");
  }

  std::string RankName(int64_t rank) const {
    std::string name = absl::StrCat("rank ", rank);
    const std::vector<int64_t> coordinates = RankCoordinates(program_.mesh(), rank);
    for (int i = 0; i < program_.mesh().axes_size(); ++i) {
      absl::StrAppend(&name, i == 0 ? " (" : ", ", program_.mesh().axes(i).name(), " ", coordinates[i],
                      i + 1 == program_.mesh().axes_size() ? ")" : "");
    }
    return name;
  }

  absl::Status WriteRank(const RankTrace& rank_trace) {
    const int64_t rank = rank_trace.rank();
    if (rank < 0 || rank >= static_cast<int64_t>(view_.template_of_rank.size())) {
      return absl::InvalidArgumentError(absl::StrCat("trace has rank ", rank, ", but the last rank of the program is ",
                                                     view_.template_of_rank.size() - 1));
    }
    const TemplateView& t = view_.templates[view_.template_of_rank[rank]];
    absl::flat_hash_map<int32_t, int32_t> index_of_id;
    for (size_t i = 0; i < t.actions.size(); ++i) index_of_id[t.actions[i].action->id()] = static_cast<int32_t>(i);

    Metadata(rank, 0, "process_name", absl::StrCat("\"name\":", JsonQuoted(RankName(rank))));
    Metadata(rank, 0, "process_sort_index", absl::StrCat("\"sort_index\":", rank));
    for (int s = 0; s < rank_trace.streams_size(); ++s) {
      Metadata(rank, s, "thread_name", absl::StrCat("\"name\":", JsonQuoted(rank_trace.streams(s))));
      Metadata(rank, s, "thread_sort_index", absl::StrCat("\"sort_index\":", s));
    }

    // The events of each action instance on each stream.
    std::map<std::tuple<int32_t, int32_t, int32_t>, std::vector<const TraceEvent*>> groups;
    for (int i = 0; i < rank_trace.events_size(); ++i) {
      const TraceEvent& event = rank_trace.events(i);
      const auto found = index_of_id.find(event.action());
      const bool in_range = found != index_of_id.end() && event.stream() >= 0 &&
                            event.stream() < rank_trace.streams_size() && event.step() >= 0 &&
                            event.step() < StepCount(*t.actions[found->second].action);
      if (!in_range || event.start_ps() < 0 || event.end_ps() < event.start_ps()) {
        return absl::InvalidArgumentError(
            absl::StrCat("trace of rank ", rank, " event ", i, ": action ", event.action(), " step ", event.step(),
                         " stream ", event.stream(), " from ", event.start_ps(), " to ", event.end_ps(),
                         " ps is not of program '", program_.name(), "'"));
      }
      groups[{event.stream(), event.repetition(), found->second}].push_back(&event);
    }
    for (const auto& [key, events] : groups) {
      const auto& [stream, repetition, action] = key;
      WriteAction(rank, stream, *t.actions[action].action, events);
    }
    WriteMemory(rank_trace, t, index_of_id);
    return absl::OkStatus();
  }

  int StepCount(const Action& action) const {
    return IsCompute(action.kind()) ? program_.segments(action.segment()).steps_size() : 1;
  }

  void WriteSlice(const Slice& slice, absl::string_view name, absl::string_view category, absl::string_view arguments) {
    Event("\"ph\":\"X\",\"pid\":", slice.rank, ",\"tid\":", slice.stream, ",\"ts\":", Microseconds(slice.start),
          ",\"dur\":", Microseconds(slice.end - slice.start), ",\"name\":", JsonQuoted(name), ",\"cat\":\"", category,
          "\",\"args\":{", arguments, "}");
  }

  void WriteAction(int64_t rank, int32_t stream, const Action& action, const std::vector<const TraceEvent*>& events) {
    const std::string kind = absl::AsciiStrToLower(ActionKind_Name(action.kind()));
    Slice whole = {rank, stream, events.front()->start_ps(), events.front()->end_ps()};
    for (const TraceEvent* event : events) {
      whole.start = std::min(whole.start, event->start_ps());
      whole.end = std::max(whole.end, event->end_ps());
    }
    std::string arguments = absl::StrCat("\"action\":", action.id(), ",\"repetition\":", events.front()->repetition(),
                                         ",\"ready_us\":", Microseconds(events.front()->ready_ps()));
    if (!IsCompute(action.kind())) {
      absl::StrAppend(&arguments, ",\"finish_us\":", Microseconds(events.front()->finish_ps()));
      if (IsTransfer(action.kind())) {
        const int64_t peer = PeerRank(program_.mesh(), rank, action.peer());
        const Edge edge = {action.kind() == SEND ? rank : peer, action.kind() == SEND ? peer : rank, action.lane(),
                           action.direction(), action.skip()};
        (action.kind() == SEND ? sends_ : recvs_)[edge].push_back(whole);
      }
      return WriteSlice(whole, action.name(), kind, arguments);
    }
    const Segment& segment = program_.segments(action.segment());
    // A communicator is idle between the collectives of an action, so only the collectives have slices.
    const bool collectives = segment.steps(events.front()->step()).stream() == COLLECTIVE;
    if (!collectives) WriteSlice(whole, action.name(), kind, arguments);
    if (segment.steps_size() == 1 && !collectives) return;
    for (const TraceEvent* event : events) {
      const Step& step = segment.steps(event->step());
      std::string own = absl::StrCat("\"step\":", event->step());
      if (collectives) {
        absl::StrAppend(&own, ",", arguments, ",\"of\":", JsonQuoted(action.name()),
                        ",\"finish_us\":", Microseconds(event->finish_ps()));
      }
      WriteSlice({rank, stream, event->start_ps(), event->end_ps()}, step.name(),
                 absl::AsciiStrToLower(Kernel_Name(step.kernel())), own);
    }
  }

  // Writes the live bytes by class after every instant at which they change (rule P7).
  void WriteMemory(const RankTrace& rank_trace, const TemplateView& t,
                   const absl::flat_hash_map<int32_t, int32_t>& index_of_id) {
    // Start and finish of every action instance.
    std::map<std::pair<int32_t, int32_t>, std::pair<int64_t, int64_t>> spans;
    for (const TraceEvent& event : rank_trace.events()) {
      const int32_t index = index_of_id.at(event.action());
      const Action& action = *t.actions[index].action;
      const bool detached =
          IsCompute(action.kind()) && program_.segments(action.segment()).steps(event.step()).detached();
      const auto [at, inserted] = spans.try_emplace({event.repetition(), index}, event.start_ps(), event.start_ps());
      at->second.first = std::min(at->second.first, event.start_ps());
      if (!detached) at->second.second = std::max(at->second.second, event.finish_ps());
    }
    std::map<int64_t, ClassSizes> changes;
    ClassSizes live = t.persistent;
    changes[0] = {};
    for (const auto& [key, span] : spans) {
      const ActionView& action = t.actions[key.second];
      for (int32_t i = action.allocates.begin; i < action.allocates.end; ++i) {
        changes[span.first][t.memory[i].buffer_class] += t.memory[i].bytes;
      }
      for (int32_t i = action.frees.begin; i < action.frees.end; ++i) {
        changes[span.second][t.memory[i].buffer_class] -= t.memory[i].bytes;
      }
    }
    for (const auto& [time, change] : changes) {
      std::string arguments;
      for (int c = 1; c < kBufferClasses; ++c) {
        live[c] += change[c];
        absl::StrAppend(&arguments, c == 1 ? "\"" : ",\"",
                        absl::AsciiStrToLower(BufferClass_Name(static_cast<BufferClass>(c))), "\":", live[c]);
      }
      Event("\"ph\":\"C\",\"pid\":", rank_trace.rank(), ",\"ts\":", Microseconds(time),
            ",\"name\":\"live device bytes\",\"args\":{", arguments, "}");
    }
  }

  // Draws an arrow from the i-th send of an edge to its i-th recv (rule P4).
  void WriteFlows() {
    int64_t id = 0;
    for (auto& [edge, sends] : sends_) {
      std::vector<Slice>& recvs = recvs_[edge];
      const auto earlier = [](const Slice& a, const Slice& b) {
        return std::tie(a.start, a.end) < std::tie(b.start, b.end);
      };
      std::stable_sort(sends.begin(), sends.end(), earlier);
      std::stable_sort(recvs.begin(), recvs.end(), earlier);
      for (size_t i = 0; i < std::min(sends.size(), recvs.size()); ++i) {
        ++id;
        // Clocks of measured traces differ a little, so clamp: the arrow must end inside the slice of the recv.
        const int64_t arrival = std::clamp(sends[i].start, recvs[i].start, recvs[i].end);
        WriteFlowEnd("\"ph\":\"s\"", id, sends[i], sends[i].start);
        WriteFlowEnd("\"ph\":\"f\",\"bp\":\"e\"", id, recvs[i], arrival);
      }
    }
  }

  void WriteFlowEnd(absl::string_view phase, int64_t id, const Slice& slice, int64_t time) {
    Event(phase, ",\"id\":", id, ",\"pid\":", slice.rank, ",\"tid\":", slice.stream, ",\"ts\":", Microseconds(time),
          ",\"name\":\"transfer\",\"cat\":\"transfer\"");
  }

  const Trace& trace_;
  const Program& program_;
  ProgramView view_;
  std::string json_;
  bool first_ = true;
  std::map<Edge, std::vector<Slice>> sends_;
  std::map<Edge, std::vector<Slice>> recvs_;
};

}  // namespace

absl::StatusOr<std::string> TraceToChromeJson(const Trace& trace, const Program& program) {
  return Writer(trace, program).Write();
}

}  // namespace weft::sim
