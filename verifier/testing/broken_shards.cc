// Broken tensor parallelism and ZeRO: parts of tensors, and the spare bytes behind values made from them.
#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_split.h"

namespace weft {
namespace {

// Neither z nor data divides its tensors evenly.
Program Uneven() { return SplitProgram(true, 3, 2, 0, 16, 3); }
// There are more ranks than elements, so a table of 128 bytes has 64 spare bytes behind it.
Program MoreRanksThanElements() { return SplitProgram(true, 2, 2, 0, 16, 48); }

Shard* ShardOf(Program* p, const char* buffer) { return MutableBuffer(p, 0, buffer)->mutable_shard(); }

}  // namespace

std::vector<Broken> BrokenShards() {
  return {
      {"P8.shard",
       "cut_over_pipe",
       [](Program* p) { ShardOf(p, "wte")->mutable_dimensions(0)->set_axis("pipe"); },
       {"'wte'", "axis 'pipe'"},
       Split},
      {"P8.shard",
       "dimension_that_is_not_there",
       [](Program* p) { ShardOf(p, "wte")->mutable_dimensions(0)->set_dimension(2); },
       {"'wte'", "dimension 2"},
       Split},
      {"P8.shard",
       "runs_that_do_not_divide",
       [](Program* p) { ShardOf(p, "wte")->mutable_dimensions(0)->set_runs(16); },
       {"'wte'", "16 runs"},
       Split},
      {"P8.shard",
       "axis_cuts_twice",
       [](Program* p) { ShardOf(p, "wte")->mutable_ranges(0)->set_axis("x"); },
       {"'wte'", "x twice"},
       Split},
      {"P8.shard",
       "block_of_ranges_that_does_not_divide",
       [](Program* p) { ShardOf(p, "wte")->mutable_ranges(0)->set_block(3); },
       {"'wte'", "blocks of 3"},
       Split},
      {"P8.shard",
       "gradient_is_cut_otherwise",
       [](Program* p) { ShardOf(p, "dwte")->mutable_ranges(0)->set_axis("data"); },
       {"'dwte'", "'wte'", "over data and over z"},
       Split},
      {"P8.shard",
       "gradient_cuts_other_dimensions",
       [](Program* p) { ShardOf(p, "dwte")->mutable_dimensions(0)->set_axis("data"); },
       {"'dwte'", "dimensions", "over data and over x"},
       Split},
      {"P7.role",
       "shape_of_another_part",
       [](Program* p) { ShardOf(p, "wte")->clear_ranges(); },
       {"'wte'", "[8,4]"},
       Split},
      {"P7.role",
       "part_of_no_tensor",
       [](Program* p) { ShardOf(p, "norms")->add_ranges()->set_axis("z"); },
       {"'norms'", "has a shard"},
       Split},
      {"P8.gather",
       "weights_gathered_over_another_axis",
       [](Program* p) { StepAxis(p, "F", "gather wte")->set_axis("x"); },
       {"'gather wte'", "over x", "cut over z"},
       Split},
      {"P8.gather",
       "range_read_as_if_it_were_whole",
       [](Program* p) {
         // gamma [4] is half of a tensor of 8.
         for (LogicalTensor& t : *p->mutable_tensors()) {
           if (t.name() != "gamma") continue;
           t.set_shape(0, 8);
           t.set_padded_shape(0, 8);
         }
         for (const char* buffer : {"gamma", "dgamma"}) ShardOf(p, buffer)->add_ranges()->set_axis("z");
       },
       {"'norm'", "'gamma'", "was not gathered"},
       Split},
      {"P8.gather",
       "new_weights_gathered_over_another_axis",
       [](Program* p) { GroupOf(p, "gather weights")->mutable_axes(0)->set_axis("z"); },
       {"'gather weights'", "over z", "z, data"},
       Zero},
      {"P8.room",
       "room_for_too_much",
       [](Program* p) {
         MutableBuffer(p, 0, "dwte")->set_bytes(4 * 15);
         for (const char* segment : {"B", "optimizer"}) OperandOf(p, segment, "dwte")->set_bytes(4 * 15);
       },
       {"'dwte'", "room for 15", "holds 11", "12 elements together"},
       Uneven},
      {"P8.room",
       "room_where_nothing_is_cut",
       [](Program* p) {
         MutableBuffer(p, 0, "gamma")->set_bytes(4 * 6);
         for (const char* segment : {"F", "B", "optimizer"}) OperandOf(p, segment, "gamma")->set_bytes(4 * 6);
       },
       {"'gamma'", "room for 6", "4 elements together"},
       Uneven},
      {"P4.shape",
       "no_room",
       [](Program* p) {
         MutableBuffer(p, 0, "wte")->set_bytes(4 * 11);
         OperandOf(p, "F", "wte")->set_bytes(4 * 11);
       },
       {"'gather weights'", "'wte' of 44 bytes"},
       Uneven},
      {"P8.room",
       "a_step_fills_the_room",
       [](Program* p) { ValueOf(p, "optimizer", "dwte")->set_shape(0, 12); },
       {"'zero wte'", "'dwte' up to byte 48", "holds 44"},
       Uneven},
      {"P8.room",
       "scattered_with_something_behind_it",
       [](Program* p) { FindStep(p, "B", "zero end of whole dwte")->mutable_attributes()->set_value(1); },
       {"scatters 33 elements", "'dwte'", "has 32"},
       Uneven},
      {"P8.room",
       "zeros_reach_into_what_is_scattered",
       [](Program* p) {
         // The zeros are written after the product, so they overwrite its last elements.
         const Step fill = *FindStep(p, "B", "zero end of whole dwte");
         Value& end = *FindSegment(p, "B")->mutable_values(fill.outputs(0));
         end.set_offset(end.offset() - 64);
         end.set_shape(0, end.shape(0) + 16);
         InsertStep(p, "B", "scatter dwte", fill);
         FindStep(p, "B", "zero end of whole dwte")->set_name("zeros before");
         StepAfter(p, "B", "scatter dwte", "zero end of whole dwte");
       },
       {"scatters 16 elements", "'dwte'", "has 32", "zeros were written over the last ones"},
       Uneven},
      {"P8.gather",
       "what_is_behind_a_gathered_table_is_read",
       [](Program* p) { ValueOf(p, "F", "table")->set_offset(64); },
       {"'embed'", "'table'", "after the end"},
       MoreRanksThanElements},
  };
}

}  // namespace weft
