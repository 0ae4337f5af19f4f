// Shows without a GPU that cuDNN has kernels for our graphs of attention. cuDNN checks each graph and finds engines for
// it, for an H200 that is only described. For some graphs the kernel is also generated and compiled.
#include "executor/backends/cuda/cudnn_attention_choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "executor/backends/cuda/cudnn_described_device_testing.h"

namespace weft::exec::cuda {
namespace {

// Returns a shape with q, k and v in one matrix if `packed`, else in three.
AttentionShape Shape(int64_t batch, int64_t sequence, int64_t heads, int64_t kv_heads, int64_t head_size, bool packed) {
  AttentionShape shape;
  shape.type = Type::kBf16;
  shape.batch = batch;
  shape.sequence = sequence;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.head_size = head_size;
  const int64_t width = heads * head_size, kv_width = kv_heads * head_size;
  shape.q = {packed ? 3 * width : width, head_size};
  shape.k = shape.v = {packed ? 3 * width : kv_width, head_size};
  shape.o = {width, head_size};
  shape.causal = true;
  shape.scale = 0.125;
  return shape;
}

AttentionShape Windowed(AttentionShape shape, int64_t window) {
  shape.window = window;
  return shape;
}

struct Model {
  const char* name;
  AttentionShape shape;
};

// Returns shapes with the published numbers of heads and head sizes of well-known models.
std::vector<Model> Models() {
  return {
      {"GPT-2 124M", Shape(4, 1024, 12, 12, 64, true)},
      {"GPT-2 355M", Shape(4, 1024, 16, 16, 64, true)},
      {"GPT-2 774M", Shape(4, 1024, 20, 20, 64, true)},
      {"GPT-2 1.5B", Shape(8, 1024, 25, 25, 64, true)},
      {"GPT-2 124M, 256", Shape(4, 256, 12, 12, 64, true)},
      {"Llama 3 8B, 1024", Shape(4, 1024, 32, 8, 128, false)},
      {"Llama 3 8B", Shape(1, 8192, 32, 8, 128, false)},
      {"Qwen2.5 1.5B", Shape(16, 1024, 12, 2, 128, false)},
      {"Qwen2.5 1.5B, 4096", Shape(4, 4096, 12, 2, 128, false)},
      {"Qwen2.5 3B", Shape(8, 1024, 16, 2, 128, false)},
      {"Qwen2.5 3B, 4096", Shape(2, 4096, 16, 2, 128, false)},
      {"Qwen2.5 7B", Shape(4, 1024, 28, 4, 128, false)},
      {"Qwen2.5 7B, 4096", Shape(1, 4096, 28, 4, 128, false)},
      {"Mistral 7B", Windowed(Shape(1, 8192, 32, 8, 128, false), 4096)},
      {"Mistral 7B, 1024 of 2048", Windowed(Shape(2, 2048, 32, 8, 128, false), 1024)},
      {"GPT-2 with a window", Windowed(Shape(4, 1024, 12, 12, 64, true), 128)},
  };
}

class CudnnAttentionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const absl::StatusOr<const Cudnn*> cudnn = OpenCudnnWithoutDriver();
    ASSERT_TRUE(cudnn.ok()) << cudnn.status();
    cudnn_ = *cudnn;
  }
  void SetUp() override {
    ASSERT_NE(cudnn_, nullptr);
    On(kH200);
  }

  void On(const DescribedDevice& described) {
    absl::StatusOr<CudnnDescriptor> device = Describe(cudnn_, described);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }
  CudnnTarget target() const { return {nullptr, &device_}; }

  // Finishes a graph and looks for engines as Choose does. Returns why there are none; "" if there are some.
  std::string Refusal(CudnnGraph& graph) {
    if (const absl::Status finished = graph.Finish(target()); !finished.ok()) return std::string(finished.message());
    const absl::StatusOr<std::vector<CudnnEngine>> engines = graph.Engines(target());
    return engines.ok() ? "" : std::string(engines.status().message());
  }

  static const Cudnn* cudnn_;
  CudnnDescriptor device_;
};
const Cudnn* CudnnAttentionTest::cudnn_ = nullptr;

