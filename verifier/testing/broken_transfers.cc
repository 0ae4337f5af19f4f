#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"

namespace weft {
std::vector<Broken> BrokenTransfers() {
  return {
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
       "stages_not_neighbors",
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
      {"P4.dtype",
       "sum_of_integers",
       [](Program* p) {
         for (int t : {0, 1}) {
           for (const char* name : {"local losses", "losses"}) {
             MutableBuffer(p, t, name)->set_role(NO_ROLE);
             MutableBuffer(p, t, name)->set_dtype(INT32);
             MutableBuffer(p, t, name)->set_shape(0, 8);
           }
         }
       },
       {"'loss sync'", "int32", "fp16 or exact192"}},
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

  };
}

}  // namespace weft
