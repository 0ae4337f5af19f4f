// A graph of cuDNN operations on tensors of four dimensions, the engines that can run it, and a plan made of one.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_GRAPH_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_GRAPH_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "executor/backends/cuda/cudnn_library.h"

namespace weft::exec::cuda {

// Extents and distances in elements, outermost dimension first: batch, head, row, column of attention; image, channel,
// height, width of convolutions.
struct CudnnShape {
  std::array<int64_t, 4> extents;
  std::array<int64_t, 4> strides;

  // Row-major and dense.
  static CudnnShape Dense(int64_t a, int64_t b, int64_t c, int64_t d) {
    return {{a, b, c, d}, {b * c * d, c * d, d, 1}};
  }
  // Rows and columns exchanged: the same memory.
  CudnnShape Transposed() const {
    return {{extents[0], extents[1], extents[3], extents[2]}, {strides[0], strides[1], strides[3], strides[2]}};
  }
};

// Where a graph is to run: a device (a handle), or one that is only described, which is enough to ask whether there are
// engines for it (cudnn_described_device.h).
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* device = nullptr;
};

// An engine with its settings, as heuristics proposes it.
struct CudnnEngine {
  CudnnDescriptor config;
  int64_t workspace_bytes = 0;
  // Of one block; 0 = not told.
  int64_t shared_memory_bytes = 0;
  // What cuDNN says of its arithmetic: bit n is cudnnBackendNumericalNote_t n.
  uint32_t notes = 0;

  bool Has(cudnnBackendNumericalNote_t note) const { return (notes >> note & 1) != 0; }
  bool deterministic() const { return !Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC); }
};

// Ready to run.
struct CudnnPlan {
  CudnnDescriptor config;
  CudnnDescriptor plan;
  // What it really needs, which heuristics may have named otherwise.
  int64_t workspace_bytes = 0;
  // The data of earlier runs as cuDNN is told of it, by their addresses and that of the workspace: in a program they
  // come again in every step.
  absl::flat_hash_map<std::vector<const void*>, CudnnDescriptor> packs;
};

// Operations are added in the order of the data; the first error of any is what Finish returns.
class CudnnGraph {
 public:
  // A tensor of the graph; its unique id is the number.
  using Tensor = int64_t;

  CudnnGraph(const Cudnn* cudnn, std::string name) : cudnn_(cudnn), name_(std::move(name)) {}

  // In memory that Run is given, aligned to so many bytes.
  Tensor InMemory(absl::string_view name, cudnnDataType_t type, const CudnnShape& shape, int64_t alignment = 16);
  // Between operations only.
  Tensor Virtual(absl::string_view name, cudnnDataType_t type, const CudnnShape& shape);
  // One number, which Run is given a pointer to on the host.
  Tensor Number(absl::string_view name, cudnnDataType_t type);

  void Matmul(Tensor a, Tensor b, Tensor c);
  // y = mode(x), mode(x, b), or mode(x, b) where `select` is true.
  void Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, Tensor x, Tensor y);
  void Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, Tensor x, Tensor b, Tensor y);
  void Select(Tensor x, Tensor b, Tensor select, Tensor y);
  // y = the index along the axis, in the shape of x.
  void Index(int64_t axis, Tensor x, Tensor y);
  void Reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y);
  // The same elements in another shape.
  void Reshape(Tensor x, Tensor y);

  struct Convolution {
    int64_t padding = 0;
    int64_t stride = 1;
  };
  enum class ConvolutionKind { kForward, kData, kFilter };
  // Of image x, filter w and output y; one of them is made, with `beta` times what it holds added.
  void Convolve(ConvolutionKind kind, const Convolution& convolution, Tensor x, Tensor w, Tensor y, float beta);

  int64_t operations() const { return static_cast<int64_t>(operations_.size()); }

  // Checks and closes the graph.
  absl::Status Finish(const CudnnTarget& target);
  // What heuristics finds for it, best first, after Finish. Unimplemented if there is none.
  absl::StatusOr<std::vector<CudnnEngine>> Engines(const CudnnTarget& target) const;

 private:
  Tensor Add(absl::string_view name, cudnnDataType_t type, const CudnnShape& shape, int64_t alignment, bool is_virtual,
             bool by_value);
  void Keep(absl::StatusOr<CudnnDescriptor> operation);
  absl::StatusOr<CudnnDescriptor> MakePointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis,
                                                const Tensor* x, const Tensor* b, const Tensor* select, Tensor y);
  absl::StatusOr<CudnnDescriptor> MakeConvolve(ConvolutionKind kind, const Convolution& convolution, Tensor x, Tensor w,
                                               Tensor y, float beta);
  const CudnnDescriptor& Of(Tensor tensor) const { return tensors_[tensor - 1]; }

  const Cudnn* cudnn_;
  std::string name_;
  absl::Status status_;
  std::vector<CudnnDescriptor> tensors_;
  // What operations refer to: kinds of pointwise operations, of reductions, ...
  std::vector<CudnnDescriptor> parts_;
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor graph_;
};

// The first that is deterministic, has none of the notes `refused` (bits as in CudnnEngine), and needs at most
// `workspace_limit` bytes of workspace. Unimplemented if there is none, with what there was. The others of that kind go
// to `others`, best first.
absl::StatusOr<CudnnEngine> ChooseCudnnEngine(std::vector<CudnnEngine> engines, int64_t workspace_limit,
                                              uint32_t refused = 0, std::vector<CudnnEngine>* others = nullptr);

// Compiles the engine's kernels for the target, which takes up to a second.
absl::StatusOr<CudnnPlan> MakeCudnnPlan(CudnnEngine engine, const CudnnTarget& target);
// The same of the first that compiles and needs at most `workspace_limit` bytes, `engine` or one of the others:
// heuristics propose some that do not. The error is that of the last.
absl::StatusOr<CudnnPlan> MakeCudnnPlan(CudnnEngine engine, std::vector<CudnnEngine> others, const CudnnTarget& target,
                                        int64_t workspace_limit);

// One tensor's data: device memory, or the host's for a Number, which is read when the plan is run.
struct CudnnArgument {
  CudnnGraph::Tensor tensor;
  const void* data;
};

// Enqueues the plan on the handle's stream. All runs of a plan name the same tensors in the same order; a Number stays
// where it is while the plan is in use.
absl::Status RunCudnnPlan(CudnnPlan& plan, cudnnHandle_t handle, absl::Span<const CudnnArgument> arguments,
                          void* workspace);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_GRAPH_H_
