// P11.scale: loss scaling, and what else can go wrong where an update undoes a scale.
#include <functional>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

std::function<Program()> With(TinyScaling scaling) {
  return [scaling] { return TinyProgram(IN_ORDER, scaling); };
}

}  // namespace

std::vector<Broken> BrokenLossScale() {
  const auto dynamic = With(TinyScaling::kDynamic), fixed = With(TinyScaling::kFixedByUpdate);
  return {
      {"P11.scale",
       "derivative_of_another_weight",
       [](Program* p) { FindStep(p, "B1", "loss backward")->mutable_attributes()->set_loss_weight(1.0 / 16); },
       {"'B1'", "'loss backward'", "1024"},
       fixed},
      {"P11.scale",
       "derivative_of_an_unscaled_loss",
       [](Program* p) { FindStep(p, "B1", "loss backward")->mutable_attributes()->set_loss_weight(64); },
       {"'B1'", "'loss backward'", "scaled by 1"}},
      {"P11.scale",
       "norms_divided_by_two_scales",
       [](Program* p) { FindStep(p, "scale1", "total")->mutable_attributes()->set_loss_scale(512); },
       {"'scale1'", "loss_scale 512, but another NORM_TOTAL has 1024"},
       fixed},
      {"P11.scale",
       "not_undone",
       [](Program* p) { FindStep(p, "optimizer1", "update gamma")->mutable_inputs()->RemoveLast(); },
       {"'optimizer'", "'gamma'", "SCALE or the update must divide by it"},
       fixed},
      {"P2.alias",
       "copy_of_a_weight_over_the_norm",
       [](Program* p) {
         // The update still reads the norm while it writes the copy for compute, so the copy must not overwrite the
         // norm.
         Step& update = *FindStep(p, "optimizer1", "update gamma");
         Segment& segment = *FindSegment(p, "optimizer1");
         const Value norm = segment.values(update.inputs(2));
         segment.mutable_operands(norm.operand())->set_bytes(1024);
         Value copy = segment.values(update.outputs(0));
         copy.set_name("copy of gamma");
         copy.set_operand(norm.operand());
         copy.set_offset(norm.offset());
         *segment.add_values() = copy;
         update.add_outputs(segment.values_size() - 1);
       },
       {"'update gamma'", "'copy of gamma'", "'norm'"},
       fixed},
      {"P11.clip",
       "undone_twice",
       [](Program* p) {
         Step& update = *FindStep(p, "optimizer1", "update gamma");
         Segment& segment = *FindSegment(p, "optimizer1");
         Operand& norm = *segment.add_operands();
         norm.set_name("norm");
         norm.set_bytes(16);
         norm.set_access(READ);
         Value& value = *segment.add_values();
         value.set_name("norm");
         value.set_operand(segment.operands_size() - 1);
         value.set_dtype(FP64);
         value.add_shape(2);
         update.add_inputs(segment.values_size() - 1);
         FindAction(p, 1, "optimizer")->add_operands(FindBuffer(*p, 1, "norm"));
       },
       {"'optimizer'", "twice"},
       With(TinyScaling::kFixedByScale)},
      {"P11.scale",
       "does_not_skip",
       [](Program* p) { FindStep(p, "optimizer1", "update gamma")->mutable_inputs()->RemoveLast(); },
       {"'optimizer1'", "'update gamma'", "does not read"},
       dynamic},
      {"P11.scale",
       "never_updated",
       [](Program* p) { FindSegment(p, "optimizer1")->mutable_steps()->RemoveLast(); },
       {"'pipe1'", "never updates"},
       dynamic},
      {"P11.scale",
       "updated_twice",
       [](Program* p) {
         const Step again = *FindStep(p, "optimizer0", "update scale");
         *FindSegment(p, "optimizer0")->add_steps() = again;
       },
       {"'pipe0'", "'update scale'", "after its update"},
       dynamic},
      {"P11.scale",
       "read_behind_its_update",
       [](Program* p) {
         auto& steps = *FindSegment(p, "optimizer1")->mutable_steps();
         for (int i = steps.size() - 1; i > 0; --i) steps.SwapElements(i, i - 1);
       },
       {"'pipe1'", "'update wte'", "after its update"},
       dynamic},
      {"P11.scale",
       "of_another_buffer",
       [](Program* p) { MutableBuffer(p, 1, "scale")->set_role(NO_ROLE); },
       {"'pipe1'", "another role"},
       dynamic},
      {"P11.scale",
       "two_growth_intervals",
       [](Program* p) { FindStep(p, "optimizer1", "update scale")->mutable_attributes()->set_growth_interval(7); },
       {"'optimizer1'", "after 7 steps"},
       dynamic},
      {"P11.scale",
       "updated_for_nothing",
       [](Program* p) {
         for (const char* segment : {"scale0", "scale1"}) {
           FindStep(p, segment, "total")->mutable_inputs()->RemoveLast();
           FindSegment(p, segment)->mutable_operands()->DeleteSubrange(2, 1);
           FindSegment(p, segment)->mutable_values()->DeleteSubrange(2, 1);
         }
         for (int t : {0, 1}) FindAction(p, t, "clip")->mutable_operands()->RemoveLast();
       },
       {"'pipe0'", "not divided by"},
       dynamic},
      {"P11.scale",
       "learns_from_what_is_no_norm",
       [](Program* p) {
         // UPDATE_LOSS_SCALE reads the norms of two tensors instead of the global norm.
         Segment& segment = *FindSegment(p, "optimizer1");
         Operand& norms = *segment.add_operands();
         norms.set_name("norms");
         norms.set_bytes(24);
         norms.set_access(READ);
         Value& value = *segment.add_values();
         value.set_name("norms");
         value.set_operand(segment.operands_size() - 1);
         value.set_dtype(FP64);
         value.add_shape(2);
         FindStep(p, "optimizer1", "update scale")->set_inputs(0, segment.values_size() - 1);
         FindAction(p, 1, "optimizer")->add_operands(FindBuffer(*p, 1, "norms"));
       },
       {"'optimizer'", "'update scale'", "not the global norm"},
       dynamic},
      {"P2.attribute",
       "first_scale_without_bound",
       [](Program* p) { FindStep(p, "optimizer1", "update scale")->mutable_attributes()->set_loss_scale(1e300); },
       {"'update scale'", "loss_scale is 1e+300", "from 1 to 2^60"},
       dynamic},
      {"P2.attribute",
       "first_scale_below_one",
       [](Program* p) { FindStep(p, "optimizer1", "update scale")->mutable_attributes()->set_loss_scale(0.5); },
       {"'update scale'", "loss_scale is 0.5", "from 1 to 2^60"},
       dynamic},
      {"P2.attribute",
       "fixed_scale_without_bound",
       [](Program* p) { FindStep(p, "scale1", "total")->mutable_attributes()->set_loss_scale(1e300); },
       {"'total'", "loss_scale is 1e+300", "2^-60 to 2^60"},
       fixed},
      {"P7.role",
       "loss_scale_of_two",
       [](Program* p) {
         MutableBuffer(p, 0, "scale")->set_shape(0, 2);
         MutableBuffer(p, 0, "scale")->set_bytes(16);
       },
       {"'scale'", "fp64 [3]"},
       dynamic},
  };
}

}  // namespace weft
