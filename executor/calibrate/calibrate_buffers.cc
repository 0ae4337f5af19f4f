#include "executor/calibrate/calibrate_buffers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "executor/interface/step_tensors.h"
#include "kernels/traits.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// A data source that reads no file: its tokens and targets count up.
class CountingData : public DataSource {
 public:
  explicit CountingData(int64_t vocabulary) : vocabulary_(vocabulary) {}
  int64_t windows() const override { return 1 << 20; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((sample + i) % vocabulary_);
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<int32_t>((sample + i + 1) % vocabulary_);
    return absl::OkStatus();
  }

 private:
  const int64_t vocabulary_;
};

// Fills `bytes` with random values in [0.1, 1): none is denormal, and kernels that need positive values accept them.
// UINT8 values are 0 or 1, and INT32 values are tokens below `vocabulary`. Other types keep their bytes.
void FillRandom(const CaseTensor& tensor, int64_t elements, int64_t vocabulary, uint32_t* random, std::string* bytes) {
  void* memory = bytes->data();
  for (int64_t i = 0; i < elements; ++i) {
    *random = *random * 1664525 + 1013904223;
    const double value = 0.1 + 0.9 * (*random >> 8) / (1 << 24);
    switch (tensor.dtype) {
      case FP32:
        static_cast<float*>(memory)[i] = static_cast<float>(value);
        break;
      case FP64:
        static_cast<double*>(memory)[i] = value;
        break;
      case BF16:
        static_cast<uint16_t*>(memory)[i] = static_cast<uint16_t>(0x3e00 + (*random >> 25));
        break;
      case FP16:
        static_cast<uint16_t*>(memory)[i] = static_cast<uint16_t>(0x3800 + (*random >> 22));
        break;
      case UINT8:
        static_cast<uint8_t*>(memory)[i] = *random >> 31;
        break;
      case INT32:
        static_cast<int32_t*>(memory)[i] = static_cast<int32_t>((*random >> 8) % vocabulary);
        break;
      default:
        // All other types are accumulators of exact sums. They stay zero.
        return;
    }
  }
}

absl::StatusOr<TensorView> Allocate(const CaseTensor& tensor, int64_t vocabulary, CalibrationMemory* memory) {
  const int64_t elements = ElementCount(tensor.shape).value_or(0);
  const int64_t bytes = RoundUp(std::max<int64_t>(1, elements * DTypeBytes(tensor.dtype)), 256);
  WEFT_ASSIGN_OR_RETURN(std::byte* const data, memory->Take(bytes));
  // Maximum bytes of a tensor that are filled, because filling takes time. The rest of a larger tensor keeps the values
  // that earlier cases have left there.
  constexpr int64_t kMaxFilled = int64_t{1} << 28;
  WEFT_RETURN_IF_ERROR(memory->Fill(tensor, vocabulary, data, std::min(bytes, kMaxFilled)));
  return TensorView{data, tensor.dtype, tensor.shape};
}

// The index of the input that output k overwrites; -1 = none.
int InPlace(const KernelCase& kernel, size_t k) {
  if (k < kernel.in_place.size() && kernel.in_place[k] >= 0) return kernel.in_place[k];
  const int output = static_cast<int>(k);
  return output < kernels::OptimizerStates(kernel.step) ? output + 1 : -1;
}

}  // namespace

void CalibrationMemory::Reset() {
  for (Block& block : blocks_) block.used = 0;
}

int64_t CalibrationMemory::bytes() const {
  int64_t bytes = pattern_bytes_;
  for (const Block& block : blocks_) bytes += block.bytes;
  return bytes;
}

absl::StatusOr<CalibrationMemory::Pattern> CalibrationMemory::PatternOf(const CaseTensor& tensor, int64_t vocabulary,
                                                                        int64_t bytes) {
  // Large tensors repeat a pattern. It is random enough for caches and for the power that a device draws.
  constexpr int64_t kMin = int64_t{1} << 16, kMax = int64_t{1} << 24;
  const int64_t wanted = std::clamp(bytes, kMin, kMax);
  Pattern& pattern = patterns_[{tensor.dtype, tensor.dtype == INT32 ? vocabulary : 0}];
  if (pattern.bytes >= wanted) return pattern;
  // The size is a multiple of 768 and so of every element size, including 24 bytes.
  std::string content(RoundUp(wanted, 768), '\0');
  FillRandom(tensor, static_cast<int64_t>(content.size()) / DTypeBytes(tensor.dtype), vocabulary, &random_, &content);
  const auto size = static_cast<int64_t>(content.size());
  WEFT_ASSIGN_OR_RETURN(void* const data, device_.Allocate(DEVICE, size));
  WEFT_RETURN_IF_ERROR(device_.CopyNow(data, content.data(), size));
  pattern = {static_cast<std::byte*>(data), size};
  pattern_bytes_ += size;
  return pattern;
}

