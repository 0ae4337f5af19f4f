#include "executor/state.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "executor/init.h"
#include "executor/safetensors.h"
#include "proto/mesh.h"
#include "proto/status.h"
#include "proto/units.h"

namespace weft {
namespace {

// Roles that hold the part, the leading copy first: the others are roundings of it.
std::vector<BufferRole> RolesOf(StatePart part) {
  switch (part) {
    case StatePart::kWeight:
      return {MASTER, PARAM};
    case StatePart::kMoment1:
      return {MOMENT1};
    case StatePart::kMoment2:
      return {MOMENT2};
  }
  return {};
}

const Buffer* FindBuffer(const Template& t, int tensor, StatePart part) {
  for (BufferRole role : RolesOf(part)) {
    for (const Buffer& buffer : t.buffers()) {
      if (buffer.role() == role && buffer.tensor() == tensor) return &buffer;
    }
  }
  return nullptr;
}

int64_t Elements(const google::protobuf::RepeatedField<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  return elements;
}

}  // namespace

absl::string_view StatePartSuffix(StatePart part) {
  return part == StatePart::kWeight ? "" : part == StatePart::kMoment1 ? "#moment1" : "#moment2";
}

int FirstHolder(const Program& program, int tensor, StatePart part) {
  const int64_t ranks = MeshRanks(program.mesh());
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int index = TemplateOfRank(program, rank);
    if (index >= 0 && FindBuffer(program.templates(index), tensor, part) != nullptr) return static_cast<int>(rank);
  }
  return -1;
}

DType StateDType(const Program& program, int tensor, StatePart part) {
  for (const Template& t : program.templates()) {
    if (const Buffer* buffer = FindBuffer(t, tensor, part)) return buffer->dtype();
  }
  return DTYPE_UNSPECIFIED;
}

RankState::RankState(const Program& program, int rank, const Arena* arena)
    : program_(program), template_(&program.templates(TemplateOfRank(program, rank))), arena_(arena) {}

const Buffer* RankState::Find(int tensor, StatePart part) const { return FindBuffer(*template_, tensor, part); }

absl::Status RankState::Initialize() {
  // In pieces, so that a large embedding needs no second copy.
  constexpr int64_t kPiece = 1 << 20;
  std::vector<float> values;
  for (const Buffer& buffer : template_->buffers()) {
    if (buffer.role() == MOMENT1 || buffer.role() == MOMENT2) {
      std::memset(arena_->Data(buffer), 0, buffer.bytes());
    }
    if (buffer.role() != PARAM && buffer.role() != MASTER) continue;
    const LogicalTensor& tensor = program_.tensors(buffer.tensor());
    const int64_t elements = Elements(buffer.shape());
    const int64_t size = DTypeBytes(buffer.dtype());
    for (int64_t first = 0; first < elements; first += kPiece) {
      values.resize(std::min(kPiece, elements - first));
      InitialValues(program_.recipe().seed(), buffer.tensor(), tensor, first, absl::MakeSpan(values));
      WEFT_RETURN_IF_ERROR(ConvertFloats(
          FP32, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)),
          buffer.dtype(), absl::MakeSpan(arena_->Data(buffer) + first * size, values.size() * size)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TensorData> RankState::Read(int tensor, StatePart part) const {
  const Buffer* buffer = Find(tensor, part);
  const LogicalTensor& logical = program_.tensors(tensor);
  if (buffer == nullptr) return absl::NotFoundError(absl::StrCat("this rank does not hold ", logical.name()));
  TensorData data;
  data.dtype = buffer->dtype();
  data.shape.assign(logical.shape().begin(), logical.shape().end());
  // Padding is at the end: it differs in dimension 0 only.
  data.bytes.resize(Elements(logical.shape()) * DTypeBytes(data.dtype));
  if (!data.bytes.empty()) std::memcpy(data.bytes.data(), arena_->Data(*buffer), data.bytes.size());
  return data;
}

absl::Status RankState::Write(int tensor, StatePart part, const TensorData& data) {
  const LogicalTensor& logical = program_.tensors(tensor);
  if (!std::equal(data.shape.begin(), data.shape.end(), logical.shape().begin(), logical.shape().end())) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", logical.name(), "' has shape [",
                                                   absl::StrJoin(data.shape, ", "), "], the program expects [",
                                                   absl::StrJoin(logical.shape(), ", "), "]"));
  }
  const Buffer* leading = Find(tensor, part);
  if (leading == nullptr) return absl::NotFoundError(absl::StrCat("this rank does not hold ", logical.name()));
  // What the leading copy holds; the other copies are roundings of that, as the optimizer makes them.
  std::vector<std::byte> leading_bytes(Elements(logical.shape()) * DTypeBytes(leading->dtype()));
  WEFT_RETURN_IF_ERROR(ConvertFloats(data.dtype, data.bytes, leading->dtype(), absl::MakeSpan(leading_bytes)));
  const std::vector<BufferRole> roles = RolesOf(part);
  for (const Buffer& buffer : template_->buffers()) {
    if (buffer.tensor() != tensor || std::find(roles.begin(), roles.end(), buffer.role()) == roles.end()) continue;
    const int64_t bytes = Elements(logical.shape()) * DTypeBytes(buffer.dtype());
    std::byte* to = arena_->Data(buffer);
    WEFT_RETURN_IF_ERROR(ConvertFloats(leading->dtype(), leading_bytes, buffer.dtype(), absl::MakeSpan(to, bytes)));
    std::memset(to + bytes, 0, buffer.bytes() - bytes);
  }
  return absl::OkStatus();
}

}  // namespace weft
