// A corpus of broken programs: each breaks one rule of a valid program, and the verifier must name the rule and the
// actions (or buffers, segments, fields) at fault. docs/verifier.md lists the rules; every one of them is here.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "proto/verify/tiny_program.h"
#include "proto/verify/verify.h"

namespace weft {
namespace {

struct Broken {
  const char* rule;
  const char* name;
  std::function<void(Program*)> edit;
  // All must be in one message of that rule.
  std::vector<std::string> says;
};

void Release(Program* p, int t, const char* action, const char* buffer) {
  FindAction(p, t, action)->add_releases(FindBuffer(*p, t, buffer));
}

void ForBoth(Program* p, const std::function<void(int)>& edit) {
  for (int t = 0; t < p->templates_size(); ++t) edit(t);
}

// A copy of a transient buffer at bytes of its own; returns its index.
int CopyBuffer(Program* p, int t, const char* buffer) {
  Template& tt = *p->mutable_templates(t);
  Buffer copy = *MutableBuffer(p, t, buffer);
  copy.set_name(copy.name() + " copy");
  copy.set_offset(tt.device_arena_bytes());
  tt.set_device_arena_bytes(tt.device_arena_bytes() + (copy.bytes() + 255) / 256 * 256);
  *tt.add_buffers() = copy;
  return tt.buffers_size() - 1;
}

std::vector<Broken> Corpus() {
  return {
      // P1: actions and their dependencies.
      {"P1.ids", "repeated_id", [](Program* p) { FindAction(p, 0, "F1")->set_id(1); }, {"'pipe0'", "action 1 'F1'"}},
      {"P1.deps",
       "missing_action",
       [](Program* p) { FindAction(p, 0, "B0")->add_deps()->set_action(99); },
       {"'B0'", "action 99"}},
      {"P1.deps", "negative_distance", [](Program* p) { AddDep(p, 0, "B0", "F0", -1); }, {"'B0'", "distance -1"}},
      {"P1.deps",
       "distance_out_of_the_prologue",
       [](Program* p) {
         Template& t = *p->mutable_templates(0);
         *t.add_prologue() = t.body(1);
         t.mutable_prologue(0)->clear_deps();
         for (Action& a : *t.mutable_body()) a.set_id(a.id() + 100);
         for (Action& a : *t.mutable_body()) {
           for (Dependency& d : *a.mutable_deps()) d.set_action(d.action() + 100);
         }
         Dependency& d = *FindAction(p, 0, "F1")->add_deps();
         d.set_action(1);
         d.set_distance(1);
       },
       {"'F1'", "prologue"}},
      {"P1.deps", "on_itself", [](Program* p) { AddDep(p, 0, "F1", "F1"); }, {"'F1'", "itself"}},

      // P2: segments and steps.
      {"P2.kind", "no_kind", [](Program* p) { FindAction(p, 0, "F0")->set_kind(ACTION_UNSPECIFIED); }, {"'F0'"}},
      {"P2.fields",
       "forward_with_sources",
       [](Program* p) { FindAction(p, 0, "F0")->add_sources(0); },
       {"'F0'", "FORWARD has no sources"}},
      {"P2.buffer",
       "operand_out_of_range",
       [](Program* p) { FindAction(p, 0, "F0")->set_operands(0, 999); },
       {"'F0'", "buffer 999"}},
      {"P2.segment",
       "segment_out_of_range",
       [](Program* p) { FindAction(p, 0, "F0")->set_segment(99); },
       {"'F0'", "segment 99"}},
      {"P2.operand",
       "too_few_operands",
       [](Program* p) { FindAction(p, 0, "F0")->mutable_operands()->RemoveLast(); },
       {"'F0'", "binds 2 operands"}},
      {"P2.operand",
       "wrong_size",
       [](Program* p) { FindAction(p, 0, "F0")->set_operands(2, FindBuffer(*p, 0, "wte")); },
       {"'F0'", "'wte'", "'y'"}},
      {"P2.operand",
       "same_buffer_read_and_written",
       [](Program* p) { FindAction(p, 1, "B0")->set_operands(8, FindBuffer(*p, 1, "x0")); },
       {"'B0'", "'x0'", "'dx'"}},
      {"P2.value",
       "leaves_operand",
       [](Program* p) { FindSegment(p, "F0")->mutable_values(2)->set_offset(64); },
       {"'F0'", "'y'"}},
      {"P2.value",
       "overflowing_shape",
       [](Program* p) {
         Value& v = *FindSegment(p, "F0")->mutable_values(2);
         v.set_shape(0, int64_t{1} << 30);
         v.set_shape(1, int64_t{1} << 30);
         v.add_shape(int64_t{1} << 30);
       },
       {"'F0'", "'y'"}},
      {"P2.value", "unaligned", [](Program* p) { FindSegment(p, "F0")->mutable_values(2)->set_offset(4); }, {"'y'"}},
      {"P2.step",
       "waits_for_later_step",
       [](Program* p) { FindStep(p, "F0", "tokens")->add_deps(1); },
       {"'F0'", "'tokens'"}},
      {"P2.step",
       "all_detached",
       [](Program* p) {
         for (Step& s : *FindSegment(p, "F0")->mutable_steps()) s.set_detached(true);
       },
       {"'F0'", "detached"}},
      {"P2.kernel",
       "matmul_shape",
       [](Program* p) { FindStep(p, "F1", "head")->mutable_attributes()->set_transpose_b(false); },
       {"'F1'", "'head' (MATMUL)", "'wte'"}},
      {"P2.kernel",
       "matmul_dtype",
       [](Program* p) {
         FindSegment(p, "B1")->mutable_values(FindStep(p, "B1", "head input")->outputs(0))->set_dtype(INT32);
       },
       {"'B1'", "'dh'", "int32"}},
      {"P2.kernel",
       "too_few_inputs",
       [](Program* p) { FindStep(p, "F1", "norm")->mutable_inputs()->RemoveLast(); },
       {"'norm' (LAYER_NORM)", "2 inputs"}},
      {"P2.kernel",
       "table_smaller_than_vocabulary",
       [](Program* p) {
         p->set_vocabulary(17);
         for (const char* s : {"F1", "B1"}) {
           for (Step& step : *FindSegment(p, s)->mutable_steps()) {
             if (step.attributes().vocabulary() > 0) step.mutable_attributes()->set_vocabulary(16);
           }
         }
       },
       {"'F0'", "EMBEDDING", "vocabulary of 17"}},
      {"P2.kernel",
       "microbatch_kernel_in_optimizer",
       [](Program* p) { FindAction(p, 0, "F0")->set_kind(GRAD_NORM); },
       {"'F0'", "LOAD_TOKENS"}},
      {"P2.attribute",
       "attribute_of_another_kernel",
       [](Program* p) { FindStep(p, "F0", "embed")->mutable_attributes()->set_heads(2); },
       {"'embed' (EMBEDDING)", "heads"}},
      {"P2.attribute",
       "accumulate_not_honoured",
       [](Program* p) { FindStep(p, "F0", "embed")->set_accumulate(true); },
       {"'embed' (EMBEDDING)", "accumulate"}},
      {"P2.alias",
       "output_over_input",
       [](Program* p) { FindStep(p, "B1", "norm input")->set_outputs(0, FindStep(p, "B1", "norm input")->inputs(0)); },
       {"'norm input'", "'dh'"}},
      {"P2.access",
       "writes_read_operand",
       [](Program* p) { FindSegment(p, "F0")->mutable_operands(2)->set_access(READ); },
       {"'F0'", "'y'", "'embed'"}},
      {"P2.access",
       "reads_write_operand",
       [](Program* p) { FindSegment(p, "B0")->mutable_operands(2)->set_access(WRITE); },
       {"'B0'", "'dwte'", "'embed backward'"}},
      {"P2.race",
       "steps_on_two_streams",
       [](Program* p) { FindStep(p, "B1", "head weight")->set_stream(D2H); },
       {"'B1'", "'head weight'", "'loss backward'"}},
      {"P2.indices",
       "targets_as_tokens",
       [](Program* p) { FindStep(p, "F0", "tokens")->set_kernel(LOAD_TARGETS); },
       {"'F0'", "'tokens'"}},
      {"P2.indices",
       "tokens_of_a_float_buffer",
       [](Program* p) {
         // B0 reads as tokens what F0 wrote as activations.
         Action& b = *FindAction(p, 0, "B0");
         FindSegment(p, "B0")->mutable_operands(0)->set_bytes(64);
         for (const char* n : {"tokens0", "tokens1"}) {
           Buffer& buffer = *MutableBuffer(p, 0, n);
           buffer.set_bytes(64);
           buffer.set_shape(0, 16);
         }
         FindSegment(p, "F0")->mutable_operands(0)->set_bytes(64);
         b.set_operands(0, FindBuffer(*p, 0, "y0"));
         FindAction(p, 0, "send F0")->clear_releases();
         AddDep(p, 0, "B0", "send F0");
         b.clear_releases();
         Release(p, 0, "B0", "y0");
         Release(p, 0, "B0", "dy0");
         Release(p, 0, "F0", "tokens0");
       },
       {"'B0'", "'y0'", "tokens"}},

      // P4: transfers and collectives.
      {"P4.matching",
       "missing_recv",
       [](Program* p) { RemoveAction(p, 1, "recv F1"); },
       {"'send F1'", "no RECV", "'pipe1'"}},
      {"P4.matching", "missing_send", [](Program* p) { RemoveAction(p, 1, "send B1"); }, {"'recv B1'", "no SEND"}},
      {"P4.microbatch",
       "crossed_receives",
       [](Program* p) {
         FindAction(p, 1, "recv F0")->set_microbatch(1);
         FindAction(p, 1, "recv F1")->set_microbatch(0);
       },
       {"'send F0'", "'recv F0'", "0 and 1"}},
      {"P4.stage",
       "stages_not_neighbours",
       [](Program* p) { FindAction(p, 1, "recv F0")->set_stage(0); },
       {"'send F0'", "'recv F0'"}},
      {"P4.dtype",
       "transfer_dtype",
       [](Program* p) {
         Buffer& x = *MutableBuffer(p, 1, "x0");
         x.set_dtype(BF16);
         x.set_shape(1, 8);
       },
       {"'send F0'", "'recv F0'", "fp32 and bf16"}},
      {"P4.shape",
       "transfer_shape",
       [](Program* p) {
         Buffer& x = *MutableBuffer(p, 1, "x0");
         x.set_shape(0, 2);
         x.set_shape(1, 8);
       },
       {"'send F0'", "'recv F0'", "[4,4] and [2,8]"}},
      {"P4.buffers", "send_of_two", [](Program* p) { FindAction(p, 0, "send F0")->add_sources(0); }, {"'send F0'"}},
      {"P4.buffers",
       "reduction_without_destination",
       [](Program* p) { FindAction(p, 0, "loss sync")->clear_destinations(); },
       {"'loss sync'"}},
      {"P4.direction",
       "no_direction",
       [](Program* p) { FindAction(p, 0, "send F0")->set_direction(DIRECTION_UNSPECIFIED); },
       {"'send F0'"}},
      {"P4.collective",
       "missing_member",
       [](Program* p) { RemoveAction(p, 0, "loss sync"); },
       {"'pipe1'", "'loss sync'", "'pipe0'"}},
      {"P4.collective",
       "other_algorithm",
       [](Program* p) { FindAction(p, 0, "tied sync")->set_algorithm("tree"); },
       {"'pipe0'", "'tied sync'", "'pipe1'", "tree"}},
      {"P4.collective",
       "other_sources",
       [](Program* p) {
         FindAction(p, 0, "tied sync")->add_sources(FindBuffer(*p, 0, "norms"));
         FindAction(p, 0, "tied sync")->add_destinations(FindBuffer(*p, 0, "norms"));
       },
       {"'tied sync'", "numbers of sources"}},

      // P7: memory.
      {"P7.class",
       "no_class",
       [](Program* p) { MutableBuffer(p, 0, "y0")->set_class_(BUFFER_CLASS_UNSPECIFIED); },
       {"'y0'"}},
      {"P7.alignment", "offset", [](Program* p) { MutableBuffer(p, 0, "y0")->set_offset(100); }, {"'y0'", "100"}},
      {"P7.arena",
       "beyond_the_end",
       [](Program* p) { p->mutable_templates(0)->set_device_arena_bytes(p->templates(0).device_arena_bytes() - 256); },
       {"'pipe0'", "'dy1'"}},
      {"P7.arena",
       "overflowing_offset",
       [](Program* p) { MutableBuffer(p, 0, "y0")->set_offset((std::numeric_limits<int64_t>::max() >> 8) << 8); },
       {"'y0'"}},
      {"P7.shape",
       "bytes_of_shape",
       [](Program* p) { MutableBuffer(p, 0, "y0")->set_shape(0, 5); },
       {"'y0'", "64 bytes"}},
      {"P7.role", "use_out_of_range", [](Program* p) { MutableBuffer(p, 0, "dwte")->set_use(2); }, {"'dwte'", "use 2"}},
      {"P7.role",
       "twice",
       [](Program* p) { MutableBuffer(p, 1, "norms")->set_role(LOCAL_NORMS); },
       {"'norms'", "'local norms'"}},
      {"P7.race",
       "read_before_receive",
       [](Program* p) { RemoveDep(p, 1, "F0", "recv F0"); },
       {"'recv F0'", "'F0'", "'x0'"}},
      {"P7.race",
       "overwritten_while_sent",
       [](Program* p) { RemoveDep(p, 0, "F0", "send F0"); },
       {"'send F0'", "'F0' of the next repetition", "'y0'"}},
      {"P7.race",
       "optimizer_before_tied_sync",
       [](Program* p) { RemoveDep(p, 0, "norm", "tied sync"); },
       {"'gradient sync'", "'norm'", "'dwte'"}},
      {"P7.undefined",
       "read_before_written",
       [](Program* p) {
         RemoveAction(p, 1, "recv F0");
         RemoveAction(p, 0, "send F0");
         Release(p, 0, "F0", "y0");
       },
       {"'F0'", "'x0'"}},
      {"P7.undefined",
       "partly_written",
       [](Program* p) {
         // The saved values lack the targets, which the backward reads.
         Segment& f = *FindSegment(p, "F1");
         StepAttributes a = FindStep(p, "F1", "loss")->attributes();
         f.mutable_steps()->DeleteSubrange(2, 2);
         f.mutable_operands()->DeleteSubrange(5, 1);
         while (f.values(f.values_size() - 1).operand() == 5) f.mutable_values()->RemoveLast();
         for (const char* n : {"F0", "F1"}) FindAction(p, 1, n)->mutable_operands()->RemoveLast();
       },
       {"'B0'", "'saved0'"}},
      {"P7.release", "never", [](Program* p) { FindAction(p, 0, "send F0")->clear_releases(); }, {"'y0'", "'F0'"}},
      {"P7.release", "twice", [](Program* p) { Release(p, 0, "F0", "y0"); }, {"'F0'", "'send F0'", "'y0'"}},
      {"P7.release", "persistent", [](Program* p) { Release(p, 0, "F0", "wte"); }, {"'F0'", "'wte'"}},
      {"P7.use_after_release",
       "released_by_forward",
       [](Program* p) {
         FindAction(p, 1, "B0")->clear_releases();
         for (const char* b : {"saved0", "workspace0"}) Release(p, 1, "B0", b);
         Release(p, 1, "F0", "x0");
       },
       {"'B0'", "'F0'", "'x0'"}},
      {"P7.overlap",
       "unordered_reuse",
       [](Program* p) { MutableBuffer(p, 1, "dx1")->set_offset(MutableBuffer(p, 1, "dx0")->offset()); },
       {"'dx0'", "'dx1'", "'B1'", "'send B0'"}},
      {"P7.overlap",
       "with_persistent",
       [](Program* p) { MutableBuffer(p, 1, "dx1")->set_offset(MutableBuffer(p, 1, "wte")->offset()); },
       {"'dx1'", "'wte'", "persistent"}},

      // P8: ranks.
      {"P8.pins",
       "beyond_axis",
       [](Program* p) { p->mutable_templates(1)->mutable_pins(0)->set_index(2); },
       {"'pipe1'"}},
      {"P8.templates",
       "two_match",
       [](Program* p) {
         *p->add_templates() = p->templates(0);
         p->mutable_templates(2)->set_name("third");
       },
       {"pipe=0", "'pipe0'", "'third'"}},
      {"P8.templates", "none_matches", [](Program* p) { p->mutable_mesh()->mutable_axes(1)->set_size(3); }, {"pipe=2"}},
      {"P8.peer",
       "itself",
       [](Program* p) { FindAction(p, 0, "send F0")->mutable_peer()->mutable_at(0)->set_index(0); },
       {"'send F0'", "itself"}},
      {"P8.peer",
       "unpinned_axis",
       [](Program* p) { FindAction(p, 0, "send F0")->mutable_peer()->mutable_at(0)->set_axis("data"); },
       {"'send F0'", "data"}},
      {"P8.group",
       "without_itself",
       [](Program* p) { FindAction(p, 0, "tied sync")->mutable_group()->mutable_axes(0)->add_indices(1); },
       {"'tied sync'", "pipe=0"}},
      {"P8.group",
       "part_of_unpinned_axis",
       [](Program* p) { FindAction(p, 0, "gradient sync")->mutable_group()->mutable_axes(0)->add_indices(1); },
       {"'gradient sync'", "data"}},

      // P9: gradients.
      {"P9.batch",
       "batch_size",
       [](Program* p) { p->mutable_recipe()->set_global_batch_sequences(5); },
       {"is 5", "2 x 2 x 1"}},
      {"P9.sync",
       "missing_gradient_sync",
       [](Program* p) {
         ForBoth(p, [&](int t) {
           RemoveAction(p, t, "gradient sync");
           AddDep(p, t, "tied sync", "B1");
         });
       },
       {"'norm'", "'wte'", "0 times"}},
      {"P9.sync",
       "synchronised_twice",
       [](Program* p) {
         ForBoth(p, [&](int t) { FindAction(p, t, "tied sync")->mutable_group()->add_axes()->set_axis("data"); });
       },
       {"'norm'", "'wte'", "2 times"}},
      {"P9.gradient",
       "not_accumulated",
       [](Program* p) { FindStep(p, "B0", "embed backward")->set_accumulate(false); },
       {"'norm'", "'wte' use 0 of 1 microbatches"}},
      {"P9.gradient",
       "missing_tied_sync",
       [](Program* p) {
         ForBoth(p, [&](int t) {
           RemoveAction(p, t, "tied sync");
           AddDep(p, t, "norm", "gradient sync");
         });
       },
       {"'pipe0'", "'norm'", "'wte' (2 uses"}},
      {"P9.uses",
       "use_counted_twice",
       [](Program* p) { MutableBuffer(p, 1, "dwte")->set_use(0); },
       {"'tied sync'", "'wte'"}},
      {"P9.order",
       "descending_microbatches",
       [](Program* p) {
         ForBoth(p, [&](int t) {
           for (Action& a : *p->mutable_templates(t)->mutable_body()) {
             const bool per = a.kind() == FORWARD || a.kind() == BACKWARD || a.kind() == SEND || a.kind() == RECV;
             if (per) a.set_microbatch(1 - a.microbatch());
           }
         });
       },
       {"'B1'", "microbatch 0", "after microbatch 1"}},
      {"P9.zero",
       "gradient_not_cleared",
       [](Program* p) { FindSegment(p, "optimizer0")->mutable_steps()->RemoveLast(); },
       {"'pipe0'", "'dwte'"}},

      // P10, P11: the end of a step.
      {"P10.algorithm",
       "no_algorithm",
       [](Program* p) { FindAction(p, 0, "tied sync")->clear_algorithm(); },
       {"'tied sync'"}},
      {"P11.update",
       "not_a_parameter",
       [](Program* p) {
         MutableBuffer(p, 1, "gamma")->set_role(NO_ROLE);
         MutableBuffer(p, 1, "gamma")->set_tensor(0);
       },
       {"'optimizer'", "'gamma'"}},
      {"P11.update",
       "never_updated",
       [](Program* p) {
         ForBoth(p, [&](int t) {
           RemoveAction(p, t, "optimizer");
           AddDep(p, t, "loss sync", "loss sync", 1);
         });
         AddDep(p, 1, "F0", "loss sync", 1);
       },
       {"'pipe0'", "'wte'", "0 times"}},
      {"P11.update",
       "forward_writes_parameter",
       [](Program* p) {
         // A forward that clears the table behind itself.
         Segment& f = *FindSegment(p, "F0");
         f.mutable_operands(1)->set_access(READ_WRITE);
         Step& fill = *f.add_steps();
         fill.set_kernel(FILL);
         fill.add_outputs(1);
       },
       {"'F0'", "'wte'", "PARAM"}},
      {"P11.loss",
       "over_data_only",
       [](Program* p) {
         ForBoth(p, [&](int t) { FindAction(p, t, "loss sync")->mutable_group()->mutable_axes()->RemoveLast(); });
       },
       {"'loss sync'", "part of the mesh"}},
      {"P11.loss",
       "before_the_last_microbatch",
       [](Program* p) {
         RemoveDep(p, 1, "loss sync", "B1");
         AddDep(p, 1, "loss sync", "F0");
         AddDep(p, 1, "F1", "loss sync");
         RemoveDep(p, 0, "loss sync", "B1");
         AddDep(p, 0, "loss sync", "loss sync", 1);
       },
       {"'loss sync'", "1 of 2"}},
      {"P11.norm",
       "slot_written_twice",
       [](Program* p) { FindStep(p, "norm1", "norm beta")->mutable_attributes()->set_slot(1); },
       {"'norm'", "'gamma'"}},
      {"P11.norm",
       "counted_on_both_ranks",
       [](Program* p) {
         // pipe1 also gives the norm of the tied tensor.
         Segment& s = *FindSegment(p, "norm1");
         Operand operand = FindSegment(p, "norm0")->operands(0);
         Value value = FindSegment(p, "norm0")->values(0);
         value.set_operand(s.operands_size());
         Step step = s.steps(0);
         step.set_inputs(0, s.values_size());
         step.mutable_attributes()->set_slot(0);
         *s.add_operands() = operand;
         *s.add_values() = value;
         *s.add_steps() = step;
         FindAction(p, 1, "norm")->add_operands(FindBuffer(*p, 1, "dwte"));
       },
       {"'norm sync'", "'wte'", "twice"}},
      {"P11.clip",
       "no_scaling",
       [](Program* p) {
         ForBoth(p, [&](int t) {
           RemoveAction(p, t, "clip");
           AddDep(p, t, "optimizer", "norm sync");
         });
       },
       {"'optimizer'", "'wte'", "clips at 1"}},
      {"P11.clip",
       "other_limit",
       [](Program* p) { FindStep(p, "scale0", "total")->mutable_attributes()->set_clip_norm(2); },
       {"'clip'", "clips at 2"}},

      // P13: the whole.
      {"P13.unknown_field",
       "in_an_action",
       [](Program* p) {
         Action* a = FindAction(p, 0, "F0");
         a->GetReflection()->MutableUnknownFields(a)->AddVarint(1000, 1);
       },
       {"templates[0].body[0]", "1000"}},
      {"P13.unknown_enum",
       "kernel",
       [](Program* p) { FindStep(p, "F0", "embed")->set_kernel(static_cast<Kernel>(999)); },
       {"segments[0].steps[1].kernel", "999"}},
      {"P13.range",
       "not_finite",
       [](Program* p) {
         FindStep(p, "F1", "loss")->mutable_attributes()->set_loss_weight(std::numeric_limits<double>::quiet_NaN());
       },
       {"loss_weight"}},
      {"P13.range",
       "microbatch",
       [](Program* p) { FindAction(p, 0, "F1")->set_microbatch(2); },
       {"'F1'", "microbatch 2"}},
      {"P13.range", "stage", [](Program* p) { FindAction(p, 0, "F1")->set_stage(-1); }, {"'F1'", "stage -1"}},
      {"P13.fit", "over_memory", [](Program* p) { p->set_does_not_fit(true); }, {"does_not_fit"}},
      {"P13.mesh", "empty_axis", [](Program* p) { p->mutable_mesh()->mutable_axes(0)->set_size(0); }, {"'data'"}},
      {"P13.mesh",
       "unknown_axis",
       [](Program* p) { p->mutable_mesh()->mutable_axes(0)->set_name("date"); },
       {"'date'"}},
      {"P13.recipe",
       "sequence_length",
       [](Program* p) { p->mutable_recipe()->set_sequence_length(0); },
       {"sequence_length"}},
      {"P13.tensor", "no_uses", [](Program* p) { p->mutable_tensors(1)->set_uses(0); }, {"'gamma'"}},
      {"P13.limits",
       "too_many_roles",
       [](Program* p) { p->mutable_mesh()->mutable_axes(1)->set_size(1 << 17); },
       {"131072"}},
      {"P13.deadlock",
       "send_waits_for_the_answer",
       [](Program* p) { AddDep(p, 0, "send F0", "recv B0"); },
       {"'send F0'", "'recv B0'", "'F0'", "'B0'"}},
      {"P13.deadlock",
       "crossed_collectives",
       [](Program* p) {
         // pipe0 sums norms first, pipe1 losses: each waits for the other.
         AddDep(p, 0, "loss sync", "norm sync");
         AddDep(p, 1, "norm sync", "loss sync");
         AddDep(p, 1, "loss sync", "norm sync");
       },
       {"'loss sync'", "'norm sync'"}},
      {"P13.deadlock",
       "crossed_order_of_receives",
       [](Program* p) {
         // Both ends first receive, then send.
         SwapActions(p, 0, "send F1", "recv B0");
         AddDep(p, 0, "send F1", "B0");
         SwapActions(p, 1, "B0", "recv F1");
         AddDep(p, 1, "B0", "recv F1");
       },
       {"'send F1'", "'B0'"}},
      {"P13.complete",
       "microbatch_twice",
       [](Program* p) { FindAction(p, 0, "F1")->set_microbatch(0); },
       {"'F1'", "'F0'", "microbatch 0 twice"}},
      {"P13.complete",
       "missing_backward",
       [](Program* p) {
         RemoveAction(p, 0, "B1");
         FindAction(p, 0, "recv B1")->add_releases(FindBuffer(*p, 0, "dy1"));
         Release(p, 0, "F1", "tokens1");
         AddDep(p, 0, "recv B1", "recv B1", 1);
         AddDep(p, 0, "gradient sync", "B0");
         AddDep(p, 0, "loss sync", "B0");
       },
       {"'pipe0'", "BACKWARD of stage 0, microbatch 1"}},
      {"P13.complete",
       "optimizer_in_the_epilogue",
       [](Program* p) {
         Template& t = *p->mutable_templates(0);
         *t.add_epilogue() = t.body(t.body_size() - 1);
         t.mutable_body()->RemoveLast();
         t.mutable_epilogue(0)->clear_deps();
         AddDep(p, 0, "loss sync", "loss sync", 1);
         t.mutable_epilogue(0)->add_deps()->set_action(FindAction(p, 0, "loss sync")->id());
       },
       {"'optimizer'", "body"}},
      {"P13.order",
       "backward_not_behind_forward",
       [](Program* p) {
         // The forward runs on a stream of its own and the backward loads its tokens again.
         for (Step& s : *FindSegment(p, "F0")->mutable_steps()) s.set_stream(H2D);
         Segment& b = *FindSegment(p, "B0");
         b.mutable_operands(0)->set_access(WRITE);
         Step load;
         load.set_name("again");
         load.set_kernel(LOAD_TOKENS);
         load.add_outputs(0);
         *b.add_steps() = load;
         b.mutable_steps()->SwapElements(0, 1);
         for (const char* m : {"0", "1"}) {
           const int copy = CopyBuffer(p, 0, (std::string("tokens") + m).c_str());
           Action& action = *FindAction(p, 0, std::string("B") + m);
           action.set_operands(0, copy);
           action.set_releases(0, copy);
           Release(p, 0, (std::string("F") + m).c_str(), (std::string("tokens") + m).c_str());
         }
         AddDep(p, 0, "F0", "optimizer", 1);
         AddDep(p, 0, "optimizer", "F1");
       },
       {"'B0'", "'F0'"}},
      {"P13.input",
       "microbatches_exchanged",
       [](Program* p) {
         for (const char* n : {"F0", "F1", "B0", "B1"}) {
           Action& a = *FindAction(p, 1, n);
           a.set_microbatch(1 - a.microbatch());
         }
       },
       {"'pipe1'", "'F0'", "stage 0, microbatch 1"}},
      {"P13.evaluation",
       "parameter_elsewhere",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         Template& t = *p->mutable_evaluation()->mutable_templates(0);
         t.mutable_buffers(0)->set_offset(t.device_arena_bytes());
         t.set_device_arena_bytes(t.device_arena_bytes() + 256);
       },
       {"'wte'", "not at the place"}},
      {"P13.evaluation",
       "overwrites_training",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         MutableBuffer(p->mutable_evaluation(), 0, "y0")->set_offset(MutableBuffer(p, 0, "dwte")->offset());
       },
       {"'y0'", "'dwte'"}},
      {"P13.evaluation", "trains", [](Program* p) { *p->mutable_evaluation() = TinyProgram(); }, {"training"}},
      {"P13.complete",
       "evaluation_misses_a_forward",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         FindAction(p->mutable_evaluation(), 1, "F1")->set_stage(0);
       },
       {"evaluation: ", "'F1'"}},
  };
}