TEST_F(CudnnAttentionTest, HasForwardAndDeterministicBackwardOfEveryModel) {
  for (const auto& [name, shape] : Models()) {
    SCOPED_TRACE(name);
    for (const Type type : {Type::kBf16, Type::kFp16}) {
      AttentionShape typed = shape;
      typed.type = type;
      const auto forward = ChooseAttentionForward(cudnn_, typed, target());
      ASSERT_TRUE(forward.ok()) << forward.status();
      // A window adds a mask of five operations.
      const int64_t window = HasWindow(shape) ? 5 : 0;
      EXPECT_EQ((*forward)->call.graph.operations(), 14 + window);
      EXPECT_EQ((*forward)->call.window != 0, HasWindow(shape));
      EXPECT_TRUE((*forward)->engine.deterministic());
      EXPECT_EQ((*forward)->slice.batch, shape.batch);
      const auto backward = ChooseAttentionBackward(cudnn_, typed, target());
      ASSERT_TRUE(backward.ok()) << backward.status();
      // Gradients of shared heads are summed, which takes two more operations.
      EXPECT_EQ((*backward)->call.graph.operations(), (shape.heads == shape.kv_heads ? 21 : 23) + window);
      EXPECT_TRUE((*backward)->engine.deterministic());
      EXPECT_LE((*backward)->engine.workspace_bytes, kAttentionWorkspaceLimit);
      // A block on a Hopper GPU can have at most this much shared memory.
      EXPECT_LE((*backward)->engine.shared_memory_bytes, 232448);
      EXPECT_GT((*backward)->engine.shared_memory_bytes, 0);
    }
  }
}

// For all heads of one sequence, the gradients of scores in bf16 alone take 4.3 GB.
TEST_F(CudnnAttentionTest, BackwardBeyondTheLimitTakesSomeHeadsAtATime) {
  const AttentionShape shape = Shape(2, 8192, 32, 8, 128, false);
  const auto limited = ChooseAttentionBackward(cudnn_, shape, target(), int64_t{2} << 30);
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_EQ((*limited)->slice.batch, 1);
  EXPECT_EQ((*limited)->slice.kv_heads, 2);
  EXPECT_LE((*limited)->engine.workspace_bytes, int64_t{2} << 30);
  const auto unlimited = ChooseAttentionBackward(cudnn_, shape, target(), int64_t{1} << 40);
  ASSERT_TRUE(unlimited.ok()) << unlimited.status();
  EXPECT_EQ((*unlimited)->slice.batch, 2);
  EXPECT_GE((*unlimited)->engine.workspace_bytes, int64_t{2} * 32 * 8192 * 8192 * 2);
}

// Free memory does not decide whether cuDNN supports a shape: a limit below kAttentionWorkspaceLimit selects the
// smallest slice.
TEST_F(CudnnAttentionTest, FreeMemoryDoesNotDecideWhoseKernelsRun) {
  const auto smallest = ChooseAttentionBackward(cudnn_, Shape(2, 8192, 32, 8, 128, false), target(), 1 << 20);
  ASSERT_TRUE(smallest.ok()) << smallest.status();
  EXPECT_EQ((*smallest)->slice.batch, 1);
  EXPECT_EQ((*smallest)->slice.kv_heads, 1);
  EXPECT_GT((*smallest)->engine.workspace_bytes, 1 << 20);
  // One head of k and v alone takes 8 GiB, which is more than kAttentionWorkspaceLimit.
  for (const int64_t limit : {int64_t{1} << 20, kAttentionWorkspaceLimit}) {
    const auto none = ChooseAttentionBackward(cudnn_, Shape(1, 65536, 8, 8, 128, false), target(), limit);
    EXPECT_EQ(none.status().code(), absl::StatusCode::kUnimplemented) << none.status();
    EXPECT_NE(none.status().message().find("within 2147483648 bytes of workspace"), std::string::npos) << none.status();
  }
}

// If the arena leaves little memory, slices are small: the limit is half of the free memory.
TEST_F(CudnnAttentionTest, LittleFreeMemoryMakesSmallSlices) {
  EXPECT_EQ(AttentionWorkspaceLimit(int64_t{100} << 30), kAttentionWorkspaceLimit);
  EXPECT_EQ(AttentionWorkspaceLimit(int64_t{3} << 30), int64_t{3} << 29);
  EXPECT_EQ(AttentionWorkspaceLimit(0), int64_t{64} << 20);
  const AttentionShape shape = Shape(1, 8192, 32, 8, 128, false);
  const int64_t limit = AttentionWorkspaceLimit(int64_t{1400} << 20);
  const auto choice = ChooseAttentionBackward(cudnn_, shape, target(), limit);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ((*choice)->slice.kv_heads, 1);
  EXPECT_LE((*choice)->engine.workspace_bytes, limit);
}

// Does everything except loading the kernel onto a device, which the stand-in for the driver refuses.
TEST_F(CudnnAttentionTest, KernelsAreGeneratedAndCompiled) {
  for (const auto& [name, shape] : {Models()[0], Models()[6], Models()[14]}) {
    SCOPED_TRACE(name);
    auto forward = ChooseAttentionForward(cudnn_, shape, target());
    ASSERT_TRUE(forward.ok()) << forward.status();
    EXPECT_NE(MakeCudnnPlan(std::move((*forward)->engine), target()).status().message().find("cuLibraryLoadData"),
              std::string::npos);
    auto backward = ChooseAttentionBackward(cudnn_, shape, target());
    ASSERT_TRUE(backward.ok()) << backward.status();
    EXPECT_NE(MakeCudnnPlan(std::move((*backward)->engine), target()).status().message().find("cuLibraryLoadData"),
              std::string::npos);
  }
}

