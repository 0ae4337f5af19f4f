// Tests verdicts and messages for programs that fit and programs that do not, exact to the byte.
#include "compiler/memory_fit.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/parse_text.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Two templates of a pipeline; the second is the fuller one.
Program TwoStages() {
  return Parse<Program>(R"(
    mesh { axes { name: "pipe" size: 2 } }
    templates { name: "pipe0" pins { axis: "pipe" index: 0 } device_arena_bytes: 4096 }
    templates {
      name: "pipe1" pins { axis: "pipe" index: 1 } device_arena_bytes: 8192
      buffers { name: "weights" class: PARAMETER bytes: 2048 place: DEVICE persistent: true }
      buffers { name: "saved" class: SAVED_ACTIVATION bytes: 3072 place: DEVICE }
      buffers { name: "work" class: WORKSPACE bytes: 1024 place: DEVICE }
      buffers { name: "late work" class: WORKSPACE bytes: 512 place: DEVICE }
      buffers { name: "twin" class: SAVED_ACTIVATION bytes: 3072 place: DEVICE }
      buffers { name: "far" class: SAVED_ACTIVATION bytes: 90000 place: HOST }
      body { id: 0 operands: 0 operands: 1 operands: 2 releases: 2 }
      body { id: 1 operands: 1 operands: 3 releases: 1 releases: 3 }
      body { id: 2 operands: 4 operands: 5 releases: 4 releases: 5 }
    })");
}

Cluster OneNode(int64_t memory, int64_t reserved, int64_t host_memory = 0) {
  return Parse<Cluster>(absl::StrCat("name: 'c' nodes: 1 devices_per_node: 4 host_memory_bytes: ", host_memory,
                                     " device { name: 'gpu' memory_bytes: ", memory, " reserved_bytes: ", reserved,
                                     " }"));
}

TEST(MemoryFit, TheLastByteDecides) {
  const Program program = TwoStages();
  EXPECT_TRUE(CheckMemoryFit(program, OneNode(8192 + 100, 100)).ok());
  EXPECT_TRUE(DeviceMemoryFits(program, OneNode(8192 + 100, 100)));
  EXPECT_EQ(CheckMemoryFit(program, OneNode(8191 + 100, 100)).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(DeviceMemoryFits(program, OneNode(8191 + 100, 100)));
}

TEST(MemoryFit, CountsBytesWithoutSavedActivations) {
  Program program = TwoStages();
  EXPECT_EQ(BytesWithoutSaved(program), 2048);
  // These buffers are not all live at once. The fullest moment without saved activations is not the fullest with them.
  Template& t = *program.mutable_templates(0);
  for (const auto& [c, bytes] : {std::pair(SAVED_ACTIVATION, 9000),
                                 {IN_FLIGHT_ACTIVATION, 1500},
                                 {SAVED_GRADIENT, 400},
                                 {IN_FLIGHT_ACTIVATION, 2500}}) {
    t.add_buffers()->set_class_(c);
    t.mutable_buffers(t.buffers_size() - 1)->set_bytes(bytes);
    t.mutable_buffers(t.buffers_size() - 1)->set_place(DEVICE);
  }
  for (const auto& [first, last] : {std::pair(0, 1), {2, 3}}) {
    Action& action = *t.add_body();
    for (const int buffer : {first, last}) {
      action.add_operands(buffer);
      action.add_releases(buffer);
    }
  }
  EXPECT_EQ(BytesWithoutSaved(program), 2900);
  EXPECT_EQ(BytesWithoutSaved(Program()), 0);
}

TEST(MemoryFit, MemoryThatIsNotStatedIsEnough) {
  EXPECT_TRUE(CheckMemoryFit(TwoStages(), OneNode(0, 0)).ok());
  EXPECT_TRUE(DeviceMemoryFits(TwoStages(), OneNode(0, kMax)));
  EXPECT_TRUE(CheckMemoryFit(Program(), OneNode(1, 0)).ok());
}

TEST(MemoryFit, TheTextSaysWhoHowMuchAndWhatIsLargest) {
  const std::string text(CheckMemoryFit(TwoStages(), OneNode(8000, 96)).message());
  EXPECT_THAT(text, HasSubstr("does not fit gpu: template pipe1 needs 8 KiB (8192 bytes) besides a reserve of 96 B"));
  // At the fullest moment, the first one, 3072 + 2048 + 1024 bytes are live. Buffers in host memory do not count.
  EXPECT_THAT(text, HasSubstr("at the fullest moment: saved activation 3 KiB, parameter 2 KiB, workspace 1 KiB; "));
  // The three largest; buffers of equal size in list order.
  EXPECT_THAT(text, HasSubstr("largest buffers: saved 3 KiB, twin 3 KiB, weights 2 KiB"));
  EXPECT_THAT(text, Not(HasSubstr("far")));
  EXPECT_THAT(text, Not(HasSubstr("late work")));
}

TEST(MemoryFit, AnEvaluationThatIsFullerDecides) {
  Program program = TwoStages();
  Template* evaluation = program.mutable_evaluation()->add_templates();
  evaluation->set_name("evaluation");
  evaluation->set_device_arena_bytes(10000);
  EXPECT_TRUE(DeviceMemoryFits(program, OneNode(10000, 0)));
  EXPECT_FALSE(DeviceMemoryFits(program, OneNode(9999, 0)));
  EXPECT_THAT(std::string(CheckMemoryFit(program, OneNode(9999, 0)).message()), HasSubstr("template evaluation"));
}

TEST(MemoryFit, TheRanksOfANodeShareItsMemory) {
  Program program = TwoStages();
  program.mutable_templates(0)->set_host_arena_bytes(3000);
  program.mutable_templates(1)->set_host_arena_bytes(2000);
  const Cluster enough = OneNode(0, 0, 5000), short_of_one = OneNode(0, 0, 4999);
  EXPECT_EQ(PlannedNodeBytes(program, enough), 5000);
  EXPECT_TRUE(CheckMemoryFit(program, enough).ok());
  const absl::Status status = CheckMemoryFit(program, short_of_one);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("plan.offload needs 5000 bytes ("));
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 ranks of node 0"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("cluster.host_memory_bytes is 4999"));
  // The device check does not depend on the host memory.
  EXPECT_TRUE(DeviceMemoryFits(program, short_of_one));
  // Unstated host memory counts as enough.
  EXPECT_TRUE(CheckMemoryFit(program, OneNode(0, 0, 0)).ok());
}

TEST(MemoryFit, HostileSizesDoNotOverflow) {
  Program program = TwoStages();
  program.mutable_templates(0)->set_host_arena_bytes(kMax - 1);
  program.mutable_templates(1)->set_host_arena_bytes(kMax - 1);
  EXPECT_EQ(PlannedNodeBytes(program, OneNode(0, 0, 1)), kMax);
  EXPECT_FALSE(CheckMemoryFit(program, OneNode(0, 0, kMax - 1)).ok());
  program.mutable_templates(1)->set_device_arena_bytes(kMax);
  EXPECT_FALSE(DeviceMemoryFits(program, OneNode(1, kMax)));
  EXPECT_FALSE(DeviceMemoryFits(program, OneNode(kMax, 1)));
  EXPECT_TRUE(DeviceMemoryFits(program, OneNode(kMax, 0)));
}

}  // namespace
}  // namespace weft
