#include "executor/testing/two_stages_testing.h"

#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"
#include "tests/parse_text.h"

namespace weft::exec {

absl::Status TinyBackend::Run(const Step& step, absl::Span<const TensorView> inputs,
                              absl::Span<const TensorView> outputs, const StepContext& context) {
  if (before) WEFT_RETURN_IF_ERROR(before(step, context));
  double* y = static_cast<double*>(outputs[0].data);
  const int64_t n = *ElementCount(outputs[0].shape);
  for (int64_t i = 0; i < n; ++i) {
    double value = step.attributes().value() + 1000.0 * context.step + context.global_microbatch;
    if (step.kernel() == ADD) {
      value = static_cast<double*>(inputs[0].data)[i] + static_cast<double*>(inputs[1].data)[i];
    }
    y[i] = step.accumulate() ? y[i] + value : value;
  }
  return absl::OkStatus();
}

Program TwoStages(int replicas) {
  return Parse<Program>(absl::StrCat(R"pb(
                                       name: "two stages"
                                       mesh { axes { name: "data" size:)pb",
                                     replicas, R"pb(}
                                                    axes { name: "pipe" size: 2 } }
    recipe { global_batch_sequences: 4 lr { peak: 0.5 } }
    microbatches: 2
    segments {
      name: "fill" operands { name: "x" bytes: 16 access: WRITE }
      values { operand: 0 dtype: FP64 shape: 2 }
      steps { name: "fill" kernel: FILL outputs: 0 attributes { value: 1 } }
    }
    segments {
      name: "double" operands { name: "x" bytes: 16 access: READ } operands { name: "y" bytes: 16 access: WRITE }
      values { operand: 0 dtype: FP64 shape: 2 } values { operand: 1 dtype: FP64 shape: 2 }
      steps { name: "double" kernel: ADD inputs: 0 inputs: 0 outputs: 1 }
    }
    segments {
      name: "zero" operands { name: "s" bytes: 16 access: WRITE }
      values { operand: 0 dtype: FP64 shape: 2 }
      steps { name: "zero" kernel: ADD inputs: 0 inputs: 0 outputs: 0 }
    }
    segments {
      name: "sum" operands { name: "y" bytes: 16 access: READ } operands { name: "s" bytes: 16 access: READ_WRITE }
      values { operand: 0 dtype: FP64 shape: 2 } values { operand: 1 dtype: FP64 shape: 2 }
      steps { name: "sum" kernel: ADD inputs: 0 inputs: 1 outputs: 1 }
    }
    templates {
      name: "first" pins { axis: "pipe" index: 0 } device_arena_bytes: 1536
      buffers { name: "x0" bytes: 16 offset: 0 }
      buffers { name: "x1" bytes: 16 offset: 256 }
      buffers { name: "y0" bytes: 16 offset: 512 }
      buffers { name: "y1" bytes: 16 offset: 768 }
      buffers { name: "sum" bytes: 16 offset: 1024 dtype: FP64 shape: 2 persistent: true }
      buffers { name: "losses" bytes: 16 offset: 1280 dtype: FP64 shape: 2 persistent: true role: LOSSES }
      body { id: 0 kind: FORWARD name: "F0" segment: 0 operands: 0 deps { action: 2 distance: 1 } }
      body { id: 1 kind: FORWARD name: "F1" segment: 0 operands: 1 microbatch: 1 deps { action: 3 distance: 1 } }
      body { id: 2 kind: SEND name: "S0" peer { at { axis: "pipe" index: 1 } } direction: TOWARDS_LOSS sources: 0
             deps { action: 0 } }
      body { id: 3 kind: SEND name: "S1" peer { at { axis: "pipe" index: 1 } } direction: TOWARDS_LOSS sources: 1
             deps { action: 1 } }
      body { id: 4 kind: RECV name: "R0" peer { at { axis: "pipe" index: 1 } } direction: FROM_LOSS destinations: 2
             deps { action: 6 distance: 1 } }
      body { id: 5 kind: RECV name: "R1" peer { at { axis: "pipe" index: 1 } } direction: FROM_LOSS destinations: 3
             deps { action: 7 distance: 1 } }
      body { id: 6 kind: BACKWARD name: "B0" segment: 1 operands: 2 operands: 4 deps { action: 4 }
             deps { action: 8 distance: 1 } }
      body { id: 7 kind: BACKWARD name: "B1" segment: 3 operands: 3 operands: 4 deps { action: 5 } }
      body { id: 8 kind: ALL_REDUCE name: "AR" group { axes { axis: "data" } } purpose: LOSS_SYNC algorithm: "ring"
             sources: 4 destinations: 5 deps { action: 7 } }
    }
    templates {
      name: "second" pins { axis: "pipe" index: 1 } device_arena_bytes: 1024
      buffers { name: "x0" bytes: 16 offset: 0 }
      buffers { name: "x1" bytes: 16 offset: 256 }
      buffers { name: "y0" bytes: 16 offset: 512 }
      buffers { name: "y1" bytes: 16 offset: 768 }
      body { id: 0 kind: RECV name: "R0" peer { at { axis: "pipe" index: 0 } } direction: TOWARDS_LOSS destinations: 0
             deps { action: 2 distance: 1 } }
      body { id: 1 kind: RECV name: "R1" peer { at { axis: "pipe" index: 0 } } direction: TOWARDS_LOSS destinations: 1
             deps { action: 3 distance: 1 } }
      body { id: 2 kind: FORWARD name: "F0" segment: 1 operands: 0 operands: 2 deps { action: 0 }
             deps { action: 4 distance: 1 } }
      body { id: 3 kind: FORWARD name: "F1" segment: 1 operands: 1 operands: 3 microbatch: 1 deps { action: 1 }
             deps { action: 5 distance: 1 } }
      body { id: 4 kind: SEND name: "S0" peer { at { axis: "pipe" index: 0 } } direction: FROM_LOSS sources: 2
             deps { action: 2 } }
      body { id: 5 kind: SEND name: "S1" peer { at { axis: "pipe" index: 0 } } direction: FROM_LOSS sources: 3
             deps { action: 3 } }
    }
  )pb"));
}

std::unique_ptr<Ranks> RunRanks(const Program& program, int64_t repetitions, const InterpreterOptions& options,
                                const std::function<void(int, TinyBackend&)>& prepare, int slots) {
  auto ranks = std::make_unique<Ranks>();
  const int count = static_cast<int>(MeshRanks(program.mesh()));
  ranks->endpoints = *(*FindTransport("inproc"))->open(count);
  std::vector<Endpoint*> endpoints;
  for (auto& endpoint : ranks->endpoints) endpoints.push_back(endpoint.get());
  InterpreterOptions rank_options = options;
  if (slots > 0) {
    ranks->slots = std::make_unique<ComputeSlots>(slots, endpoints);
    rank_options.slots = ranks->slots.get();
  }
  for (int rank = 0; rank < count; ++rank) {
    const Template& t = program.templates(TemplateOfRank(program, rank));
    ranks->arenas.push_back(*Arena::Allocate(t.device_arena_bytes(), t.host_arena_bytes()));
    if (prepare) {
      prepare(rank, ranks->backends.emplace_back());
    } else {
      ranks->backends.emplace_back();
    }
    auto interpreter = Interpreter::Create(program, ranks->endpoints[rank].get(), &ranks->backends[rank],
                                           ranks->arenas[rank].get(), rank_options);
    EXPECT_TRUE(interpreter.ok()) << interpreter.status();
    ranks->interpreters.push_back(*std::move(interpreter));
  }
  ranks->ran.assign(count, absl::UnknownError("not run"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      absl::Status status = ranks->interpreters[rank]->RunPrologue();
      if (status.ok()) ranks->ran[rank] = ranks->interpreters[rank]->RunBody(10, repetitions);
      if (status.ok()) status = ranks->ran[rank].status();
      if (status.ok()) status = ranks->interpreters[rank]->RunEpilogue();
      if (!status.ok()) ranks->endpoints[rank]->Abort(status);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

double ExpectedLoss(int replicas, int64_t step) {
  double loss = 0;
  for (int d = 0; d < replicas; ++d) {
    const double x0 = 1 + 1000.0 * step + 2 * d, x1 = x0 + 1;
    loss += 2 * (4 * x0 + 2 * x1);
  }
  return loss;
}

}  // namespace weft::exec