TEST_F(CudnnAttentionTest, TakesOtherLayoutsAndShapes) {
  AttentionShape by_head = Shape(4, 1024, 12, 12, 64, true);
  by_head.q = by_head.k = by_head.v = {3 * 12 * 64, 3 * 64};
  AttentionShape everything = Shape(2, 256, 8, 8, 64, true);
  everything.causal = false;
  const std::vector<Model> models = {
      {"q, k and v head by head", by_head},
      {"no mask", everything},
      {"heads of 40", Shape(2, 256, 8, 8, 40, true)},
      {"heads of 96", Shape(2, 1000, 8, 8, 96, true)},
      {"one head of k and v", Shape(2, 512, 8, 1, 128, false)},
      {"few rows", Shape(1, 16, 4, 4, 64, true)},
      {"odd rows", Shape(1, 17, 4, 4, 64, true)},
  };
  for (const auto& [name, shape] : models) {
    SCOPED_TRACE(name);
    const auto forward = ChooseAttentionForward(cudnn_, shape, target());
    EXPECT_TRUE(forward.ok()) << forward.status();
    const auto backward = ChooseAttentionBackward(cudnn_, shape, target());
    EXPECT_TRUE(backward.ok()) << backward.status();
  }
}

// Shows that the check can fail. The test builds the forward graph by hand: once without a mistake, then each time with
// one mistake.
TEST_F(CudnnAttentionTest, WrongOperationsAreRefused) {
  enum Wrong {
    kNothing,
    kKeysNotTransposed,
    kRowsBackwards,
    kProbabilitiesInFloat,
    kHeadsOf36Columns,
    kNoMaximum,
    kEnd,
  };
  for (int wrong = kNothing; wrong != kEnd; ++wrong) {
    SCOPED_TRACE(wrong);
    constexpr int64_t b = 2, h = 8, s = 256;
    const int64_t d = wrong == kHeadsOf36Columns ? 36 : 64;
    constexpr cudnnDataType_t kFloat = CUDNN_DATA_FLOAT, kHalf = CUDNN_DATA_BFLOAT16;
    const CudnnShape heads = CudnnShape::Dense(b, h, s, d), scores = CudnnShape::Dense(b, h, s, s);
    const CudnnShape rows = CudnnShape::Dense(b, h, s, 1);
    CudnnShape backwards = heads;
    backwards.strides[2] = -d;
    CudnnGraph graph(cudnn_, "by hand");
    const auto q = graph.InMemory("q", kHalf, wrong == kRowsBackwards ? backwards : heads);
    const auto k = graph.InMemory("k", kHalf, wrong == kKeysNotTransposed ? heads : heads.Transposed());
    const auto v = graph.InMemory("v", kHalf, heads), o = graph.InMemory("o", kHalf, heads);
    const auto lse = graph.InMemory("lse", kFloat, rows);
    const auto scale = graph.Number("scale", kFloat), masked = graph.Number("masked", kFloat);
    const auto product = graph.Virtual("product", kFloat, scores), scaled = graph.Virtual("scaled", kFloat, scores);
    const auto row = graph.Virtual("row", CUDNN_DATA_INT32, scores);
    const auto column = graph.Virtual("column", CUDNN_DATA_INT32, scores);
    const auto seen = graph.Virtual("seen", CUDNN_DATA_BOOLEAN, scores);
    const auto shown = graph.Virtual("shown", kFloat, scores), less = graph.Virtual("less", kFloat, scores);
    const auto exponential = graph.Virtual("exponential", kFloat, scores);
    const auto probabilities = graph.Virtual("probabilities", wrong == kProbabilitiesInFloat ? kFloat : kHalf, scores);
    const auto largest = graph.Virtual("largest", kFloat, rows), sum = graph.Virtual("sum", kFloat, rows);
    const auto logarithm = graph.Virtual("logarithm", kFloat, rows);
    graph.Matmul(q, k, product);
    graph.Pointwise(CUDNN_POINTWISE_MUL, kFloat, product, scale, scaled);
    graph.Index(2, scaled, row);
    graph.Index(3, scaled, column);
    graph.Pointwise(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, row, column, seen);
    graph.Select(scaled, masked, seen, shown);
    graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, shown, largest);
    graph.Pointwise(CUDNN_POINTWISE_SUB, kFloat, shown, wrong == kNoMaximum ? scale : largest, less);
    graph.Pointwise(CUDNN_POINTWISE_EXP, kFloat, less, exponential);
    graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, exponential, sum);
    graph.Pointwise(CUDNN_POINTWISE_LOG, kFloat, sum, logarithm);
    graph.Pointwise(CUDNN_POINTWISE_ADD, kFloat, largest, logarithm, lse);
    graph.Pointwise(CUDNN_POINTWISE_DIV, kFloat, exponential, sum, probabilities);
    graph.Matmul(probabilities, v, o);
    const std::string refusal = Refusal(graph);
    EXPECT_EQ(refusal.empty(), wrong == kNothing) << refusal;
  }
}

