#include "executor/collective.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/exact192.h"
#include "proto/units.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 64;

float FloatFromBf16(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

// To nearest, ties to even; a NaN stays one.
uint16_t Bf16FromFloat(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <typename T>
void SumAs(int64_t elements, absl::Span<const void* const> parts, void* destination) {
  T* out = static_cast<T*>(destination);
  if (parts.size() == 2) {
    const T* a = static_cast<const T*>(parts[0]);
    const T* b = static_cast<const T*>(parts[1]);
    for (int64_t i = 0; i < elements; ++i) out[i] = a[i] + b[i];
    return;
  }
  for (int64_t i = 0; i < elements; ++i) {
    T sum = static_cast<const T*>(parts[0])[i];
    for (size_t p = 1; p < parts.size(); ++p) sum += static_cast<const T*>(parts[p])[i];
    out[i] = sum;
  }
}

void SumBf16(int64_t elements, absl::Span<const void* const> parts, void* destination) {
  uint16_t* out = static_cast<uint16_t*>(destination);
  for (int64_t i = 0; i < elements; ++i) {
    float sum = FloatFromBf16(static_cast<const uint16_t*>(parts[0])[i]);
    for (size_t p = 1; p < parts.size(); ++p) sum += FloatFromBf16(static_cast<const uint16_t*>(parts[p])[i]);
    out[i] = Bf16FromFloat(sum);
  }
}

void SumExact(int64_t elements, absl::Span<const void* const> parts, void* destination) {
  const auto sum = absl::MakeSpan(static_cast<Exact192*>(destination), elements);
  // Exact: the order is free, so the destination's own part is the start if it is there.
  const bool in_place = std::find(parts.begin(), parts.end(), destination) != parts.end();
  bool started = in_place;
  for (const void* part : parts) {
    if (part == destination) continue;
    if (started) {
      ExactMerge(absl::MakeConstSpan(static_cast<const Exact192*>(part), elements), sum);
    } else {
      std::memcpy(destination, part, elements * sizeof(Exact192));
      started = true;
    }
  }
}

}  // namespace

bool SumParts(DType dtype, int64_t elements, absl::Span<const void* const> parts, void* destination) {
  if (elements > 0 && parts.empty()) return false;
  switch (dtype) {
    case FP64:
      SumAs<double>(elements, parts, destination);
      return true;
    case FP32:
      SumAs<float>(elements, parts, destination);
      return true;
    case BF16:
      SumBf16(elements, parts, destination);
      return true;
    case EXACT192:
      SumExact(elements, parts, destination);
      return true;
    default:
      return false;
  }
}

absl::StatusOr<std::unique_ptr<AllReduce>> AllReduce::Create(CollectivePlan plan, std::vector<CollectivePeer> members,
                                                             int self, std::vector<ReducedBuffer> buffers) {
  if (plan.members != static_cast<int>(members.size()) || self < 0 || self >= plan.members) {
    return absl::InvalidArgumentError(absl::StrCat("all-reduce: a plan of ", plan.members, " members for a group of ",
                                                   members.size(), ", caller is number ", self));
  }
  for (const ReducedBuffer& buffer : buffers) {
    if (buffer.dtype != FP64 && buffer.dtype != FP32 && buffer.dtype != BF16 && buffer.dtype != EXACT192) {
      return absl::InvalidArgumentError(absl::StrCat("all-reduce: no sum of ", std::string(DTypeName(buffer.dtype)),
                                                     "; allowed: fp64, fp32, bf16, exact192"));
    }
  }
  std::unique_ptr<AllReduce> result(new AllReduce);
  AllReduce& r = *result;
  r.plan_ = std::move(plan);
  r.members_ = std::move(members);
  r.self_ = self;
  r.buffers_ = std::move(buffers);
  size_t messages = 0;
  for (const auto& steps : r.plan_.rounds) {
    Round& round = r.rounds_.emplace_back();
    for (const CollectiveStep& step : steps) {
      if (step.source == self) round.sends.push_back(step);
      if (step.destination == self) round.receives.push_back(step);
    }
    std::sort(round.receives.begin(), round.receives.end(),
              [](const auto& a, const auto& b) { return std::pair(a.chunk, a.source) < std::pair(b.chunk, b.source); });
    messages = std::max(messages, round.sends.size() + round.receives.size());
  }
  r.CutIntoBatches();
  size_t largest = 0;
  int64_t scratch = 0;
  for (const Batch& batch : r.batches_) {
    largest = std::max(largest, batch.last - batch.first);
    for (const Round& round : r.rounds_) {
      int64_t needed = 0;
      for (size_t p = batch.first; p < batch.last; ++p) {
        const int64_t element = DTypeBytes(r.buffers_[r.pieces_[p].buffer].dtype);
        for (const CollectiveStep& step : round.receives) {
          needed += RoundUp(r.Elements(r.pieces_[p], step.chunk) * element, kAlignment);
        }
      }
      scratch = std::max(scratch, needed);
    }
  }
  if (scratch > 0) r.scratch_.resize(scratch + kAlignment);
  r.transfers_ = std::make_unique<Transfer[]>(largest * messages);
  r.parts_.reserve(r.members_.size());
  return result;
}

void AllReduce::CutIntoBatches() {
  // All members must cut alike, for messages match in order: by the member that receives most in one round.
  int64_t receives = 1;
  for (const auto& steps : plan_.rounds) {
    std::vector<int64_t> of_member(plan_.members, 0);
    for (const CollectiveStep& step : steps) receives = std::max(receives, ++of_member[step.destination]);
  }
  const int64_t room = std::max((kScratchBytes - kAlignment) / receives / kAlignment * kAlignment, kAlignment);
  int64_t used = 0;
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const int64_t element = DTypeBytes(buffers_[b].dtype);
    // Chunks differ by at most one element; the first is of the longest.
    const int64_t longest = (buffers_[b].elements + plan_.chunks - 1) / plan_.chunks;
    for (int64_t from = 0; from < longest;) {
      const int64_t length = std::min(longest - from, room / element);
      const int64_t bytes = RoundUp(length * element, kAlignment);
      if (batches_.empty() || used + bytes > room) {
        batches_.push_back({pieces_.size(), pieces_.size()});
        used = 0;
      }
      pieces_.push_back({b, from, length});
      batches_.back().last = pieces_.size();
      used += bytes;
      from += length;
    }
  }
}

