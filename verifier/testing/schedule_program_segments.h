// The segments of a ScheduleProgram for the forwards and backwards of its stages. Operands have the names of buffers,
// without the microbatch.
#ifndef WEFT_VERIFIER_TESTING_SCHEDULE_PROGRAM_SEGMENTS_H_
#define WEFT_VERIFIER_TESTING_SCHEDULE_PROGRAM_SEGMENTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/program.pb.h"
#include "proto/util/units.h"
#include "verifier/testing/schedule_program.h"

namespace weft {

using Shape = std::vector<int64_t>;
// With these sizes, parts of a wide value begin at multiples of 64 bytes.
inline constexpr int64_t kRows = 16, kColumns = 4, kVocabulary = 8;

inline int64_t Bytes(DType dtype, const Shape& shape) { return *ElementCount(shape) * DTypeBytes(dtype); }

// A segment that is being made, with the names of its operands.
struct Draft {
  Segment segment;
  std::vector<std::string> operands;
  std::map<std::string, int> values;

  void AddOperand(const std::string& name, Access access) {
    Operand& o = *segment.add_operands();
    o.set_name(name);
    o.set_access(access);
    operands.push_back(name);
  }
  // Appends a value to the last operand.
  void AddValue(const std::string& name, DType dtype, Shape shape) {
    Operand& o = *segment.mutable_operands(segment.operands_size() - 1);
    AddValueAt(name, dtype, shape, segment.operands_size() - 1, RoundUp(o.bytes(), 64));
    o.set_bytes(RoundUp(o.bytes(), 64) + Bytes(dtype, shape));
  }
  void AddValueAt(const std::string& name, DType dtype, const Shape& shape, int operand, int64_t offset) {
    Value& v = *segment.add_values();
    v.set_name(name);
    v.set_operand(operand);
    v.set_offset(offset);
    v.set_dtype(dtype);
    v.mutable_shape()->Assign(shape.begin(), shape.end());
    values[name] = segment.values_size() - 1;
  }
  void AddTensor(const std::string& name, Shape shape, Access access, DType dtype = FP32) {
    AddOperand(name, access);
    AddValue(name, dtype, std::move(shape));
  }
  StepAttributes& Do(Kernel kernel, std::vector<std::string> inputs, std::vector<std::string> outputs,
                     bool accumulate = false) {
    Step& s = *segment.add_steps();
    s.set_name(absl::StrCat(Kernel_Name(kernel), " ", outputs[0]));
    s.set_kernel(kernel);
    for (const std::string& v : inputs) s.add_inputs(values.at(v));
    for (const std::string& v : outputs) s.add_outputs(values.at(v));
    s.set_accumulate(accumulate);
    s.mutable_work()->set_bytes(64);
    return *s.mutable_attributes();
  }
};

class StageSegments {
 protected:
  explicit StageSegments(const ScheduleSpec& spec)
      : spec_(spec),
        stages_(static_cast<int>(spec.placement[0].size())),
        ranks_(static_cast<int>(spec.order.size())),
        n_(static_cast<int>(spec.lane.size())) {}

  // Fills in the program except segments and templates.
  void Header();

  static std::string Weight(int stage) { return absl::StrCat("w", stage); }
  // The table that the stage uses, "" = none.
  std::string Table(int stage) const {
    if (stage == 0) return "wte";
    return stage == stages_ - 1 ? (spec_.tied ? "wte" : "head") : "";
  }
  std::string TableGradient(int stage) const { return GradientOf(Table(stage), spec_.tied && stage > 0 ? 1 : 0); }
  std::string WeightGradient(int stage) const { return GradientOf(Weight(stage), 0); }
  // The gradient of one use, to which backwards add.
  std::string GradientOf(const std::string& tensor, int use) const {
    return absl::StrCat(Exact() ? "acc " : "d", tensor, " ", use);
  }
  bool Last(int stage) const { return stage == stages_ - 1; }

  // Tensors that pass between stages. A buffer's name is one of these with the microbatch.
  static std::string Out(int stage) { return absl::StrCat("out", stage); }
  static std::string Din(int stage) { return absl::StrCat("din", stage); }

  void Saved(Draft& d, int stage, int width, int part, Access access);

  // Makes the forward of stage `s`: it computes z = h w from its input h. The last stage then computes the loss of z
  // head'.
  Draft Forward(int s, int width);

  bool Exact() const { return spec_.accumulation == EXACT; }

  void Accumulate(Draft& d, Kernel kernel, std::vector<std::string> inputs, const std::string& gradient,
                  bool transpose_a, const Shape& shape);

  // Makes the whole backward (`kind` 'B') of stage `s`, or its input half ('I') or weight half ('W').
  Draft Backward(char kind, int s, int width, int part);

  // Interleaves the steps of both. The prefixes "f:" and "b:" distinguish their operands and values.
  static Draft Pair(const Draft& forward, const Draft& backward);

  DType GradientType() const { return Exact() ? EXACT192 : FP32; }

  int AddSegment(Draft& d, const std::string& name);

  const ScheduleSpec& spec_;
  Program p_;
  // Numbers of stages, ranks and microbatches.
  int stages_, ranks_, n_;
};

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_SCHEDULE_PROGRAM_SEGMENTS_H_