class BrokenTest : public testing::TestWithParam<Broken> {};

TEST_P(BrokenTest, IsRefused) {
  Program program = TinyProgram();
  ASSERT_TRUE(VerifyProgram(program).ok());
  GetParam().edit(&program);
  const std::vector<Finding> findings = FindViolations(program);
  std::string all;
  bool found = false;
  for (const Finding& finding : findings) {
    all += "[" + finding.rule + "] " + finding.message + "\n";
    bool says = finding.rule == GetParam().rule;
    for (const std::string& text : GetParam().says) says = says && finding.message.find(text) != std::string::npos;
    found = found || says;
  }
  EXPECT_TRUE(found) << "expected rule " << GetParam().rule << ", found:\n" << all;
  EXPECT_FALSE(VerifyProgram(program).ok());
}

std::string CaseName(const Broken& broken) {
  std::string name = std::string(broken.rule) + "_" + broken.name;
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Corpus, BrokenTest, testing::ValuesIn(Corpus()),
                         [](const auto& info) { return CaseName(info.param); });

// The table of docs/verifier.md and this corpus have the same rules, and the table names a test of each.
TEST(RulesTest, TableIsComplete) {
  std::ifstream file("docs/verifier.md");
  ASSERT_TRUE(file) << "docs/verifier.md is not among the test's data";
  std::set<std::string> corpus_rules, table_rules, cases;
  for (const Broken& broken : Corpus()) {
    corpus_rules.insert(broken.rule);
    EXPECT_TRUE(cases.insert(CaseName(broken)).second) << CaseName(broken) << " is listed twice";
  }
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string bar, rule, word, test;
    if (!(words >> bar >> rule) || bar != "|" || rule.size() < 2 || rule[0] != 'P' ||
        rule.find('.') == std::string::npos) {
      continue;
    }
    table_rules.insert(rule);
    while (words >> word) {
      if (word != "|") test = word;
    }
    EXPECT_TRUE(cases.count(test)) << "rule " << rule << " names test '" << test << "', which does not exist";
  }
  EXPECT_EQ(corpus_rules, table_rules);
}

}  // namespace
}  // namespace weft
