// Defines the loops of one instruction set. BUILD compiles this file once per set, with its own flags and
// WEFT_CPU_TABLE.
#include "executor/backends/cpu/cpu_loops.h"
#include "executor/backends/cpu/cpu_loops_gemm.h"
#include "executor/backends/cpu/cpu_loops_math.h"
#include "executor/backends/cpu/cpu_loops_transformer.h"
#include "executor/backends/cpu/cpu_pointwise.h"

namespace weft::exec::cpu {
namespace {

template <typename T>
constexpr Loops<T> MakeLoops() {
  return {
      .panel_width = kPanel<T>,
      .load = Load<T>,
      .store = Store<T>,
      .pack = Pack<T>,
      .multiply = Multiply<T>,
      .add = Add<T>,
      .accumulate = Accumulate<T>,
      .scale = Scale<T>,
      .accumulate_normalized = AccumulateNormalized<T>,
      .pointwise =
          {
#define POINTWISE(op, inputs, outputs, kernel, when) PointwiseLoop<T, PointwiseOp::op, inputs, outputs>,
#include "kernels/pointwise.def"
#undef POINTWISE
          },
      .layer_norm = LayerNorm<T>,
      .layer_norm_backward = LayerNormBackward<T>,
      .rms_norm = RmsNorm<T>,
      .rms_norm_backward = RmsNormBackward<T>,
      .rotate = Rotate<T>,
      .log_sum_exp = LogSumExp<T>,
      .exp = ExpLoop<T>,
      .softmax = Softmax<T>,
      .softmax_backward = SoftmaxBackward<T>,
      .dot = Dot<T>,
      .mask = Mask<T>,
      .squared_norm = SquaredNorm<T>,
      .adamw = AdamW<T>,
      .sgd = Sgd<T>,
  };
}

}  // namespace

extern const LoopTable WEFT_CPU_TABLE;
const LoopTable WEFT_CPU_TABLE = {WEFT_CPU_NAME, MakeLoops<float>(), MakeLoops<double>(), Philox, StoreAtRandom};

}  // namespace weft::exec::cpu
