#include <algorithm>
#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

// Valid schedules (schedule_program_test.cc), on two ranks unless noted.
ScheduleSpec Chain() { return {{"F0.0 F0.1 B0.0 B0.1", "F1.0 B1.0 F1.1 B1.1"}, {{0, 1}}, {0, 0}}; }
ScheduleSpec Halves() { return {{"F0.0 F0.1 I0.0 I0.1 W0.0 W0.1", "F1.0 I1.0 F1.1 I1.1 W1.0 W1.1"}, {{0, 1}}, {0, 0}}; }
ScheduleSpec HalfHalved() { return {{"F0.0 F0.1 B0.0 I0.1 W0.1", "F1.0 I1.0 W1.0 F1.1 B1.1"}, {{0, 1}}, {0, 0}}; }
ScheduleSpec Pairs() { return {{"F0.0 F0.1 P0.2+0.0 B0.1 B0.2", "F1.0 B1.0 F1.1 P1.2+1.1 B1.2"}, {{0, 1}}, {0, 0, 0}}; }
ScheduleSpec Wide() { return {{"F0.0x2 B0.0 B0.1", "F1.0x2 B1.0 B1.1"}, {{0, 1}}, {0, 0}}; }
ScheduleSpec Skips() {
  ScheduleSpec spec{{"F0.0 F0.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1", "F2.0 B2.0 F2.1 B2.1"}, {{0, 1, 2}}, {0, 0}};
  spec.skips = {{0, 2}};
  return spec;
}
ScheduleSpec Driven() {
  ScheduleSpec spec{{"F0.0 F0.1 F0.2 B0.0 B0.1 B0.2", "F1.0 F1.1 F1.2 B1.0 B1.1 B1.2"}, {{0, 1}}, {0, 0, 0}};
  spec.compute_order = ARRIVAL;
  return spec;
}
// 1F1B with all transfers of a rank on one stream: without groups it would deadlock.
ScheduleSpec Grouped() {
  ScheduleSpec spec = Chain();
  spec.transfer_streams = SHARED;
  spec.group = true;
  return spec;
}
// In this order the third forward begins after the first backward, so their activations may share bytes.
Program ReusedByListOrder() {
  Program program =
      ScheduleProgram({{"F0.0 F0.1 B0.0 F0.2 B0.1 B0.2", "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2"}, {{0, 1}}, {0, 0, 0}});
  MutableBuffer(&program, 0, "saved0 m2")->set_offset(MutableBuffer(&program, 0, "saved0 m0")->offset());
  return program;
}

void SetOperand(Program* p, int t, const char* action, const char* from, const char* to) {
  for (int& operand : *FindAction(p, t, action)->mutable_operands()) {
    if (operand == FindBuffer(*p, t, from)) operand = FindBuffer(*p, t, to);
  }
}

