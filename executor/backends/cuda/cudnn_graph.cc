#include "executor/backends/cuda/cudnn_graph.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

// CUDNN_ATTR_OPERATIONGRAPH_HANDLE and CUDNN_ATTR_EXECUTION_PLAN_HANDLE. They are deprecated, but they still set the
// device. Using the names would cause compiler warnings.
constexpr auto kGraphHandle = static_cast<cudnnBackendAttributeName_t>(800);
constexpr auto kPlanHandle = static_cast<cudnnBackendAttributeName_t>(400);

// Reads an attribute of a descriptor into `value`. The attribute must be a single number.
template <typename T>
absl::Status Get(const CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                 T* value) {
  int64_t count = 0;
  return descriptor.cudnn()->Error(
      absl::StrCat("reading attribute ", static_cast<int>(name), " of ", descriptor.what()),
      descriptor.cudnn()->BackendGetAttribute(descriptor.get(), name, type, 1, &count, value));
}

// Returns cuDNN's numerical notes on the engine of a configuration. Bit n is cudnnBackendNumericalNote_t n.
absl::StatusOr<uint32_t> NotesOf(const CudnnDescriptor& config) {
  const Cudnn* cudnn = config.cudnn();
  WEFT_ASSIGN_OR_RETURN(CudnnDescriptor engine,
                        CudnnDescriptor::Make(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine"));
  cudnnBackendDescriptor_t raw = engine.get();
  int64_t count = 0;
  WEFT_RETURN_IF_ERROR(cudnn->Error("reading the engine of a configuration",
                                    cudnn->BackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                                               CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &raw)));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  WEFT_RETURN_IF_ERROR(
      cudnn->Error("reading the numerical notes of an engine",
                   cudnn->BackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                              CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes)));
  uint32_t bits = 0;
  for (int64_t i = 0; i < count; ++i) bits |= uint32_t{1} << notes[i];
  return bits;
}

}  // namespace

CudnnGraph::Tensor CudnnGraph::Add(absl::string_view name, cudnnDataType_t type, const CudnnShape& shape,
                                   int64_t alignment, bool is_virtual, bool by_value) {
  const Tensor id = static_cast<Tensor>(tensors_.size()) + 1;
  const auto make = [&]() -> absl::StatusOr<CudnnDescriptor> {
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor tensor,
                          CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_TENSOR_DESCRIPTOR,
                                                absl::StrCat("tensor '", name, "' of the graph ", name_)));
    WEFT_RETURN_IF_ERROR(tensor.SetDataType(CUDNN_ATTR_TENSOR_DATA_TYPE, type));
    WEFT_RETURN_IF_ERROR(tensor.SetInts(CUDNN_ATTR_TENSOR_DIMENSIONS, shape.extents));
    WEFT_RETURN_IF_ERROR(tensor.SetInts(CUDNN_ATTR_TENSOR_STRIDES, shape.strides));
    WEFT_RETURN_IF_ERROR(tensor.SetInt(CUDNN_ATTR_TENSOR_UNIQUE_ID, id));
    WEFT_RETURN_IF_ERROR(tensor.SetInt(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment));
    WEFT_RETURN_IF_ERROR(tensor.SetBool(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual));
    if (by_value) WEFT_RETURN_IF_ERROR(tensor.SetBool(CUDNN_ATTR_TENSOR_IS_BY_VALUE, true));
    WEFT_RETURN_IF_ERROR(tensor.Finalise());
    return tensor;
  };
  absl::StatusOr<CudnnDescriptor> tensor = make();
  status_.Update(tensor.status());
  tensors_.push_back(tensor.ok() ? *std::move(tensor) : CudnnDescriptor());
  return id;
}

CudnnGraph::Tensor CudnnGraph::InMemory(absl::string_view name, cudnnDataType_t type, const CudnnShape& shape,
                                        int64_t alignment) {
  return Add(name, type, shape, alignment, /*is_virtual=*/false, /*by_value=*/false);
}

CudnnGraph::Tensor CudnnGraph::Virtual(absl::string_view name, cudnnDataType_t type, const CudnnShape& shape) {
  return Add(name, type, shape, /*alignment=*/16, /*is_virtual=*/true, /*by_value=*/false);
}

CudnnGraph::Tensor CudnnGraph::Number(absl::string_view name, cudnnDataType_t type) {
  return Add(name, type, CudnnShape::Dense(1, 1, 1, 1), /*alignment=*/16, /*is_virtual=*/false, /*by_value=*/true);
}

void CudnnGraph::Keep(absl::StatusOr<CudnnDescriptor> operation) {
  status_.Update(operation.status());
  if (operation.ok()) operations_.push_back(*std::move(operation));
}

