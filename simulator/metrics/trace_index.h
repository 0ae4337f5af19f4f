// What the steps of a traced run waited for: the rules of docs/program.md read backwards, from a step to what had to
// happen before it could be ready, and to whom it had to wait for in order to start.
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

// A step that was run: RankResult::events[event] of a rank.
struct TracedStep {
  int32_t rank = -1;
  int32_t event = -1;

  friend auto operator<=>(const TracedStep&, const TracedStep&) = default;
};

// Something that a step waited for.
struct Cause {
  TracedStep step;
  // It is the step's finish, not its end.
  bool finish = false;

  friend bool operator==(const Cause&, const Cause&) = default;
};

// Ranks are looked at when they are first asked for, so a walk pays for the ranks that it comes by.
class TraceIndex {
 public:
  // `result` is of a run of `view` over `repetitions`, traced and of all ranks. Both must outlive the index.
  TraceIndex(const ProgramView& view, const EngineResult& result, int32_t repetitions);

  const EngineEvent& At(TracedStep step) const { return result_.ranks[step.rank].events[step.event]; }
  const TemplateView& TemplateOf(int32_t rank) const { return view_.templates[view_.template_of_rank[rank]]; }
  const ActionView& ActionOf(TracedStep step) const { return TemplateOf(step.rank).actions[At(step).action]; }
  const StreamView& StreamOf(TracedStep step) const { return TemplateOf(step.rank).streams[At(step).stream]; }

  // What had to happen before the step was ready (rules P1, P2, P6), the streams' earlier steps first.
  std::vector<Cause> BeforeReady(TracedStep step);
  // Who had to be ready before the step could start, itself first (rule P4): of a transfer its partner and all that
  // their groups start with, of a collective all members.
  std::vector<TracedStep> StartsWith(TracedStep step);
  // The other side of a transfer.
  TracedStep PartnerOf(TracedStep step);
  // A compute step of another rank of the node, or an earlier one of its own, that had begun before this one started
  // and ended then, so that a slot was free (rule P3).
  std::optional<TracedStep> FreedSlot(TracedStep step, const EngineOptions& options) const;

 private:
  // By event.
  struct Place {
    // In TemplateView::entries and, unless it is a transfer, runs.
    int32_t entry = -1;
    int32_t run = -1;
    // The event before it on its stream.
    int32_t before = -1;
    // Of transfers in their channel, of collectives on their stream.
    int32_t number = -1;
  };
  struct RankIndex {
    bool built = false;
    std::vector<Place> places;
    // By object and repetition: the event whose finish completes it.
    std::vector<int32_t> completed_by;
    std::vector<std::vector<int32_t>> of_channel;
    std::vector<std::vector<int32_t>> of_stream;
    // By group and repetition.
    absl::flat_hash_map<int64_t, std::vector<int32_t>> of_group;
  };
  // By template: entry of (stream, action), and channel of an action that is a transfer.
  struct TemplateIndex {
    bool built = false;
    absl::flat_hash_map<int64_t, int32_t> entry_of;
    std::vector<int32_t> channel_of;
  };

  RankIndex& Rank(int32_t rank);
  void Build(int32_t rank, RankIndex& index);
  TemplateIndex& Template(int32_t t);
  int32_t& CompletedBy(const TemplateView& t, RankIndex& index, int32_t object, int32_t repetition) const;
  // Repetition that dependencies of an entry count from.
  int32_t RepetitionOf(const Entry& entry, const EngineEvent& event) const;
  // All steps of the transfer's group, or it alone.
  std::vector<TracedStep> GroupOf(TracedStep step);
  void AddStreamBefore(TracedStep step, std::vector<Cause>& causes);
  void AddWaits(TracedStep step, const Entry& entry, std::vector<Cause>& causes);
  void AddBarrier(const EngineEvent& event, std::vector<Cause>& causes);
  int64_t PeerOf(int64_t rank, const ChannelView& channel) const;
  // The streams of the communicator that the stream of `rank` is of, by member.
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
