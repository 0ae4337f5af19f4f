// CONV2D and its derivatives: run by cuDNN if it supports them, else by the backend's own kernels.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/conv.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

ConvShape ShapeOf(const Call& call, const TensorView& x, const TensorView& y) {
  const StepAttributes& a = call.attributes();
  ConvShape shape;
  shape.places = {a.height(), a.width(), a.kernel_size(), a.stride()};
  shape.inputs = Columns(x);
  shape.outputs = Columns(y);
  shape.out_rows = Rows(y);
  shape.in_double = ComputesInDouble(call.in);
  shape.accumulate = call.step.accumulate();
  return shape;
}

// Returns the library if it supports this convolution, else null. Announces the shape while the program is measured.
absl::StatusOr<FusedConvolution*> LibraryFor(const Call& call, const ConvShape& shape, ConvolutionPart part,
                                             ConvolutionShape& described) {
  FusedConvolution* library = call.resources.libraries.convolution.get();
  const Type type = TypeOf(call.in[0]);
  for (const absl::Span<const TensorView> views : {call.in, call.out}) {
    for (const TensorView& view : views) {
      if (TypeOf(view) != type) return nullptr;
    }
  }
  if (library == nullptr || shape.samples() == 0) return nullptr;
  described.type = type;
  described.samples = shape.samples();
  described.height = shape.places.height;
  described.width = shape.places.width;
  described.channels = shape.inputs;
  described.outputs = shape.outputs;
  described.kernel_size = shape.places.side;
  described.stride = shape.places.stride;
  if (!library->Has(described, part)) return nullptr;
  if (call.measuring) {
    const absl::Status prepared = library->Prepare(described, part);
    if (absl::IsResourceExhausted(prepared)) return prepared;
    // The library proposed a plan that does not compile.
    if (!prepared.ok()) return nullptr;
  }
  return library;
}

}  // namespace

absl::Status Conv2d(const Call& call) {
  ConvForward args;
  args.shape = ShapeOf(call, call.in[0], call.out[0]);
  args.x = ArrayOf(call.in[0]);
  args.weight = ArrayOf(call.in[1]);
  if (call.in.size() == 3) args.bias = ArrayOf(call.in[2]);
  args.y = ArrayOf(call.out[0]);
  ConvolutionShape shape;
  WEFT_ASSIGN_OR_RETURN(FusedConvolution* const library,
                        LibraryFor(call, args.shape, ConvolutionPart::kForward, shape));
  // The library's forward cannot add to the old value of y.
  if (library == nullptr || args.shape.accumulate) return call.Launch(args);
  if (call.measuring) return absl::OkStatus();
  return library->Forward(shape, args.x.data, args.weight.data, args.bias.data, args.y.data, call.stream());
}

absl::Status Conv2dBackward(const Call& call) {
  ConvInput args;
  args.shape = ShapeOf(call, call.out[0], call.in[0]);
  args.dy = ArrayOf(call.in[0]);
  args.weight = ArrayOf(call.in[1]);
  args.dx = ArrayOf(call.out[0]);
  ConvolutionShape shape;
  WEFT_ASSIGN_OR_RETURN(FusedConvolution* const library, LibraryFor(call, args.shape, ConvolutionPart::kInput, shape));
  if (library == nullptr) return call.Launch(args);
  if (call.measuring) return absl::OkStatus();
  return library->Input(shape, args.dy.data, args.weight.data, args.shape.accumulate, args.dx.data, call.stream());
}

absl::Status Conv2dBackwardWeight(const Call& call) {
  ConvWeight args;
  args.shape = ShapeOf(call, call.in[1], call.in[0]);
  args.dy = ArrayOf(call.in[0]);
  args.x = ArrayOf(call.in[1]);
  args.dweight = ArrayOf(call.out[0]);
  ConvolutionShape shape;
  WEFT_ASSIGN_OR_RETURN(FusedConvolution* const library, LibraryFor(call, args.shape, ConvolutionPart::kWeight, shape));
  if (library == nullptr) return call.Launch(args);
  if (call.measuring) return absl::OkStatus();
  return library->Weight(shape, args.dy.data, args.x.data, args.shape.accumulate, args.dweight.data, call.stream());
}

}  // namespace weft::exec::cuda
