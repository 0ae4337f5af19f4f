#include <limits>
#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"
#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

// Copies a transient buffer to bytes of its own. Returns the copy's index.
int CopyBuffer(Program* p, int t, const char* buffer) {
  Template& tt = *p->mutable_templates(t);
  Buffer copy = *MutableBuffer(p, t, buffer);
  copy.set_name(copy.name() + " copy");
  copy.set_offset(tt.device_arena_bytes());
  tt.set_device_arena_bytes(tt.device_arena_bytes() + (copy.bytes() + 255) / 256 * 256);
  *tt.add_buffers() = copy;
  return tt.buffers_size() - 1;
}

// Repeats the step at the end of its segment.
void Repeat(Program* p, const char* segment, const char* step) {
  const Step copy = *FindStep(p, segment, step);
  *FindSegment(p, segment)->add_steps() = copy;
}

}  // namespace

std::vector<Broken> BrokenTraining() {
  return {
      // P9: gradients.
      {"P9.batch",
       "batch_size",
       [](Program* p) { p->mutable_recipe()->set_global_batch_sequences(5); },
       {"is 5", "2 x 2 x 1"}},
      {"P9.batch",
       "overflowing_product",
       [](Program* p) {
         // 2^19 x 2^20 x (2^25 + 1) = 2^64 + 2^39.
         p->mutable_mesh()->mutable_axes(0)->set_size(1 << 19);
         p->set_microbatches(1 << 20);
         p->mutable_recipe()->set_sequence_length(1);
         p->mutable_recipe()->set_microbatch_sequences((1 << 25) + 1);
         p->mutable_recipe()->set_global_batch_sequences(int64_t{1} << 39);
       },
       {"is 549755813888", "1048576 x 524288 x 33554433"}},
      {"P9.sync",
       "missing_gradient_sync",
       [](Program* p) {
         ForEachTemplate(p, [&](int t) {
           RemoveAction(p, t, "gradient sync");
           AddDep(p, t, "tied sync", "B1");
         });
       },
       {"'norm'", "'wte'", "summed over nothing"}},
      {"P9.sync",
       "synchronised_twice",
       [](Program* p) {
         ForEachTemplate(p,
                         [&](int t) { FindAction(p, t, "tied sync")->mutable_group()->add_axes()->set_axis("data"); });
       },
       {"'tied sync'", "'wte'", "over data, which it is summed over already"}},
      {"P9.gradient",
       "not_accumulated",
       [](Program* p) { FindStep(p, "B0", "embed backward")->set_accumulate(false); },
       {"'norm'", "'wte' use 0 of 1 microbatches"}},
      {"P9.gradient",
       "missing_tied_sync",
       [](Program* p) {
         ForEachTemplate(p, [&](int t) {
           RemoveAction(p, t, "tied sync");
           AddDep(p, t, "norm", "gradient sync");
         });
       },
       {"'pipe0'", "'norm'", "'wte' (2 uses"}},
      {"P9.uses",
       "use_counted_twice",
       [](Program* p) { MutableBuffer(p, 1, "dwte")->set_use(0); },
       {"'tied sync'", "'wte'"}},
      {"P9.once", "accumulated_twice", [](Program* p) { Repeat(p, "B0", "embed backward"); }, {"'B0'", "'dwte'"}},
      {"P9.once", "matmul_twice", [](Program* p) { Repeat(p, "B1", "head weight"); }, {"'B0'", "'head weight'"}},
      {"P9.once", "norm_twice", [](Program* p) { Repeat(p, "B1", "norm weight"); }, {"'B0'", "'dgamma'"}},
      {"P9.once",
       "exact_twice",
       [](Program* p) { Repeat(p, "B1", "exact beta"); },
       {"'B0'", "'exact beta'", "'acc dbeta'"},
       [] { return TinyProgram(EXACT); }},
      {"P9.once",
       "exact_embedding_twice",
       [](Program* p) { Repeat(p, "B0", "embed backward exact"); },
       {"'B1'", "'acc dwte'"},
       [] { return TinyProgram(EXACT); }},
      {"P9.once",
       "added_and_overwritten",
       [](Program* p) {
         // The lower half of the table is filled, and the upper half is added to.
         Segment& b = *FindSegment(p, "B0");
         const int upper = FindStep(p, "B0", "embed backward")->outputs(0);
         b.mutable_values(upper)->set_shape(0, b.values(upper).shape(0) / 2);
         Value lower = b.values(upper);
         lower.set_name("lower");
         lower.set_offset(lower.shape(0) * lower.shape(1) * 4);
         *b.add_values() = lower;
         Step& fill = *b.add_steps();
         fill.set_name("fill");
         fill.set_kernel(FILL);
         fill.add_outputs(b.values_size() - 1);
         fill.mutable_work()->set_bytes(64);
       },
       {"'B0'", "'dwte'", "overwrites"}},
      {"P9.order",
       "descending_microbatches",
       [](Program* p) {
         ForEachTemplate(p, [&](int t) {
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
         ForEachTemplate(p, [&](int t) {
           RemoveAction(p, t, "optimizer");
           AddDep(p, t, "loss sync", "loss sync", 1);
         });
         AddDep(p, 1, "F0", "loss sync", 1);
       },
       {"'pipe0'", "'wte'", "0 times"}},
      {"P11.update",
       "forward_writes_parameter",
       [](Program* p) {
         // The forward clears the table after it has read it.
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
         ForEachTemplate(p,
                         [&](int t) { FindAction(p, t, "loss sync")->mutable_group()->mutable_axes()->RemoveLast(); });
       },
       {"'loss sync'", "part of the mesh"}},
      {"P11.loss",
       "over_one_axis_twice",
       [](Program* p) {
         ForEachTemplate(p, [&](int t) {
           Action* second = FindAction(p, t, "norm sync");
           second->set_sources(0, FindBuffer(*p, t, "losses"));
           second->set_destinations(0, FindBuffer(*p, t, "losses"));
           AddDep(p, t, "norm sync", "loss sync");
         });
       },
       {"'norm sync'", "over pipe again"}},
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
       "of_a_part",
       [](Program* p) {
         for (Value& value : *FindSegment(p, "norm1")->mutable_values()) {
           if (value.name() == "dgamma") value.set_shape(0, 2);
         }
       },
       {"'norm gamma'", "2 elements", "all 4"}},
      {"P11.norm",
       "counted_on_both_ranks",
       [](Program* p) {
         // pipe1 also adds the norm of the tied tensor.
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
         ForEachTemplate(p, [&](int t) {
           RemoveAction(p, t, "clip");
           AddDep(p, t, "optimizer", "norm sync");
         });
       },
       {"'optimizer'", "'wte'", "clips at 1"}},
      {"P11.clip",
       "other_limit",
       [](Program* p) { FindStep(p, "scale0", "total")->mutable_attributes()->set_clip_norm(2); },
       {"'clip'", "clips at 2"}},
      {"P11.recipe",
       "other_momentum",
       [](Program* p) { p->mutable_recipe()->mutable_sgd()->set_momentum(0.5); },
       {"'optimizer1'", "momentum is 0, but recipe.sgd.momentum is 0.5"}},
      {"P11.recipe",
       "other_decay",
       [](Program* p) { FindStep(p, "optimizer1", "update gamma")->mutable_attributes()->set_weight_decay(0.25); },
       {"'update gamma'", "weight_decay is 0.25, which the recipe has for no tensor"}},
      {"P11.recipe",
       "other_optimizer",
       [](Program* p) { p->mutable_recipe()->mutable_adamw(); },
       {"'update gamma'", "is SGD_STEP, but the recipe has adamw"}},
      {"P11.round",
       "stochastic_without_halves",
       [](Program* p) {
         p->mutable_recipe()->set_weight_rounding(STOCHASTIC);
         FindStep(p, "optimizer1", "update gamma")->mutable_attributes()->set_rounding_site(2);
       },
       {"'optimizer1'", "'update gamma'", "rounding_site is 2, must be 0", "no weights in half precision"}},
      {"P11.round",
       "nearest_by_the_recipe",
       [](Program* p) { FindStep(p, "optimizer1", "update gamma")->mutable_attributes()->set_rounding_site(2); },
       {"'update gamma'", "recipe.weight_rounding is NEAREST"}},
      {"P2.attribute",
       "elements_without_rounding",
       [](Program* p) { FindStep(p, "optimizer1", "update gamma")->mutable_attributes()->set_first_element(8); },
       {"'update gamma'", "first_element is 8"}},

      // P13: the whole program.
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
         // Both ends receive first, then send.
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
         // The forward runs on another stream, and the backward loads its tokens again, so nothing orders the two.
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
      {"P13.input",
       "saved_of_another_microbatch",
       [](Program* p) {
         // If both forwards run before both backwards, both buffers are live and of the right size.
         SwapActions(p, 1, "B0", "recv F1");
         SwapActions(p, 1, "send B0", "F1");
         FindAction(p, 1, "B0")->set_operands(3, FindBuffer(*p, 1, "saved1"));
         FindAction(p, 1, "B1")->set_operands(3, FindBuffer(*p, 1, "saved0"));
         for (const char* n : {"0", "1"}) {
           Action& b = *FindAction(p, 1, std::string("B") + n);
           const std::string other = std::string("saved") + (n[0] == '0' ? "1" : "0");
           for (int i = 0; i < b.releases_size(); ++i) {
             if (p->templates(1).buffers(b.releases(i)).name().substr(0, 5) == "saved") {
               b.set_releases(i, FindBuffer(*p, 1, other));
             }
           }
         }
       },
       {"'pipe1'", "'B0'", "'saved'", "'saved1'", "forward of stage 1, microbatch 1"}},
  };
}

}  // namespace weft
