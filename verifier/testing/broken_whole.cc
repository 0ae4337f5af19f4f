#include <limits>
#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"

namespace weft {
namespace {

// Copies a transient buffer, and gives the copy bytes that no other buffer uses. Returns the copy's index.
int CopyBuffer(Program* p, int t, const char* buffer) {
  Template& tt = *p->mutable_templates(t);
  Buffer copy = *MutableBuffer(p, t, buffer);
  copy.set_name(copy.name() + " copy");
  copy.set_offset(tt.device_arena_bytes());
  tt.set_device_arena_bytes(tt.device_arena_bytes() + (copy.bytes() + 255) / 256 * 256);
  *tt.add_buffers() = copy;
  return tt.buffers_size() - 1;
}

}  // namespace

std::vector<Broken> BrokenWhole() {
  return {
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
         // Both forwards run before both backwards, so both saved buffers are live, and they have the same size.
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
