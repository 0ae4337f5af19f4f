#include "executor/state/weights.h"

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "executor/checkpoint/checkpoint_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

using ::testing::HasSubstr;

absl::Status LoadFrom(const std::vector<SafetensorsWriter::Declaration>& tensors, const Program& program) {
  const std::string path = ::testing::TempDir() + "/weights.safetensors";
  std::remove(path.c_str());
  auto writer = SafetensorsWriter::Create(path, tensors, {});
  for (const auto& tensor : tensors) {
    std::vector<std::byte> bytes(*ElementCount(tensor.shape) * DTypeBytes(tensor.dtype));
    EXPECT_TRUE((*writer)->Append(bytes).ok());
  }
  int64_t size;
  uint32_t crc;
  EXPECT_TRUE((*writer)->Finish(&size, &crc).ok());
  const auto reader = SafetensorsReader::Open(path);
  if (!reader.ok()) return reader.status();
  CheckpointJob job(program);
  return LoadWeights(**reader, program, job.states[0].get());
}

TEST(WeightsTest, HuggingFaceNamesMatch) {
  const Program program = CheckpointProgram(1, 1);
  const SafetensorsWriter::Declaration wte{"wte.weight", FP16, {3, 2}}, bias{"h.0.bias", FP32, {5}};
  EXPECT_TRUE(LoadFrom({wte, bias}, program).ok());
  EXPECT_TRUE(LoadFrom({{"transformer.wte.weight", FP64, {3, 2}},
                        {"transformer.h.0.bias", BF16, {5}},
                        {"h.0.attn.bias", FP32, {1, 1, 4, 4}},
                        {"transformer.h.11.attn.masked_bias", FP32, {}},
                        {"lm_head.weight", FP32, {3, 2}}},
                       program)
                  .ok());
  auto message = [&](const std::vector<SafetensorsWriter::Declaration>& tensors) {
    return std::string(LoadFrom(tensors, program).message());
  };
  EXPECT_THAT(message({wte}), HasSubstr("1 tensors of the program are missing, the first is 'h.0.bias'"));
  EXPECT_THAT(message({wte, bias, {"h.1.bias", FP32, {5}}}), HasSubstr("the first is 'h.1.bias'"));
  EXPECT_THAT(message({wte, {"h.0.bias", FP32, {6}}}), HasSubstr("has shape [6], but the program expects [5]"));
  EXPECT_THAT(message({wte, {"h.0.bias", INT32, {5}}}), HasSubstr("is I32; allowed"));
  EXPECT_THAT(message({wte, bias, {"transformer.h.0.bias", FP32, {5}}}), HasSubstr("with and without"));
}

TEST(WeightsTest, AHeadThatIsNotTiedIsRefused) {
  const Program program = CheckpointProgram(1, 1);
  const std::string path = ::testing::TempDir() + "/head.safetensors";
  // Arguments: the head's dtype, the head's shape, and how much its last element differs from the table's.
  const auto match = [&](DType dtype, std::vector<int64_t> shape, float difference) {
    std::remove(path.c_str());
    const std::vector<SafetensorsWriter::Declaration> tensors = {
        {"wte.weight", FP32, {3, 2}}, {"h.0.bias", FP32, {5}}, {"lm_head.weight", dtype, shape}};
    auto writer = SafetensorsWriter::Create(path, tensors, {});
    for (const auto& tensor : tensors) {
      std::vector<float> values(*ElementCount(tensor.shape), 0.5f);
      if (tensor.name == "lm_head.weight") values.back() += difference;
      const auto* raw = reinterpret_cast<const std::byte*>(values.data());
      std::vector<std::byte> bytes(values.size() * DTypeBytes(tensor.dtype));
      EXPECT_TRUE(ConvertFloats(FP32, absl::MakeConstSpan(raw, values.size() * sizeof(float)), tensor.dtype,
                                absl::MakeSpan(bytes))
                      .ok());
      EXPECT_TRUE((*writer)->Append(bytes).ok());
    }
    int64_t size;
    uint32_t crc;
    EXPECT_TRUE((*writer)->Finish(&size, &crc).ok());
    return std::string(MatchWeights(**SafetensorsReader::Open(path), program).status().message());
  };
  EXPECT_EQ(match(FP32, {3, 2}, 0), "");
  EXPECT_EQ(match(BF16, {3, 2}, 0), "");
  EXPECT_THAT(match(FP32, {3, 2}, 1e-6f), HasSubstr("tensor 'lm_head.weight' differs from 'wte.weight'"));
  EXPECT_THAT(match(BF16, {3, 2}, 0.25f), HasSubstr("tensor 'lm_head.weight' differs from 'wte.weight'"));
  EXPECT_THAT(match(FP32, {4, 2}, 0), HasSubstr("tensor 'lm_head.weight' differs from 'wte.weight'"));
}

TEST(WeightsTest, DevicesAreNoTargets) {
  EXPECT_THAT(std::string(CheckWeightsTarget("/dev/full").message()), HasSubstr("/dev/full: is not a regular"));
  const std::string path = ::testing::TempDir() + "/target";
  std::remove(path.c_str());
  EXPECT_TRUE(CheckWeightsTarget(path).ok());
  std::ofstream(path) << "earlier";
  EXPECT_TRUE(CheckWeightsTarget(path).ok());
}

TEST(WeightsTest, SavedWeightsLoadAgain) {
  CheckpointJob job(CheckpointProgram(1, 1, true));
  job.Fill(5);
  const std::string path = ::testing::TempDir() + "/saved.safetensors";
  std::remove(path.c_str());
  ASSERT_TRUE(SaveWeights(path, job.program, [&](int i) { return job.states[0]->Read(i, StatePart::kWeight); }).ok());
  CheckpointJob other(CheckpointProgram(1, 1));
  ASSERT_TRUE(LoadWeights(**SafetensorsReader::Open(path), other.program, other.states[0].get()).ok());
  for (int t = 0; t < 2; ++t) {
    EXPECT_TRUE(other.states[0]->Read(t, StatePart::kWeight)->bytes ==
                CheckpointJob::Expected(t, StatePart::kWeight, 5).bytes);
  }
}

}  // namespace
}  // namespace weft::exec