std::vector<Broken> BrokenBackwards() {
  return {
      {"P13.complete",
       "weight_half_missing",
       [](Program* p) {
         ScheduleSpec spec = Halves();
         spec.order[0] = "F0.0 F0.1 I0.0 I0.1 W0.0";
         *p = ScheduleProgram(spec);
       },
       {"BACKWARD_WEIGHT of stage 0, microbatch 1"},
       ProgramOf(Halves)},
      {"P13.complete",
       "whole_and_half",
       [](Program* p) { FindAction(p, 0, "I s0 m1")->set_kind(BACKWARD); },
       {"'W s0 m1' repeats", "'I s0 m1'", "microbatch 1 twice"},
       ProgramOf(HalfHalved)},
      {"P13.order",
       "weight_half_before_input_half",
       [](Program* p) {
         FindAction(p, 0, "I s0 m0")->set_kind(BACKWARD_WEIGHT);
         FindAction(p, 0, "W s0 m0")->set_kind(BACKWARD_INPUT);
       },
       {"'I s0 m0' does not wait for", "'W s0 m0'"},
       ProgramOf(Halves)},
      {"P7.undefined",
       "weight_half_listed_first",
       [](Program* p) { SwapActions(p, 0, "I s0 m0", "W s0 m0"); },
       {"'W s0 m0'", "'half0 m0'"},
       [] {
         Program program = ScheduleProgram(Halves());
         RemoveDep(&program, 0, "W s0 m0", "I s0 m0");
         return program;
       }},
      {"P9.half",
       "input_half_adds_to_a_gradient",
       [](Program* p) {
         Segment& s = *FindSegment(p, "I1");
         const Segment& w = *FindSegment(p, "W1");
         const int value = ValueIndex(w, "dw1 0", 0);
         *s.add_operands() = w.operands(w.values(value).operand());
         *s.add_values() = w.values(value);
         s.mutable_values(s.values_size() - 1)->set_operand(s.operands_size() - 1);
         Step& step = *s.add_steps();
         step = *FindStep(p, "W1", "MATMUL dw1 0");
         step.set_inputs(0, ValueIndex(s, "h", 0));
         step.set_inputs(1, ValueIndex(s, "dout", 0));
         step.set_outputs(0, s.values_size() - 1);
         for (const char* a : {"I s1 m0", "I s1 m1"}) {
           FindAction(p, 1, a)->add_operands(FindBuffer(*p, 1, "dw1 0"));
         }
       },
       {"'I s1 m0'", "'dw1 0'", "BACKWARD_WEIGHT"},
       ProgramOf(Halves)},
      {"P13.input",
       "weight_half_of_another_microbatch",
       [](Program* p) { SetOperand(p, 0, "W s0 m0", "half0 m0", "half0 m1"); },
       {"'W s0 m0'", "'half0 m1'", "backward of stage 0, microbatch 1"},
       ProgramOf(Halves)},
      {"P9.order",
       "weight_halves_descending",
       [](Program* p) {
         ScheduleSpec spec = Halves();
         spec.order[0] = "F0.0 F0.1 I0.0 I0.1 W0.1 W0.0";
         *p = ScheduleProgram(spec);
       },
       {"'W s0 m0'", "after microbatch 1"},
       ProgramOf(Halves)},

      {"P5.pair",
       "without_a_backward",
       [](Program* p) { FindAction(p, 0, "P s0 m2")->clear_backward(); },
       {"'P s0 m2'"},
       ProgramOf(Pairs)},
      {"P5.pair",
       "both_halves_of_one_microbatch",
       [](Program* p) { FindAction(p, 0, "P s0 m2")->mutable_backward()->set_microbatch(2); },
       {"'P s0 m2'", "stage 0, microbatch 2"},
       ProgramOf(Pairs)},
      {"P5.pair",
       "halves_mixed",
       [](Program* p) {
         // The weight gradient of the backward reads a value that the forward of the pair has just made.
         const Segment& s = *FindSegment(p, "P0 of F0");
         FindStep(p, "P0 of F0", "MATMUL dw0 0")->set_inputs(0, ValueIndex(s, "h", 0));
       },
       {"'P s0 m2'", "'MATMUL dw0 0'", "mixes"},
       ProgramOf(Pairs)},
      {"P13.complete",
       "pair_with_another_stage",
       [](Program* p) { FindAction(p, 0, "P s0 m2")->mutable_backward()->set_stage(1); },
       {"'P s0 m2'", "'B s1 m0'", "stage 1 sees microbatch 0 twice"},
       ProgramOf(Pairs)},
      {"P13.complete",
       "pair_with_another_microbatch",
       [](Program* p) { FindAction(p, 0, "P s0 m2")->mutable_backward()->set_microbatch(1); },
       {"'B s0 m1' repeats", "'P s0 m2'", "stage 0 sees microbatch 1 twice"},
       ProgramOf(Pairs)},
      {"P6.pair",
       "message_driven",
       [](Program* p) { p->set_compute_order(BACKWARD_FIRST); },
       {"'P s0 m2'", "message-driven"},
       ProgramOf(Pairs)},
  };
}

