// Checks attention as separate ops against the fused kernel and against finite differences, and dropout with a mask
// against dropout without one.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_gradient_testing.h"
#include "google/protobuf/message.h"
#include "kernels/row.h"

namespace weft::exec::cpu {
namespace {

// Shape and attributes of one attention.
struct Form {
  int64_t sequences, sequence, heads, kv_heads, head_width;
  bool causal, by_head;
  int64_t window;
  double dropout;

  int64_t rows() const { return sequences * sequence; }
  int64_t d() const { return heads * head_width; }
  int64_t kv() const { return kv_heads * head_width; }
  std::string Name() const {
    return absl::StrCat(sequences, "x", sequence, " heads ", heads, "/", kv_heads, " of ", head_width,
                        causal ? " causal" : "", by_head ? " by head" : "", " window ", window, " dropout ", dropout);
  }
};

// kv_heads = 0 stands for one matrix that holds q, k and v. Some sequences are shorter than a block of queries, some
// are longer.
std::vector<Form> Forms() {
  std::vector<Form> forms;
  for (int64_t sequence : {1, 7, 53}) {
    for (double dropout : {0.0, 0.25}) {
      forms.push_back({2, sequence, 2, 0, 5, false, false, 0, dropout});
      forms.push_back({2, sequence, 3, 0, 4, true, false, 0, dropout});
      forms.push_back({1, sequence, 3, 0, 4, true, true, 0, dropout});
      forms.push_back({2, sequence, 4, 2, 6, true, false, 0, dropout});
      forms.push_back({2, sequence, 4, 1, 3, true, false, 3, dropout});
      forms.push_back({1, sequence, 4, 4, 8, false, false, 0, dropout});
    }
  }
  return forms;
}

class AttentionOpsTest : public GradientTest {
 protected:
  // Clears the attributes that the kernel does not read.
  static void KeepAttributesOf(Kernel kernel, StepAttributes* attributes) {
    const auto& rules = kernels::RowOf(kernel).attributes;
    std::vector<const google::protobuf::FieldDescriptor*> set;
    attributes->GetReflection()->ListFields(*attributes, &set);
    for (const auto* field : set) {
      const bool read = std::any_of(rules.begin(), rules.end(), [&](const kernels::AttributeRule& rule) {
        return kernels::kAttributes[static_cast<int>(rule.attribute)].number == field->number();
      });
      if (!read) attributes->GetReflection()->ClearField(attributes, field);
    }
  }
  static Step StepOf(const Form& form, Kernel kernel) {
    Step step;
    step.set_name(Kernel_Name(kernel));
    step.set_kernel(kernel);
    StepAttributes& a = *step.mutable_attributes();
    a.set_heads(form.heads);
    a.set_sequence(form.sequence);
    a.set_kv_heads(form.kv_heads);
    a.set_qkv_by_head(form.by_head);
    a.set_scale(0.4);
    a.set_causal(form.causal);
    a.set_window(form.window);
    a.set_dropout(form.dropout);
    a.set_dropout_site(3);
    KeepAttributesOf(kernel, &a);
    return step;
  }
  static StepContext ContextOf(const Form& form) {
    StepContext context;
    context.seed = 5;
    context.microbatch_sequences = form.sequences;
    return context;
  }
  // Returns one tensor qkv, or three tensors q, k, v.
  Tensors Inputs(const Form& form, DType dtype) {
    if (form.kv_heads == 0) return {Normal(dtype, {form.rows(), 3 * form.d()}, random_)};
    return {Normal(dtype, {form.rows(), form.d()}, random_), Normal(dtype, {form.rows(), form.kv()}, random_),
            Normal(dtype, {form.rows(), form.kv()}, random_)};
  }

