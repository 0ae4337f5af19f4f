#include "simulator/runtime/runtime_memory.h"

#include "gtest/gtest.h"
#include "proto/io.h"

namespace weft {
namespace {

template <typename T>
T Read(const std::string& text) {
  T message;
  const absl::Status read = ParseMessage(text, "test", &message);
  EXPECT_TRUE(read.ok()) << read;
  return message;
}

TEST(RuntimeMemory, CountsTheLargestArena) {
  const Program program = Read<Program>(R"(
    templates { device_arena_bytes: 500 buffers { bytes: 10 persistent: true } }
    templates { device_arena_bytes: 1000 buffers { bytes: 100 persistent: true } buffers { bytes: 512 persistent: true }
                buffers { bytes: 7 } buffers { bytes: 3 persistent: true place: HOST } })");
  EXPECT_EQ(RuntimeBytes(program, {}), 0);
  EXPECT_EQ(RuntimeBytes(program, Read<Runtime>("memory { reserved_bytes: 9 fragmentation: 0.25 }")), 259);
  EXPECT_EQ(RuntimeBytes(program, Read<Runtime>("memory { block_bytes: 512 }")), 412);
  EXPECT_EQ(RuntimeBytes({}, Read<Runtime>("memory { reserved_bytes: 9 }")), 9);
}

TEST(RuntimeMemory, DecidesAboutTheFit) {
  const Program program = Read<Program>("templates { device_arena_bytes: 1000 }");
  SimulationReport report;
  report.set_planned_bytes(1000);
  report.set_device_bytes(1100);
  report.set_capacity_bytes(1200);
  report.set_fits(true);
  AddRuntimeBytes(program, Read<Runtime>("memory { reserved_bytes: 100 }"), &report);
  EXPECT_EQ(report.device_bytes(), 1200);
  EXPECT_TRUE(report.fits());
  AddRuntimeBytes(program, Read<Runtime>("memory { reserved_bytes: 1 }"), &report);
  EXPECT_FALSE(report.fits());
  EXPECT_EQ(report.planned_bytes(), 1000);
}

}  // namespace
}  // namespace weft
