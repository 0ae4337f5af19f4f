#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

constexpr int64_t kHalf = 128, kWhole = 2 * kHalf;

void AddOperand(const char* name, int64_t bytes, Access access, int64_t offset, Segment* segment,
                int64_t elements = kHalf / 4) {
  Operand& operand = *segment->add_operands();
  operand.set_name(name);
  operand.set_bytes(bytes);
  operand.set_access(access);
  Value& value = *segment->add_values();
  value.set_name(name);
  value.set_operand(segment->operands_size() - 1);
  value.set_offset(offset);
  value.set_dtype(FP32);
  value.add_shape(elements);
}

Step& AddStep(const char* name, Kernel kernel, StreamKind stream, std::vector<int> inputs, std::vector<int> outputs,
              Segment* segment) {
  Step& step = *segment->add_steps();
  step.set_name(name);
  step.set_kernel(kernel);
  step.set_stream(stream);
  for (int v : inputs) step.add_inputs(v);
  for (int v : outputs) step.add_outputs(v);
  step.mutable_work()->set_bytes(64);
  return step;
}

// TinyProgram() whose first rank keeps a master copy of 'wte' in host memory and updates it in halves:
//   fetch 0, step 0, back 0, fetch 1, step 1, back 1, optimizer (makes the gradient zero)
Program Offloaded() {
  Program p = TinyProgram();
  Template& t = *p.mutable_templates(0);
  Buffer master = *MutableBuffer(&p, 0, "wte");
  master.set_name("host wte");
  master.set_class_(OPTIMIZER);
  master.set_role(MASTER);
  master.set_place(HOST);
  master.set_offset(0);
  t.set_host_arena_bytes(kWhole);
  *t.add_buffers() = master;
  Action last = *FindAction(&p, 0, "optimizer");
  t.mutable_body()->RemoveLast();
  const auto add = [&](ActionKind kind, const std::string& name, std::vector<std::string> buffers, Segment segment) {
    segment.set_name(name);
    *p.add_segments() = segment;
    Action& action = *t.add_body();
    action.set_id(last.id() + t.body_size());
    action.set_kind(kind);
    action.set_name(name);
    action.set_segment(p.segments_size() - 1);
    for (const std::string& b : buffers) action.add_operands(FindBuffer(p, 0, b));
  };
  for (int half = 0; half < 2; ++half) {
    const std::string bucket = absl::StrCat("bucket ", half), n = absl::StrCat(" ", half);
    const int64_t offset = half * kHalf;
    Buffer& copy = *t.add_buffers();
    copy.set_name(bucket);
    copy.set_class_(OPTIMIZER);
    copy.set_bytes(kHalf);
    copy.set_offset(t.device_arena_bytes());
    t.set_device_arena_bytes(t.device_arena_bytes() + 256);
    Segment fetch, step, back;
    AddOperand("there", kWhole, READ, offset, &fetch);
    AddOperand("here", kHalf, WRITE, 0, &fetch);
    AddStep("copy", CAST, H2D, {0}, {1}, &fetch);
    add(FETCH, "fetch" + n, {"host wte", bucket}, fetch);
    AddOperand("gradient", kWhole, READ, offset, &step);
    AddOperand("here", kHalf, READ_WRITE, 0, &step);
    AddOperand("param", kWhole, READ_WRITE, offset, &step);
    AddStep("update", SGD_STEP, COMPUTE, {0, 1}, {1, 2}, &step);
    add(OPTIMIZER_STEP, "step" + n, {"dwte", bucket, "wte"}, step);
    AddOperand("here", kHalf, READ, 0, &back);
    AddOperand("there", kWhole, READ_WRITE, offset, &back);
    AddStep("copy", CAST, D2H, {0}, {1}, &back);
    add(OFFLOAD, "back" + n, {bucket, "host wte"}, back);
    FindAction(&p, 0, "back" + n)->add_releases(FindBuffer(p, 0, bucket));
    AddDep(&p, 0, "step" + n, "fetch" + n);
    AddDep(&p, 0, "back" + n, "step" + n);
    AddDep(&p, 0, "fetch" + n, "back" + n, 1);
  }
  // Leave only the step that makes the gradient zero in the old optimizer action.
  Segment& zero = *FindSegment(&p, "optimizer0");
  zero.mutable_steps()->DeleteSubrange(0, 1);
  zero.mutable_operands()->RemoveLast();
  zero.mutable_operands(0)->set_access(WRITE);
  zero.mutable_values()->RemoveLast();
  last.mutable_operands()->Truncate(1);
  last.set_id(last.id() + 100);
  *t.add_body() = last;
  return p;
}

