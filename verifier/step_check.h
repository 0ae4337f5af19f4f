// One step against docs/kernels.md: arity, shapes, dtypes, attributes, aliases. Internal to the verifier.
#ifndef WEFT_VERIFIER_STEP_CHECK_H_
#define WEFT_VERIFIER_STEP_CHECK_H_

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/units.h"
#include "verifier/index.h"

namespace weft::verify {

using A = StepAttributes;

// One step with its values, and the vocabulary of the checks below. Inputs and outputs exist once Arity has passed.
class StepCheck {
 public:
  StepCheck(const Program& program, const VerifyOptions& options, const Segment& segment, int index, Findings* findings)
      : program_(program),
        options_(options),
        segment_(segment),
        index_(index),
        step_(segment.steps(index)),
        findings_(findings) {}

  void Run();

 private:
  template <typename... Parts>
  void Bad(const char* rule, const Parts&... parts) {
    ok_ = false;
    findings_->Add(rule, "segment '", segment_.name(), "', step ", index_, " '", step_.name(), "' (",
                   Kernel_Name(step_.kernel()), "): ", parts...);
  }

  const A& attributes() const { return step_.attributes(); }
  const Value& In(int i) const { return segment_.values(step_.inputs(i)); }
  const Value& Out(int i) const { return segment_.values(step_.outputs(i)); }
  int inputs() const { return step_.inputs_size(); }
  int outputs() const { return step_.outputs_size(); }

  bool Arity(int in_low, int in_high, int out_low, int out_high) {
    if (inputs() >= in_low && inputs() <= in_high && outputs() >= out_low && outputs() <= out_high) return true;
    const auto range = [](int low, int high) {
      return low == high ? absl::StrCat(low) : absl::StrCat(low, " to ", high);
    };
    Bad("P2.kernel", "has ", inputs(), " inputs and ", outputs(), " outputs, takes ", range(in_low, in_high), " and ",
        range(out_low, out_high));
    return false;
  }

  static std::string Text(const Value& v) {
    return absl::StrCat("'", v.name(), "' ", DTypeName(v.dtype()), " [", absl::StrJoin(v.shape(), ","), "]");
  }

  void Shape(const Value& v, std::initializer_list<int64_t> want) {
    if (std::equal(v.shape().begin(), v.shape().end(), want.begin(), want.end())) return;
    Bad("P2.kernel", "value ", Text(v), " must have shape [", absl::StrJoin(want, ","), "]");
  }
  void SameShape(const Value& v, const Value& other) {
    if (std::equal(v.shape().begin(), v.shape().end(), other.shape().begin(), other.shape().end())) return;
    Bad("P2.kernel", "value ", Text(v), " must have the shape of ", Text(other));
  }
  bool Rank(const Value& v, int rank) {
    if (v.shape_size() == rank) return true;
    Bad("P2.kernel", "value ", Text(v), " must have ", rank, rank == 1 ? " dimension" : " dimensions");
    return false;
  }
  void Is(const Value& v, std::initializer_list<DType> allowed) {
    for (DType dtype : allowed) {
      if (v.dtype() == dtype) return;
    }
    Bad("P2.kernel", "value ", Text(v), " must be ",
        absl::StrJoin(allowed, " or ", [](std::string* s, DType d) { absl::StrAppend(s, std::string(DTypeName(d))); }));
  }
  void Floating(const Value& v) { Is(v, {FP32, FP64, BF16, FP16}); }
  void AllFloating() {
    for (int i = 0; i < inputs(); ++i) Floating(In(i));
    for (int i = 0; i < outputs(); ++i) Floating(Out(i));
  }
  void Wide(const Value& v) { Is(v, {FP32, FP64}); }
  // An attribute's range; the text says what is allowed.
  void Require(bool ok, const char* attribute, double given, const char* allowed) {
    if (!ok) Bad("P2.attribute", attribute, " is ", given, ", must be ", allowed);
  }
  // Only these fields of the attributes may be set.
  void Attributes(std::initializer_list<int> allowed);
  // Rows of a microbatch (docs/kernels.md).
  int64_t Rows() const { return RowsOfMicrobatch(program_, step_); }
  // Those of one microbatch or of several neighbours; which, the action says.
  void OfMicrobatches(const Value& v) {
    if (Rows() > 0 && v.shape(0) % Rows() == 0) return;
    Bad("P2.kernel", "value ", Text(v), " must have the rows of whole microbatches, a multiple of ", Rows());
  }
  void Dropout() {
    Require(attributes().dropout() >= 0 && attributes().dropout() < 1, "dropout", attributes().dropout(), "in [0, 1)");
  }

  // inputs[i] and outputs[o] must be the very same range.
  void InPlace(int i, int o) {
    const Value &in = In(i), &out = Out(o);
    if (in.operand() != out.operand() || in.offset() != out.offset() || in.dtype() != out.dtype()) {
      Bad("P2.alias", "output ", o, " '", out.name(), "' must be input ", i, " '", in.name(), "' (in place)");
    }
  }

  bool Has(int attribute) const {
    return step_.has_attributes() && attributes().GetReflection()->HasField(
                                         attributes(), attributes().GetDescriptor()->FindFieldByNumber(attribute));
  }
  // kernels_optimizer.cc
  void NormFactor(const Value& norm);
  void ScaleState(const Value& scale);
  void NormTotal();
  void UpdateLossScale();
  void ScaleKernel();
  void Optimizer();
  // How `param` is rounded, null if there is none.
  void Rounding(const Value* param);

  // kernels_split.cc. The largest value of a shift over the ranks; 0 if its terms are wrong, which is reported.
  int64_t Largest(const Shift& shift, const char* name);
  // A part of `extent` that begins at the shift lies within `whole`.
  void Within(const Shift& shift, const char* name, int64_t extent, int64_t whole);
  void WholeColumns(int64_t part);
  void Collectives();
  void CrossEntropyParts();
  void NormParts();
  void SquaredNorm();

  // kernels_attention.cc
  bool Pairs(const Value& v, int64_t rows);
  int64_t QueryColumns(const Value& v);
  void AttentionOps();
  void DropoutKernel();
  void DropoutByMask();

  // kernels_transformer.cc
  void Load();
  void Attention();
  void RmsNorm();
  void Rope();
  void Swiglu();
  // kernels_image.cc. False if the step's kernel is none of an image model.
  bool ImageKernels();
  bool Positive(int64_t value, const char* attribute);
  bool Samples(const Value& v, int64_t rows);
  void DiffusionSteps();
  void LoadImages();
  void Convolution();
  void GroupNorm();
  void Columns();
  void Upsample();
  void PerSample();
  void SquaredError();

  // kernels.cc
  bool MaySetOthers(std::initializer_list<int> allowed) const;
  void Matmul();
  void Embedding();
  void PositionEmbedding();
  void LayerNorm();
  void CrossEntropy();
  void Kernels();
  void Aliases();

  const Program& program_;
  const VerifyOptions& options_;
  const Segment& segment_;
  const int index_;
  const Step& step_;
  Findings* findings_;
  bool ok_ = true;
};

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_STEP_CHECK_H_
