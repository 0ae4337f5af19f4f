// Broken steps that work on wrong parts of a tensor: rounding, updates of scattered gradients, gathered weights.
#include <string>
#include <vector>

#include "proto/util/units.h"
#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/broken_edits.h"
#include "verifier/testing/split_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

// Splits a step that works element by element into two steps. Each works on one half of every value of the step; the
// halves are named "<value> 0" and "<value> 1".
void Halve(const char* segment, const char* step, Program* p) {
  Segment& s = *FindSegment(p, segment);
  const Step whole = *FindStep(p, segment, step);
  const auto half_of = [&](int v, int half) {
    Value value = s.values(v);
    const int64_t elements = *ElementCount(value.shape()) / 2;
    value.set_name(value.name() + (half == 0 ? " 0" : " 1"));
    value.set_offset(value.offset() + half * elements * DTypeBytes(value.dtype()));
    value.clear_shape();
    value.add_shape(elements);
    for (int i = 0; i < s.values_size(); ++i) {
      if (s.values(i).name() == value.name()) return i;
    }
    *s.add_values() = value;
    return s.values_size() - 1;
  };
  for (int half : {1, 0}) {
    Step one = whole;
    one.set_name(whole.name() + (half == 0 ? " 0" : " 1"));
    for (int& v : *one.mutable_inputs()) v = half_of(v, half);
    for (int& v : *one.mutable_outputs()) v = half_of(v, half);
    if (half == 1) {
      InsertStep(p, segment, step, one);
    } else {
      *FindStep(p, segment, step) = one;
    }
  }
}

void SwapHalves(Program* p, const char* segment, const std::string& value) {
  Value &a = *ValueOf(p, segment, value + " 0"), &b = *ValueOf(p, segment, value + " 1");
  const int64_t offset = a.offset();
  a.set_offset(b.offset());
  b.set_offset(offset);
}

// A program that rounds exact sums in two halves.
Program Rounded() {
  Program p = TinyProgram(EXACT);
  Halve("norm0", "round wte", &p);
  return p;
}

// A program whose optimizer updates a rank's part of 'wte' in two halves and writes a copy, which is gathered.
Program Updated() {
  Program p = SplitProgram(true, 2, 2, 0, 128);
  Segment& s = *FindSegment(&p, "optimizer");
  const Value master = *ValueOf(&p, "optimizer", "master wte");
  Operand copy = s.operands(master.operand());
  copy.set_name("new wte");
  copy.set_access(WRITE);
  *s.add_operands() = copy;
  Value& value = *s.add_values();
  value = master;
  value.set_name("new wte");
  value.set_operand(s.operands_size() - 1);
  FindStep(&p, "optimizer", "update wte")->add_outputs(s.values_size() - 1);
  Template& t = *p.mutable_templates(0);
  Buffer buffer = *MutableBuffer(&p, 0, "part dwte");
  buffer.set_name("new wte");
  buffer.set_offset(t.device_arena_bytes());
  t.set_device_arena_bytes(t.device_arena_bytes() + RoundUp(buffer.bytes(), 256));
  *t.add_buffers() = buffer;
  const int b = t.buffers_size() - 1;
  FindAction(&p, 0, "optimizer")->add_operands(b);
  FindAction(&p, 0, "gather weights")->set_sources(0, b);
  FindAction(&p, 0, "gather weights")->add_releases(b);
  Halve("optimizer", "update wte", &p);
  return p;
}

}  // namespace

std::vector<Broken> BrokenElements() {
  return {
      {"P9.gradient",
       "halves_exchanged_when_rounded",
       [](Program* p) { SwapHalves(p, "norm0", "dwte"); },
       {"'norm'", "'wte'", "no gradient"},
       Rounded},
      {"P11.update",
       "gradient_of_the_other_half_of_a_part",
       [](Program* p) { SwapHalves(p, "optimizer", "part dwte"); },
       {"'update wte 0'", "'wte' from 0 on", "'part dwte 0' of those from 32 on"},
       Updated},
      {"P11.update",
       "halves_exchanged_on_the_way_to_be_gathered",
       [](Program* p) { SwapHalves(p, "optimizer", "new wte"); },
       {"'gather weights'", "not with its gathered updated weights"},
       Updated},
      {"P9.gradient",
       "read_as_items_of_another_size",
       [](Program* p) {
         // The norm then reads twice as many elements, each with half the bytes.
         ValueOf(p, "norm", "part dwte")->set_dtype(BF16);
       },
       {"'norm'", "'wte'", "no gradient"},
       Updated},
      {"P9.gradient",
       "halves_added_to_each_other",
       [](Program* p) {
         // Adds the second half to the first, which is zero by then.
         Segment& s = *FindSegment(p, "norm0");
         Step zero = *FindStep(p, "norm0", "zero wte"), add = *FindStep(p, "norm0", "round wte 0");
         const int first = add.inputs(0), second = FindStep(p, "norm0", "round wte 1")->inputs(0);
         zero.set_name("zero half");
         zero.set_outputs(0, first);
         add.set_name("add halves");
         add.set_kernel(ADD);
         add.clear_inputs();
         add.add_inputs(first);
         add.add_inputs(second);
         add.set_outputs(0, first);
         InsertStep(p, "norm0", s.steps(0).name(), add);
         InsertStep(p, "norm0", "add halves", zero);
       },
       {"'norm'", "'wte'", "no gradient"},
       Rounded},
  };
}

}  // namespace weft