void CudnnGraph::Matmul(Tensor a, Tensor b, Tensor c) {
  const auto make = [&]() -> absl::StatusOr<CudnnDescriptor> {
    const std::string what = absl::StrCat("a matrix product of the graph ", name_);
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor kind, CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_MATMUL_DESCRIPTOR, what));
    WEFT_RETURN_IF_ERROR(kind.SetDataType(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT));
    WEFT_RETURN_IF_ERROR(kind.Finalise());
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor made,
                          CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, what));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_ADESC, Of(a)));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_BDESC, Of(b)));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_CDESC, Of(c)));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind));
    WEFT_RETURN_IF_ERROR(made.Finalise());
    parts_.push_back(std::move(kind));
    return made;
  };
  if (status_.ok()) Keep(make());
}

absl::StatusOr<CudnnDescriptor> CudnnGraph::MakePointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute,
                                                          int64_t axis, const Tensor* x, const Tensor* b,
                                                          const Tensor* select, Tensor y) {
  const std::string what = absl::StrCat("an elementwise operation of the graph ", name_);
  WEFT_ASSIGN_OR_RETURN(CudnnDescriptor kind, CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, what));
  WEFT_RETURN_IF_ERROR(kind.Set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode));
  WEFT_RETURN_IF_ERROR(kind.SetDataType(CUDNN_ATTR_POINTWISE_MATH_PREC, compute));
  if (mode == CUDNN_POINTWISE_GEN_INDEX) WEFT_RETURN_IF_ERROR(kind.SetInt(CUDNN_ATTR_POINTWISE_AXIS, axis));
  WEFT_RETURN_IF_ERROR(kind.Finalise());
  WEFT_ASSIGN_OR_RETURN(CudnnDescriptor made,
                        CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, what));
  WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind));
  WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, Of(*x)));
  WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, Of(y)));
  if (b != nullptr) WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, Of(*b)));
  if (select != nullptr) WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, Of(*select)));
  WEFT_RETURN_IF_ERROR(made.Finalise());
  parts_.push_back(std::move(kind));
  return made;
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, Tensor x, Tensor y) {
  if (status_.ok()) Keep(MakePointwise(mode, compute, 0, &x, nullptr, nullptr, y));
}

void CudnnGraph::Pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t compute, Tensor x, Tensor b, Tensor y) {
  if (status_.ok()) Keep(MakePointwise(mode, compute, 0, &x, &b, nullptr, y));
}

void CudnnGraph::Select(Tensor x, Tensor b, Tensor select, Tensor y) {
  if (status_.ok()) Keep(MakePointwise(CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, 0, &x, &b, &select, y));
}

void CudnnGraph::Index(int64_t axis, Tensor x, Tensor y) {
  if (status_.ok()) Keep(MakePointwise(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_INT32, axis, &x, nullptr, nullptr, y));
}

void CudnnGraph::Reduce(cudnnReduceTensorOp_t mode, Tensor x, Tensor y) {
  const auto make = [&]() -> absl::StatusOr<CudnnDescriptor> {
    const std::string what = absl::StrCat("a reduction of the graph ", name_);
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor kind,
                          CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, what));
    WEFT_RETURN_IF_ERROR(kind.Set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode));
    WEFT_RETURN_IF_ERROR(kind.SetDataType(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT));
    WEFT_RETURN_IF_ERROR(kind.Finalise());
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor made,
                          CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, what));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, Of(x)));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, Of(y)));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind));
    WEFT_RETURN_IF_ERROR(made.Finalise());
    parts_.push_back(std::move(kind));
    return made;
  };
  if (status_.ok()) Keep(make());
}

void CudnnGraph::Reshape(Tensor x, Tensor y) {
  const auto make = [&]() -> absl::StatusOr<CudnnDescriptor> {
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor made,
                          CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
                                                absl::StrCat("a reshape of the graph ", name_)));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, Of(x)));
    WEFT_RETURN_IF_ERROR(made.SetDescriptor(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, Of(y)));
    WEFT_RETURN_IF_ERROR(made.Finalise());
    return made;
  };
  if (status_.ok()) Keep(make());
}

