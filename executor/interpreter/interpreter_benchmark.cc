// Measures what the interpreter costs beyond the kernels: the same tiny FILL steps are called directly and run as a
// program.
#include <memory>
#include <vector>

#include "benchmark/benchmark.h"
#include "executor/interpreter/interpreter.h"

namespace weft::exec {
namespace {

constexpr int kActions = 20;
constexpr int kSteps = 50;

// One rank; every repetition runs kActions * kSteps steps. Each action depends on the previous one.
Program FillProgram() {
  Program program;
  program.set_microbatches(1);
  MeshAxis* axis = program.mutable_mesh()->add_axes();
  axis->set_name("pipe");
  axis->set_size(1);
  Segment* segment = program.add_segments();
  segment->set_name("fill");
  Operand* operand = segment->add_operands();
  operand->set_bytes(64);
  operand->set_access(WRITE);
  Value* value = segment->add_values();
  value->set_dtype(FP32);
  value->add_shape(8);
  for (int i = 0; i < kSteps; ++i) {
    Step* step = segment->add_steps();
    step->set_name("fill");
    step->set_kernel(FILL);
    step->add_outputs(0);
    step->mutable_attributes()->set_value(i);
    if (i > 0) step->add_deps(i - 1);
  }
  Template* t = program.add_templates();
  t->set_device_arena_bytes(256);
  Buffer* buffer = t->add_buffers();
  buffer->set_bytes(64);
  buffer->set_persistent(true);
  for (int i = 0; i < kActions; ++i) {
    Action* action = t->add_body();
    action->set_id(i);
    action->set_kind(FORWARD);
    action->add_operands(0);
    if (i > 0) action->add_deps()->set_action(i - 1);
  }
  return program;
}

void BM_KernelsAlone(benchmark::State& state) {
  const Program program = FillProgram();
  const auto backend = MakeCpuBackend(1);
  alignas(64) float data[16] = {};
  const int64_t shape[] = {8};
  const std::vector<TensorView> outputs = {{data, FP32, shape}};
  const StepContext context;
  for (auto _ : state) {
    for (int action = 0; action < kActions; ++action) {
      for (const Step& step : program.segments(0).steps()) {
        if (!backend->Run(step, {}, outputs, context).ok()) state.SkipWithError("kernel failed");
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * kActions * kSteps);
}
BENCHMARK(BM_KernelsAlone);

// Items are steps. The overhead per step is the difference between the inverses of the two items/s figures.
void BM_Interpreter(benchmark::State& state) {
  const Program program = FillProgram();
  const auto endpoints = *(*FindTransport("inproc"))->open(1);
  const auto backend = MakeCpuBackend(1);
  const auto arena = *Arena::Allocate(256, 0);
  InterpreterOptions options;
  options.trace_repetitions = state.range(0);
  const auto interpreter = *Interpreter::Create(program, endpoints[0].get(), backend.get(), arena.get(), options);
  int64_t step = 0;
  for (auto _ : state) {
    if (!interpreter->RunBody(step, 10).ok()) state.SkipWithError("run failed");
    step += 10;
  }
  state.SetItemsProcessed(state.iterations() * 10 * kActions * kSteps);
}
BENCHMARK(BM_Interpreter)->Arg(0)->Arg(50)->ArgName("traced_repetitions");

}  // namespace
}  // namespace weft::exec
