// A pipeline schedule: takes sizes and times, and gives one ordered list of slots per rank. It depends on no model and
// no devices.
#ifndef WEFT_SCHEDULES_PIPELINE_SCHEDULE_H_
#define WEFT_SCHEDULES_PIPELINE_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace weft {

enum class SlotKind : uint8_t {
  kForward,
  // The whole backward, or its two halves: the gradient of the stage's input (which the stage below waits for), and the
  // gradients of its weights (which only the optimizer waits for).
  kBackward,
  kBackwardInput,
  kBackwardWeight,
};

// One compute action of the pipeline.
struct Slot {
  SlotKind kind = SlotKind::kForward;
  int16_t lane = 0;
  int32_t stage = 0;
  // The first of the `width` consecutive microbatches that the slot computes at once.
  int32_t microbatch = 0;
  // 1 or 2. Only forwards can be wider than 1 ("forward doubling"); each of their microbatches has its own backward. A
  // microbatch's forward has the same width in all stages.
  uint8_t width = 1;
  // True if the slot runs as one overlapped action with the next slot of the list. This slot is then a forward, and the
  // next is a kBackward.
  bool paired = false;
  // 1 if the microbatch belongs to the next repetition. Only in schedules with `asynchrony`.
  uint8_t ahead = 0;

  friend bool operator==(const Slot&, const Slot&) = default;
};
static_assert(sizeof(Slot) <= 16, "lists of millions of slots");

// Costs in any one unit, for one microbatch on one whole rank. With v stages per rank, a slot costs 1/v of that.
struct SlotCosts {
  int64_t forward = 1;
  // Cost of the whole backward. `weight` of it is for the weight gradients, the rest for the input gradient.
  int64_t backward = 2;
  int64_t weight = 1;
  // Cost of a forward and a backward that run as one overlapped action; 0 = forward + backward.
  int64_t pair = 0;
  // Time from the end of a slot until another rank can use its result. Both ranks continue to work meanwhile.
  int64_t p2p = 0;
};

// Costs of one slot of a stage, in any one unit. A pair of slots that run as one action costs as much as the longer
// one.
struct StageCosts {
  int64_t forward = 0;
  int64_t backward = 0;
  int64_t backward_input = 0;
  int64_t backward_weight = 0;
};

// How Chimera and Chimera-wave use more microbatches than ranks.
enum class Scaling : uint8_t { kConcatenation, kForwardDoubling, kBackwardHalving };

struct ScheduleParams {
  int ranks = 1;         // P >= 1
  int microbatches = 1;  // N >= 1, of one iteration
  // Only schedules that order slots by time read the costs.
  SlotCosts costs = {};
  // In the following fields, 0 lets the schedule choose. A schedule refuses those that it does not take
  // (ScheduleEntry::takes).
  int virtual_stages = 0;  // v, stages per rank
  int waves = 0;           // for Hanayo, whose paper calls it W
  int lanes = 0;           // for Chimera, whose paper calls it 2f
  int limit = 0;           // most microbatches in flight
  int group = 0;           // G, microbatches that a rank runs through one stage before the next
  Scaling scaling = Scaling::kConcatenation;
};

// Each rank chooses its next compute action while it runs (rule P6). `order` then holds, per rank, the forwards and the
// backwards, each kind in its order of execution. How the two interleave in `order` has no meaning.
struct MessageDriven {
  // The slot that runs first if both a forward and a backward could: the one that was ready first (AxoNN), or the
  // backward.
  enum class Rule : uint8_t { kArrival, kBackwardFirst };
  Rule rule = Rule::kArrival;
  // Microbatches that a stage may have in flight, from the start of the forward to the end of the backward (of both
  // halves). So forward n of the stage waits for the end of backward n - limit, counted in the order of each.
  int limit = 1;
};

// Updates without a flush: the pipeline stays full over repetitions. `order` is one repetition of the steady state. Its
// slots with `ahead` belong to the next repetition. So before the first repetition a rank runs its `ahead` slots alone,
// in order; in the last repetition they have no use.
struct Asynchrony {
  // Microbatches whose gradients one update sums; divides `microbatches`.
  int microbatches_per_update = 1;
  // Copies of its weights that each rank keeps.
  std::vector<int> versions = {};
  // The version that a microbatch's forward and backward use: the newest that its rank has at the time of the forward
  // (PipeDream), or on all ranks the version before the latest update (PipeDream-2BW).
  enum class Uses : uint8_t { kNewest, kPrevious };
  Uses uses = Uses::kNewest;
};

struct PipelineSchedule {
  int stages = 0;
  int lanes = 1;
  // placement[lane][stage] = pipe rank. If lanes put a stage on different ranks, each of these has a replica of it.
  std::vector<std::vector<int>> placement = {};
  // order[rank] = slots in execution order.
  std::vector<std::vector<Slot>> order = {};
  std::optional<MessageDriven> message_driven = {};
  std::optional<Asynchrony> asynchrony = {};
};

// Builds the lists. If params are out of range, InvalidArgument names the parameter and the nearest valid value.
using ScheduleFn = absl::StatusOr<PipelineSchedule>(const ScheduleParams& params);

// Bits for the optional parameters that a schedule takes.
enum ScheduleTakes : uint32_t {
  kTakesNothing = 0,
  kTakesVirtualStages = 1,
  kTakesWaves = 2,
  kTakesLanes = 4,
  kTakesLimit = 8,
  kTakesGroup = 16,
  kTakesScaling = 32,
};

struct ClosedForm;

struct ScheduleEntry {
  absl::string_view name;
  ScheduleFn* build;
  // A ClosedFormFn (closed_form.h).
  std::optional<ClosedForm> (*closed_form)(const ScheduleParams& params);
  uint32_t takes;
  absl::string_view source;
};

// All known schedules, sorted by name.
absl::Span<const ScheduleEntry> Schedules();

// Finds a schedule by name. The NotFound error lists the known names and the nearest one.
absl::StatusOr<const ScheduleEntry*> FindSchedule(absl::string_view name);

// Calls entry.build, after a check that `params` sets only parameters that the schedule takes. Otherwise
// InvalidArgument names the wrong parameter and the schedules that take it.
absl::StatusOr<PipelineSchedule> BuildSchedule(const ScheduleEntry& entry, const ScheduleParams& params);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_SCHEDULE_H_
