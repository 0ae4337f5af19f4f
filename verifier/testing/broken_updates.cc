#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"

namespace weft {
std::vector<Broken> BrokenUpdates() {
  return {
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
       {"'optimizer1'", "'update gamma'", "rounding_site is 2; it must be 0", "no weights in half precision"}},
      {"P11.round",
       "nearest_by_the_recipe",
       [](Program* p) { FindStep(p, "optimizer1", "update gamma")->mutable_attributes()->set_rounding_site(2); },
       {"'update gamma'", "recipe.weight_rounding is NEAREST"}},
      {"P2.attribute",
       "elements_without_rounding",
       [](Program* p) { FindStep(p, "optimizer1", "update gamma")->mutable_attributes()->set_first_element(8); },
       {"'update gamma'", "first_element is 8"}},
  };
}

}  // namespace weft
