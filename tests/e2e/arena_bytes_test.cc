// The executor allocates exactly the bytes that a program plans for its ranks. The test counts allocations through
// posix_memalign with the alignment of arenas.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/util/mesh.h"
#include "tests/e2e/outcome.h"
#include "tests/e2e/tiny_gpt.h"

namespace {

constexpr size_t kPage = 4096;
std::atomic<int64_t> allocated_bytes{0};

}  // namespace

extern "C" int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  if (alignment == kPage) allocated_bytes += static_cast<int64_t>(bytes);
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

namespace weft {
namespace {

// Plans that together use every setting that changes memory.
std::vector<TinyPlan> Plans() {
  std::vector<TinyPlan> plans;
  auto add = [&](const char* mesh, const char* schedule, const char* fields, const char* recompute,
                 const char* half = "") {
    TinyPlan plan;
    plan.mesh = mesh;
    plan.schedule = schedule;
    plan.plan_fields = fields;
    plan.recompute_fields = recompute;
    plan.half = half;
    plan.steps = 2;
    plan.microbatch = 2;
    plan.batch = 16;
    plans.push_back(plan);
  };
  add("pipe1", "1f1b", "", "");
  add("pipe1", "1f1b", "attention: MATERIALIZED dropout_masks: true", "mode: SELECTIVE");
  add("pipe4", "1f1b", "", "");
  add("pipe4", "gpipe", "", "mode: FULL");
  add("pipe2 data2", "1f1b", "", "mode: INTERVAL interval: 2");
  add("pipe4", "zb-h1", "", "");
  add("pipe2", "chimera", "", "");
  add("x2 pipe2", "1f1b", "sequence_parallel: true attention: MATERIALIZED dropout_masks: true", "");
  add("x2 y2 z2", "1f1b", "", "");
  add("data4", "1f1b", "zero { stage: 1 }", "");
  add("data4", "1f1b", "zero { stage: 2 group: 2 }", "");
  add("data4", "1f1b", "zero { stage: 3 }", "");
  add("data2", "1f1b", "", "", "fp16");
  add("pipe2 data2", "1f1b", "offload { optimizer: true bucket_elements: 3000 }", "");
  add("data2", "1f1b", "zero { stage: 1 } offload { optimizer: true bucket_elements: 3000 }", "", "fp16 grads");
  add("pipe2 data2", "gpipe", "zero { stage: 2 } offload { optimizer: true activation_layers: 2 }", "");
  return plans;
}

TEST(ArenaBytesTest, PlannedIsAllocated) {
  for (const TinyPlan& plan : Plans()) {
    const absl::StatusOr<Program> program = CompileTiny(plan);
    ASSERT_TRUE(program.ok()) << plan.Name() << ": " << program.status();
    int64_t planned = 0, highest = 0;
    for (const Template& t : program->templates()) {
      // An arena ends where its highest buffer ends, and buffers begin at multiples of 256 bytes. Optimizer states that
      // are copied from the host share slots. Each slot is as large as the largest copy, so the last one may exceed its
      // buffer.
      int64_t height = 0, host = 0, bucket = 0;
      for (const Buffer& buffer : t.buffers()) {
        int64_t& of_place = buffer.place() == HOST ? host : height;
        of_place = std::max(of_place, buffer.offset() + buffer.bytes());
        if (buffer.class_() == OPTIMIZER && !buffer.persistent()) bucket = std::max(bucket, buffer.bytes());
      }
      EXPECT_GE(t.device_arena_bytes(), height) << plan.Name();
      EXPECT_LT(t.device_arena_bytes(), height + 256 + bucket) << plan.Name();
      EXPECT_GE(t.host_arena_bytes(), host) << plan.Name();
      EXPECT_LT(t.host_arena_bytes(), host + 256) << plan.Name();
      EXPECT_EQ(t.host_arena_bytes() > 0, plan.plan_fields.find("offload") != std::string::npos) << plan.Name();
      highest = std::max(highest, t.device_arena_bytes());
      int64_t pinned = 1;
      for (const Coordinate& pin : t.pins()) pinned *= AxisSize(program->mesh(), pin.axis());
      planned += (t.device_arena_bytes() + t.host_arena_bytes()) * (MeshRanks(program->mesh()) / pinned);
    }
    allocated_bytes = 0;
    const absl::StatusOr<exec::RunResult> result = Train(*program);
    ASSERT_TRUE(result.ok()) << plan.Name() << ": " << result.status();
    EXPECT_EQ(allocated_bytes, planned) << plan.Name();
    EXPECT_EQ(result->report.planned_bytes(), highest) << plan.Name();
  }
}

}  // namespace
}  // namespace weft
