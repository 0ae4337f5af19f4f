// Broken tensor parallelism and ZeRO: sums over several axes, and uses of sums at the wrong time.
#include <algorithm>
#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_split.h"

namespace weft {
namespace {

void MoveRelease(Program* p, const char* from, const char* to, const char* buffer) {
  const int b = FindBuffer(*p, 0, buffer);
  auto& releases = *FindAction(p, 0, from)->mutable_releases();
  releases.erase(std::find(releases.begin(), releases.end(), b));
  FindAction(p, 0, to)->add_releases(b);
}

}  // namespace

std::vector<Broken> BrokenSums() {
  return {
      {"P7.use_after_release",
       "released_before_the_scatter_is_done",
       [](Program* p) { MoveRelease(p, "sync tables", "B0", "B work0"); },
       {"'B0'", "'B work0'"},
       Split},
      {"P7.use_after_release",
       "released_by_who_does_not_wait",
       [](Program* p) { MoveRelease(p, "sync tables", "loss sync", "B work1"); },
       {"'B1'", "'B work1'"},
       Split},
      {"P7.race",
       "scattered_gradient_summed_too_early",
       [](Program* p) {
         for (Dependency& dep : *FindAction(p, 0, "sync tables")->mutable_deps()) dep.set_detached(false);
       },
       {"'sync tables'", "'dwte'"},
       Split},
      {"P7.race", "gathered_while_updated", [](Program* p) { RemoveDep(p, 0, "F0", "optimizer"); }, {"'wte'"}, Split},
      {"P9.batch",
       "more_ranks_than_samples",
       [](Program* p) { p->mutable_recipe()->set_microbatch_sequences(1); },
       {"2 ranks of axis z"},
       Split},
      {"P9.scatter",
       "gradient_scattered_over_another_axis",
       [](Program* p) { StepAxis(p, "B", "scatter dwte")->set_axis("x"); },
       {"'dwte'", "cut over z", "cut over x"},
       Split},
      {"P9.scatter",
       "update_of_another_part",
       [](Program* p) {
         // data and z have the same size, so the parts have the same size too.
         FindAction(p, 0, "sync tables")->set_kind(ALL_REDUCE);
         Action& a = *FindAction(p, 0, "sync tables");
         for (const char* name : {"part dwte", "part dhead"}) {
           Buffer& part = *MutableBuffer(p, 0, name);
           part.set_shape(0, 16);
           part.set_bytes(64);
         }
         a.set_kind(ALL_REDUCE);
         for (Segment& s : *p->mutable_segments()) {
           for (Operand& o : *s.mutable_operands()) {
             if (o.name().rfind("part d", 0) == 0) o.set_bytes(64);
           }
         }
       },
       {"'optimizer'", "cut over z, data", "cut over z"},
       Zero},
      {"P9.sync",
       "scattered_gradient_summed_over_z_again",
       [](Program* p) { GroupOf(p, "sync tables")->add_axes()->set_axis("z"); },
       {"'sync tables'", "'wte'", "over z"},
       Split},
      {"P9.sync",
       "added_to_what_is_summed",
       [](Program* p) {
         // The step would scatter the sum over z of two terms: a gradient that is already summed over z, and one that
         // is not.
         Step sum = *FindStep(p, "B", "scatter dhead"), again = *FindStep(p, "B", "head weight");
         sum.set_name("sum dhead");
         sum.set_kernel(GROUP_ALL_REDUCE);
         sum.set_outputs(0, sum.inputs(0));
         sum.clear_accumulate();
         sum.clear_detached();
         again.set_name("head weight again");
         again.set_accumulate(true);
         InsertStep(p, "B", "scatter dhead", sum);
         InsertStep(p, "B", "scatter dhead", again);
         StepAfter(p, "B", "sum dhead", "head weight");
         StepAfter(p, "B", "head weight again", "sum dhead");
         StepAfter(p, "B", "scatter dhead", "head weight again");
       },
       {"'B0'", "'dhead'", "must all be summed over the same ranks"},
       Split},
      {"P9.sync",
       "vectors_not_summed_over_z",
       [](Program* p) { GroupOf(p, "sync vectors")->mutable_axes()->RemoveLast(); },
       {"'gamma'", "must be summed over z and data", "summed over data"},
       Split},
      {"P9.sync",
       "summed_over_the_axis_that_cuts_it",
       [](Program* p) { GroupOf(p, "sync tables")->add_axes()->set_axis("x"); },
       {"'wte'", "over no axis that cuts it"},
       Split},
      {"P9.sync",
       "summed_in_blocks_only",
       [](Program* p) { GroupOf(p, "sync tables")->mutable_axes(0)->set_block(2); },
       {"'wte'", "data in blocks of 2"},
       [] { return SplitProgram(false, 4); }},
      {"P11.norm",
       "of_half_of_what_is_scattered",
       [](Program* p) { ValueOf(p, "norm", "part dwte")->set_shape(0, 4); },
       {"'norm wte'", "4 elements", "all 8"},
       Zero},
      {"P11.norm",
       "copies_counted_each",
       [](Program* p) { FindStep(p, "norm", "norm gamma")->mutable_attributes()->clear_counted_once(); },
       {"'norm sync'", "'gamma'", "not counted once"},
       Split},
      {"P11.norm",
       "parts_counted_once",
       [](Program* p) { FindStep(p, "norm", "norm wte")->mutable_attributes()->add_counted_once("x"); },
       {"'norm sync'", "'wte'", "over x"},
       Split},
      {"P11.norm",
       "parts_on_z_are_missing",
       [](Program* p) { GroupOf(p, "norm sync")->mutable_axes()->RemoveLast(); },
       {"'clip'", "lacks parts of 'wte'"},
       Split},
      {"P11.norm",
       "summed_over_replicas",
       [](Program* p) { GroupOf(p, "norm sync")->add_axes()->set_axis("data"); },
       {"'norm sync'", "over data"},
       Split},
      {"P11.loss",
       "not_over_z",
       [](Program* p) { GroupOf(p, "loss sync")->mutable_axes()->RemoveLast(); },
       {"'loss sync'", "a part of the mesh only"},
       Split},
      {"P11.loss",
       "over_x",
       [](Program* p) { GroupOf(p, "loss sync")->add_axes()->set_axis("x"); },
       {"'loss sync'", "over x", "the same"},
       Split},
      {"P11.update",
       "weights_never_gathered",
       [](Program* p) {
         RemoveAction(p, 0, "gather weights");
         AddDep(p, 0, "F0", "optimizer", 1);
       },
       {"'wte'", "updated 0 times"},
       Zero},
      {"P11.update",
       "old_weights_gathered",
       [](Program* p) {
         RemoveDep(p, 0, "gather weights", "optimizer");
         SwapActions(p, 0, "gather weights", "optimizer");
         AddDep(p, 0, "optimizer", "gather weights");
         AddDep(p, 0, "gather weights", "norm");
       },
       {"'gather weights'", "not with its gathered updated weights"},
       Zero},
  };
}

}  // namespace weft