std::vector<Broken> BrokenWidths() {
  return {
      {"P13.complete",
       "wide_forward_without_one_backward",
       [](Program* p) {
         ScheduleSpec spec = Wide();
         spec.order = {"F0.0x2 B0.0", "F1.0x2 B1.0"};
         *p = ScheduleProgram(spec);
       },
       {"BACKWARD of stage 0, microbatch 1"},
       ProgramOf(Wide)},
      {"P13.complete",
       "other_width_in_another_stage",
       [](Program* p) {
         // All stages are on one rank, so no message has a width that would show the difference.
         ScheduleSpec spec = OneRank();
         spec.lane = {0, 0};
         spec.order = {"F0.0x2 F1.0x2 F2.0x2 B2.0 B2.1 B1.0 B1.1 B0.0 B0.1"};
         *p = ScheduleProgram(spec);
         Template& t = *p->mutable_templates(0);
         Action twice = *FindAction(p, 0, "F s1 m0");
         FindAction(p, 0, "F s1 m0")->set_width(0);
         FindAction(p, 0, "F s1 m0")->clear_releases();
         twice.set_width(0);
         twice.set_microbatch(1);
         twice.set_name("F s1 m1");
         twice.clear_deps();
         // The new action needs an id between two others and there is no free one, so the list is renumbered.
         t.add_body()->Swap(&twice);
         for (int i = t.body_size() - 1; t.body(i - 1).name() != "F s1 m0"; --i)
           t.mutable_body()->SwapElements(i, i - 1);
         std::vector<int> id(t.body_size());
         for (int i = 0; i < t.body_size(); ++i) {
           if (t.body(i).name() != "F s1 m1") id[t.body(i).id()] = i;
         }
         for (int i = 0; i < t.body_size(); ++i) {
           Action& a = *t.mutable_body(i);
           a.set_id(i);
           for (Dependency& dep : *a.mutable_deps()) dep.set_action(id[dep.action()]);
         }
       },
       {"'F s1 m0'", "microbatch 0 is one of 1 that run together from microbatch 0",
        "it is one of 2 from microbatch 0"},
       ProgramOf(OneRank)},
      {"P4.microbatch",
       "narrow_send_of_a_wide_forward",
       [](Program* p) { FindAction(p, 0, "send F s0 m0")->set_width(1); },
       {"'send F s0 m0'", "'recv F s1 m0'", "widths differ: 1 and 2"},
       ProgramOf(Wide)},
      {"P13.range",
       "width_beyond_the_microbatches",
       [](Program* p) { FindAction(p, 0, "F s0 m0")->set_width(3); },
       {"'F s0 m0'", "width 3"},
       ProgramOf(Wide)},
      {"P2.fields",
       "wide_backward",
       [](Program* p) { FindAction(p, 0, "B s0 m0")->set_width(2); },
       {"width"},
       ProgramOf(Wide)},
      {"P2.kernel",
       "wide_segment_in_a_narrow_forward",
       [](Program* p) { FindAction(p, 0, "F s0 m0")->set_width(1); },
       {"'F s0 m0'", "LOAD_TOKENS", "for 2 microbatches", "the action has 1"},
       ProgramOf(Wide)},
      {"P2.kernel",
       "of_backward_outside_of_a_pair",
       [](Program* p) { FindStep(p, "F0x1", "LOAD_TOKENS tokens")->mutable_attributes()->set_of_backward(true); },
       {"'F s0 m0'", "of_backward"},
       ProgramOf(Chain)},
      {"P13.input",
       "backward_of_the_other_part",
       [](Program* p) { FindAction(p, 0, "B s0 m1")->set_segment(SegmentIndex(*p, "B0 part0")); },
       {"'B s0 m1'", "'saved0 m0'", "forward of stage 0, microbatch 0"},
       ProgramOf(Wide)},
      {"P11.loss",
       "one_loss_for_two",
       [](Program* p) {
         for (Step& step : *FindSegment(p, "F1x2")->mutable_steps()) {
           if (step.kernel() == CROSS_ENTROPY) step.mutable_attributes()->set_microbatch_offset(0);
         }
       },
       {"'F s1 m0'", "SQUARED_ERROR for each microbatch"},
       ProgramOf(Wide)},
  };
}

