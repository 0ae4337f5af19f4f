#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"
#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

// Repeats the step at the end of its segment.
void Repeat(Program* p, const char* segment, const char* step) {
  const Step copy = *FindStep(p, segment, step);
  *FindSegment(p, segment)->add_steps() = copy;
}

}  // namespace

std::vector<Broken> BrokenGradients() {
  return {
      {"P9.batch",
       "batch_size",
       [](Program* p) { p->mutable_recipe()->set_global_batch_sequences(5); },
       {"is 5", "2 x 2 x 1"}},
      {"P9.batch",
       "overflowing_product",
       [](Program* p) {
         // The product of the global batch, 2^19 x 2^20 x (2^25 + 1) = 2^64 + 2^39, equals 2^39 modulo 2^64.
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
       "synchronized_twice",
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
         // The backward fills one half of the gradient of the table and adds to the other half.
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
  };
}

}  // namespace weft