TEST_F(CudnnAttentionTest, OtherArchitectures) {
  const AttentionShape shape = Models()[0].shape;
  On(kA100);
  EXPECT_TRUE(ChooseAttentionForward(cudnn_, shape, target()).ok());
  EXPECT_TRUE(ChooseAttentionBackward(cudnn_, shape, target()).ok());
  On(kB200);
  EXPECT_TRUE(ChooseAttentionForward(cudnn_, shape, target()).ok());
  EXPECT_TRUE(ChooseAttentionBackward(cudnn_, shape, target()).ok());
  On(kV100);
  EXPECT_FALSE(ChooseAttentionForward(cudnn_, shape, target()).ok());
}

TEST(UnsupportedAttention, SaysWhy) {
  const AttentionShape right = Shape(2, 256, 8, 4, 64, false);
  EXPECT_EQ(UnsupportedAttention(right), "");
  AttentionShape wrong = right;
  wrong.type = Type::kFp32;
  EXPECT_EQ(UnsupportedAttention(wrong),
            "values that are neither bf16 nor fp16: cuDNN's kernels multiply only bf16 and fp16");
  wrong = right;
  wrong.window = 128;
  EXPECT_EQ(UnsupportedAttention(wrong), "");
  wrong.causal = false;
  EXPECT_EQ(UnsupportedAttention(wrong), "a window of 128 keys and no causal mask");
  wrong = right;
  wrong.head_size = 36;
  EXPECT_EQ(UnsupportedAttention(wrong), "heads of 36 columns: cuDNN's kernels take multiples of 8 up to 256");
  wrong = right;
  wrong.kv_heads = 3;
  EXPECT_EQ(UnsupportedAttention(wrong), "8 heads of q over 3 of k and v");
  wrong = right;
  wrong.v.row_stride += 4;
  EXPECT_EQ(UnsupportedAttention(wrong), "heads that do not begin at multiples of 16 bytes");
  wrong = right;
  wrong.o.row_stride = 32;
  EXPECT_EQ(UnsupportedAttention(wrong), "heads that overlap");
  wrong = right;
  wrong.sequence = int64_t{1} << 40;
  EXPECT_EQ(UnsupportedAttention(wrong), "2 sequences of 1099511627776 rows and 8 heads");
}

TEST(CheckCudnnVersion, TakesWhatIsKnownToBeRight) {
  for (const int64_t version : {90800, 90902, 91002, 91900}) EXPECT_TRUE(CheckCudnnVersion(version, "/lib/x").ok());
  for (const int64_t version : {90701, 91000, 91001, 100000}) {
    EXPECT_EQ(CheckCudnnVersion(version, "/lib/x").code(), absl::StatusCode::kFailedPrecondition) << version;
  }
  EXPECT_EQ(CheckCudnnVersion(91001, "/lib/x").message(),
            "backend cuda: cuDNN in /lib/x has version 9.10.1; allowed: 9.8.0 and later 9.x, except 9.10.0 and 9.10.1");
}

// A window that holds all keys counts as no window.
TEST(HasWindow, OnlyWhereSomeKeyIsOutOfIt) {
  AttentionShape shape = Shape(2, 256, 8, 4, 64, false);
  EXPECT_FALSE(HasWindow(shape));
  EXPECT_TRUE(HasWindow(Windowed(shape, 255)));
  EXPECT_FALSE(HasWindow(Windowed(shape, 256)));
}

TEST(AttentionSlices, FallEvenly) {
  AttentionShape shape = Shape(6, 256, 8, 4, 64, false);
  std::vector<std::pair<int64_t, int64_t>> slices;
  for (const AttentionSlice& slice : AttentionSlices(shape)) slices.emplace_back(slice.batch, slice.kv_heads);
  EXPECT_EQ(slices, (std::vector<std::pair<int64_t, int64_t>>{{6, 4}, {3, 4}, {2, 4}, {1, 4}, {1, 2}, {1, 1}}));
}

}  // namespace
}  // namespace weft::exec::cuda
