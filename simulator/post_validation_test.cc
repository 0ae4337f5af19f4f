// Actions that rule P15 leaves out, in random programs: engine and oracle agree when these actions run and when they do
// not.
#include <cstdint>
#include <set>

#include "gtest/gtest.h"
#include "simulator/testing/engine_oracle.h"
#include "tests/random_program.h"

namespace weft::sim {
namespace {

using Actions = google::protobuf::RepeatedPtrField<Action>;

bool Marked(uint64_t seed, uint64_t what) {
  uint64_t hash = (seed + 1) * 0x9E3779B97F4A7C15u ^ what * 0xC2B2AE3D27D4EB4Fu;
  hash ^= hash >> 31;
  hash *= 0x9E3779B97F4A7C15u;
  return (hash >> 40) % 3 == 0;
}

// Returns a number for the message of a SEND or RECV. Both ends of the message have the same number.
uint64_t MessageOf(const Action& action) {
  const int end = (action.kind() == RECV) == (action.direction() == TOWARDS_LOSS) ? 1 : 0;
  const int low = action.skip() > 0 ? 0 : action.stage() - end;
  return ((((low * 8191u + action.microbatch()) * 3 + action.direction()) * 67 + action.lane()) * 101) + action.skip();
}

// Puts a VALIDATE at the beginning of each body and epilogue that has actions. Marks a random third of the actions
// after it with `if_exceeded`: they run only if the norm was too large. Releases no buffers, because an action that is
// left out cannot release one. Returns the number of marked actions.
int LeaveOut(uint64_t seed, Program* program) {
  Segment& segment = *program->add_segments();
  segment.set_name("validate");
  segment.add_steps()->set_kernel(NORM_TOTAL);
  int count = 0;
  for (Template& t : *program->mutable_templates()) {
    for (Buffer& buffer : *t.mutable_buffers()) buffer.set_persistent(true);
    for (Action& action : *t.mutable_prologue()) action.clear_releases();
    int next = 1 << 20;
    for (Actions* list : {t.mutable_body(), t.mutable_epilogue()}) {
      if (list->empty()) continue;
      for (Action& action : *list) {
        const bool transfer = action.kind() == SEND || action.kind() == RECV;
        const bool collective =
            action.kind() == ALL_REDUCE || action.kind() == ALL_GATHER || action.kind() == REDUCE_SCATTER;
        const uint64_t what = transfer     ? 1000 + MessageOf(action)
                              : collective ? 10 + action.purpose()
                                           : (uint64_t{1} << 32) + static_cast<uint64_t>(action.id());
        action.clear_releases();
        action.set_if_exceeded(Marked(seed, what));
        count += action.if_exceeded();
      }
      Action& validate = *list->Add();
      validate.set_id(next++);
      validate.set_kind(VALIDATE);
      validate.set_segment(program->segments_size() - 1);
      for (int i = list->size() - 1; i > 0; --i) list->SwapElements(i, i - 1);
    }
  }
  return count;
}

TEST(PostValidation, EngineIsTheOracleWithAndWithoutWhatIsLeftOut) {
  const RandomProgramOptions options = {.max_pipe = 3, .max_data = 2, .events = 16};
  int left_out = 0;
  for (uint64_t seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Program program = RandomProgram(seed, options);
    left_out += LeaveOut(seed, &program);
    const NaiveDurations durations = RandomDurations(seed, {.load = seed % 2 > 0, .flows = seed % 4 > 1});
    for (const bool exceeded : {false, true}) {
      const int repetitions = 1 + static_cast<int>(seed % 3);
      ExpectAgreement(program, durations, {.repetitions = repetitions, .exceeded = exceeded});
      ExpectAgreement(program, durations,
                      {.repetitions = repetitions,
                       .devices_per_node = 4,
                       .slots = 1 + static_cast<int>(seed % 2),
                       .turn = 3,
                       .join_steps = false,
                       .exceeded = exceeded});
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(left_out, 200);
}

}  // namespace
}  // namespace weft::sim
