#include "executor/state/state.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "executor/numerics/stochastic_rounding.h"
#include "executor/platform/background_task.h"
#include "executor/platform/parallel_ranges.h"
#include "executor/state/init.h"
#include "executor/state/safetensors.h"
#include "proto/util/mesh.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// Maximum bytes that are copied to the device at once when a buffer is filled.
constexpr int64_t kStagingBytes = int64_t{32} << 20;
// Minimum number of initial values per thread: to start a thread costs as much as a few thousand of them.
constexpr int64_t kMinPerThread = 1 << 15;

bool IsWeight(const Buffer& buffer) { return buffer.role() == PARAM || buffer.role() == MASTER; }

int64_t Elements(const google::protobuf::RepeatedField<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  return elements;
}

// The first value of a dynamic loss scale: the attribute loss_scale of UPDATE_LOSS_SCALE; 0 if no step has this kernel.
double FirstLossScale(const Program& program) {
  for (const Segment& segment : program.segments()) {
    for (const Step& step : segment.steps()) {
      if (step.kernel() == UPDATE_LOSS_SCALE) return step.attributes().loss_scale();
    }
  }
  return 0;
}

}  // namespace

bool HasDynamicLossScale(const Program& program) { return FirstLossScale(program) > 0; }

absl::StatusOr<std::vector<TensorHolder>> Holders(const Program& program, int tensor, StatePart part) {
  const Mesh& mesh = program.mesh();
  const auto buffer_of = [&](int64_t rank) -> const Buffer* {
    const int index = TemplateOfRank(program, rank);
    return index < 0 ? nullptr : StateBuffer(program.templates(index), tensor, part);
  };
  std::vector<TensorHolder> holders;
  int64_t first = 0;
  const int64_t ranks = MeshRanks(mesh);
  while (first < ranks && buffer_of(first) == nullptr) ++first;
  if (first == ranks) return holders;
  // Together with `first`, the ranks that differ from it only in their coordinates on the axes of its shard hold all of
  // the tensor.
  const Shard& shard = buffer_of(first)->shard();
  std::set<std::string> axes;
  for (const DimensionCut& cut : shard.dimensions()) axes.insert(cut.axis());
  for (const RangeCut& cut : shard.ranges()) axes.insert(cut.axis());
  std::vector<int64_t> members = {first};
  for (const std::string& axis : axes) {
    Group group;
    group.add_axes()->set_axis(axis);
    std::vector<int64_t> more;
    for (const int64_t member : members) {
      for (const int64_t other : GroupMembers(mesh, member, group)) more.push_back(other);
    }
    members = std::move(more);
  }
  std::sort(members.begin(), members.end());
  for (const int64_t member : members) {
    const Buffer* buffer = buffer_of(member);
    if (buffer == nullptr || buffer->shard().SerializeAsString() != shard.SerializeAsString()) {
      return absl::InvalidArgumentError(absl::StrCat("ranks ", first, " and ", member, " cut tensor '",
                                                     program.tensors(tensor).name(), "' in different ways"));
    }
    WEFT_ASSIGN_OR_RETURN(TensorPiece piece, PieceOfBuffer(program, member, *buffer));
    // With shard groups smaller than an axis, several ranks hold each piece.
    const bool known =
        std::any_of(holders.begin(), holders.end(), [&](const TensorHolder& holder) { return holder.piece == piece; });
    if (piece.count > 0 && !known) holders.push_back({static_cast<int>(member), buffer, std::move(piece)});
  }
  return holders;
}

RankState::RankState(const Program& program, int rank, const Arena* arena)
    : program_(program), rank_(rank), template_(&program.templates(TemplateOfRank(program, rank))), arena_(arena) {}

const Buffer* RankState::Find(int tensor, StatePart part) const { return StateBuffer(*template_, tensor, part); }

std::byte* RankState::LossScaleData() const {
  for (const Buffer& buffer : template_->buffers()) {
    if (buffer.role() == LOSS_SCALE && buffer.version() == 0) return arena_->Data(buffer);
  }
  return nullptr;
}

absl::StatusOr<std::optional<LossScaleState>> RankState::LossScale() const {
  const std::byte* from = LossScaleData();
  if (from == nullptr) return std::optional<LossScaleState>();
  double data[3];
  WEFT_RETURN_IF_ERROR(arena_->device().CopyNow(data, from, sizeof(data)));
  return LossScaleState{data[0], static_cast<int64_t>(data[1]), static_cast<int64_t>(data[2])};
}

absl::Status RankState::SetLossScale(const LossScaleState& state) {
  const double data[3] = {state.scale, static_cast<double>(state.steady), static_cast<double>(state.skipped)};
  // Sets every buffer of the loss scale, including the copy that is kept (rule P15).
  for (const Buffer& buffer : template_->buffers()) {
    if (buffer.role() != LOSS_SCALE) continue;
    WEFT_RETURN_IF_ERROR(arena_->device().CopyNow(arena_->Data(buffer), data, sizeof(data)));
  }
  return absl::OkStatus();
}