// Three stages. The middle one keeps what its forwards save in host memory until the backwards ("B s1 m0") need it.
Program ActivationsOffloaded() {
  Program p =
      ScheduleProgram({{"F0.0 F0.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1", "F2.0 B2.0 F2.1 B2.1"}, {{0, 1, 2}}, {0, 0}});
  Template& t = *p.mutable_templates(1);
  int id = t.body(t.body_size() - 1).id();
  for (int m = 0; m < 2; ++m) {
    const std::string n = absl::StrCat(" ", m), forward = absl::StrCat("F s1 m", m),
                      backward = absl::StrCat("B s1 m", m);
    const int saved = FindBuffer(p, 1, absl::StrCat("saved1 m", m)), host = t.buffers_size(), again = host + 1;
    Buffer copy = t.buffers(saved);
    const int64_t bytes = copy.bytes();
    copy.set_name("host" + n);
    copy.set_place(HOST);
    copy.set_offset(t.host_arena_bytes());
    t.set_host_arena_bytes(t.host_arena_bytes() + (bytes + 255) / 256 * 256);
    *t.add_buffers() = copy;
    copy.set_name("again" + n);
    copy.clear_place();
    copy.set_offset(t.device_arena_bytes());
    t.set_device_arena_bytes(t.device_arena_bytes() + (bytes + 255) / 256 * 256);
    *t.add_buffers() = copy;
    for (ActionKind kind : {OFFLOAD, FETCH}) {
      Segment& segment = *p.add_segments();
      segment.set_name((kind == FETCH ? "back" : "away") + n);
      AddOperand("from", bytes, READ, 0, &segment, bytes / 4);
      AddOperand("to", bytes, WRITE, 0, &segment, bytes / 4);
      AddStep("copy", CAST, kind == FETCH ? H2D : D2H, {0}, {1}, &segment);
      Action& action = *t.add_body();
      action.set_id(++id);
      action.set_kind(kind);
      action.set_name(segment.name());
      action.set_segment(p.segments_size() - 1);
      action.add_operands(kind == FETCH ? host : saved);
      action.add_operands(kind == FETCH ? again : host);
      action.add_releases(kind == FETCH ? host : saved);
    }
    Action& user = *FindAction(&p, 1, backward);
    for (auto* list : {user.mutable_operands(), user.mutable_releases()}) {
      std::replace(list->begin(), list->end(), saved, again);
    }
    AddDep(&p, 1, "away" + n, forward);
    AddDep(&p, 1, "back" + n, "away" + n);
    AddDep(&p, 1, backward, "back" + n);
  }
  return p;
}

Value& ValueOf(Program* p, const char* segment, int value) { return *FindSegment(p, segment)->mutable_values(value); }

}  // namespace