absl::Status CalibrationMemory::Fill(const CaseTensor& tensor, int64_t vocabulary, std::byte* to, int64_t bytes) {
  if (stream_ < 0) {
    WEFT_ASSIGN_OR_RETURN(stream_, device_.NewStream(ComputeDevice::Priority::kNormal));
    WEFT_ASSIGN_OR_RETURN(event_, device_.NewEvent(/*timed=*/false));
  }
  WEFT_ASSIGN_OR_RETURN(const Pattern pattern, PatternOf(tensor, vocabulary, bytes));
  // Advances by 1237 units of 768 bytes, so that tensors of one type begin at different places of the pattern. A
  // multiple of 768 is a multiple of every element size.
  begin_ += 3 * 1237;
  int64_t from = begin_ * 256 % pattern.bytes;
  for (int64_t at = 0; at < bytes;) {
    const int64_t part = std::min(bytes - at, pattern.bytes - from);
    WEFT_RETURN_IF_ERROR(device_.Copy(stream_, to + at, pattern.data + from, part));
    at += part;
    from = 0;
  }
  return absl::OkStatus();
}

absl::Status CalibrationMemory::Await() {
  if (stream_ < 0) return absl::OkStatus();
  WEFT_RETURN_IF_ERROR(device_.Record(event_, stream_));
  return device_.Synchronize(event_);
}

absl::StatusOr<std::byte*> CalibrationMemory::Take(int64_t bytes) {
  for (Block& block : blocks_) {
    if (block.bytes - block.used < bytes) continue;
    block.used += bytes;
    return block.data + block.used - bytes;
  }
  // Allocates a few large blocks and reuses them, because a device frees its memory only when the device is destroyed.
  constexpr int64_t kMin = int64_t{1} << 26;
  const int64_t size = std::max(bytes, kMin);
  WEFT_ASSIGN_OR_RETURN(void* const data, device_.Allocate(DEVICE, size));
  blocks_.push_back({static_cast<std::byte*>(data), size, bytes});
  return blocks_.back().data;
}

absl::StatusOr<std::unique_ptr<KernelBuffers>> KernelBuffers::Create(const CalibrationShapes& shapes,
                                                                     const KernelCase& kernel,
                                                                     CalibrationMemory* memory) {
  std::unique_ptr<KernelBuffers> result(new KernelBuffers);
  memory->Reset();
  const int64_t vocabulary = kernel.vocabulary > 0 ? kernel.vocabulary : shapes.vocabulary;
  const int64_t sequence = kernel.sequence > 0 ? kernel.sequence : shapes.sequence;
  result->data_ = std::make_unique<CountingData>(vocabulary);
  // After a call of a case much larger than a cache, the cache holds no data that the next call could use. So one copy
  // of the case is enough.
  const double least = kernel.bytes > 4 * shapes.turn_bytes ? 1.0 : 2.0;
  const int count = static_cast<int>(std::clamp(shapes.turn_bytes / std::max(1.0, kernel.bytes), least, 32.0));
  for (int i = 0; i < count; ++i) {
    Copy& copy = result->copies_.emplace_back();
    for (const CaseTensor& tensor : kernel.inputs) {
      WEFT_ASSIGN_OR_RETURN(copy.inputs.emplace_back(), Allocate(tensor, vocabulary, memory));
    }
    for (size_t k = 0; k < kernel.outputs.size(); ++k) {
      const int place = InPlace(kernel, k);
      if (place >= 0) {
        copy.outputs.push_back(copy.inputs[place]);
      } else {
        WEFT_ASSIGN_OR_RETURN(copy.outputs.emplace_back(), Allocate(kernel.outputs[k], vocabulary, memory));
      }
    }
  }
  WEFT_RETURN_IF_ERROR(CheckStep(kernel.step, result->copies_[0].inputs, result->copies_[0].outputs));
  WEFT_RETURN_IF_ERROR(memory->Await());
  StepContext& context = result->context_;
  context.learning_rate = 1e-3;
  context.seed = 1;
  context.data = result->data_.get();
  // The first extent of a step's main tensor counts the positions of all sequences. That tensor is the first input if
  // `in_place` is given and there are inputs, else the first output.
  const std::vector<CaseTensor>& rows =
      kernel.inputs.empty() || kernel.in_place.empty() ? kernel.outputs : kernel.inputs;
  if (!rows.empty() && !rows[0].shape.empty() && rows[0].shape[0] % sequence == 0) {
    context.microbatch_sequences = std::max<int64_t>(1, rows[0].shape[0] / sequence);
  }
  return result;
}

}  // namespace weft::exec