absl::StatusOr<CudnnDescriptor> CudnnGraph::MakeConvolve(ConvolutionKind kind, const Convolution& convolution, Tensor x,
                                                         Tensor w, Tensor y, float beta) {
  // The three operations have the same attributes under different names.
  struct Names {
    cudnnBackendDescriptorType_t operation;
    cudnnBackendAttributeName_t alpha, beta, convolution, x, w, y;
  };
  constexpr Names kNames[] = {
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
      {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
       CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
  };
  const Names& names = kNames[static_cast<int>(kind)];
  const std::string what = absl::StrCat("the convolution of the graph ", name_);
  WEFT_ASSIGN_OR_RETURN(CudnnDescriptor form,
                        CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, what));
  // In machine learning, a convolution does not flip the filter. cuDNN calls that a cross-correlation.
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  WEFT_RETURN_IF_ERROR(form.SetDataType(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT));
  WEFT_RETURN_IF_ERROR(form.Set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode));
  WEFT_RETURN_IF_ERROR(form.SetInt(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 2));
  const int64_t padding[] = {convolution.padding, convolution.padding};
  const int64_t stride[] = {convolution.stride, convolution.stride};
  const int64_t dilation[] = {1, 1};
  WEFT_RETURN_IF_ERROR(form.SetInts(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, padding));
  WEFT_RETURN_IF_ERROR(form.SetInts(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, padding));
  WEFT_RETURN_IF_ERROR(form.SetInts(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, stride));
  WEFT_RETURN_IF_ERROR(form.SetInts(CUDNN_ATTR_CONVOLUTION_DILATIONS, dilation));
  WEFT_RETURN_IF_ERROR(form.Finalise());
  WEFT_ASSIGN_OR_RETURN(CudnnDescriptor made, CudnnDescriptor::Make(cudnn_, names.operation, what));
  const float alpha = 1;
  WEFT_RETURN_IF_ERROR(made.SetDescriptor(names.convolution, form));
  WEFT_RETURN_IF_ERROR(made.SetDescriptor(names.x, Of(x)));
  WEFT_RETURN_IF_ERROR(made.SetDescriptor(names.w, Of(w)));
  WEFT_RETURN_IF_ERROR(made.SetDescriptor(names.y, Of(y)));
  WEFT_RETURN_IF_ERROR(made.Set(names.alpha, CUDNN_TYPE_FLOAT, 1, &alpha));
  WEFT_RETURN_IF_ERROR(made.Set(names.beta, CUDNN_TYPE_FLOAT, 1, &beta));
  WEFT_RETURN_IF_ERROR(made.Finalise());
  parts_.push_back(std::move(form));
  return made;
}

void CudnnGraph::Convolve(ConvolutionKind kind, const Convolution& convolution, Tensor x, Tensor w, Tensor y,
                          float beta) {
  if (status_.ok()) Keep(MakeConvolve(kind, convolution, x, w, y, beta));
}

absl::Status CudnnGraph::Finish(const CudnnTarget& target) {
  WEFT_RETURN_IF_ERROR(status_);
  WEFT_ASSIGN_OR_RETURN(graph_, CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR,
                                                      absl::StrCat("the graph ", name_)));
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const CudnnDescriptor& operation : operations_) operations.push_back(operation.get());
  WEFT_RETURN_IF_ERROR(graph_.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                  static_cast<int64_t>(operations.size()), operations.data()));
  if (target.handle != nullptr) {
    WEFT_RETURN_IF_ERROR(graph_.Set(kGraphHandle, CUDNN_TYPE_HANDLE, 1, &target.handle));
  }
  return graph_.Finalise();
}

absl::StatusOr<std::vector<CudnnEngine>> CudnnGraph::Engines(const CudnnTarget& target) const {
  std::vector<CudnnEngine> engines;
  std::string refused;
  // First asks for the engines that suit the device best. If there are none, asks for any engines that run.
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor heuristics,
                          CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR,
                                                absl::StrCat("the heuristics for the graph ", name_)));
    WEFT_RETURN_IF_ERROR(heuristics.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_));
    WEFT_RETURN_IF_ERROR(heuristics.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
    if (target.device != nullptr) {
      WEFT_RETURN_IF_ERROR(heuristics.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device));
    }
    if (const absl::Status finalised = heuristics.Finalise(); !finalised.ok()) {
      refused = std::string(finalised.message());
      continue;
    }
    int64_t count = 0;
    WEFT_RETURN_IF_ERROR(cudnn_->Error("counting engines",
                                       cudnn_->BackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr)));
    std::vector<CudnnDescriptor> configs;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (int64_t i = 0; i < count; ++i) {
      WEFT_ASSIGN_OR_RETURN(CudnnDescriptor config,
                            CudnnDescriptor::Make(cudnn_, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                                  absl::StrCat("an engine configuration for the graph ", name_)));
      raw.push_back(config.get());
      configs.push_back(std::move(config));
    }
    int64_t filled = 0;
    WEFT_RETURN_IF_ERROR(cudnn_->Error(
        "reading engines", cudnn_->BackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &filled, raw.data())));
    for (int64_t i = 0; i < filled; ++i) {
      CudnnEngine engine;
      engine.config = std::move(configs[i]);
      int32_t shared = 0;
      WEFT_RETURN_IF_ERROR(
          Get(engine.config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &engine.workspace_bytes));
      // Engines whose kernels are not compiled at run time do not report their shared memory.
      const absl::Status status =
          Get(engine.config, CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, CUDNN_TYPE_INT32, &shared);
      if (status.ok()) engine.shared_memory_bytes = shared;
      WEFT_ASSIGN_OR_RETURN(engine.notes, NotesOf(engine.config));
      engines.push_back(std::move(engine));
    }
    if (!engines.empty()) return engines;
  }
  return absl::UnimplementedError(
      absl::StrCat("cuDNN has no engine for the graph ", name_, refused.empty() ? "" : ": ", refused));
}

