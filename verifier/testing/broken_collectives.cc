// Broken tensor parallelism and ZeRO: collectives in segments, their streams, and their members.
#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_split.h"

namespace weft {
namespace {

// Each data coordinate has its own template, and the forwards have collectives over data.
Program Pinned() {
  Program p = SplitProgram();
  *p.add_templates() = p.templates(0);
  for (int d = 0; d < 2; ++d) {
    Template& t = *p.mutable_templates(d);
    t.set_name("data" + std::to_string(d));
    Coordinate& pin = *t.add_pins();
    pin.set_axis("data");
    pin.set_index(d);
  }
  StepAxis(&p, "F", "sum x")->set_axis("data");
  return p;
}

}  // namespace

std::vector<Broken> BrokenCollectives() {
  return {
      {"P3.collective",
       "compute_kernel_on_a_communicator",
       [](Program* p) { FindStep(p, "F", "embed")->set_stream(COLLECTIVE); },
       {"'embed' (EMBEDDING)", "stream COLLECTIVE without"},
       Split},
      {"P3.collective",
       "collective_on_compute",
       [](Program* p) { FindStep(p, "F", "sum x")->set_stream(COMPUTE); },
       {"'sum x'", "stream COMPUTE"},
       Split},
      {"P3.collective",
       "with_nobody",
       [](Program* p) { FindStep(p, "F", "sum x")->clear_collective(); },
       {"'sum x'"},
       Split},
      {"P3.collective",
       "compute_kernel_with_members",
       [](Program* p) { FindStep(p, "F", "embed")->mutable_collective()->set_purpose(TENSOR); },
       {"'embed'"},
       Split},
      {"P4.collective",
       "step_without_purpose",
       [](Program* p) { FindStep(p, "F", "sum x")->mutable_collective()->clear_purpose(); },
       {"'sum x'", "no purpose"},
       Split},
      {"P10.algorithm",
       "step_without_algorithm",
       [](Program* p) { FindStep(p, "F", "sum x")->mutable_collective()->clear_algorithm(); },
       {"'sum x'", "no algorithm"},
       Split},
      {"P2.kernel",
       "collective_of_two_into_one",
       [](Program* p) { FindStep(p, "F", "sum x")->add_inputs(ValueIndex(*FindSegment(p, "F"), "h")); },
       {"'sum x'", "2 inputs and 1 outputs"},
       Split},
      {"P2.kernel",
       "gather_changes_the_dtype",
       [](Program* p) { ValueOf(p, "F", "table")->set_dtype(BF16); },
       {"'gather wte'", "'table' bf16", "must be fp32"},
       Split},
      {"P2.kernel",
       "tables_of_all_ranks_smaller_than_vocabulary",
       [](Program* p) { FindStep(p, "F", "embed")->clear_attributes(); },
       {"'embed'", "fewer rows than the vocabulary of 12"},
       Split},
      {"P2.attribute",
       "collective_with_attributes",
       [](Program* p) { FindStep(p, "F", "sum x")->mutable_attributes()->set_epsilon(1); },
       {"'sum x'", "epsilon"},
       Split},
      {"P2.attribute",
       "counted_once_on_no_axis",
       [](Program* p) { FindStep(p, "norm", "norm gamma")->mutable_attributes()->add_counted_once("y"); },
       {"'norm gamma'", "axis 'y'"},
       Split},
      {"P2.attribute",
       "accumulating_all_reduce",
       [](Program* p) { FindStep(p, "F", "sum x")->set_accumulate(true); },
       {"'sum x'", "accumulate"},
       Split},
      {"P2.alias",
       "two_sums_in_one_place",
       [](Program* p) {
         Step& step = *FindStep(p, "F", "sum x");
         step.add_inputs(step.inputs(0));
         step.add_outputs(step.outputs(0));
       },
       {"'sum x'", "share bytes"},
       Split},
      {"P2.shift",
       "axis_that_is_not_there",
       [](Program* p) {
         FindStep(p, "F", "embed")->mutable_attributes()->mutable_column_shift()->mutable_terms(0)->set_axis("y");
       },
       {"'embed'", "axis 'y'"},
       Split},
      {"P2.shift",
       "axis_twice",
       [](Program* p) {
         Shift& shift = *FindStep(p, "F", "embed")->mutable_attributes()->mutable_column_shift();
         *shift.add_terms() = shift.terms(0);
       },
       {"'embed'", "each once"},
       Split},
      {"P2.shift",
       "no_stride",
       [](Program* p) {
         FindStep(p, "B", "loss backward")
             ->mutable_attributes()
             ->mutable_column_shift()
             ->mutable_terms(0)
             ->set_stride(0);
       },
       {"'loss backward'", "stride 0"},
       Split},
      {"P2.shift",
       "part_beyond_the_whole",
       [](Program* p) {
         Step& step = *FindSegment(p, "B")->add_steps();
         step.set_name("drop");
         step.set_kernel(DROPOUT);
         step.add_inputs(ValueIndex(*FindSegment(p, "B"), "dx"));
         step.add_outputs(ValueIndex(*FindSegment(p, "B"), "dh"));
         StepAttributes& a = *step.mutable_attributes();
         a.set_dropout(0.5);
         a.set_whole_columns(6);
         ShiftTerm& term = *a.mutable_column_shift()->add_terms();
         term.set_axis("x");
         term.set_stride(4);
       },
       {"'drop'", "column_shift is up to 4", "the whole, whose size is 6"},
       Split},
      {"P2.race",
       "scattered_before_it_is_made",
       [](Program* p) { FindStep(p, "B", "scatter dhead")->clear_deps(); },
       {"'head weight'", "'scatter dhead'"},
       Split},
      {"P2.race",
       "read_before_it_is_summed",
       [](Program* p) { FindStep(p, "F", "norm")->clear_deps(); },
       {"'sum x'", "'norm'"},
       Split},
      {"P2.race",
       "read_before_it_is_gathered",
       [](Program* p) { FindStep(p, "B", "head input")->clear_deps(); },
       {"'gather head'", "'head input'"},
       Split},
      {"P2.detached",
       "wait_for_steps_that_are_not_there",
       [](Program* p) { FindAction(p, 0, "loss sync")->mutable_deps(0)->set_detached(true); },
       {"'loss sync'", "'F1'", "has none"},
       Split},
      {"P4.shape",
       "gather_of_one_rank",
       [](Program* p) { FindStep(p, "F", "gather wte")->mutable_collective()->mutable_group()->clear_axes(); },
       {"'gather wte'", "of 1 members", "as many elements"},
       Split},
      {"P4.shape",
       "sum_of_another_size",
       [](Program* p) { FindStep(p, "F", "sum x")->set_outputs(0, ValueIndex(*FindSegment(p, "F"), "mean")); },
       {"'sum x'", "'mean'"},
       Split},
      {"P4.shape",
       "scatter_in_a_block_of_one",
       [](Program* p) { StepAxis(p, "B", "scatter dhead")->set_block(1); },
       {"'scatter dhead'", "of 1 members"},
       Split},
      {"P4.shape",
       "gathering_action_of_one_rank",
       [](Program* p) { GroupOf(p, "gather weights")->clear_axes(); },
       {"'gather weights'", "by 1 members"},
       Zero},
      {"P4.buffers",
       "gather_in_place",
       [](Program* p) {
         Action& a = *FindAction(p, 0, "gather weights");
         a.set_destinations(0, a.sources(0));
       },
       {"'gather weights'", "only an ALL_REDUCE can be in place"},
       Zero},
      {"P4.collective",
       "step_without_its_other_member",
       [](Program* p) { RemoveAction(p, 1, "F1"); },
       {"'F1', step 'sum x'", "'data1'", "2 are needed"},
       Pinned},
      {"P4.collective",
       "steps_of_two_segments",
       [](Program* p) {
         *p->add_segments() = *FindSegment(p, "F");
         FindAction(p, 1, "F0")->set_segment(p->segments_size() - 1);
       },
       {"'F0', step 'sum x'", "steps differ"},
       Pinned},
      {"P4.collective",
       "gather_meets_sum",
       [](Program* p) { FindAction(p, 1, "sync vectors")->set_purpose(LOSS_SYNC); },
       {"'sync vectors'"},
       Pinned},
      {"P6.streams",
       "collective_in_a_queue",
       [](Program* p) { p->set_compute_order(ARRIVAL); },
       {"'F0'", "COLLECTIVE"},
       Split},
      {"P8.group",
       "step_over_an_axis_that_is_not_there",
       [](Program* p) { StepAxis(p, "F", "sum x")->set_axis("y"); },
       {"'sum x'", "axis 'y'"},
       Split},
      {"P8.group",
       "block_that_does_not_divide",
       [](Program* p) { StepAxis(p, "F", "sum x")->set_block(3); },
       {"'sum x'", "block 3"},
       Split},
      {"P8.group",
       "negative_stride",
       [](Program* p) { GroupOf(p, "loss sync")->mutable_axes(0)->set_stride(-1); },
       {"'loss sync'", "stride -1"},
       Split},
      {"P8.group",
       "block_and_stride",
       [](Program* p) {
         StepAxis(p, "F", "sum x")->set_block(2);
         StepAxis(p, "F", "sum x")->set_stride(1);
       },
       {"'sum x'", "in 2 ways"},
       Split},
      {"P8.group",
       "step_picks_unpinned_coordinates",
       [](Program* p) { StepAxis(p, "F", "sum x")->add_indices(1); },
       {"step 'sum x'", "does not pin"},
       Split},
      {"P8.group",
       "step_names_an_axis_twice",
       [](Program* p) { FindStep(p, "F", "sum x")->mutable_collective()->mutable_group()->add_axes()->set_axis("x"); },
       {"'sum x'", "twice"},
       Split},
      {"P13.deadlock",
       "step_and_action_wait_for_each_other",
       [](Program* p) {
         RemoveDep(p, 1, "loss sync", "F1");
         AddDep(p, 1, "F1", "loss sync");
       },
       {"'F1', step 'sum x'", "'loss sync'"},
       Pinned},
  };
}

}  // namespace weft
