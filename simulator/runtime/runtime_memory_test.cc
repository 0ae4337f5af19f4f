#include "simulator/runtime/runtime_memory.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft::sim {
namespace {

TEST(RuntimeMemory, CountsTheLargestArena) {
  const Program program = Parse<Program>(R"(
    templates { device_arena_bytes: 500 buffers { bytes: 10 persistent: true } }
    templates { device_arena_bytes: 1000 buffers { bytes: 100 persistent: true } buffers { bytes: 512 persistent: true }
                buffers { bytes: 7 } buffers { bytes: 3 persistent: true place: HOST } })");
  EXPECT_EQ(RuntimeBytes(program, {}), 0);
  EXPECT_EQ(RuntimeBytes(program, Parse<Runtime>("memory { reserved_bytes: 9 fragmentation: 0.25 }")), 259);
  EXPECT_EQ(RuntimeBytes(program, Parse<Runtime>("memory { block_bytes: 512 }")), 412);
  EXPECT_EQ(RuntimeBytes({}, Parse<Runtime>("memory { reserved_bytes: 9 }")), 9);
  // None of these bytes is a tensor.
  const Runtime none = Parse<Runtime>("memory { reserved_bytes: 9 fragmentation: 0.25 block_bytes: 512 }");
  EXPECT_EQ(RuntimeTensorBytes(program, none), 0);
}

TEST(RuntimeMemory, CopiesByElement) {
  const Program program = Parse<Program>(R"(
    templates { device_arena_bytes: 1000
                buffers { bytes: 100 persistent: true role: GRAD dtype: BF16 }
                buffers { bytes: 40 persistent: true role: GRAD dtype: FP32 }
                buffers { bytes: 80 persistent: true role: MOMENT1 dtype: FP32 } })");
  EXPECT_EQ(RuntimeBytes(program, Parse<Runtime>("memory { bytes_per_wide_gradient: 2 }")), 20);
  // Fragmentation applies to the additional tensors too.
  const Runtime both = Parse<Runtime>("memory { bytes_per_wide_gradient: 2 fragmentation: 0.5 }");
  EXPECT_EQ(RuntimeBytes(program, both), 530);
  EXPECT_EQ(RuntimeTensorBytes(program, both), 20);
}

TEST(RuntimeMemory, WorkspacesOfKernels) {
  const Program program = Parse<Program>(R"(
    segments { values { shape: 10 shape: 8 } values { shape: 5 shape: 8 } values { shape: 4 }
               steps { kernel: SWIGLU inputs: 1 inputs: 1 } steps { kernel: SWIGLU inputs: 0 }
               steps { kernel: CROSS_ENTROPY inputs: 1 } steps { kernel: CROSS_ENTROPY inputs: 1 }
               steps { kernel: CROSS_ENTROPY_PARTIAL inputs: 2 } }
    templates { device_arena_bytes: 1000 body { segment: 0 operands: 0 } }
    templates { device_arena_bytes: 1100 })");
  const auto bytes = [&](const char* runtime) { return RuntimeBytes(program, Parse<Runtime>(runtime)); };
  // The SWIGLU with the largest input counts, and the loss of all samples together. The second template has neither,
  // and its arena has 100 more bytes.
  EXPECT_EQ(bytes("kernels { kernel: 'SWIGLU' workspace: 2 }"), 2 * 80 - 100);
  EXPECT_EQ(bytes("kernels { kernel: 'CROSS_ENTROPY' workspace: 4 }"), 4 * 84 - 100);
  EXPECT_EQ(bytes("kernels { kernel: 'CROSS_ENTROPY' workspace: -4 }"), 0);
  EXPECT_EQ(bytes("kernels { kernel: 'CROSS_ENTROPY' workspace: 1 }"), 0);
  EXPECT_EQ(bytes("kernels { kernel: 'MATMUL' workspace: 9 }"), 0);
  // Forms of one kernel for several devices count once. A workspace cannot save more than the planned bytes.
  EXPECT_EQ(bytes("kernels { kernel: 'SWIGLU' workspace: 2 } "
                  "kernels { kernel: 'SWIGLU' workspace: 2 from_compute_capability: 90 }"),
            60);
  Program alone = program;
  alone.mutable_templates()->DeleteSubrange(1, 1);
  EXPECT_EQ(RuntimeBytes(alone, Parse<Runtime>("kernels { kernel: 'SWIGLU' workspace: -1000 }")), -1000);
}

// They count even if other workspaces are larger: they need not be at the same moment.
TEST(RuntimeMemory, TilesSaveTheSumOfNegativeWorkspaces) {
  const Program program = Parse<Program>(R"(
    segments { values { shape: 10 shape: 8 } values { shape: 5 shape: 8 }
               steps { kernel: SWIGLU inputs: 0 } steps { kernel: CROSS_ENTROPY inputs: 1 }
               steps { kernel: GELU inputs: 1 } steps { kernel: ADAMW inputs: 0 } }
    templates { device_arena_bytes: 1000 body { segment: 0 operands: 0 } }
    templates { device_arena_bytes: 1100 })");
  const Runtime runtime = Parse<Runtime>(R"(
    kernels { kernel: 'SWIGLU' workspace: -2 } kernels { kernel: 'SWIGLU' workspace: -2 from_compute_capability: 90 }
    kernels { kernel: 'CROSS_ENTROPY' workspace: -0.51 } kernels { kernel: 'GELU' workspace: 100 }
    kernels { kernel: 'ADAMW' workspace: -4 })");
  EXPECT_EQ(TiledBytes(program, program.templates(0), runtime), 2 * 80 + 21);
  EXPECT_EQ(TiledBytes(program, program.templates(1), runtime), 0);
}

TEST(RuntimeMemory, AnOptimizerStepHasAllItsTensorsAtOnce) {
  Program program = Parse<Program>(R"(
    segments { values { shape: 10 } values { shape: 30 }
               steps { kernel: ADAMW inputs: 0 } steps { kernel: ADAMW inputs: 1 } }
    segments { values { shape: 100 } steps { kernel: SWIGLU inputs: 0 } }
    segments { values { shape: 35 } steps { kernel: ADAMW inputs: 0 } }
    templates { device_arena_bytes: 1000 buffers { bytes: 700 persistent: true } buffers { bytes: 9000 }
                buffers { bytes: 50 persistent: true place: HOST }
                body { kind: FORWARD segment: 1 operands: 0 }
                body { kind: OPTIMIZER_STEP segment: 0 operands: 0 }
                body { kind: OPTIMIZER_STEP segment: 2 operands: 0 }
                body { kind: OPTIMIZER_STEP segment: 0 operands: 0 } })");
  const auto bytes = [&](const char* runtime) { return RuntimeBytes(program, Parse<Runtime>(runtime)); };
  // The workspace is for 40 elements and comes on top of 700 persistent bytes. It costs nothing as long as it fits into
  // the rest of the arena. Actions run one after the other.
  EXPECT_EQ(bytes("kernels { kernel: 'ADAMW' workspace: 7 }"), 0);
  EXPECT_EQ(bytes("kernels { kernel: 'ADAMW' workspace: 8 }"), 20);
  EXPECT_EQ(bytes("kernels { kernel: 'SGD_STEP' workspace: 8 }"), 0);
  // The optimizer step and the passes do not need their workspaces at the same time.
  EXPECT_EQ(bytes("kernels { kernel: 'ADAMW' workspace: 24 } kernels { kernel: 'SWIGLU' workspace: 2 }"), 660);
  EXPECT_EQ(bytes("kernels { kernel: 'ADAMW' workspace: 8 } kernels { kernel: 'SWIGLU' workspace: 2 }"), 200);
  EXPECT_EQ(bytes("kernels { kernel: 'ADAMW' workspace: -8 } kernels { kernel: 'SWIGLU' workspace: -2 }"), -200);
  // Where the pipeline never drains, the arena is not free at the optimizer step.
  program.set_steps_per_repetition(2);
  EXPECT_EQ(bytes("kernels { kernel: 'ADAMW' workspace: 8 }"), 320);
  program.set_steps_per_repetition(0);
  // States on the host are fetched to the device one by one: at most 35 elements at a time.
  *program.mutable_templates(0)->add_buffers() = Parse<Buffer>("bytes: 50 persistent: true place: HOST role: MASTER");
  EXPECT_EQ(bytes("kernels { kernel: 'ADAMW' workspace: 8 }"), 0);
  EXPECT_EQ(bytes("kernels { kernel: 'ADAMW' workspace: 9 }"), 15);
}

TEST(RuntimeMemory, WholeLogits) {
  Program program = Parse<Program>(R"(
    mesh { axes { name: "x" size: 4 } }
    segments { values { shape: 10 shape: 8 } steps { kernel: CROSS_ENTROPY_PARTIAL inputs: 0 } }
    templates { device_arena_bytes: 1000 body { segment: 0 operands: 0 } })");
  const auto bytes = [&](const char* memory) {
    return RuntimeBytes(program, Parse<Runtime>(std::string("kernels { kernel: 'CROSS_ENTROPY' workspace: 10 } ") +
                                                "memory {" + memory + "}"));
  };
  EXPECT_EQ(bytes(""), 800);
  // Each of four parts has 14 bytes per element. The program plans 4 bytes per element of one part.
  EXPECT_EQ(bytes("whole_logits: true"), 4 * 14 * 80 - 4 * 80);
  program.mutable_mesh()->mutable_axes(0)->set_size(1);
  EXPECT_EQ(bytes("whole_logits: true"), 800);
}

TEST(RuntimeMemory, CountsEachTemplateWithItsOwnArena) {
  // The template with the smaller arena has the larger tensor.
  const Program program = Parse<Program>(R"(
    segments { values { shape: 10 shape: 8 } steps { kernel: GELU inputs: 0 } }
    templates { device_arena_bytes: 1000 }
    templates { device_arena_bytes: 900 body { segment: 0 operands: 0 } }
    templates { device_arena_bytes: 9223372036854775807 })");
  const auto bytes = BytesOfTemplatesUnder(
      program, Parse<Runtime>("kernels { kernel: 'GELU' workspace: 10 } memory { reserved_bytes: 7 }"));
  EXPECT_EQ(bytes, (std::vector<int64_t>{1007, 900 + 800 + 7, int64_t{1} << 62}));
}

}  // namespace
}  // namespace weft::sim