absl::Status RankState::ResetLossScale() { return SetLossScale({.scale = FirstLossScale(program_)}); }

absl::Status RankState::Clear(const Buffer& buffer, int64_t from) {
  ComputeDevice& device = arena_->device();
  std::byte* const begin = arena_->Data(buffer) + from;
  const int64_t bytes = buffer.bytes() - from;
  // The rest are copies of these zeros, twice as many each time: a device copies within its own memory many times
  // faster than from the host.
  constexpr int64_t kZeros = int64_t{1} << 16;
  const std::vector<std::byte> zeros(std::min(bytes, kZeros));
  WEFT_RETURN_IF_ERROR(device.CopyNow(begin, zeros.data(), zeros.size()));
  for (int64_t done = zeros.size(); done < bytes;) {
    const int64_t more = std::min(bytes - done, done);
    WEFT_RETURN_IF_ERROR(device.CopyNow(begin + done, begin, more));
    done += more;
  }
  return absl::OkStatus();
}

absl::Status RankState::Initialize() {
  WEFT_RETURN_IF_ERROR(ResetLossScale());
  // The initial values of a tensor are made once for all buffers that hold the same part of it: the optimizer's copy
  // and its rounding.
  std::vector<bool> begun(template_->buffers_size());
  StartSpace space;
  for (int i = 0; i < template_->buffers_size(); ++i) {
    const Buffer& buffer = template_->buffers(i);
    if (buffer.role() == MOMENT1 || buffer.role() == MOMENT2) WEFT_RETURN_IF_ERROR(Clear(buffer, 0));
    if (!IsWeight(buffer) || begun[i]) continue;
    WEFT_ASSIGN_OR_RETURN(const TensorPiece piece, PieceOfBuffer(program_, rank_, buffer));
    std::vector<const Buffer*> copies;
    for (int other = i; other < template_->buffers_size(); ++other) {
      const Buffer& copy = template_->buffers(other);
      if (!IsWeight(copy) || copy.tensor() != buffer.tensor() || begun[other]) continue;
      WEFT_ASSIGN_OR_RETURN(const TensorPiece of_copy, PieceOfBuffer(program_, rank_, copy));
      if (of_copy != piece) continue;
      begun[other] = true;
      copies.push_back(&copy);
    }
    WEFT_RETURN_IF_ERROR(Begin(piece, copies, space));
  }
  return absl::OkStatus();
}

absl::Status RankState::Begin(const TensorPiece& piece, absl::Span<const Buffer* const> copies, StartSpace& space) {
  const LogicalTensor& tensor = program_.tensors(copies[0]->tensor());
  int64_t widest = 1;
  for (const Buffer* copy : copies) widest = std::max(widest, DTypeBytes(copy->dtype()));
  // Works in pieces, so that a large embedding needs no second copy on the host. In the buffers, runs of elements
  // follow one another: the `made` elements come after the `copied` ones.
  const int64_t most = std::clamp<int64_t>(piece.count, 1, kStagingBytes / widest);
  const auto grow = [](auto& vector, size_t size) {
    if (vector.size() < size) vector.resize(size);
  };
  std::vector<float>& values = space.values;
  grow(values, most);
  // Two staging buffers: values are made in one while the other is copied to the device. If all values fit into one,
  // only one is needed.
  const int slots = most < piece.count ? 2 : 1;
  auto& staged = space.staged;
  for (int slot = 0; slot < slots; ++slot) {
    grow(staged[slot], copies.size());
    for (size_t c = 0; c < copies.size(); ++c) grow(staged[slot][c], most * DTypeBytes(copies[c]->dtype()));
  }
  BackgroundTask copying;
  int slot = 0;
  int64_t copied = 0, made = 0;
  const auto flush = [&]() -> absl::Status {
    const int64_t elements = std::exchange(made, 0), to = std::exchange(copied, copied + elements);
    const auto copy = [this, copies, &from = staged[slot], elements, to]() -> absl::Status {
      for (size_t c = 0; c < copies.size(); ++c) {
        const int64_t size = DTypeBytes(copies[c]->dtype());
        WEFT_RETURN_IF_ERROR(
            arena_->device().CopyNow(arena_->Data(*copies[c]) + to * size, from[c].data(), elements * size));
      }
      return absl::OkStatus();
    };
    if (slots == 1) return copy();
    slot = 1 - slot;
    return copying.Start(copy);
  };
  for (const TensorRun& run : RunsOf(piece, tensor.shape())) {
    for (int64_t done = 0; done < run.count;) {
      const int64_t count = std::min(run.count - done, most - made);
      // Uses all cores, because a model of billions of parameters would take minutes on one core.
      std::atomic<bool> good{true};
      ParallelRanges(count, kMinPerThread, [&](int64_t first, int64_t last) {
        const absl::Span<float> part = absl::MakeSpan(values).subspan(first, last - first);
        InitialValues(program_.recipe().seed(), copies[0]->tensor(), tensor, run.logical + done + first, part);
        const auto bytes =
            absl::MakeConstSpan(reinterpret_cast<const std::byte*>(part.data()), part.size() * sizeof(float));
        for (size_t c = 0; c < copies.size(); ++c) {
          const int64_t size = DTypeBytes(copies[c]->dtype());
          const auto to = absl::MakeSpan(staged[slot][c]).subspan((made + first) * size, part.size() * size);
          if (!ConvertFloats(FP32, bytes, copies[c]->dtype(), to).ok()) good = false;
        }
      });
      if (!good) {
        return absl::InvalidArgumentError(
            absl::StrCat(tensor.name(), " cannot be initialized as values of ", DType_Name(copies[0]->dtype())));
      }
      made += count;
      done += count;
      if (made == most) WEFT_RETURN_IF_ERROR(flush());
    }
  }
  WEFT_RETURN_IF_ERROR(flush());
  WEFT_RETURN_IF_ERROR(copying.Await());
  for (const Buffer* copy : copies) WEFT_RETURN_IF_ERROR(Clear(*copy, copied * DTypeBytes(copy->dtype())));
  return absl::OkStatus();
}

