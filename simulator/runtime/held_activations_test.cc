#include "simulator/runtime/held_activations.h"

#include <string>

#include "gtest/gtest.h"
#include "simulator/runtime/runtime_memory.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

// A stage that keeps x and a norm of x, 80 elements of 2 bytes each, for two microbatches. The forward of the second
// microbatch comes before the weight half of the first.
constexpr char kProgram[] = R"(
  segments { name: "f" operands { bytes: 320 access: WRITE } operands { bytes: 160 access: WRITE }
             values { operand: 0 dtype: BF16 shape: 10 shape: 8 }
             values { operand: 0 offset: 160 dtype: BF16 shape: 10 shape: 8 }
             values { operand: 1 dtype: BF16 shape: 10 shape: 8 }
             steps { kernel: RMS_NORM inputs: 0 outputs: 1 } steps { kernel: RMS_NORM inputs: 0 outputs: 2 } }
  segments { name: "b" operands { bytes: 320 access: READ } }
  segments { name: "w" operands { bytes: 320 access: READ }
             values { operand: 0 offset: 160 dtype: BF16 shape: 10 shape: 8 }
             steps { kernel: MATMUL inputs: 0 inputs: 0 } steps { kernel: MATMUL inputs: 0 } }
  templates {
    device_arena_bytes: 10000
    buffers { class: SAVED_ACTIVATION bytes: 320 place: DEVICE } buffers { class: WORKSPACE bytes: 160 place: DEVICE }
    buffers { class: SAVED_ACTIVATION bytes: 320 place: DEVICE } buffers { class: WORKSPACE bytes: 160 place: DEVICE }
    body { kind: FORWARD segment: 0 operands: [0, 1] releases: 1 }
    body { kind: BACKWARD_INPUT segment: 1 operands: 0 }
    body { kind: FORWARD segment: 0 operands: [2, 3] releases: 3 }
    body { kind: BACKWARD_INPUT segment: 1 operands: 2 }
    body { kind: BACKWARD_WEIGHT segment: 2 operands: 0 releases: 0 }
    body { kind: BACKWARD_WEIGHT segment: 2 operands: 2 releases: 2 }
  })";

double Beside(const std::string& runtime, const std::string& program = kProgram) {
  const Program made = Parse<Program>(program);
  return HeldBeside(HeldPeaksOf(made, made.templates(0), Parse<Runtime>(runtime)));
}

TEST(HeldActivations, CountsAdditionalBytesOfKernels) {
  EXPECT_EQ(Beside(""), 0);
  // Only the step whose result is kept counts, in both microbatches.
  EXPECT_EQ(Beside("kernels { kernel: 'RMS_NORM' saved: 4 }"), 2 * 4 * 80);
  EXPECT_EQ(Beside("kernels { kernel: 'SWIGLU' saved: 4 }"), 0);
  // A form for other devices does not count the kernel twice.
  EXPECT_EQ(Beside("kernels { kernel: 'RMS_NORM' saved: 4 } "
                   "kernels { kernel: 'RMS_NORM' saved: 4 from_compute_capability: 90 }"),
            2 * 4 * 80);
}

TEST(HeldActivations, FreesTensorsThatTheWeightHalfDoesNotRead) {
  // At the second forward, 160 of the first microbatch's 320 bytes are left.
  EXPECT_EQ(Beside("memory { frees_between_halves: true }"), -160);
  // The weight half does not read the additional bytes either.
  EXPECT_EQ(Beside("kernels { kernel: 'RMS_NORM' saved: 4 } memory { frees_between_halves: true }"), 320 - 160);
}

TEST(HeldActivations, WholeBackwardsGiveUpNothingEarly) {
  std::string program = kProgram;
  for (size_t at; (at = program.find("BACKWARD_INPUT")) != std::string::npos;) program.replace(at, 14, "BACKWARD");
  for (size_t at; (at = program.find("BACKWARD_WEIGHT")) != std::string::npos;) program.replace(at, 15, "BACKWARD");
  EXPECT_EQ(Beside("memory { frees_between_halves: true }", program), 0);
}

// The program has its peak at the optimizer step, with a part of the gradients and a part of the parameters. A
// framework without such parts has its peak at the backward.
TEST(HeldActivations, PartsInPlace) {
  constexpr char kParts[] = R"(
    segments { operands { access: WRITE } } segments { operands { access: READ } operands { access: WRITE } }
    templates {
      buffers { class: SAVED_ACTIVATION bytes: 100 place: DEVICE }
      buffers { class: GRADIENT bytes: 400 persistent: true }
      buffers { class: COMMUNICATION bytes: 90 place: DEVICE } buffers { class: COMMUNICATION bytes: 45 place: DEVICE }
      body { kind: FORWARD segment: 0 operands: 0 } body { kind: BACKWARD releases: 0 }
      body { kind: REDUCE_SCATTER sources: 1 destinations: 2 }
      body { kind: OPTIMIZER_STEP segment: 1 operands: [2, 3] releases: 2 }
      body { kind: ALL_GATHER sources: 3 releases: 3 }
    })";
  EXPECT_EQ(Beside("memory { parts_in_place: true }", kParts), 100 - 135);
  EXPECT_EQ(Beside("memory { parts_in_place: true }"), 0);
}

TEST(HeldActivations, CountForTheFit) {
  const Program program = Parse<Program>(kProgram);
  EXPECT_EQ(RuntimeBytes(program, Parse<Runtime>("memory { frees_between_halves: true }")), -160);
}

TEST(HeldActivations, ProgramsThatAreNotProvenYet) {
  EXPECT_EQ(Beside("kernels { kernel: 'RMS_NORM' saved: 4 } memory { frees_between_halves: true }",
                   R"(segments { operands { access: WRITE } steps { kernel: RMS_NORM inputs: 9 outputs: 9 } }
                      templates { buffers { class: SAVED_ACTIVATION bytes: 5 place: DEVICE }
                                  body { kind: FORWARD segment: 0 operands: [0, 7] releases: 9 }
                                  body { kind: BACKWARD_WEIGHT segment: 4 operands: 0 } })"),
            0);
}

}  // namespace
}  // namespace weft::sim