int64_t AllReduce::Elements(const Piece& piece, int chunk) const {
  const int64_t all = buffers_[piece.buffer].elements;
  const int64_t size = ChunkBegin(all, plan_.chunks, chunk + 1) - ChunkBegin(all, plan_.chunks, chunk);
  return std::clamp<int64_t>(size - piece.from, 0, piece.length);
}

void* AllReduce::Data(const Piece& piece, int chunk) const {
  const ReducedBuffer& buffer = buffers_[piece.buffer];
  return static_cast<std::byte*>(buffer.destination) +
         (ChunkBegin(buffer.elements, plan_.chunks, chunk) + piece.from) * DTypeBytes(buffer.dtype);
}

void AllReduce::CopySources() const {
  for (const ReducedBuffer& buffer : buffers_) {
    if (buffer.source != buffer.destination && buffer.elements > 0) {
      std::memcpy(buffer.destination, buffer.source, buffer.elements * DTypeBytes(buffer.dtype));
    }
  }
}

absl::Status AllReduce::Start(Endpoint& endpoint) {
  CopySources();
  batch_ = 0;
  round_ = 0;
  start_ns_ = 0;
  used_transfers_ = 0;
  if (rounds_.empty()) batch_ = batches_.size();
  return batch_ < batches_.size() ? PostRound(endpoint) : absl::OkStatus();
}

