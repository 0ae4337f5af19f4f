// The types of the table of kernels. The row of a kernel states everything about it that other code needs, except its
// arithmetic.
#ifndef WEFT_KERNELS_ROW_H_
#define WEFT_KERNELS_ROW_H_

#include <cstdint>
#include <limits>

#include "kernels/attributes.h"
#include "kernels/shape.h"
#include "proto/program.pb.h"

namespace weft::kernels {

class StepView;

// The largest extent of one dimension: BLAS counts in int.
inline constexpr int64_t kExtent = (int64_t{1} << 31) - 1;
// A value of AttributeRule::sample. It means that sample steps take the attribute from the extents of the sample
// (sample.cc).
inline constexpr double kFromSampleExtents = -1;
// The largest side of an image or of a convolution's filter.
inline constexpr int64_t kSide = int64_t{1} << 15;

enum class Types : uint8_t {
  kFloat,       // FP32, FP64, BF16 or FP16.
  kSum,         // The types of kFloat, for gradients and states; sample steps use FP32 for them.
  kStatistics,  // FP32 or FP64.
  kFp64,
  kNorms,  // FP64 or EXACT192.
  kExact,  // EXACT192.
  kFloatOrExact,
  kAddend,  // EXACT192 if the first operand is EXACT192, otherwise a type of kFloat.
  kInt32,
  kUint8,
  kFp8,  // Later: FP8_E4M3 or FP8_E5M2.
};

// The meaning of the numbers in an INT32 operand. A step must read numbers that a writer of the same kind made
// (P2.indices).
enum class Ints : uint8_t { kNone, kTokens, kTargets, kTimes, kExperts, kCounts, kPlaces };

enum class Presence : uint8_t { kRequired, kOptional, kRepeated };

// How a step changes an output.
enum class Update : uint8_t {
  kReplaces,
  kAccumulates,  // The step adds to the output if Step.accumulate is set.
  kAdds,         // The step always adds to the output.
  kPart,         // The step writes one element and leaves the others as they are.
};

// The condition under which a step has an operand: `attribute` must be set (not zero) if `set` is true, and must not be
// set if `set` is false.
struct When {
  Symbol attribute = Symbol::kNone;
  bool set = true;
};

struct OperandSpec {
  const char* name = nullptr;
  Shape shape = {};
  Types types = Types::kFloat;
  Presence presence = Presence::kRequired;
  Update update = Update::kReplaces;
  Ints ints = Ints::kNone;
  When when = {};
  bool scalar = false;               // True if the operand's dtype does not raise the compute type.
  Shape moved = {};                  // The part that a step reads or writes, and that Work counts. kAny: all of it.
  bool by_rule = false;              // A rule checks the shape; `shape` is for samples and docs.
  bool in_place = false;             // True if the output must be in the place of `alias`; false if it may be.
  const char* counted_by = nullptr;  // Name of an operand of counts; their sum is the number of rows in use.
  const char* alias = nullptr;       // The input whose place the output may take; "" = the input at the output's index.
  const char* doc_shape = nullptr;   // The shape in docs/kernels.md, where `shape.text` is not enough.
};

// Functions that set a field of an operand, so that a row of the table reads as a list of operands.
constexpr OperandSpec Optional(OperandSpec o) { return o.presence = Presence::kOptional, o; }
constexpr OperandSpec Repeated(OperandSpec o) { return o.presence = Presence::kRepeated, o; }
constexpr OperandSpec Scalar(OperandSpec o) { return o.scalar = true, o; }
consteval OperandSpec Moves(const char* shape, OperandSpec o) { return o.moved = Shape(shape), o; }
constexpr OperandSpec Acc(OperandSpec o) { return o.update = Update::kAccumulates, o; }
constexpr OperandSpec Adds(OperandSpec o) { return o.update = Update::kAdds, o; }
constexpr OperandSpec Part(OperandSpec o) { return o.update = Update::kPart, o; }
constexpr OperandSpec MayBe(const char* input, OperandSpec o) { return o.alias = input, o; }
constexpr OperandSpec InPlace(const char* input, OperandSpec o) { return o.alias = input, o.in_place = true, o; }
constexpr OperandSpec Int32(Ints ints, OperandSpec o) { return o.types = Types::kInt32, o.ints = ints, o; }
consteval OperandSpec If(const char* attribute, OperandSpec o) { return o.when = {SymbolNamed(attribute), true}, o; }
consteval OperandSpec Unless(const char* attribute, OperandSpec o) {
  return o.when = {SymbolNamed(attribute), false}, o;
}
constexpr OperandSpec Counted(const char* counts, OperandSpec o) { return o.counted_by = counts, o; }
constexpr OperandSpec ByRule(const char* doc_shape, OperandSpec o) {
  return o.by_rule = true, o.doc_shape = doc_shape, o;
}

// The relation that an attribute must have to an extent.
enum class Relation : uint8_t { kNone, kDivides, kMultipleOf, kBelow, kAtLeast, kAtMost };

// A rule for an attribute that the kernel reads. `must` describes the allowed values in messages; null: any value is
// allowed.
struct AttributeRule {
  Symbol attribute = Symbol::kNone;
  const char* must = nullptr;
  // The range of a number. With `above_low` or `below_high` the bound itself is not allowed. NaN is never allowed.
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool above_low = false, below_high = false;
  bool or_zero = false;
  bool odd = false, even = false;
  Relation relation = Relation::kNone;
  Symbol of = Symbol::kNone;
  // The attribute's value in sample steps (sample.h). 0 leaves the attribute unset, unless sample.cc takes it from the
  // extents of the sample, as it does for `sequence`.
  double sample = 0;
  // A further check, for what a range cannot express; null = none.
  bool (*holds)(const StepView& step) = nullptr;
};

consteval AttributeRule Any(const char* a) { return {.attribute = SymbolNamed(a)}; }
consteval AttributeRule From(const char* a, double low, const char* must) {
  return {.attribute = SymbolNamed(a), .must = must, .low = low};
}
consteval AttributeRule Within(const char* a, double low, double high, const char* must) {
  return {.attribute = SymbolNamed(a), .must = must, .low = low, .high = high};
}
consteval AttributeRule Above(const char* a, double low, const char* must) {
  return {.attribute = SymbolNamed(a),
          .must = must,
          .low = low,
          .high = std::numeric_limits<double>::max(),
          .above_low = true};
}
consteval AttributeRule Finite(const char* a, double low, const char* must) {
  return {.attribute = SymbolNamed(a), .must = must, .low = low, .high = std::numeric_limits<double>::max()};
}
consteval AttributeRule Below(const char* a, double high, const char* must) {  // At least 0.
  return {.attribute = SymbolNamed(a), .must = must, .low = 0, .high = high, .below_high = true};
}
consteval AttributeRule Divides(const char* a, const char* of, const char* must) {
  return {.attribute = SymbolNamed(a),
          .must = must,
          .low = 1,
          .high = kExtent,
          .relation = Relation::kDivides,
          .of = SymbolNamed(of)};
}
consteval AttributeRule Holds(const char* a, bool (*holds)(const StepView&), const char* must) {
  return {.attribute = SymbolNamed(a), .must = must, .holds = holds};
}
constexpr AttributeRule OrZero(AttributeRule r) { return r.or_zero = true, r; }
constexpr AttributeRule Odd(AttributeRule r) { return r.odd = true, r; }
constexpr AttributeRule Even(AttributeRule r) { return r.even = true, r; }
consteval AttributeRule Related(AttributeRule r, Relation relation, const char* of) {
  return r.relation = relation, r.of = SymbolNamed(of), r;
}
constexpr AttributeRule Try(double sample, AttributeRule r) { return r.sample = sample, r; }

// States whether the result of a kernel depends on which microbatch its step belongs to, and how many rows one sample
// has. Only steps of a kernel that reads the microbatch may set the attributes microbatch_offset and of_backward.
struct Microbatch {
  enum class Reads : uint8_t { kNo, kYes, kWithDropout } reads = Reads::kNo;
  enum class RowsOfSample : uint8_t {
    kRecipe,
    kSequence,
    kSequenceOrRecipe,
    kOne
  } rows_of_sample = RowsOfSample::kRecipe;
  // True if input 0 has the rows of the samples; false if output 0 has them.
  bool of_input = false;
  // True if the number of these rows must be a multiple of a microbatch's rows.
  bool whole = false;
};

enum class Stream : uint8_t { kCompute, kComputeOrCopy, kCollective };

// The cost that dominates a kernel's time, and the formula for its flops.
enum class WorkKind : uint8_t {
  kMemory,       // The bytes of the operands.
  kProduct,      // 2 m n k.
  kConvolution,  // 2 rows n k kernel_size^2, with the rows of the convolution's output.
  kAttention,    // `products` products of [sequence, h] by [h, sequence] for each head and sequence.
};

// A check that the row's fields cannot express. It runs after the checks of operands and attributes have passed, and
// reports through `step`.
struct Rule {
  const char* name = nullptr;
  void (*check)(const StepView& step) = nullptr;
  bool of_program = false;  // The check needs the program. It is skipped for a step without a program.
};

// Classes of kernels that other code, such as the compiler's passes, treats differently.
enum class Family : uint8_t { kPlain, kLoad, kLoss, kOptimizer, kCollective };

struct KernelRow {
  Kernel kernel = KERNEL_UNSPECIFIED;
  Few<OperandSpec, 8> inputs = {};
  Few<OperandSpec, 4> outputs = {};
  Few<AttributeRule, 12> attributes = {};
  Microbatch microbatch = {};
  Stream stream = Stream::kCompute;
  Family family = Family::kPlain;
  WorkKind work = WorkKind::kMemory;
  int8_t products = 0;
  bool calibrated = false;  // Calibration measures this kernel by itself (executor/calibrate).
  bool pointwise = false;   // One formula gives each element: no element depends on its neighbors.
  // If this is a pointwise kernel: the op of model graphs that applies it to matrices, with the same attributes; null
  // if there is none.
  const char* graph_kind = nullptr;
  Few<Rule, 3> rules = {};
  const char* result = "";  // The last column of docs/kernels.md.
};

// Returns the row of a kernel, or null if it has none.
const KernelRow* FindRow(Kernel kernel);
// Returns the row of a kernel that has one. Every kernel of program.proto has one (table_test.cc).
const KernelRow& RowOf(Kernel kernel);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_ROW_H_
