#include <limits>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"
#include "verifier/testing/tiny_program.h"

namespace weft {

std::vector<Broken> BrokenMemory() {
  return {
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
       "dtype_of_precision",
       [](Program* p) { p->mutable_precision()->set_grads(BF16); },
       {"'dwte'", "fp32", "precision.grads is bf16"}},
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
         // The forward does not save the targets, which the backward reads.
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
       {"'send F0'", "its own rank"}},
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
  };
}

}  // namespace weft
