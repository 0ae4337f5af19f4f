#include "executor/backends/cuda/cuda_backend.h"

#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/backends/cpu/cpu_test_util.h"
#include "executor/backends/cuda/counting_device_testing.h"
#include "executor/backends/cuda/emulated_libraries.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::exec::cuda {
namespace {

using cpu::Tensor;
using testing::HasSubstr;

int32_t AddValue(Segment& segment, const Tensor& tensor) {
  Value& value = *segment.add_values();
  value.set_dtype(tensor.dtype());
  for (int64_t extent : tensor.shape()) value.add_shape(extent);
  return segment.values_size() - 1;
}

struct StepCase {
  Step step;
  std::vector<Tensor> in, out;
};

// Returns steps that need scratch memory or tables of the backend.
std::vector<StepCase> StepsWithScratch() {
  std::vector<StepCase> cases(3);
  cases[0].step.set_kernel(BIAS_GRADIENT);
  cases[0].in.emplace_back(BF16, std::vector<int64_t>{2000, 512});
  cases[0].out.emplace_back(FP32, std::vector<int64_t>{512});
  cases[1].step.set_kernel(EMBEDDING_BACKWARD);
  cases[1].in.emplace_back(INT32, std::vector<int64_t>{64});
  cases[1].in.emplace_back(FP32, std::vector<int64_t>{64, 16});
  cases[1].out.emplace_back(FP32, std::vector<int64_t>{50000, 16});
  cases[2].step.set_kernel(ROPE);
  cases[2].step.mutable_attributes()->set_sequence(64);
  cases[2].step.mutable_attributes()->set_head_size(8);
  cases[2].step.mutable_attributes()->set_base(10000);
  cases[2].step.mutable_attributes()->set_magnitude(1);
  cases[2].in.emplace_back(FP32, std::vector<int64_t>{64, 16});
  cases[2].out.emplace_back(FP32, std::vector<int64_t>{64, 16});
  return cases;
}

TEST(CudaBackend, NothingIsAllocatedInStepsOfAProgram) {
  std::vector<StepCase> cases = StepsWithScratch();
  Program program;
  Segment& segment = *program.add_segments();
  for (StepCase& c : cases) {
    for (const Tensor& tensor : c.in) c.step.add_inputs(AddValue(segment, tensor));
    for (const Tensor& tensor : c.out) c.step.add_outputs(AddValue(segment, tensor));
    *segment.add_steps() = c.step;
  }
  CountingDevice device;
  BackendOptions options;
  options.program = &program;
  const auto backend = MakeBackend(&device, EmulatedLibraries(), options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  const int before = device.allocations();
  EXPECT_GT(before, 0);
  for (StepCase& c : cases) {
    const absl::Status status = cpu::RunStep(**backend, c.step, c.in, c.out);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(device.allocations(), before);
}

// Records the calls that it gets. Settle writes to the idle memory and leaves it changed.
class RecordingMatmul : public Matmul {
 public:
  explicit RecordingMatmul(std::vector<std::string>* log) : log_(log) {}
  void UseIdleMemory(IdleMemory* memory) override {
    log_->push_back("use");
    idle_ = memory;
  }
  absl::Status Prepare(const MatmulShape& shape) override {
    log_->push_back(absl::StrCat("prepare ", shape.m, " x ", shape.k, " x ", shape.n));
    return absl::OkStatus();
  }
  absl::Status Settle() override {
    log_->push_back("settle");
    idle_->Begin();
    std::memset(idle_->Take(1001), 0xff, 1001);
    return absl::OkStatus();
  }
  absl::Status Run(const MatmulShape& shape, const MatmulPointers& pointers, const StreamRef& stream) override {
    return absl::InternalError("not asked for");
  }

 private:
  std::vector<std::string>* log_;
  IdleMemory* idle_ = nullptr;
};

void AddProduct(Program& program, int64_t rows) {
  Segment& segment = *program.add_segments();
  Step& step = *segment.add_steps();
  step.set_kernel(MATMUL);
  step.add_inputs(AddValue(segment, Tensor(BF16, {rows, 3})));
  step.add_inputs(AddValue(segment, Tensor(BF16, {3, 4})));
  step.add_outputs(AddValue(segment, Tensor(BF16, {rows, 4})));
}

// Prepares only the rank's own steps, including those of evaluation. Afterwards the idle memory is zero again.
TEST(CudaBackend, RunsLibrariesOnceBeforeTheFirstStep) {
  Program program;
  MeshAxis& axis = *program.mutable_mesh()->add_axes();
  axis.set_name("pipe");
  axis.set_size(2);
  *program.mutable_evaluation()->mutable_mesh() = program.mesh();
  for (int stage = 0; stage < 2; ++stage) {
    AddProduct(program, 10 + stage);
    AddProduct(*program.mutable_evaluation(), 20 + stage);
    for (Program* each : {&program, program.mutable_evaluation()}) {
      Template& t = *each->add_templates();
      Coordinate& pin = *t.add_pins();
      pin.set_axis("pipe");
      pin.set_index(stage);
      Action& action = *t.add_body();
      action.set_kind(FORWARD);
      action.set_segment(stage);
    }
  }
  CountingDevice device;
  std::vector<std::string> log;
  Libraries libraries;
  libraries.matmul = std::make_unique<RecordingMatmul>(&log);
  alignas(256) std::byte memory[2048] = {};
  BackendOptions options;
  options.program = &program;
  options.rank = 1;
  options.idle_memory = memory;
  options.idle_bytes = sizeof memory;
  const auto backend = MakeBackend(&device, std::move(libraries), options);
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_THAT(log, testing::ElementsAre("use", "prepare 11 x 3 x 4", "prepare 21 x 3 x 4", "settle"));
  for (const std::byte byte : memory) ASSERT_EQ(byte, std::byte{0});
}

// The refusal is reported when the backend is made, not in the first step, when other ranks wait for this one.
TEST(CudaBackend, AProductThatTheLibraryRefusesIsToldBeforehand) {
  class Refusing : public Matmul {
   public:
    absl::Status Prepare(const MatmulShape& shape) override { return absl::InvalidArgumentError("tune.txt: no"); }
    absl::Status Run(const MatmulShape& shape, const MatmulPointers& pointers, const StreamRef& stream) override {
      return absl::OkStatus();
    }
  };
  Program program;
  AddProduct(program, 10);
  program.mutable_segments(0)->mutable_steps(0)->set_name("the product");
  CountingDevice device;
  Libraries libraries;
  libraries.matmul = std::make_unique<Refusing>();
  BackendOptions options;
  options.program = &program;
  const absl::Status refused = MakeBackend(&device, std::move(libraries), options).status();
  EXPECT_EQ(refused, absl::InvalidArgumentError("step 'the product': tune.txt: no"));
}

// Query heads that share one kv head form a group. For each position in the groups, the scores of all kv heads and
// sequences are computed in one call if possible. Otherwise there is one call per kv head or one call per sequence,
// whichever needs fewer calls.
TEST(CudaBackend, ProductsOfHeadsAreBatched) {
  class Counting : public Matmul {
   public:
    Counting(std::unique_ptr<Matmul> loops, std::vector<int64_t>* batches)
        : loops_(std::move(loops)), batches_(batches) {}
    absl::Status Prepare(const MatmulShape& shape) override { return loops_->Prepare(shape); }
    absl::Status Run(const MatmulShape& shape, const MatmulPointers& pointers, const StreamRef& stream) override {
      batches_->push_back(shape.batch);
      return loops_->Run(shape, pointers, stream);
    }

   private:
    std::unique_ptr<Matmul> loops_;
    std::vector<int64_t>* batches_;
  };
  std::mt19937 random(3);
  constexpr int64_t kSequence = 16, kWidth = 16;
  // Sequences, heads of q, heads of k and v, and the number of products in each call.
  const std::vector<std::tuple<int64_t, int64_t, int64_t, std::vector<int64_t>>> cases = {
      {1, 3, 3, {3}},    {5, 1, 1, {5}},          {2, 3, 3, {3, 3}},
      {5, 2, 2, {5, 5}}, {5, 4, 2, {5, 5, 5, 5}}, {2, 6, 3, {3, 3, 3, 3}}};
  for (const auto& [sequences, heads, kv_heads, expected] : cases) {
    SCOPED_TRACE(testing::Message() << sequences << " sequences, " << heads << " heads");
    Step step;
    step.set_kernel(ATTENTION_SCORES);
    StepAttributes& attributes = *step.mutable_attributes();
    attributes.set_sequence(kSequence);
    attributes.set_heads(static_cast<int32_t>(heads));
    attributes.set_kv_heads(static_cast<int32_t>(kv_heads));
    attributes.set_scale(0.25);
    const int64_t rows = sequences * kSequence;
    std::vector<Tensor> in = {Tensor(FP32, {rows, heads * kWidth}), Tensor(FP32, {rows, kv_heads * kWidth})};
    std::normal_distribution<double> normal;
    for (Tensor& tensor : in) {
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.Set(i, normal(random));
    }
    std::vector<Tensor> out = {Tensor(FP32, {rows, heads * kSequence})};
    std::vector<int64_t> batches;
    CountingDevice device;
    Libraries libraries = EmulatedLibraries();
    libraries.matmul = std::make_unique<Counting>(std::move(libraries.matmul), &batches);
    const auto backend = MakeBackend(&device, std::move(libraries), {});
    const absl::Status status = cpu::RunStep(**backend, step, in, out);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(batches, expected);
    for (int64_t s = 0; s < sequences; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < kSequence; ++i) {
          for (int64_t j = 0; j < kSequence; ++j) {
            double sum = 0;
            for (int64_t c = 0; c < kWidth; ++c) {
              sum += in[0].Get((s * kSequence + i) * heads * kWidth + h * kWidth + c) *
                     in[1].Get((s * kSequence + j) * kv_heads * kWidth + h / (heads / kv_heads) * kWidth + c);
            }
            ASSERT_NEAR(out[0].Get((s * kSequence + i) * heads * kSequence + h * kSequence + j), 0.25 * sum, 1e-5);
          }
        }
      }
    }
  }
}

// The backend notes, once, which attention is slower than users expect.
TEST(CudaBackend, NotesAttentionThatTheLibraryDoesNotHave) {
  class NoAttention : public FusedAttention {
   public:
    bool Has(const AttentionShape& shape, bool backward) override { return shape.head_size % 8 == 0; }
    absl::Status Prepare(const AttentionShape& shape, bool backward) override { return absl::OkStatus(); }
    absl::Status Settle(IdleMemory& memory) override { return absl::OkStatus(); }
    absl::Status Forward(const AttentionShape& shape, const AttentionPointers& pointers,
                         const StreamRef& stream) override {
      return absl::OkStatus();
    }
    absl::Status Backward(const AttentionShape& shape, const AttentionPointers& pointers,
                          const StreamRef& stream) override {
      return absl::OkStatus();
    }
  };
  const auto notes = [](int64_t width, double dropout) {
    Program program;
    Segment& segment = *program.add_segments();
    for (int i = 0; i < 2; ++i) {
      Step& step = *segment.add_steps();
      step.set_kernel(ATTENTION);
      StepAttributes& attributes = *step.mutable_attributes();
      attributes.set_heads(2);
      attributes.set_sequence(4);
      attributes.set_causal(true);
      attributes.set_scale(0.5);
      attributes.set_dropout(dropout);
      step.add_inputs(AddValue(segment, Tensor(BF16, {8, 6 * width})));
      step.add_outputs(AddValue(segment, Tensor(BF16, {8, 2 * width})));
      step.add_outputs(AddValue(segment, Tensor(FP32, {8, 2})));
    }
    program.mutable_recipe()->set_microbatch_sequences(2);
    CountingDevice device;
    Libraries libraries = EmulatedLibraries();
    libraries.attention = std::make_unique<NoAttention>();
    BackendOptions options;
    options.program = &program;
    const auto backend = MakeBackend(&device, std::move(libraries), options);
    EXPECT_TRUE(backend.ok()) << backend.status();
    return (*backend)->Notes();
  };
  EXPECT_THAT(notes(8, 0), testing::IsEmpty());
  EXPECT_THAT(notes(8, 0.1),
              testing::ElementsAre("attention with dropout (2 heads of 8, sequences of 4) runs on "
                                   "weft's own kernels, which use tensor cores but are slower than cuDNN's"));
  EXPECT_THAT(notes(5, 0), testing::ElementsAre(
                               "attention that cuDNN does not support (2 heads of 5, sequences of 4) runs on weft's "
                               "own kernels, which use no tensor cores and are many times slower than cuDNN's"));
}

TEST(CudaBackend, AllocatesAsItGoesWithoutAProgram) {
  std::vector<StepCase> cases = StepsWithScratch();
  CountingDevice device;
  const auto backend = MakeBackend(&device, EmulatedLibraries(), {});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ(device.allocations(), 0);
  for (int i = 0; i < 2; ++i) {
    for (StepCase& c : cases) EXPECT_TRUE(cpu::RunStep(**backend, c.step, c.in, c.out).ok());
  }
  EXPECT_LE(device.allocations(), 4);
}

TEST(CudaBackend, RefusesWhatItCannotDo) {
  CountingDevice device;
  EXPECT_FALSE(MakeBackend(&device, {}, {}).ok());
  const auto backend = MakeBackend(&device, EmulatedLibraries(), {});
  std::vector<Tensor> in = {Tensor(BF16, {2, 3}), Tensor(FP32, {3, 4})}, out = {Tensor(FP32, {2, 4})};
  const auto refusal = [&](const Step& step) {
    const absl::Status status = (*backend)->Run(step, {in[0].view(), in[1].view()}, {out[0].view()}, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  Step step;
  step.set_kernel(GROUP_ALL_REDUCE);
  EXPECT_THAT(refusal(step), HasSubstr("the CUDA backend has no kernel 90"));
  step.set_kernel(MATMUL);
  EXPECT_THAT(refusal(step), HasSubstr("MATMUL of BF16 and FP32"));
}

// A token outside the table reads no memory. Its result is NaN, so the loss becomes NaN and ends the run.
TEST(CudaBackend, TokensWithoutARowGiveNaN) {
  CountingDevice device;
  const auto backend = MakeBackend(&device, EmulatedLibraries(), {});
  Step step;
  step.set_kernel(EMBEDDING);
  std::vector<Tensor> in = {Tensor(INT32, {3}), Tensor(FP32, {4, 2})}, out = {Tensor(FP32, {3, 2})};
  in[0].Set(0, 4);
  in[0].Set(1, -1);
  in[0].Set(2, 3);
  ASSERT_TRUE(cpu::RunStep(**backend, step, in, out).ok());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(out[0].Get(i)));
  EXPECT_EQ(out[0].Get(4), 0);
  // The gradient of such a token is dropped.
  step.set_kernel(EMBEDDING_BACKWARD);
  std::vector<Tensor> table = {Tensor(FP32, {4, 2})};
  in[1] = Tensor(FP32, {3, 2});
  for (int i = 0; i < 6; ++i) in[1].Set(i, 1);
  ASSERT_TRUE(cpu::RunStep(**backend, step, in, table).ok());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(table[0].Get(i), i >= 6 ? 1 : 0);
}

}  // namespace
}  // namespace weft::exec::cuda