  // Results of the forward pass. They hold the probabilities p, but not the scores.
  struct Made {
    Tensor p, dropped, mask, o;
  };
  Made Forward(const Form& form, const Tensors& in) {
    const DType dtype = in[0].dtype();
    const std::vector<int64_t> pairs = {form.rows(), form.heads * form.sequence};
    const bool grouped = form.kv_heads > 0;
    Made made{Tensor(dtype, pairs), Tensor(dtype, pairs), Tensor(UINT8, pairs), Tensor(dtype, {form.rows(), form.d()})};
    Tensors scores = Run(StepOf(form, ATTENTION_SCORES), grouped ? Tensors{in[0], in[1]} : in, {Tensor(dtype, pairs)});
    made.p = Run(StepOf(form, ATTENTION_SOFTMAX), scores, {Tensor(dtype, pairs)})[0];
    made.dropped = made.p;
    if (form.dropout > 0) {
      Tensors both =
          Run(StepOf(form, DROPOUT_MASK), {made.p}, {Tensor(dtype, pairs), Tensor(UINT8, pairs)}, ContextOf(form));
      made.dropped = both[0];
      made.mask = both[1];
    }
    made.o = Run(StepOf(form, ATTENTION_VALUES), {made.dropped, grouped ? in[2] : in[0]}, {made.o})[0];
    return made;
  }
  // Returns the gradients of the tensors of Inputs().
  Tensors Backward(const Form& form, const Tensors& in, const Made& made, const Tensor& dy) {
    const DType dtype = in[0].dtype();
    const bool grouped = form.kv_heads > 0;
    const Tensor& v = grouped ? in[2] : in[0];
    Tensors of_values = Run(StepOf(form, ATTENTION_VALUES_BACKWARD), {dy, made.dropped, v},
                            {Tensor(dtype, made.p.shape()), Tensor(dtype, v.shape())});
    Tensor dp = of_values[0];
    if (form.dropout > 0) {
      dp = Run(StepOf(form, DROPOUT_BY_MASK), {dp, made.mask}, {Tensor(dtype, made.p.shape())})[0];
    }
    dp = Run(StepOf(form, ATTENTION_SOFTMAX_BACKWARD), {dp, made.p}, {Tensor(dtype, made.p.shape())})[0];
    const Step scores = StepOf(form, ATTENTION_SCORES_BACKWARD);
    if (grouped) {
      Tensors dqk = Run(scores, {dp, in[0], in[1]}, {Tensor(dtype, in[0].shape()), Tensor(dtype, in[1].shape())});
      return {dqk[0], dqk[1], of_values[1]};
    }
    // One tensor holds q, k and v. The gradient from the scores is zero in the columns of v, and the gradient from the
    // values is zero in all others, so their sum is the whole gradient.
    Tensor sum = Run(scores, {dp, in[0]}, {Tensor(dtype, in[0].shape())})[0];
    for (int64_t i = 0; i < sum.size(); ++i) {
      EXPECT_TRUE(sum.Get(i) == 0 || of_values[1].Get(i) == 0) << form.Name() << " " << i;
      sum.Set(i, sum.Get(i) + of_values[1].Get(i));
    }
    return {sum};
  }

