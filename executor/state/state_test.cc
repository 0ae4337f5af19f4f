// Tests the initial content of a rank's memory. The checkpoint tests cover reading and writing.
#include "executor/state/state.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "executor/state/init.h"
#include "executor/state/safetensors.h"
#include "executor/testing/clocked_device.h"
#include "gtest/gtest.h"

namespace weft::exec {
namespace {

constexpr int64_t kColumns = 3001;

// A tensor with the optimizer's copy and the rounding that steps read, and with two rows of padding.
Program OneTensor(int64_t rows) {
  Program program;
  program.mutable_recipe()->set_seed(77);
  LogicalTensor& tensor = *program.add_tensors();
  tensor.set_name("w");
  for (const int64_t extent : {rows, kColumns}) tensor.add_shape(extent);
  for (const int64_t extent : {rows + 2, kColumns}) tensor.add_padded_shape(extent);
  tensor.set_init_normal(0.02);
  Template& t = *program.add_templates();
  int64_t offset = 0;
  for (const auto& [role, dtype] : {std::pair{PARAM, BF16}, {MASTER, FP32}, {MOMENT1, FP32}}) {
    Buffer& buffer = *t.add_buffers();
    buffer.set_role(role);
    buffer.set_dtype(dtype);
    for (const int64_t extent : {rows + 2, kColumns}) buffer.add_shape(extent);
    buffer.set_bytes((rows + 2) * kColumns * (dtype == BF16 ? 2 : 4));
    buffer.set_place(DEVICE);
    buffer.set_offset(offset);
    offset += (buffer.bytes() + 255) / 256 * 256;
  }
  t.set_device_arena_bytes(offset);
  return program;
}

// One tensor is copied in one piece. Another is copied in three pieces, through two staging buffers in turn.
TEST(RankState, BeginsWithTheSameValuesInAnyNumberOfPieces) {
  for (const int64_t rows : {3, 6000}) {
    SCOPED_TRACE(rows);
    const Program program = OneTensor(rows);
    ClockedDevice device{CopySpeed(), CopySpeed()};
    const auto arena = Arena::Allocate(&device, program.templates(0).device_arena_bytes(), 0);
    ASSERT_TRUE(arena.ok()) << arena.status();
    std::memset((*arena)->device_memory(), 0xff, program.templates(0).device_arena_bytes());
    const absl::Status status = RankState(program, 0, arena->get()).Initialize();
    ASSERT_TRUE(status.ok()) << status;
    // The rows of padding are zero.
    std::vector<float> values((rows + 2) * kColumns, 0);
    InitialValues(77, 0, program.tensors(0), 0, absl::MakeSpan(values).subspan(0, rows * kColumns));
    const auto bytes = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()), values.size() * 4);
    std::vector<std::byte> rounded(values.size() * 2);
    ASSERT_TRUE(ConvertFloats(FP32, bytes, BF16, absl::MakeSpan(rounded)).ok());
    const std::vector<std::byte> zeros(bytes.size());
    const auto at = [&](int i) { return (*arena)->Data(program.templates(0).buffers(i)); };
    EXPECT_EQ(std::memcmp(at(0), rounded.data(), rounded.size()), 0);
    EXPECT_EQ(std::memcmp(at(1), bytes.data(), bytes.size()), 0);
    EXPECT_EQ(std::memcmp(at(2), zeros.data(), zeros.size()), 0);
  }
}

class FailingDevice : public ClockedDevice {
 public:
  FailingDevice() : ClockedDevice(CopySpeed(), CopySpeed()) {}
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override {
    if (copies++ == 1) return absl::InternalError("the copy failed");
    return ClockedDevice::CopyNow(to, from, bytes);
  }
  int copies = 0;
};

TEST(RankState, ACopyThatFailsIsAnError) {
  for (const int64_t rows : {3, 6000}) {
    const Program program = OneTensor(rows);
    FailingDevice device;
    const auto arena = Arena::Allocate(&device, program.templates(0).device_arena_bytes(), 0);
    ASSERT_TRUE(arena.ok()) << arena.status();
    EXPECT_EQ(RankState(program, 0, arena->get()).Initialize().message(), "the copy failed") << rows;
  }
}

}  // namespace
}  // namespace weft::exec
