#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"

namespace weft {
std::vector<Broken> BrokenActions() {
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
       {"'F0'", "FORWARD must not have sources"}},
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
      {"P2.attribute",
       "matmul_tf32",
       [](Program* p) { FindStep(p, "F1", "head")->mutable_attributes()->set_tf32(true); },
       {"'F1'", "'head' (MATMUL)", "rounds to TF32"}},
      {"P2.attribute",
       "precision_tf32",
       [](Program* p) { p->mutable_precision()->set_compute(TF32); },
       {"'head' (MATMUL)", "does not round to TF32", "precision.compute is tf32"}},
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
       "accumulate_not_honored",
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
         // B0 reads activations that F0 wrote, as if they were tokens.
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
  };
}

}  // namespace weft