  static void ExpectNear(const Tensor& a, const Tensor& b, double tolerance, const std::string& what) {
    ASSERT_EQ(a.shape(), b.shape()) << what;
    for (int64_t i = 0; i < a.size(); ++i) {
      ASSERT_NEAR(a.Get(i), b.Get(i), tolerance * (1 + std::abs(b.Get(i)))) << what << " element " << i;
    }
  }
};

TEST_F(AttentionOpsTest, IsWhatTheFusedKernelIs) {
  for (const Form& form : Forms()) {
    for (DType dtype : {FP64, FP32, BF16}) {
      const Tensors in = Inputs(form, dtype);
      const DType wide = dtype == FP64 ? FP64 : FP32;
      const Tensors fused =
          Run(StepOf(form, ATTENTION), in,
              {Tensor(dtype, {form.rows(), form.d()}), Tensor(wide, {form.rows(), form.heads})}, ContextOf(form));
      const Made made = Forward(form, in);
      const double tolerance = dtype == FP64 ? 1e-12 : dtype == FP32 ? 1e-5 : 0.06;
      ExpectNear(made.o, fused[0], tolerance, form.Name());
      const Tensor dy = Normal(dtype, made.o.shape(), random_);
      Tensors arguments = {dy}, gradients;
      arguments.insert(arguments.end(), in.begin(), in.end());
      arguments.insert(arguments.end(), fused.begin(), fused.end());
      for (const Tensor& tensor : in) gradients.push_back(Tensor(dtype, tensor.shape()));
      gradients = Run(StepOf(form, ATTENTION_BACKWARD), arguments, gradients, ContextOf(form));
      const Tensors own = Backward(form, in, made, dy);
      for (size_t i = 0; i < in.size(); ++i) ExpectNear(own[i], gradients[i], tolerance, form.Name());
    }
  }
}

TEST_F(AttentionOpsTest, FiniteDifferences) {
  for (const Form& form : Forms()) {
    if (form.sequence > 7) continue;
    const Tensors x = Inputs(form, FP64);
    Check(
        form.Name(), x, [&](Tensors in) { return Forward(form, in).o; },
        [&](const Tensor& dy) { return Backward(form, x, Forward(form, x), dy); });
  }
}

// Results do not depend on the number of threads.
TEST_F(AttentionOpsTest, Threads) {
  const Form form{2, 53, 4, 2, 6, true, false, 0, 0.25};
  const Tensors in = Inputs(form, FP32);
  const Tensor dy = Normal(FP32, {form.rows(), form.d()}, random_);
  backend_ = MakeCpuBackend(1);
  const Made one = Forward(form, in);
  const Tensors gradients = Backward(form, in, one, dy);
  backend_ = MakeCpuBackend(3);
  const Made three = Forward(form, in);
  EXPECT_EQ(one.o.bytes(), three.o.bytes());
  EXPECT_EQ(one.mask.bytes(), three.mask.bytes());
  const Tensors again = Backward(form, in, three, dy);
  for (size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].bytes(), gradients[i].bytes());
}

// A rank with heads 2 and 3 of 4 drops the same elements as a rank with all heads.
TEST_F(AttentionOpsTest, HeadsOfAPart) {
  const int64_t sequence = 7, rows = 14;
  const Form form{2, sequence, 4, 0, 1, false, false, 0, 0.4};
  const Tensor whole = Normal(FP32, {rows, 4 * sequence}, random_);
  const Tensors y = Run(StepOf(form, DROPOUT), {whole}, {Tensor(FP32, whole.shape())}, ContextOf(form));
  Tensor half(FP32, {rows, 2 * sequence});
  for (int64_t i = 0; i < half.size(); ++i) {
    half.Set(i, whole.Get(i / (2 * sequence) * 4 * sequence + 2 * sequence + i % (2 * sequence)));
  }
  Step step = StepOf(form, DROPOUT_MASK);
  step.mutable_attributes()->set_heads(2);
  step.mutable_attributes()->set_whole_columns(4);
  StepContext context = ContextOf(form);
  context.column_shift = 2;
  const Tensors part = Run(step, {half}, {Tensor(FP32, half.shape()), Tensor(UINT8, half.shape())}, context);
  int64_t kept = 0;
  for (int64_t i = 0; i < half.size(); ++i) {
    const double expected = y[0].Get(i / (2 * sequence) * 4 * sequence + 2 * sequence + i % (2 * sequence));
    EXPECT_EQ(part[0].Get(i), expected) << i;
    EXPECT_EQ(part[1].bytes()[i] != 0, expected != 0) << i;
    kept += expected != 0;
  }
  EXPECT_GT(kept, half.size() / 3);
  EXPECT_LT(kept, half.size() * 4 / 5);
}

// Dropout by the kept mask gives the same bits as drawing the random numbers again.
TEST_F(AttentionOpsTest, MaskIsDropout) {
  for (DType dtype : {FP64, FP32, BF16, FP16}) {
    for (double p : {0.0, 0.1, 0.9}) {
      Step step;
      step.set_kernel(DROPOUT);
      step.mutable_attributes()->set_dropout(p);
      step.mutable_attributes()->set_dropout_site(9);
      StepContext context;
      context.seed = 8;
      context.microbatch_sequences = 3;
      const Tensor x = Normal(dtype, {33, 205}, random_);
      const Tensor y = Run(step, {x}, {Tensor(dtype, x.shape())}, context)[0];
      step.set_kernel(DROPOUT_MASK);
      const Tensors both = Run(step, {x}, {Tensor(dtype, x.shape()), Tensor(UINT8, x.shape())}, context);
      EXPECT_EQ(both[0].bytes(), y.bytes());
      Step by_mask;
      by_mask.set_kernel(DROPOUT_BY_MASK);
      by_mask.mutable_attributes()->set_dropout(p);
      EXPECT_EQ(Run(by_mask, {x, both[1]}, {Tensor(dtype, x.shape())})[0].bytes(), y.bytes());
    }
  }
}

}  // namespace
}  // namespace weft::exec::cpu
