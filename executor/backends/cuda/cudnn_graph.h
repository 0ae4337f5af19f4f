// A graph of cuDNN operations on tensors of four dimensions, the engines that can run the graph, and the plan that is
// compiled from an engine.
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

// Extents, and strides in elements, outermost dimension first: batch, head, row, column for attention; image, channel,
// height, width for convolutions.
struct CudnnShape {
  std::array<int64_t, 4> extents;
  std::array<int64_t, 4> strides;

  // Returns a dense row-major shape.
  static CudnnShape Dense(int64_t a, int64_t b, int64_t c, int64_t d) {
    return {{a, b, c, d}, {b * c * d, c * d, d, 1}};
  }
  // Returns the shape with rows and columns exchanged, on the same memory.
  CudnnShape Transposed() const {
    return {{extents[0], extents[1], extents[3], extents[2]}, {strides[0], strides[1], strides[3], strides[2]}};
  }
};

// The device for which engines are chosen. It is either a real device (`handle`), or a device that is only described
// (`device`). A description is enough to ask cuDNN for engines (cudnn_described_device_testing.h).
struct CudnnTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* device = nullptr;
};

// An engine with its settings, as the heuristics propose it.
struct CudnnEngine {
  CudnnDescriptor config;
  int64_t workspace_bytes = 0;
  // Shared memory of one block; 0 = not reported.
  int64_t shared_memory_bytes = 0;
  // cuDNN's notes on the engine's arithmetic: bit n is cudnnBackendNumericalNote_t n.
  uint32_t notes = 0;

  bool Has(cudnnBackendNumericalNote_t note) const { return (notes >> note & 1) != 0; }
  bool deterministic() const { return !Has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC); }
};

// A compiled plan, ready to run.
struct CudnnPlan {
  CudnnDescriptor config;
  CudnnDescriptor plan;
  // Workspace that the plan really needs; the heuristics may have named another number.
  int64_t workspace_bytes = 0;
  // cuDNN's packs of the data of earlier runs, by the addresses of the data and of the workspace. They are kept because
  // a program uses the same addresses in every iteration.
  absl::flat_hash_map<std::vector<const void*>, CudnnDescriptor> packs;
};

// A graph of operations. An operation must be added after the operations that make its inputs. Finish returns the first
// error of any earlier call.
class CudnnGraph {
 public:
  // A tensor of the graph. The number is its unique id.
  using Tensor = int64_t;

  CudnnGraph(const Cudnn* cudnn, std::string name) : cudnn_(cudnn), name_(std::move(name)) {}

  // Adds a tensor in memory. RunCudnnPlan gets its address, which must be a multiple of `alignment` bytes.
  Tensor InMemory(absl::string_view name, cudnnDataType_t type, const CudnnShape& shape, int64_t alignment = 16);
  // Adds a tensor that exists only between operations and has no address.
  Tensor Virtual(absl::string_view name, cudnnDataType_t type, const CudnnShape& shape);
  // Adds a single number as an input. RunCudnnPlan gets a pointer to the number on the host.
  Tensor Number(absl::string_view name, cudnnDataType_t type);

  void Matmul(Tensor a, Tensor b, Tensor c);
  // Adds y = mode(x), or y = mode(x, b). Select adds: y = x where `select` is true, else b.
  void Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, Tensor x, Tensor y);
  void Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, Tensor x, Tensor b, Tensor y);
  void Select(Tensor x, Tensor b, Tensor select, Tensor y);
  // Adds y with the shape of x. Each element of y is its own index along the axis.
  void Index(int64_t axis, Tensor x, Tensor y);
  void Reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y);
  // y holds the elements of x in another shape.
  void Reshape(Tensor x, Tensor y);

  struct Convolution {
    int64_t padding = 0;
    int64_t stride = 1;
  };
  enum class ConvolutionKind { kForward, kData, kFilter };
  // Adds a convolution of image x, filter w and output y. `kind` selects which of the three is the result. The result
  // is added to `beta` times its old value.
  void Convolve(ConvolutionKind kind, const Convolution& convolution, Tensor x, Tensor w, Tensor y, float beta);

  int64_t operations() const { return static_cast<int64_t>(operations_.size()); }

  // Checks the graph and finishes it: no operations can be added afterwards.
  absl::Status Finish(const CudnnTarget& target);
  // Returns the engines that the heuristics find, best first. Call Finish before. Returns Unimplemented if there are
  // none.
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
  // Descriptors that operations refer to, e.g. the kind of a pointwise operation or of a reduction.
  std::vector<CudnnDescriptor> parts_;
  std::vector<CudnnDescriptor> operations_;
  CudnnDescriptor graph_;
};

// Returns the first engine that is deterministic, has none of the notes in `refused` (bits as in CudnnEngine), and
// needs at most `workspace_limit` bytes of workspace. Appends the further engines that qualify to `others`, best first.
// If no engine qualifies, returns Unimplemented with the number of engines and the least workspace that one needs.
absl::StatusOr<CudnnEngine> ChooseCudnnEngine(std::vector<CudnnEngine> engines, int64_t workspace_limit,
                                              uint32_t refused = 0, std::vector<CudnnEngine>* others = nullptr);

// Compiles the engine's kernels for the target, which takes up to a second.
absl::StatusOr<CudnnPlan> MakeCudnnPlan(CudnnEngine engine, const CudnnTarget& target);
// Compiles `engine` and the others in turn. Returns the plan of the first engine that compiles and needs at most
// `workspace_limit` bytes; the heuristics propose some engines that do not. If there is none, returns the error of the
// last engine.
absl::StatusOr<CudnnPlan> MakeCudnnPlan(CudnnEngine engine, std::vector<CudnnEngine> others, const CudnnTarget& target,
                                        int64_t workspace_limit);

// The data of one tensor when a plan runs: an address in device memory, or for a Number the address on the host.
struct CudnnArgument {
  CudnnGraph::Tensor tensor;
  const void* data;
};

// Enqueues the plan on the handle's stream. All runs of a plan must name the same tensors in the same order. The
// address of a Number must stay valid while the plan is in use.
absl::Status RunCudnnPlan(CudnnPlan& plan, cudnnHandle_t handle, absl::Span<const CudnnArgument> arguments,
                          void* workspace);

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_CUDNN_GRAPH_H_
