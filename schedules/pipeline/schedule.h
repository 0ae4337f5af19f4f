// A pipeline schedule: sizes and times in, one ordered list of slots per rank out. No model, no devices.
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
  // The whole backward, or its two halves: the gradient of the stage's input (which the stage below waits for), and
  // the gradients of its weights (which only the optimizer waits for).
  kBackward,
  kBackwardInput,
  kBackwardWeight,
};

// One compute action of the pipeline.
struct Slot {
  SlotKind kind = SlotKind::kForward;
  int16_t lane = 0;
  int32_t stage = 0;
  // The first of `width` neighbouring microbatches that it computes at once.
  int32_t microbatch = 0;
  // 1 or 2. Only forwards are wider than 1: "forward doubling", where each microbatch has a backward of its own. A
  // microbatch's forward has the same width in all stages.
  uint8_t width = 1;
  // Runs as one overlapped action with the next slot of the list: this one a forward, that one a kBackward.
  bool paired = false;
  // 1: the microbatch is one of the next repetition. Only in schedules with `asynchrony`.
  uint8_t ahead = 0;

  friend bool operator==(const Slot&, const Slot&) = default;
};
static_assert(sizeof(Slot) <= 16, "lists of millions of slots");

// In any one unit. Of one microbatch on one whole rank: with v stages per rank, a slot costs 1/v of that.
struct SlotCosts {
  int64_t forward = 1;
  // Of the whole backward; of it, `weight` is the weight gradients' and the rest the input gradient's.
  int64_t backward = 2;
  int64_t weight = 1;
  // Of a forward and a backward that run as one overlapped action; 0 = forward + backward.
  int64_t pair = 0;
  // From the end of a slot to when another rank can use its result; both ranks go on working meanwhile.
  int64_t p2p = 0;
};

// How Chimera uses more microbatches than ranks.
enum class Scaling : uint8_t { kConcatenation, kForwardDoubling, kBackwardHalving };

struct ScheduleParams {
  int ranks = 1;         // P >= 1
  int microbatches = 1;  // N >= 1, of one step
  // Schedules that order by time read them; all others ignore them.
  SlotCosts costs = {};
  // The rest is 0 where the schedule shall choose, and refused by schedules that do not take it (ScheduleEntry::takes).
  int virtual_stages = 0;  // v, stages per rank
  int waves = 0;           // W, of Hanayo
  int lanes = 0;           // 2f, of Chimera
  int limit = 0;           // microbatches in flight
  int group = 0;           // G, microbatches that a rank does of one stage before the next
  Scaling scaling = Scaling::kConcatenation;
};

// Which compute a rank does next is chosen while it runs (rule P6). `order` then holds, per rank, the forwards and the
// backwards, each kind in the order in which it is done; how the two interleave in `order` has no meaning.
struct MessageDriven {
  // What runs first if both a forward and a backward could: the one that could first (AxoNN), or the backward.
  enum class Rule : uint8_t { kArrival, kBackwardFirst };
  Rule rule = Rule::kArrival;
  // Microbatches that a stage may have under way, from the start of the forward to the end of the backward (of both
  // halves): the next forward in its order waits for the end of the backward `limit` before it.
  int limit = 1;
};

// Updates without a flush: the pipeline stays full over repetitions. `order` is one repetition of the steady state; its
// slots with `ahead` are the next repetition's. So before the first repetition a rank runs its `ahead` slots alone, in
// order; in the last one they are of no use.
struct Asynchrony {
  // Microbatches whose gradients one update sums; divides `microbatches`.
  int microbatches_per_update = 1;
  // Copies of its weights that each rank keeps.
  std::vector<int> versions = {};
  // Which version a microbatch's forward (and so its backward) uses: the newest that its rank has at that time
  // (PipeDream), or on all ranks the one before that of the latest update (PipeDream-2BW).
  enum class Uses : uint8_t { kNewest, kPrevious };
  Uses uses = Uses::kNewest;
};

struct PipelineSchedule {
  int stages = 0;
  int lanes = 1;
  // placement[lane][stage] = pipe rank. A stage that lanes put on different ranks has a replica on each of them.
  std::vector<std::vector<int>> placement = {};
  // order[rank] = slots in execution order.
  std::vector<std::vector<Slot>> order = {};
  std::optional<MessageDriven> message_driven = {};
  std::optional<Asynchrony> asynchrony = {};
};

// Builds the lists. InvalidArgument, naming the parameter and the nearest valid value, if params are out of range.
using ScheduleFn = absl::StatusOr<PipelineSchedule>(const ScheduleParams& params);

// Which optional parameters a schedule takes, as bits.
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

// By name; NotFound lists the known names and the nearest.
absl::StatusOr<const ScheduleEntry*> FindSchedule(absl::string_view name);

// entry.build after a check that no parameter is set that the schedule does not take (InvalidArgument names it, and the
// schedules that do).
absl::StatusOr<PipelineSchedule> BuildSchedule(const ScheduleEntry& entry, const ScheduleParams& params);

}  // namespace weft

#endif  // WEFT_SCHEDULES_PIPELINE_SCHEDULE_H_