absl::StatusOr<CudnnEngine> ChooseCudnnEngine(std::vector<CudnnEngine> engines, int64_t workspace_limit,
                                              uint32_t refused, std::vector<CudnnEngine>* others) {
  std::optional<CudnnEngine> best;
  int64_t least = -1;
  for (CudnnEngine& engine : engines) {
    if (!engine.deterministic() || (engine.notes & refused) != 0) continue;
    if (engine.workspace_bytes <= workspace_limit) {
      if (!best.has_value()) {
        best = std::move(engine);
      } else if (others != nullptr) {
        others->push_back(std::move(engine));
      }
      continue;
    }
    if (least < 0 || engine.workspace_bytes < least) least = engine.workspace_bytes;
  }
  if (best.has_value()) return *std::move(best);
  const std::string reason =
      least < 0 ? std::string("") : absl::StrCat(": the smallest workspace that one needs is ", least);
  return absl::UnimplementedError(absl::StrCat("none of cuDNN's ", engines.size(),
                                               " engines is deterministic, of the precision asked for, and within ",
                                               workspace_limit, " bytes of workspace", reason));
}

absl::StatusOr<CudnnPlan> MakeCudnnPlan(CudnnEngine engine, const CudnnTarget& target) {
  CudnnPlan made;
  made.config = std::move(engine.config);
  WEFT_ASSIGN_OR_RETURN(made.plan, CudnnDescriptor::Make(made.config.cudnn(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR,
                                                         absl::StrCat("a plan of ", made.config.what())));
  WEFT_RETURN_IF_ERROR(made.plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, made.config));
  if (target.handle != nullptr) {
    WEFT_RETURN_IF_ERROR(made.plan.Set(kPlanHandle, CUDNN_TYPE_HANDLE, 1, &target.handle));
  } else {
    WEFT_RETURN_IF_ERROR(made.plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device));
  }
  WEFT_RETURN_IF_ERROR(made.plan.Finalise());
  WEFT_RETURN_IF_ERROR(
      Get(made.plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, &made.workspace_bytes));
  return made;
}

absl::StatusOr<CudnnPlan> MakeCudnnPlan(CudnnEngine engine, std::vector<CudnnEngine> others, const CudnnTarget& target,
                                        int64_t workspace_limit) {
  others.insert(others.begin(), std::move(engine));
  absl::Status refused;
  for (CudnnEngine& each : others) {
    absl::StatusOr<CudnnPlan> plan = MakeCudnnPlan(std::move(each), target);
    if (plan.ok() && plan->workspace_bytes <= workspace_limit) return plan;
    refused = plan.ok() ? absl::UnimplementedError(absl::StrCat(plan->plan.what(), " needs ", plan->workspace_bytes,
                                                                " bytes of workspace; the limit is ", workspace_limit))
                        : plan.status();
  }
  return refused;
}

absl::Status RunCudnnPlan(CudnnPlan& plan, cudnnHandle_t handle, absl::Span<const CudnnArgument> arguments,
                          void* workspace) {
  // Maximum number of packs (sets of addresses) to keep. No program has that many microbatches in flight.
  constexpr size_t kMaxPacks = 4096;
  const Cudnn* cudnn = plan.plan.cudnn();
  std::vector<const void*> data;
  data.reserve(arguments.size() + 1);
  for (const CudnnArgument& argument : arguments) data.push_back(argument.data);
  data.push_back(workspace);
  auto found = plan.packs.find(data);
  if (found == plan.packs.end()) {
    if (plan.packs.size() >= kMaxPacks) plan.packs.clear();
    std::vector<int64_t> ids;
    for (const CudnnArgument& argument : arguments) ids.push_back(argument.tensor);
    const int64_t count = static_cast<int64_t>(ids.size());
    WEFT_ASSIGN_OR_RETURN(CudnnDescriptor pack, CudnnDescriptor::Make(cudnn, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
                                                                      absl::StrCat("the data of ", plan.plan.what())));
    WEFT_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data()));
    WEFT_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, data.data()));
    WEFT_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
    WEFT_RETURN_IF_ERROR(pack.Finalise());
    found = plan.packs.emplace(std::move(data), std::move(pack)).first;
  }
  const cudnnStatus_t status = cudnn->BackendExecute(handle, plan.plan.get(), found->second.get());
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return cudnn->Error(absl::StrCat("running ", plan.plan.what()), status);
}

}  // namespace weft::exec::cuda