std::vector<Broken> BrokenOrders() {
  return {
      {"P7.overlap",
       "dynamic_order_with_reuse_by_list_order",
       [](Program* p) { p->set_compute_order(ARRIVAL); },
       {"'saved0 m0'", "'saved0 m2'", "'F s0 m2'", "'B s0 m0'"},
       ReusedByListOrder},
      {"P7.race",
       "dynamic_backward_without_wait",
       [](Program* p) { RemoveDep(p, 1, "B s1 m0", "F s1 m0"); },
       {"'F s1 m0'", "'B s1 m0'", "'saved1 m0'"},
       ProgramOf(Driven)},
      {"P6.streams",
       "copy_in_a_queue",
       [](Program* p) { FindStep(p, "F0x1", "EMBEDDING h")->set_stream(H2D); },
       {"'F s0 m0'", "'EMBEDDING h'", "H2D"},
       ProgramOf(Driven)},
      {"P13.deadlock",
       "limit_that_waits_for_itself",
       [](Program* p) { AddDep(p, 0, "F s0 m1", "B s0 m1"); },
       {"'F s0 m1'", "'B s0 m1'"},
       ProgramOf(Driven)},
      {"P13.deadlock",
       "shared_stream_of_1f1b",
       [](Program* p) { p->set_transfer_streams(SHARED); },
       {"'send F s0 m1'", "'send B s1 m0'"},
       ProgramOf(Chain)},
      {"P13.deadlock",
       "group_with_partners_in_sequence",
       [](Program* p) {
         for (Action& a : *p->mutable_templates(1)->mutable_body()) a.clear_transfer_group();
       },
       {"'send F s0 m1'", "'send B s1 m0'"},
       ProgramOf(Grouped)},
      {"P13.deadlock",
       "member_waits_for_member",
       [](Program* p) { AddDep(p, 0, "recv B s0 m0", "send F s0 m1"); },
       {"'send F s0 m1'"},
       ProgramOf(Grouped)},
      {"P13.range",
       "negative_group",
       [](Program* p) { FindAction(p, 0, "send F s0 m0")->set_transfer_group(-1); },
       {"'send F s0 m0'", "transfer_group -1"},
       ProgramOf(Grouped)},
      {"P2.fields",
       "group_of_a_forward",
       [](Program* p) { FindAction(p, 0, "F s0 m0")->set_transfer_group(1); },
       {"'F s0 m0'", "transfer_group"},
       ProgramOf(Grouped)},
      {"P13.limits",
       "group_of_too_many",
       [](Program* p) {
         Template& t = *p->mutable_templates(0);
         Action send = *FindAction(p, 0, "send F s0 m0");
         send.set_name("first of many");
         send.clear_deps();
         send.clear_releases();
         send.set_transfer_group(99);
         for (int i = 0; i < 257; ++i) {
           send.set_id(t.body(t.body_size() - 1).id() + 1);
           *t.add_body() = send;
         }
       },
       {"'first of many'", "257 members", "at most 256"},
       ProgramOf(Grouped)},
      {"P4.skip",
       "unknown_skip",
       [](Program* p) { FindAction(p, 0, "send skip0 m0")->set_skip(9); },
       {"'send skip0 m0'", "skip 9", "[0, 1]"},
       ProgramOf(Skips)},
      {"P4.skip",
       "other_end",
       [](Program* p) { FindAction(p, 2, "recv skip0 m0")->set_stage(1); },
       {"'recv skip0 m0'", "'skip0'", "stage 2"},
       ProgramOf(Skips)},
      {"P4.skip",
       "to_its_own_stage",
       [](Program* p) { p->mutable_skips(0)->set_to_stage(0); },
       {"skips[0] 'skip0'", "stage 0 to stage 0"},
       ProgramOf(Skips)},
      {"P4.matching",
       "skip_without_receive",
       [](Program* p) { RemoveAction(p, 2, "recv skip0 m1"); },
       {"'send skip0 m1'", "has no RECV"},
       ProgramOf(Skips)},
      {"P13.input",
       "skip_that_nobody_reads",
       [](Program* p) {
         ScheduleSpec spec = Skips();
         spec.skips.clear();
         *p = ScheduleProgram(spec);
         SkipEdge& skip = *p->add_skips();
         skip.set_to_stage(2);
       },
       {"'F s2 m0'", "forward of stage 0, microbatch 0"},
       ProgramOf(Skips)},
      {"P4.skip",
       "skip_to_its_own_stage",
       [](Program* p) { p->mutable_skips(0)->set_to_stage(p->skips(0).from_stage()); },
       {"skips[0]", "it must lead to a later one"},
       ProgramOf(Skips)},
  };
}

}  // namespace

std::vector<Broken> BrokenSchedules() {
  std::vector<Broken> corpus;
  for (std::vector<Broken>& part :
       std::vector<std::vector<Broken>>{BrokenBackwards(), BrokenWidths(), BrokenOrders()}) {
    for (Broken& broken : part) corpus.push_back(std::move(broken));
  }
  return corpus;
}

}  // namespace weft
