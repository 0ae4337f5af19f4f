// What tensor parallelism and ZeRO bring: collectives in segments, parts of tensors, sums over several axes.
#include <string>
#include <vector>

#include "proto/verify/broken_corpus.h"
#include "proto/verify/split_program.h"
#include "proto/verify/tiny_program.h"

namespace weft {
namespace {

Program Split() { return SplitProgram(); }
Program Zero() { return SplitProgram(true); }
// Neither z nor data divides what it cuts.
Program Uneven() { return SplitProgram(true, 3, 2, 0, 16, 3); }
// More ranks than elements: 64 bytes are behind the 128 of a table.
Program MoreRanksThanElements() { return SplitProgram(true, 2, 2, 0, 16, 48); }

AxisSubset* StepAxis(Program* p, const char* segment, const char* step) {
  return FindStep(p, segment, step)->mutable_collective()->mutable_group()->mutable_axes(0);
}
Group* GroupOf(Program* p, const char* action) { return FindAction(p, 0, action)->mutable_group(); }

int ValueOf(Program* p, const char* segment, const std::string& name) {
  const Segment& s = *FindSegment(p, segment);
  for (int v = 0; v < s.values_size(); ++v) {
    if (s.values(v).name() == name) return v;
  }
  return -1;
}

Operand* OperandOf(Program* p, const char* segment, const std::string& name) {
  for (Operand& operand : *FindSegment(p, segment)->mutable_operands()) {
    if (operand.name() == name) return &operand;
  }
  return nullptr;
}

Shard* ShardOf(Program* p, const char* buffer) { return MutableBuffer(p, 0, buffer)->mutable_shard(); }

void MoveRelease(Program* p, const char* from, const char* to, const char* buffer) {
  const int b = FindBuffer(*p, 0, buffer);
  auto& releases = *FindAction(p, 0, from)->mutable_releases();
  releases.erase(std::find(releases.begin(), releases.end(), b));
  FindAction(p, 0, to)->add_releases(b);
}

// Each data coordinate has a template, and the forwards meet over data.
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

std::vector<Broken> BrokenSplit() {
  return {
      // P2 to P4: steps.
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
       [](Program* p) { FindStep(p, "F", "sum x")->add_inputs(ValueOf(p, "F", "h")); },
       {"'sum x'", "2 inputs and 1 outputs"},
       Split},
      {"P2.kernel",
       "gather_changes_the_dtype",
       [](Program* p) { FindSegment(p, "F")->mutable_values(ValueOf(p, "F", "table"))->set_dtype(BF16); },
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
         step.add_inputs(ValueOf(p, "B", "dx"));
         step.add_outputs(ValueOf(p, "B", "dh"));
         StepAttributes& a = *step.mutable_attributes();
         a.set_dropout(0.5);
         a.set_whole_columns(6);
         ShiftTerm& term = *a.mutable_column_shift()->add_terms();
         term.set_axis("x");
         term.set_stride(4);
       },
       {"'drop'", "column_shift is up to 4", "the whole of 6"},
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
       [](Program* p) { FindStep(p, "F", "sum x")->set_outputs(0, ValueOf(p, "F", "mean")); },
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
       {"'gather weights'", "only an ALL_REDUCE is in place"},
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

      // P7: memory.
      {"P7.use_after_release",
       "released_before_the_scatter_is_done",
       [](Program* p) { MoveRelease(p, "sync tables", "B0", "B work0"); },
       {"'B0'", "'B work0'"},
       Split},
      {"P7.use_after_release",
       "released_by_who_does_not_wait",
       [](Program* p) { MoveRelease(p, "sync tables", "loss sync", "B work1"); },
       {"'B1'", "'B work1'"},
       Split},
      {"P7.race",
       "scattered_gradient_summed_too_early",
       [](Program* p) {
         for (Dependency& dep : *FindAction(p, 0, "sync tables")->mutable_deps()) dep.set_detached(false);
       },
       {"'sync tables'", "'dwte'"},
       Split},
      {"P7.race", "gathered_while_updated", [](Program* p) { RemoveDep(p, 0, "F0", "optimizer"); }, {"'wte'"}, Split},

      // P8: groups and parts of tensors.
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
      {"P8.shard",
       "cut_over_pipe",
       [](Program* p) { ShardOf(p, "wte")->mutable_dimensions(0)->set_axis("pipe"); },
       {"'wte'", "axis 'pipe'"},
       Split},
      {"P8.shard",
       "dimension_that_is_not_there",
       [](Program* p) { ShardOf(p, "wte")->mutable_dimensions(0)->set_dimension(2); },
       {"'wte'", "dimension 2"},
       Split},
      {"P8.shard",
       "runs_that_do_not_divide",
       [](Program* p) { ShardOf(p, "wte")->mutable_dimensions(0)->set_runs(16); },
       {"'wte'", "16 runs"},
       Split},
      {"P8.shard",
       "axis_cuts_twice",
       [](Program* p) { ShardOf(p, "wte")->mutable_ranges(0)->set_axis("x"); },
       {"'wte'", "x twice"},
       Split},
      {"P8.shard",
       "block_of_ranges_that_does_not_divide",
       [](Program* p) { ShardOf(p, "wte")->mutable_ranges(0)->set_block(3); },
       {"'wte'", "blocks of 3"},
       Split},
      {"P8.shard",
       "gradient_is_cut_otherwise",
       [](Program* p) { ShardOf(p, "dwte")->mutable_ranges(0)->set_axis("data"); },
       {"'dwte'", "'wte'", "over data and over z"},
       Split},
      {"P8.shard",
       "gradient_cuts_other_dimensions",
       [](Program* p) { ShardOf(p, "dwte")->mutable_dimensions(0)->set_axis("data"); },
       {"'dwte'", "dimensions", "over data and over x"},
       Split},
      {"P7.role",
       "shape_of_another_part",
       [](Program* p) { ShardOf(p, "wte")->clear_ranges(); },
       {"'wte'", "[8,4]"},
       Split},
      {"P7.role",
       "part_of_no_tensor",
       [](Program* p) { ShardOf(p, "norms")->add_ranges()->set_axis("z"); },
       {"'norms'", "has a shard"},
       Split},
      {"P8.gather",
       "weights_gathered_over_another_axis",
       [](Program* p) { StepAxis(p, "F", "gather wte")->set_axis("x"); },
       {"'gather wte'", "over x", "cut over z"},
       Split},
      {"P8.gather",
       "range_read_as_if_it_were_whole",
       [](Program* p) {
         // gamma [4] is half of a tensor of 8.
         for (LogicalTensor& t : *p->mutable_tensors()) {
           if (t.name() != "gamma") continue;
           t.set_shape(0, 8);
           t.set_padded_shape(0, 8);
         }
         for (const char* buffer : {"gamma", "dgamma"}) ShardOf(p, buffer)->add_ranges()->set_axis("z");
       },
       {"'norm'", "'gamma'", "was not gathered"},
       Split},
      {"P8.gather",
       "new_weights_gathered_over_another_axis",
       [](Program* p) { GroupOf(p, "gather weights")->mutable_axes(0)->set_axis("z"); },
       {"'gather weights'", "over z", "z, data"},
       Zero},

      // P8: what is behind a tensor whose parts are rounded up.
      {"P8.room",
       "room_for_too_much",
       [](Program* p) {
         MutableBuffer(p, 0, "dwte")->set_bytes(4 * 15);
         for (const char* segment : {"B", "optimizer"}) OperandOf(p, segment, "dwte")->set_bytes(4 * 15);
       },
       {"'dwte'", "room for 15", "holds 11", "12 together"},
       Uneven},
      {"P8.room",
       "room_where_nothing_is_cut",
       [](Program* p) {
         MutableBuffer(p, 0, "gamma")->set_bytes(4 * 6);
         for (const char* segment : {"F", "B", "optimizer"}) OperandOf(p, segment, "gamma")->set_bytes(4 * 6);
       },
       {"'gamma'", "room for 6", "4 together"},
       Uneven},
      {"P4.shape",
       "no_room",
       [](Program* p) {
         MutableBuffer(p, 0, "wte")->set_bytes(4 * 11);
         OperandOf(p, "F", "wte")->set_bytes(4 * 11);
       },
       {"'gather weights'", "'wte' of 44 bytes"},
       Uneven},
      {"P8.room",
       "a_step_fills_the_room",
       [](Program* p) {
         FindSegment(p, "optimizer")->mutable_values(ValueOf(p, "optimizer", "dwte"))->set_shape(0, 12);
       },
       {"'zero wte'", "'dwte' up to byte 48", "holds 44"},
       Uneven},
      {"P8.room",
       "scattered_with_something_behind_it",
       [](Program* p) { FindStep(p, "B", "zero end of whole dwte")->mutable_attributes()->set_value(1); },
       {"scatters 33 elements", "'dwte'", "there are 32"},
       Uneven},
      {"P8.room",
       "zeros_reach_into_what_is_scattered",
       [](Program* p) {
         // Behind the product, and so over its last elements.
         const Step fill = *FindStep(p, "B", "zero end of whole dwte");
         Value& end = *FindSegment(p, "B")->mutable_values(fill.outputs(0));
         end.set_offset(end.offset() - 64);
         end.set_shape(0, end.shape(0) + 16);
         InsertStep(p, "B", "scatter dwte", fill);
         FindStep(p, "B", "zero end of whole dwte")->set_name("zeros before");
         StepAfter(p, "B", "scatter dwte", "zero end of whole dwte");
       },
       {"scatters 16 elements", "'dwte'", "there are 32", "zeros were written over the last ones"},
       Uneven},
      {"P8.gather",
       "what_is_behind_a_gathered_table_is_read",
       [](Program* p) { FindSegment(p, "F")->mutable_values(ValueOf(p, "F", "table"))->set_offset(64); },
       {"'embed'", "'table'", "behind the end"},
       MoreRanksThanElements},

      // P9 and P11: sums over several axes.
      {"P9.batch",
       "more_ranks_than_samples",
       [](Program* p) { p->mutable_recipe()->set_microbatch_sequences(1); },
       {"2 ranks of axis z"},
       Split},
      {"P9.scatter",
       "gradient_scattered_over_another_axis",
       [](Program* p) { StepAxis(p, "B", "scatter dwte")->set_axis("x"); },
       {"'dwte'", "cut over z", "cut over x"},
       Split},
      {"P9.scatter",
       "update_of_another_part",
       [](Program* p) {
         // data and z are of one size, so the parts are too.
         FindAction(p, 0, "sync tables")->set_kind(ALL_REDUCE);
         Action& a = *FindAction(p, 0, "sync tables");
         for (const char* name : {"part dwte", "part dhead"}) {
           Buffer& part = *MutableBuffer(p, 0, name);
           part.set_shape(0, 16);
           part.set_bytes(64);
         }
         a.set_kind(ALL_REDUCE);
         for (Segment& s : *p->mutable_segments()) {
           for (Operand& o : *s.mutable_operands()) {
             if (o.name().rfind("part d", 0) == 0) o.set_bytes(64);
           }
         }
       },
       {"'optimizer'", "cut over z, data", "cut over z"},
       Zero},
      {"P9.sync",
       "scattered_gradient_summed_over_z_again",
       [](Program* p) { GroupOf(p, "sync tables")->add_axes()->set_axis("z"); },
       {"'sync tables'", "'wte'", "over z"},
       Split},
      {"P9.sync",
       "added_to_what_is_summed",
       [](Program* p) {
         // The scattered sum would be that over z of a sum over z, and of one gradient more.
         Step sum = *FindStep(p, "B", "scatter dhead"), again = *FindStep(p, "B", "head weight");
         sum.set_name("sum dhead");
         sum.set_kernel(GROUP_ALL_REDUCE);
         sum.set_outputs(0, sum.inputs(0));
         sum.clear_accumulate();
         sum.clear_detached();
         again.set_name("head weight again");
         again.set_accumulate(true);
         InsertStep(p, "B", "scatter dhead", sum);
         InsertStep(p, "B", "scatter dhead", again);
         StepAfter(p, "B", "sum dhead", "head weight");
         StepAfter(p, "B", "head weight again", "sum dhead");
         StepAfter(p, "B", "scatter dhead", "head weight again");
       },
       {"'B0'", "'dhead'", "not all summed over the same ranks"},
       Split},
      {"P9.sync",
       "vectors_not_summed_over_z",
       [](Program* p) { GroupOf(p, "sync vectors")->mutable_axes()->RemoveLast(); },
       {"'gamma'", "must be summed over z and data", "summed over data"},
       Split},
      {"P9.sync",
       "summed_over_the_axis_that_cuts_it",
       [](Program* p) { GroupOf(p, "sync tables")->add_axes()->set_axis("x"); },
       {"'wte'", "over no axis that cuts it"},
       Split},
      {"P9.sync",
       "summed_in_blocks_only",
       [](Program* p) { GroupOf(p, "sync tables")->mutable_axes(0)->set_block(2); },
       {"'wte'", "data in blocks of 2"},
       [] { return SplitProgram(false, 4); }},
      {"P11.norm",
       "of_half_of_what_is_scattered",
       [](Program* p) { FindSegment(p, "norm")->mutable_values(ValueOf(p, "norm", "part dwte"))->set_shape(0, 4); },
       {"'norm wte'", "4 elements", "all 8"},
       Zero},
      {"P11.norm",
       "copies_counted_each",
       [](Program* p) { FindStep(p, "norm", "norm gamma")->mutable_attributes()->clear_counted_once(); },
       {"'norm sync'", "'gamma'", "not counted once"},
       Split},
      {"P11.norm",
       "parts_counted_once",
       [](Program* p) { FindStep(p, "norm", "norm wte")->mutable_attributes()->add_counted_once("x"); },
       {"'norm sync'", "'wte'", "over x"},
       Split},
      {"P11.norm",
       "parts_on_z_are_missing",
       [](Program* p) { GroupOf(p, "norm sync")->mutable_axes()->RemoveLast(); },
       {"'clip'", "lacks parts of 'wte'"},
       Split},
      {"P11.norm",
       "summed_over_replicas",
       [](Program* p) { GroupOf(p, "norm sync")->add_axes()->set_axis("data"); },
       {"'norm sync'", "over data"},
       Split},
      {"P11.loss",
       "not_over_z",
       [](Program* p) { GroupOf(p, "loss sync")->mutable_axes()->RemoveLast(); },
       {"'loss sync'", "a part of the mesh only"},
       Split},
      {"P11.loss",
       "over_x",
       [](Program* p) { GroupOf(p, "loss sync")->add_axes()->set_axis("x"); },
       {"'loss sync'", "over x", "the same"},
       Split},
      {"P11.update",
       "weights_never_gathered",
       [](Program* p) {
         RemoveAction(p, 0, "gather weights");
         AddDep(p, 0, "F0", "optimizer", 1);
       },
       {"'wte'", "updated 0 times"},
       Zero},
      {"P11.update",
       "old_weights_gathered",
       [](Program* p) {
         RemoveDep(p, 0, "gather weights", "optimizer");
         SwapActions(p, 0, "gather weights", "optimizer");
         AddDep(p, 0, "optimizer", "gather weights");
         AddDep(p, 0, "gather weights", "norm");
       },
       {"'gather weights'", "not its updated weights"},
       Zero},
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
