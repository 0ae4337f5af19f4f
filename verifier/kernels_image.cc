// Arity, shapes, dtypes and attributes of the kernels of image models, as docs/kernels.md states them (rule P2.kernel).
#include <cmath>

#include "verifier/step_check.h"

namespace weft::verify {
namespace {

constexpr int64_t kLargestSide = int64_t{1} << 15;

}  // namespace

bool StepCheck::Positive(int64_t value, const char* attribute) {
  const bool ok = value >= 1 && value <= kLargestSide;
  Require(ok, attribute, static_cast<double>(value), "in [1, 2^15]");
  return ok;
}

bool StepCheck::Samples(const Value& v, int64_t rows) {
  const bool ok = rows >= 1 && v.shape(0) % rows == 0;
  Require(ok, "sequence", static_cast<double>(rows), "a divisor of the rows");
  return ok;
}

void StepCheck::DiffusionSteps() {
  Require(attributes().diffusion_steps() >= 1 && attributes().diffusion_steps() <= (int64_t{1} << 20),
          "diffusion_steps", static_cast<double>(attributes().diffusion_steps()), "in [1, 2^20]");
}

// Rows and columns must be those of the program's images.
void StepCheck::LoadImages() {
  const Kernel kernel = step_.kernel();
  if (kernel == LOAD_TIMESTEPS) {
    Attributes({A::kDiffusionStepsFieldNumber, A::kMicrobatchOffsetFieldNumber, A::kOfBackwardFieldNumber});
    DiffusionSteps();
    if (!Arity(0, 0, 1, 1)) return;
    Is(Out(0), {INT32});
    if (Rank(Out(0), 1)) OfMicrobatches(Out(0));
    return;
  }
  if (kernel == LOAD_NOISE) {
    Attributes({A::kSequenceFieldNumber, A::kMicrobatchOffsetFieldNumber, A::kOfBackwardFieldNumber});
  } else {
    Attributes({A::kSequenceFieldNumber, A::kDiffusionStepsFieldNumber, A::kCosineScheduleFieldNumber,
                A::kMicrobatchOffsetFieldNumber, A::kOfBackwardFieldNumber});
    DiffusionSteps();
  }
  if (!Arity(0, 0, 1, 1)) return;
  AllFloating();
  if (program_.image_size() == 0) return Bad("P2.kernel", "loads images, but the program's samples are tokens");
  Require(attributes().sequence() == program_.recipe().sequence_length(), "sequence",
          static_cast<double>(attributes().sequence()), "recipe.sequence_length");
  if (!Rank(Out(0), 2)) return;
  Shape(Out(0), {Out(0).shape(0), program_.image_channels()});
  OfMicrobatches(Out(0));
}

void StepCheck::Convolution() {
  Attributes({A::kHeightFieldNumber, A::kWidthFieldNumber, A::kKernelSizeFieldNumber, A::kStrideFieldNumber});
  const Kernel kernel = step_.kernel();
  if (!(kernel == CONV2D ? Arity(2, 3, 1, 1) : Arity(2, 2, 1, 1))) return;
  AllFloating();
  const A& a = attributes();
  const Value& x = kernel == CONV2D ? In(0) : kernel == CONV2D_BACKWARD ? Out(0) : In(1);
  const Value& y = kernel == CONV2D ? Out(0) : In(0);
  const Value& weight = kernel == CONV2D_BACKWARD_WEIGHT ? Out(0) : In(1);
  if (!Rank(x, 2) || !Rank(y, 2)) return;
  if (!Positive(a.height(), "height") || !Positive(a.width(), "width") || !Positive(a.kernel_size(), "kernel_size") ||
      !Positive(a.stride(), "stride")) {
    return;
  }
  Require(a.kernel_size() % 2 == 1, "kernel_size", static_cast<double>(a.kernel_size()), "odd");
  const int64_t positions = a.height() * a.width();
  if (x.shape(0) % positions != 0) {
    return Bad("P2.kernel", "value ", Text(x), " must have the rows of whole images, a multiple of ", positions);
  }
  const int64_t of_y = ((a.height() - 1) / a.stride() + 1) * ((a.width() - 1) / a.stride() + 1);
  Shape(y, {x.shape(0) / positions * of_y, y.shape(1)});
  if (a.kernel_size() == 1 && weight.shape_size() == 3) {
    Shape(weight, {y.shape(1), x.shape(1), 1});
  } else {
    Shape(weight, {y.shape(1), x.shape(1), a.kernel_size(), a.kernel_size()});
  }
  if (inputs() == 3) Shape(In(2), {y.shape(1)});
}

void StepCheck::GroupNorm() {
  const Kernel kernel = step_.kernel();
  if (kernel == GROUP_NORM) {
    Attributes({A::kGroupsFieldNumber, A::kSequenceFieldNumber, A::kEpsilonFieldNumber});
    Require(attributes().epsilon() >= 0, "epsilon", attributes().epsilon(), "at least 0");
  } else {
    Attributes({A::kGroupsFieldNumber, A::kSequenceFieldNumber});
  }
  if (kernel == GROUP_NORM) {
    if (!Arity(3, 3, 3, 3)) return;
  } else if (!(kernel == GROUP_NORM_BACKWARD ? Arity(5, 5, 1, 1) : Arity(4, 4, 2, 2))) {
    return;
  }
  AllFloating();
  const Value& x = In(kernel == GROUP_NORM ? 0 : 1);
  if (!Rank(x, 2)) return;
  const int64_t rows = x.shape(0), columns = x.shape(1), groups = attributes().groups();
  Require(groups >= 1 && columns % std::max<int64_t>(1, groups) == 0, "groups", static_cast<double>(groups),
          "a divisor of the columns");
  if (!Samples(x, attributes().sequence())) return;
  const int64_t samples = rows / attributes().sequence();
  const auto statistics = [&](const Value& mean, const Value& rstd) {
    for (const Value* v : {&mean, &rstd}) {
      Shape(*v, {samples, groups});
      Wide(*v);
    }
  };
  if (kernel == GROUP_NORM) {
    Shape(In(1), {columns});
    Shape(In(2), {columns});
    SameShape(Out(0), x);
    statistics(Out(1), Out(2));
    return;
  }
  SameShape(In(0), x);
  if (kernel == GROUP_NORM_BACKWARD) {
    Shape(In(2), {columns});
    statistics(In(3), In(4));
    SameShape(Out(0), x);
  } else {
    statistics(In(2), In(3));
    Shape(Out(0), {columns});
    Shape(Out(1), {columns});
  }
}

void StepCheck::Columns() {
  const bool concat = step_.kernel() == CONCAT_COLUMNS;
  if (concat) {
    Attributes({});
  } else {
    Attributes({A::kFirstColumnFieldNumber, A::kGroupsFieldNumber, A::kColumnShiftFieldNumber});
  }
  if (!(concat ? Arity(2, 2, 1, 1) : Arity(1, 1, 1, 1))) return;
  AllFloating();
  if (!Rank(In(0), 2) || !Rank(Out(0), 2)) return;
  const int64_t rows = In(0).shape(0), columns = In(0).shape(1);
  if (concat) {
    if (!Rank(In(1), 2)) return;
    Shape(In(1), {rows, In(1).shape(1)});
    Shape(Out(0), {rows, columns + In(1).shape(1)});
    return;
  }
  const int64_t groups = std::max<int64_t>(1, attributes().groups());
  if (attributes().groups() < 0 || rows % groups != 0) {
    return Require(false, "groups", static_cast<double>(attributes().groups()), "0, or a divisor of the input's rows");
  }
  Shape(Out(0), {rows / groups, Out(0).shape(1)});
  // Of all groups side by side; they have the elements of the input.
  const int64_t first = attributes().first_column(), all = groups * columns;
  Require(first >= 0 && first <= all - Out(0).shape(1), "first_column", static_cast<double>(first),
          "such that the output's columns are among the input's");
  if (first < 0 || first > all) return;
  Within(attributes().column_shift(), "column_shift", Out(0).shape(1), all - first);
}

void StepCheck::Upsample() {
  Attributes({A::kHeightFieldNumber, A::kWidthFieldNumber});
  if (!Arity(1, 1, 1, 1)) return;
  AllFloating();
  const bool forward = step_.kernel() == UPSAMPLE;
  const Value& small = forward ? In(0) : Out(0);
  const Value& large = forward ? Out(0) : In(0);
  if (!Rank(small, 2) || !Positive(attributes().height(), "height") || !Positive(attributes().width(), "width")) return;
  const int64_t positions = attributes().height() * attributes().width();
  if (small.shape(0) % positions != 0) {
    Bad("P2.kernel", "value ", Text(small), " must have the rows of whole images, a multiple of ", positions);
  }
  Shape(large, {4 * small.shape(0), small.shape(1)});
}

void StepCheck::PerSample() {
  Attributes({A::kSequenceFieldNumber});
  const Kernel kernel = step_.kernel();
  if (!(kernel == SUM_PER_SAMPLE ? Arity(1, 1, 1, 1) : Arity(2, 2, 1, 1))) return;
  AllFloating();
  const Value& x = In(0);
  if (!Rank(x, 2) || !Samples(x, attributes().sequence())) return;
  const int64_t samples = x.shape(0) / attributes().sequence(), columns = x.shape(1);
  switch (kernel) {
    case ADD_PER_SAMPLE:
      Shape(In(1), {samples, columns});
      SameShape(Out(0), x);
      return;
    case SUM_PER_SAMPLE:
      Shape(Out(0), {samples, columns});
      return;
    case SCALE_SHIFT:
    case SCALE_SHIFT_BACKWARD:
      Shape(In(1), {samples, 2 * columns});
      SameShape(Out(0), x);
      return;
    default:
      SameShape(In(1), x);
      Shape(Out(0), {samples, 2 * columns});
  }
}

void StepCheck::SquaredError() {
  const bool forward = step_.kernel() == SQUARED_ERROR;
  if (forward) {
    Attributes({A::kSequenceFieldNumber, A::kLossWeightFieldNumber, A::kMicrobatchOffsetFieldNumber,
                A::kOfBackwardFieldNumber});
  } else {
    Attributes({A::kLossWeightFieldNumber});
  }
  if (!Arity(2, forward ? 2 : 3, 1, 1)) return;
  if (inputs() == 3) ScaleState(In(2));
  AllFloating();
  Require(attributes().loss_weight() >= 0, "loss_weight", attributes().loss_weight(), "at least 0");
  if (!Rank(In(0), 2)) return;
  SameShape(In(1), In(0));
  if (!forward) return SameShape(Out(0), In(0));
  OfMicrobatches(In(0));
  int64_t data = 1;
  for (const MeshAxis& axis : program_.mesh().axes()) {
    if (axis.name() == "data") data = axis.size();
  }
  Is(Out(0), {FP64});
  Shape(Out(0), {program_.microbatches() * data});
}

bool StepCheck::ImageKernels() {
  switch (step_.kernel()) {
    case LOAD_TIMESTEPS:
    case LOAD_NOISY_IMAGE:
    case LOAD_NOISE:
      LoadImages();
      return true;
    case CONV2D:
    case CONV2D_BACKWARD:
    case CONV2D_BACKWARD_WEIGHT:
      Convolution();
      return true;
    case GROUP_NORM:
    case GROUP_NORM_BACKWARD:
    case GROUP_NORM_BACKWARD_WEIGHT:
      GroupNorm();
      return true;
    case SILU:
    case SILU_BACKWARD: {
      Attributes({});
      const int in = step_.kernel() == SILU ? 1 : 2;
      if (!Arity(in, in, 1, 1)) return true;
      AllFloating();
      if (in == 2) SameShape(In(1), In(0));
      SameShape(Out(0), In(0));
      return true;
    }
    case CONCAT_COLUMNS:
    case SLICE_COLUMNS:
      Columns();
      return true;
    case UPSAMPLE:
    case UPSAMPLE_BACKWARD:
      Upsample();
      return true;
    case TIMESTEP_EMBEDDING:
      Attributes({A::kTimestepScaleFieldNumber});
      Require(attributes().timestep_scale() > 0 && std::isfinite(attributes().timestep_scale()), "timestep_scale",
              attributes().timestep_scale(), "positive");
      if (!Arity(1, 1, 1, 1)) return true;
      Is(In(0), {INT32});
      Floating(Out(0));
      if (Rank(In(0), 1) && Rank(Out(0), 2)) Shape(Out(0), {In(0).shape(0), Out(0).shape(1)});
      return true;
    case ADD_PER_SAMPLE:
    case SUM_PER_SAMPLE:
    case SCALE_SHIFT:
    case SCALE_SHIFT_BACKWARD:
    case SCALE_SHIFT_BACKWARD_SAMPLE:
      PerSample();
      return true;
    case SQUARED_ERROR:
    case SQUARED_ERROR_BACKWARD:
      SquaredError();
      return true;
    default:
      return false;
  }
}

}  // namespace weft::verify
