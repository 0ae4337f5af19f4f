#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

ScheduleSpec Replicas() { return {{"F0.0 F1.1 B1.1 B0.0", "F0.1 F1.0 B1.0 B0.1"}, {{0, 1}, {1, 0}}, {0, 1}}; }
// Four ranks: ranks 0 and 3 hold stages 0 and 3, ranks 1 and 2 hold stages 1 and 2.
ScheduleSpec FourReplicas() {
  return {{"F0.0 F3.1 B3.1 B0.0", "F1.0 F2.1 B2.1 B1.0", "F1.1 F2.0 B2.0 B1.1", "F0.1 F3.0 B3.0 B0.1"},
          {{0, 1, 2, 3}, {3, 2, 1, 0}},
          {0, 1}};
}

// Makes the collective sum another buffer in place.
void SumInstead(Program* p, int t, const char* action, const char* buffer) {
  Action& a = *FindAction(p, t, action);
  a.set_sources(0, FindBuffer(*p, t, buffer));
  a.set_destinations(0, FindBuffer(*p, t, buffer));
}

}  // namespace

std::vector<Broken> BrokenReplicas() {
  return {
      {"P9.gradient",
       "missing_replica_sync",
       [](Program* p) { ForEachTemplate(p, [&](int t) { RemoveAction(p, t, "sync w0 0"); }); },
       {"'optimizer'", "'w0'", "2 microbatches", "use 0 of 1 microbatches"},
       ProgramOf(Replicas)},
      {"P9.gradient",
       "sync_of_the_wrong_holders",
       [](Program* p) {
         // The collectives sum over neighboring ranks, not over the ranks that hold the same stage.
         for (int t = 0; t < 4; ++t) {
           for (const char* name : {"sync w0 0", "sync w1 0"}) {
             if ((t == 0 || t == 3) != (name[6] == '0')) continue;
             AxisSubset& pipes = *FindAction(p, t, name)->mutable_group()->mutable_axes(0);
             pipes.set_indices(0, t < 2 ? 0 : 2);
             pipes.set_indices(1, t < 2 ? 1 : 3);
           }
         }
       },
       {"'w0'", "but reads", "'w1'"},
       ProgramOf(FourReplicas)},
      {"P9.gradient",
       "replicas_without_data",
       [](Program* p) {
         ForEachTemplate(
             p, [&](int t) { FindAction(p, t, "sync w1 0")->mutable_group()->mutable_axes()->DeleteSubrange(0, 1); });
       },
       {"'w1'", "1 microbatches of pipe 0"},
       [] {
         ScheduleSpec spec = Replicas();
         spec.data = 2;
         return ScheduleProgram(spec);
       }},
      {"P9.sync",
       "data_without_replicas",
       [](Program* p) {
         ForEachTemplate(p,
                         [&](int t) { FindAction(p, t, "sync w1 0")->mutable_group()->mutable_axes()->RemoveLast(); });
       },
       {"'w1'", "of pipe 0,1, summed over nothing"},
       [] {
         ScheduleSpec spec = Replicas();
         spec.data = 2;
         return ScheduleProgram(spec);
       }},
      {"P9.sync",
       "replicas_summed_twice",
       [](Program* p) {
         ForEachTemplate(p, [&](int t) {
           SumInstead(p, t, "sync w1 0", "dw0 0");
           AddDep(p, t, "sync w1 0", "sync w0 0");
         });
       },
       {"'sync w1 0'", "'w0' twice", "pipe 0"},
       ProgramOf(Replicas)},
      {"P9.sync",
       "backward_after_the_sync",
       [](Program* p) {
         // The sync does not wait for the backward, and the backward waits for the sync.
         Action& sync = *FindAction(p, 0, "sync w0 0");
         sync.clear_deps();
         AddDep(p, 0, "sync w0 0", "F s0 m0");
         AddDep(p, 0, "B s0 m0", "sync w0 0");
         AddDep(p, 0, "sync w0 0", "optimizer", 1);
       },
       {"'B s0 m0'", "'dw0 0'", "after it was synchronized"},
       ProgramOf(Replicas)},
      {"P9.gradient",
       "tied_use_of_one_replica",
       [](Program* p) { ForEachTemplate(p, [&](int t) { RemoveAction(p, t, "tied wte 1"); }); },
       {"'wte'", "use 1 of 1 microbatches"},
       ProgramOf(Replicas)},
      {"P9.zero",
       "use_of_another_rank_not_cleared",
       [](Program* p) {
         Segment& s = *FindSegment(p, "norm 1");
         s.mutable_steps()->erase(std::find_if(s.mutable_steps()->begin(), s.mutable_steps()->end(),
                                               [](const Step& step) { return step.name() == "FILL dwte 1"; }));
       },
       {"'pipe1'", "'dwte 1'"},
       ProgramOf(Replicas)},
      {"P11.norm",
       "norm_counted_by_both_replicas",
       [](Program* p) {
         Action& norm = *FindAction(p, 1, "norm");
         norm.set_segment(SegmentIndex(*p, "norm 0"));
         norm.clear_operands();
         for (const Operand& o : FindSegment(p, "norm 0")->operands()) norm.add_operands(FindBuffer(*p, 1, o.name()));
       },
       {"'norm sync'", "twice"},
       ProgramOf(Replicas)},
      {"P11.update",
       "shared_tensor_of_one_rank_updated_twice",
       [](Program* p) {
         auto& steps = *FindSegment(p, "optimizer 0")->mutable_steps();
         const Step again = *FindStep(p, "optimizer 0", "SGD_STEP wte");
         *steps.Add() = again;
         for (int i = steps.size() - 1; steps.Get(i - 1).name() != "SGD_STEP wte"; --i) steps.SwapElements(i, i - 1);
       },
       {"'wte'", "2 times"},
       ProgramOf(OneRank)},
      {"P13.complete",
       "stage_of_a_lane_on_two_ranks",
       [](Program* p) { FindAction(p, 0, "F s1 m1")->set_lane(0); },
       {"stage 1 of lane 0 is run by"},
       ProgramOf(Replicas)},
      {"P13.complete",
       "microbatch_of_two_lanes",
       [](Program* p) {
         for (const char* name : {"F s1 m0", "B s1 m0"}) FindAction(p, 0, name)->set_lane(1);
       },
       {"'F s1 m0'", "microbatch 0 is in lane 1", "'F s0 m0'"},
       ProgramOf(OneRank)},
      {"P13.complete",
       "microbatch_run_by_two_replicas",
       [](Program* p) {
         for (const char* name : {"F s0 m1", "B s0 m1"}) FindAction(p, 1, name)->set_microbatch(0);
       },
       {"'F s0 m1'", "'F s0 m0'", "stage 0 sees microbatch 0 twice"},
       ProgramOf(Replicas)},
  };
}

}  // namespace weft