std::vector<Broken> BrokenHost() {
  return {
      {"P2.copy",
       "fetch_on_compute",
       [](Program* p) { FindStep(p, "fetch 0", "copy")->set_stream(COMPUTE); },
       {"'fetch 0'", "CAST on stream COMPUTE", "CAST on H2D"},
       Offloaded},
      {"P2.copy",
       "offload_on_the_way_to_the_device",
       [](Program* p) { FindStep(p, "back 1", "copy")->set_stream(H2D); },
       {"'back 1'", "stream H2D", "CAST on D2H"},
       Offloaded},
      {"P2.copy",
       "fetch_of_device_memory",
       [](Program* p) { FindAction(p, 0, "fetch 0")->set_operands(0, FindBuffer(*p, 0, "dwte")); },
       {"'fetch 0'", "'dwte' in DEVICE memory", "from HOST to DEVICE"},
       Offloaded},
      {"P2.copy",
       "copy_that_rounds",
       [](Program* p) { ValueOf(p, "fetch 0", 1).set_dtype(BF16); },
       {"'fetch 0'", "makes bf16 from fp32"},
       Offloaded},
      {"P2.fields",
       "offload_with_a_peer",
       [](Program* p) { FindAction(p, 0, "back 0")->set_direction(FROM_LOSS); },
       {"'back 0'", "OFFLOAD", "direction"},
       Offloaded},
      {"P7.host",
       "gradient_in_host_memory",
       [](Program* p) {
         MutableBuffer(p, 0, "dwte")->set_place(HOST);
         p->mutable_templates(0)->set_host_arena_bytes(p->templates(0).device_arena_bytes());
       },
       {"'B0'", "'dwte'", "FETCH and OFFLOAD"}},
      {"P7.host",
       "optimizer_on_host_memory",
       [](Program* p) {
         Segment& step = *FindSegment(p, "step 0");
         step.mutable_operands(1)->set_bytes(kWhole);
         FindAction(p, 0, "step 0")->set_operands(1, FindBuffer(*p, 0, "host wte"));
       },
       {"'step 0'", "'host wte'"},
       Offloaded},
      {"P7.race",
       "fetched_before_it_is_back",
       [](Program* p) { RemoveDep(p, 0, "fetch 0", "back 0"); },
       {"'fetch 0'", "'back 0' of the next repetition", "'host wte'"},
       Offloaded},
      {"P7.race",
       "stepped_before_it_is_there",
       [](Program* p) { RemoveDep(p, 0, "step 1", "fetch 1"); },
       {"'fetch 1'", "'step 1'", "'bucket 1'"},
       Offloaded},
      {"P7.overlap",
       "buckets_in_one_place",
       [](Program* p) { MutableBuffer(p, 0, "bucket 1")->set_offset(MutableBuffer(p, 0, "bucket 0")->offset()); },
       {"'bucket 0'", "'bucket 1'", "'fetch 1'"},
       Offloaded},
      {"P13.input",
       "activations_in_the_other_microbatchs_place",
       [](Program* p) {
         for (int m : {0, 1}) {
           const std::string n = absl::StrCat(" ", m), other = absl::StrCat(" ", 1 - m);
           FindAction(p, 1, "away" + n)->set_operands(1, FindBuffer(*p, 1, "host" + other));
           RemoveDep(p, 1, "back" + n, "away" + n);
         }
         AddDep(p, 1, "back 0", "away 1");
         AddDep(p, 1, "back 1", "away 0");
       },
       {"'B s1 m0'", "'again 0'", "microbatch 1 made"},
       ActivationsOffloaded},
      {"P7.race",
       "activations_fetched_before_they_are_there",
       [](Program* p) { RemoveDep(p, 1, "back 0", "away 0"); },
       {"'away 0'", "'back 0'", "'host 0'"},
       ActivationsOffloaded},
      {"P7.race",
       "activations_taken_away_before_they_are_made",
       [](Program* p) { RemoveDep(p, 1, "away 1", "F s1 m1"); },
       {"'F s1 m1'", "'away 1'", "'saved1 m1'"},
       ActivationsOffloaded},
      {"P7.race",
       "activations_read_before_they_are_back",
       [](Program* p) { RemoveDep(p, 1, "B s1 m0", "back 0"); },
       {"'B s1 m0'", "'back 0'", "'again 0'"},
       ActivationsOffloaded},
      {"P11.host",
       "fetched_twice",
       [](Program* p) {
         ValueOf(p, "fetch 1", 0).set_offset(0);
         AddDep(p, 0, "fetch 1", "back 0");
       },
       {"'fetch 1'", "'host wte'", "a second time"},
       Offloaded},
      {"P11.host",
       "taken_to_another_place",
       [](Program* p) {
         ValueOf(p, "back 1", 1).set_offset(0);
         AddDep(p, 0, "fetch 0", "back 1", 1);
       },
       {"'back 1'", "[0, 128) of", "'host wte'", "not fetched from there"},
       Offloaded},
      {"P11.host",
       "updated_in_part",
       [](Program* p) {
         for (const char* segment : {"fetch 1", "step 1", "back 1"}) {
           for (Value& value : *FindSegment(p, segment)->mutable_values()) value.set_shape(0, 16);
         }
       },
       {"copy back all of", "'host wte'"},
       Offloaded},
      {"P11.host",
       "taken_back_as_it_was",
       [](Program* p) {
         // The second half is updated in another copy, so the fetched bytes are offloaded unchanged.
         Template& t = *p->mutable_templates(0);
         Segment& step = *FindSegment(p, "step 1");
         AddOperand("other", kHalf, WRITE, 0, &step);
         Step update = *FindStep(p, "step 1", "update");
         step.mutable_steps(0)->set_kernel(CAST);
         step.mutable_steps(0)->clear_inputs();
         step.mutable_steps(0)->add_inputs(1);
         step.mutable_steps(0)->clear_outputs();
         step.mutable_steps(0)->add_outputs(3);
         update.set_inputs(1, 3);
         update.set_outputs(0, 3);
         *step.add_steps() = update;
         step.mutable_operands(1)->set_access(READ);
         Buffer other = *MutableBuffer(p, 0, "bucket 1");
         other.set_offset(t.device_arena_bytes());
         t.set_device_arena_bytes(t.device_arena_bytes() + 256);
         *t.add_buffers() = other;
         FindAction(p, 0, "step 1")->add_operands(t.buffers_size() - 1);
         FindAction(p, 0, "step 1")->add_releases(t.buffers_size() - 1);
       },
       {"'back 1'", "'host wte'", "no optimizer has updated"},
       Offloaded},
      {"P11.update",
       "weights_of_other_elements",
       [](Program* p) { ValueOf(p, "step 1", 2).set_offset(0); },
       {"'step 1'", "'wte' from 32 on", "from 0 on"},
       Offloaded},
      {"P11.update",
       "gradient_of_other_elements",
       [](Program* p) { ValueOf(p, "step 1", 0).set_offset(0); },
       {"'step 1'", "'wte' from 32 on", "'gradient'"},
       Offloaded},
  };
}

}  // namespace weft
