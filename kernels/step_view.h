// StepView: one step, as the rules of its kernel's row see it. It has the operands by number, the extents by name, and
// the program if there is one.
#ifndef WEFT_KERNELS_STEP_VIEW_H_
#define WEFT_KERNELS_STEP_VIEW_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/extents.h"
#include "kernels/row.h"
#include "proto/program.pb.h"

namespace weft::kernels {

// An operand of a step. `place` and `offset` are its position in memory, for checks of aliases; place -1: unknown.
struct StepTensor {
  absl::string_view name;
  DType dtype = DTYPE_UNSPECIFIED;
  absl::Span<const int64_t> shape;
  int place = -1;
  int64_t offset = 0;
};

// Figures of a program that rules read. They are looked up once and used for all steps.
struct ProgramFacts {
  explicit ProgramFacts(const Program& p, absl::Span<const std::string> known_algorithms = {});

  const Program& program;
  absl::Span<const std::string> algorithms;  // Known algorithms of collectives; empty: any name is allowed.
  int64_t data = 1;                          // Ranks of axis 'data'.
  int64_t samples = 1;                       // Samples of a microbatch on one rank (P9).

  int64_t AxisSize(absl::string_view name) const;  // 0: the mesh has no axis of this name.
};

using Report = absl::FunctionRef<void(const char* rule, std::string message)>;

class StepView {
 public:
  StepView(const KernelRow& row, const Step& step, absl::Span<const StepTensor> in, absl::Span<const StepTensor> out,
           const ProgramFacts* facts, Report report)
      : row_(row), step_(step), in_(in), out_(out), facts_(facts), report_(report) {}

  // Checks everything that the row states.
  void Check();
  // Checks the counts of operands, the numbers in attributes and the shapes, and finds the values of the names in the
  // row's shapes. Returns null if a check fails.
  const Extents* BindExtents();

  const Step& step() const { return step_; }
  const StepAttributes& attributes() const { return step_.attributes(); }
  const StepTensor& in(int i) const { return in_[i]; }
  const StepTensor& out(int i) const { return out_[i]; }
  int inputs() const { return static_cast<int>(in_.size()); }
  int outputs() const { return static_cast<int>(out_.size()); }
  // Call facts() only if the step has a program, as in rules with Rule::of_program.
  const ProgramFacts& facts() const { return *facts_; }
  bool alone() const { return facts_ == nullptr; }
  bool ok() const { return ok_; }
  // Returns the value of a symbol. Returns 0 if the value is unknown; the check that failed to find it has already
  // reported the error.
  int64_t operator[](Symbol s) const { return values_[s]; }
  bool Known(Symbol s) const { return (known_ & Bit(s)) != 0; }

  template <typename... Parts>
  void Bad(const char* rule, const Parts&... parts) const {
    ok_ = false;
    report_(rule, absl::StrCat(parts...));
  }
  // Unless `ok`, reports an error such as "heads is 0; it must be at least 1".
  template <typename T>
  void Require(bool ok, const char* attribute, T given, const char* must) const {
    if (!ok) Bad("P2.attribute", attribute, " is ", given, "; it must be ", must);
  }
  void RequireShape(const StepTensor& tensor, std::initializer_list<int64_t> want) const;
  static std::string Text(const StepTensor& tensor);

  // Returns the largest value of a shift over all ranks. Returns 0 if the step has no program. If a term of the shift
  // is wrong, reports the term and returns 0.
  int64_t Largest(const Shift& shift, const char* name) const;
  // Requires that a part of size `extent` that begins at the shift lies within `whole`, for the largest shift of any
  // rank.
  void RequireWithin(const Shift& shift, const char* name, int64_t extent, int64_t whole) const;
  // Returns the rows of one microbatch on a rank, at the resolution of the step; 0 if this number of rows is not valid.
  int64_t RowsOfMicrobatch() const;
  void RequireWholeMicrobatches(const StepTensor& tensor) const;

 private:
  using Bits = unsigned __int128;
  static Bits Bit(Symbol s) { return Bits{1} << static_cast<int>(s); }
  using Present = absl::InlinedVector<const OperandSpec*, 8>;

  bool CheckCount();
  void CheckAttributes();
  bool MaySetOthers() const;
  void CheckNumber(const AttributeRule& rule);
  void CheckRelation(const AttributeRule& rule);
  void SetKnown(Symbol s, int64_t value) {
    values_.values[static_cast<int>(s)] = value;
    known_ |= Bit(s);
  }
  void Prepare();
  void CheckTypes(const OperandSpec& operand, const StepTensor& tensor);
  void CheckShapes();
  void CheckShape(const OperandSpec& operand, const StepTensor& tensor);
  // Returns the value of a term; nullopt if a symbol is unknown or a division leaves a remainder, -1 if the value
  // overflows. If `without` is given, returns the product of the term's other factors.
  std::optional<int64_t> Value(const Term& term, const Factor* without = nullptr) const;
  // IsVariable: true if the symbol is a variable that has no value yet. Unbound: returns a factor of a dim that is such
  // a variable; null if there is none. Bind: gives this factor the value that makes the dim equal to the tensor's
  // extent.
  bool IsVariable(Symbol s) const;
  bool HasVariable(const Shape& shape) const;
  const Factor* Unbound(const Dim& dim) const;
  bool Bind(const Term& term, const Factor& unbound, size_t dimension, const StepTensor& tensor);
  const StepTensor* Find(const char* operand) const;
  void CheckAliases();

  const KernelRow& row_;
  const Step& step_;
  absl::Span<const StepTensor> in_, out_;
  const ProgramFacts* facts_;
  Report report_;
  mutable bool ok_ = true;
  Present inputs_, outputs_;
  Extents values_;  // 0 where a symbol is not known.
  Bits known_ = 0;
  Bits wrong_ = 0;  // Attributes that were refused. Checks that depend on them are skipped.
};

// Appends the operands of a segment's step to `tensors`: inputs, then outputs.
void TensorsOf(const Segment& segment, const Step& step, absl::InlinedVector<StepTensor, 12>* tensors);

// Checks one step of a program against its row. The caller has checked that indices are in range, extents are positive
// and values lie within their operands.
void CheckStep(const ProgramFacts& facts, const Segment& segment, int step, Report report);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_STEP_VIEW_H_
