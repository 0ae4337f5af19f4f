// Logical tensors in a rank's buffers: initial values, reading and writing them whole and unpadded. Checkpoints, weight
// files and tests speak of logical tensors only, so that any plan reads what any other wrote.
#ifndef WEFT_EXECUTOR_STATE_H_
#define WEFT_EXECUTOR_STATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "executor/arena.h"
#include "proto/program.pb.h"

namespace weft {

// What the optimizer keeps of a logical tensor.
enum class StatePart { kWeight, kMoment1, kMoment2 };
inline constexpr StatePart kStateParts[] = {StatePart::kWeight, StatePart::kMoment1, StatePart::kMoment2};

// "" for the weight, else "#moment1", "#moment2": what a tensor's name is followed by in checkpoints.
absl::string_view StatePartSuffix(StatePart part);

struct TensorData {
  DType dtype = DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// The lowest rank that holds this part of the tensor, or -1.
int FirstHolder(const Program& program, int tensor, StatePart part);

// The dtype in which the part is kept (of the weight: the optimizer's copy); DTYPE_UNSPECIFIED if no rank has it.
DType StateDType(const Program& program, int tensor, StatePart part);

class RankState {
 public:
  // `program` has been verified; both outlive this.
  RankState(const Program& program, int rank, const Arena* arena);

  // Sets all weights to their initial values (docs/kernels.md) and all moments to zero.
  absl::Status Initialize();

  bool Holds(int tensor, StatePart part) const { return Find(tensor, part) != nullptr; }
  absl::StatusOr<TensorData> Read(int tensor, StatePart part) const;
  // Into all copies on this rank, converted and padded with zeros. InvalidArgument, naming the tensor, for another
  // shape.
  absl::Status Write(int tensor, StatePart part, const TensorData& data);

 private:
  const Buffer* Find(int tensor, StatePart part) const;

  const Program& program_;
  const Template* template_;
  const Arena* arena_;
};

}  // namespace weft

#endif  // WEFT_EXECUTOR_STATE_H_