absl::Status AllReduce::PostRound(Endpoint& endpoint) {
  const Round& round = rounds_[round_];
  used_transfers_ = 0;
  std::byte* scratch = scratch_.data();
  scratch += (kAlignment - reinterpret_cast<uintptr_t>(scratch) % kAlignment) % kAlignment;
  auto post = [&](const Piece& piece, const CollectiveStep& step, bool send, void* data) {
    Transfer& transfer = transfers_[used_transfers_++];
    const CollectivePeer& peer = members_[send ? step.destination : step.source];
    transfer.data = data;
    transfer.bytes = Elements(piece, step.chunk) * DTypeBytes(buffers_[piece.buffer].dtype);
    transfer.peer = peer.rank;
    transfer.channel = peer.channel;
    return send ? endpoint.PostSend(&transfer) : endpoint.PostRecv(&transfer);
  };
  for (size_t p = batches_[batch_].first; p < batches_[batch_].last; ++p) {
    const Piece& piece = pieces_[p];
    for (const CollectiveStep& step : round.receives) {
      const int64_t elements = Elements(piece, step.chunk);
      if (elements == 0) continue;
      // Everything is received beside its place: the chunk may be on its way out in the same round.
      if (absl::Status status = post(piece, step, false, scratch); !status.ok()) return status;
      scratch += RoundUp(elements * DTypeBytes(buffers_[piece.buffer].dtype), kAlignment);
    }
  }
  for (size_t p = batches_[batch_].first; p < batches_[batch_].last; ++p) {
    const Piece& piece = pieces_[p];
    for (const CollectiveStep& step : round.sends) {
      if (Elements(piece, step.chunk) == 0) continue;
      if (absl::Status status = post(piece, step, true, Data(piece, step.chunk)); !status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

void AllReduce::FinishRound() {
  const Round& round = rounds_[round_];
  // Receives were posted first, in this order.
  const Transfer* transfer = transfers_.get();
  for (size_t p = batches_[batch_].first; p < batches_[batch_].last; ++p) {
    const Piece& piece = pieces_[p];
    for (size_t i = 0; i < round.receives.size();) {
      const int chunk = round.receives[i].chunk;
      size_t end = i;
      while (end < round.receives.size() && round.receives[end].chunk == chunk) ++end;
      const int64_t elements = Elements(piece, chunk);
      if (elements > 0) {
        void* own = Data(piece, chunk);
        if (round.receives[i].op == CollectiveOp::kCopy) {
          std::memcpy(own, transfer->data, transfer->bytes);
          ++transfer;
        } else {
          parts_.clear();
          bool own_added = false;
          for (size_t k = i; k < end; ++k, ++transfer) {
            if (!own_added && round.receives[k].source > self_) {
              parts_.push_back(own);
              own_added = true;
            }
            parts_.push_back(transfer->data);
          }
          if (!own_added) parts_.push_back(own);
          SumParts(buffers_[piece.buffer].dtype, elements, parts_, own);
        }
      }
      i = end;
    }
  }
}

absl::StatusOr<bool> AllReduce::Advance(Endpoint& endpoint) {
  while (batch_ < batches_.size()) {
    for (size_t i = 0; i < used_transfers_; ++i) {
      if (!transfers_[i].done.load(std::memory_order_acquire)) return false;
    }
    if (start_ns_ == 0) {
      start_ns_ = INT64_MAX;
      for (size_t i = 0; i < used_transfers_; ++i) start_ns_ = std::min(start_ns_, transfers_[i].start_ns);
      if (used_transfers_ == 0) start_ns_ = 0;
    }
    FinishRound();
    if (++round_ == rounds_.size()) {
      round_ = 0;
      ++batch_;
    }
    if (batch_ == batches_.size()) break;
    if (absl::Status status = PostRound(endpoint); !status.ok()) return status;
  }
  used_transfers_ = 0;
  return true;
}

int AllReduce::waiting_for() const {
  for (size_t i = 0; i < used_transfers_; ++i) {
    if (!transfers_[i].done.load(std::memory_order_acquire)) return transfers_[i].peer;
  }
  return -1;
}

}  // namespace weft