absl::StatusOr<TensorData> RankState::Read(int tensor, StatePart part) const {
  const Buffer* buffer = Find(tensor, part);
  const LogicalTensor& logical = program_.tensors(tensor);
  if (buffer == nullptr) return absl::NotFoundError(absl::StrCat("this rank does not hold ", logical.name()));
  WEFT_ASSIGN_OR_RETURN(const TensorPiece piece, PieceOfBuffer(program_, rank_, *buffer));
  TensorData data;
  data.dtype = buffer->dtype();
  data.shape.assign(logical.shape().begin(), logical.shape().end());
  if (piece != WholePiece(logical.shape())) data.shape = {piece.count};
  // The buffer holds the piece, then padding.
  data.bytes.resize(piece.count * DTypeBytes(data.dtype));
  WEFT_RETURN_IF_ERROR(arena_->device().CopyNow(data.bytes.data(), arena_->Data(*buffer), data.bytes.size()));
  return data;
}

absl::Status RankState::Write(int tensor, StatePart part, const TensorData& data, int64_t steps) {
  const LogicalTensor& logical = program_.tensors(tensor);
  const Buffer* leading = Find(tensor, part);
  if (leading == nullptr) return absl::NotFoundError(absl::StrCat("this rank does not hold ", logical.name()));
  if (!std::equal(data.shape.begin(), data.shape.end(), logical.shape().begin(), logical.shape().end())) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", logical.name(), "' has shape [",
                                                   absl::StrJoin(data.shape, ", "), "], but the program expects [",
                                                   absl::StrJoin(logical.shape(), ", "), "]"));
  }
  // The values of the leading copy. The other copies are rounded from these values, as the optimizer does it.
  const int64_t leading_size = DTypeBytes(leading->dtype());
  std::vector<std::byte> leading_bytes(Elements(logical.shape()) * leading_size);
  WEFT_RETURN_IF_ERROR(ConvertFloats(data.dtype, data.bytes, leading->dtype(), absl::MakeSpan(leading_bytes)));
  const absl::Span<const BufferRole> roles = StateRoles(part);
  for (const Buffer& buffer : template_->buffers()) {
    if (buffer.tensor() != tensor || std::find(roles.begin(), roles.end(), buffer.role()) == roles.end()) continue;
    WEFT_ASSIGN_OR_RETURN(const TensorPiece piece, PieceOfBuffer(program_, rank_, buffer));
    const int64_t size = DTypeBytes(buffer.dtype());
    const bool half = buffer.dtype() == BF16 || buffer.dtype() == FP16;
    const bool at_random = program_.recipe().weight_rounding() == STOCHASTIC && steps > 0 && half;
    // Includes the padding after the piece.
    std::vector<std::byte> staging(buffer.bytes());
    for (const TensorRun& run : RunsOf(piece, logical.shape())) {
      const auto from =
          absl::MakeConstSpan(leading_bytes).subspan(run.logical * leading_size, run.count * leading_size);
      const auto to = absl::MakeSpan(staging).subspan(run.position * size, run.count * size);
      if (at_random && leading->dtype() == FP32) {
        const RoundingNumbers numbers = {program_.recipe().seed(), steps - 1, tensor};
        RoundAtRandom(reinterpret_cast<const float*>(from.data()), run.count, numbers,
                      FirstElementOf(program_, rank_, buffer) + run.position, buffer.dtype(), to.data());
      } else {
        WEFT_RETURN_IF_ERROR(ConvertFloats(leading->dtype(), from, buffer.dtype(), to));
      }
    }
    WEFT_RETURN_IF_ERROR(arena_->device().CopyNow(arena_->Data(buffer), staging.data(), staging.size()));
  }
  return absl::OkStatus();
}

}  // namespace weft::exec
