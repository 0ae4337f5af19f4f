// Finds the causes of the waits in a traced run. The index applies the rules of docs/program.md in reverse: from a step
// to the events that had to come before the step was ready, and to the steps that it had to wait for in order to start.
#ifndef WEFT_SIMULATOR_METRICS_TRACE_INDEX_H_
#define WEFT_SIMULATOR_METRICS_TRACE_INDEX_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/engine/engine.h"
#include "simulator/program/program_view.h"

namespace weft::sim {

// A step that was run: RankResult::events[event] of `rank`.
struct TracedStep {
  int32_t rank = -1;
  int32_t event = -1;

  friend auto operator<=>(const TracedStep&, const TracedStep&) = default;
};

// Something that a step waited for.
struct Cause {
  TracedStep step;
  // True if the wait was for the step's finish, false if it was for its end.
  bool finish = false;

  friend bool operator==(const Cause&, const Cause&) = default;
};

// Indexes a rank when the rank is first needed, so a walk pays only for the ranks that it visits.
class TraceIndex {
 public:
  // `result` must come from a traced run of `view` over `repetitions`, with all ranks simulated. Both must outlive the
  // index.
  TraceIndex(const ProgramView& view, const EngineResult& result, int32_t repetitions);

  const EngineEvent& At(TracedStep step) const { return result_.ranks[step.rank].events[step.event]; }
  const TemplateView& TemplateOf(int32_t rank) const { return view_.templates[view_.template_of_rank[rank]]; }
  const ActionView& ActionOf(TracedStep step) const { return TemplateOf(step.rank).actions[At(step).action]; }
  const StreamView& StreamOf(TracedStep step) const { return TemplateOf(step.rank).streams[At(step).stream]; }

  // Returns what had to happen before the step was ready (rules P1, P2, P6). Earlier steps of its streams come first.
  std::vector<Cause> BeforeReady(TracedStep step);
  // Returns the steps that had to be ready before the step could start, the step itself first (rule P4). For a transfer
  // these are the partners of all members of its own group and of its partner's group; for a collective, all members.
  std::vector<TracedStep> StartsWith(TracedStep step);
  // Returns the other side of a transfer.
  TracedStep PartnerOf(TracedStep step);
  // Returns a compute step whose end freed a compute slot for `step` (rule P3): a step of another rank of the node or
  // an earlier step of the same rank. It began before `step` started and ended at that instant.
  std::optional<TracedStep> FreedSlot(TracedStep step, const EngineOptions& options) const;

 private:
  // Position of one event in the program. There is one Place for each event.
  struct Place {
    // Index in TemplateView::entries and, unless the event is a transfer, in TemplateView::runs.
    int32_t entry = -1;
    int32_t run = -1;
    // The previous event on the same stream; the two compute queues count as one stream.
    int32_t before = -1;
    // A transfer's position among the events of its channel, or any other step's position on its stream.
    int32_t number = -1;
  };
  struct RankIndex {
    bool built = false;
    std::vector<Place> places;
    // The event whose finish completes an object in a repetition, by object and repetition.
    std::vector<int32_t> completed_by;
    std::vector<std::vector<int32_t>> of_channel;
    std::vector<std::vector<int32_t>> of_stream;
    // Events by group and repetition.
    absl::flat_hash_map<int64_t, std::vector<int32_t>> of_group;
  };
  // For a template: the entry of each (stream, action), and the channel of each action that is a transfer.
  struct TemplateIndex {
    bool built = false;
    absl::flat_hash_map<int64_t, int32_t> entry_of;
    std::vector<int32_t> channel_of;
  };

  RankIndex& Rank(int32_t rank);
  void Build(int32_t rank, RankIndex& index);
  TemplateIndex& Template(int32_t t);
  int32_t& CompletedBy(const TemplateView& t, RankIndex& index, int32_t object, int32_t repetition) const;
  // Returns the repetition to which the dependencies of an entry refer.
  int32_t RepetitionOf(const Entry& entry, const EngineEvent& event) const;
  // All steps of the transfer's group, or the transfer alone.
  std::vector<TracedStep> GroupOf(TracedStep step);
  void AddStreamBefore(TracedStep step, std::vector<Cause>& causes);
  void AddWaits(TracedStep step, const Entry& entry, std::vector<Cause>& causes);
  void AddBarrier(const EngineEvent& event, std::vector<Cause>& causes);
  int64_t PeerOf(int64_t rank, const ChannelView& channel) const;
  // Streams of the communicator that `stream` of `rank` belongs to, by member.
  const std::vector<std::pair<int32_t, int32_t>>& Members(int32_t rank, int32_t stream);

  const ProgramView& view_;
  const EngineResult& result_;
  const int32_t repetitions_;
  std::vector<RankIndex> ranks_;
  std::vector<TemplateIndex> templates_;
  std::map<std::pair<int32_t, int32_t>, std::vector<std::pair<int32_t, int32_t>>> members_;
};

}  // namespace weft::sim

#endif  // WEFT_SIMULATOR_METRICS_TRACE_INDEX_H_
