#include "executor/collective.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/sum_parts.h"
#include "proto/status.h"
#include "proto/units.h"

namespace weft {
namespace {

constexpr int64_t kAlignment = 64;

absl::Status CheckBuffer(CollectiveKind kind, int64_t members, const CollectiveBuffer& buffer) {
  const absl::string_view name = CollectiveKindName(kind);
  const auto type = [](DType dtype) { return std::string(DTypeName(dtype)); };
  if (DTypeBytes(buffer.dtype) <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": a source without a dtype"));
  }
  if (kind != CollectiveKind::kAllGather && !HasSum(buffer.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": no sum of ", type(buffer.dtype), "; allowed: fp64, fp32, bf16, fp16, exact192"));
  }
  if (kind != CollectiveKind::kReduceScatter) {
    if (buffer.destination_dtype != buffer.dtype || buffer.accumulate) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " of ", type(buffer.dtype), buffer.accumulate ? " is to be added" : "", " to ",
                       type(buffer.destination_dtype), "; only a reduce-scatter adds or converts"));
    }
    return absl::OkStatus();
  }
  if (!CanAddTo(buffer.dtype, buffer.destination_dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", type(buffer.dtype), " cannot go to ", type(buffer.destination_dtype)));
  }
  if (buffer.elements % members != 0) {
    const int64_t below = buffer.elements / members * members;
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", buffer.elements, " elements for ", members,
                                                   " members; nearest multiples: ", below, ", ", below + members));
  }
  return absl::OkStatus();
}

// Whether the members' contributions go to the destination one by one.
bool OneByOne(CollectiveKind kind, const CollectiveBuffer& buffer) {
  return kind == CollectiveKind::kReduceScatter && buffer.destination_dtype == EXACT192 && buffer.dtype != EXACT192;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(std::vector<CollectivePeer> members, int self) {
  if (self < 0 || self >= static_cast<int64_t>(members.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a communicator of ", members.size(), " members has no member ", self));
  }
  std::unique_ptr<Communicator> result(new Communicator);
  result->members_ = std::move(members);
  result->self_ = self;
  result->parts_.reserve(result->members_.size());
  return result;
}

absl::StatusOr<const CollectiveRoute*> Communicator::Route(const CollectiveEntry& algorithm, CollectiveKind kind) {
  std::unique_ptr<CollectiveRoute>& route = routes_[{algorithm.name, kind}];
  if (route == nullptr) {
    WEFT_ASSIGN_OR_RETURN(const CollectivePlan plan, algorithm.Build(members(), kind));
    WEFT_ASSIGN_OR_RETURN(CollectiveRoute made, RouteOfMember(plan, self_));
    route = std::make_unique<CollectiveRoute>(std::move(made));
  }
  return route.get();
}

absl::StatusOr<std::unique_ptr<PreparedCollective>> Communicator::Prepare(const CollectiveEntry& algorithm,
                                                                          CollectiveKind kind,
                                                                          std::vector<CollectiveBuffer> buffers) {
  for (const CollectiveBuffer& buffer : buffers) WEFT_RETURN_IF_ERROR(CheckBuffer(kind, members(), buffer));
  auto result = std::make_unique<PreparedCollective>();
  result->kind_ = kind;
  result->buffers_ = std::move(buffers);
  std::vector<size_t> whole, one_by_one;
  for (size_t b = 0; b < result->buffers_.size(); ++b) {
    (OneByOne(kind, result->buffers_[b]) ? one_by_one : whole).push_back(b);
  }
  if (!whole.empty()) {
    WEFT_ASSIGN_OR_RETURN(const CollectiveRoute* route, Route(algorithm, kind));
    Cut(*result, *route, whole);
  }
  if (!one_by_one.empty()) {
    WEFT_ASSIGN_OR_RETURN(const CollectiveEntry* direct, FindCollective("direct"));
    WEFT_ASSIGN_OR_RETURN(const CollectiveRoute* route, Route(*direct, kind));
    Cut(*result, *route, one_by_one);
  }
  MakeRoom(*result);
  return result;
}

void Communicator::Cut(PreparedCollective& collective, const CollectiveRoute& route,
                       absl::Span<const size_t> buffers) const {
  // All members must cut alike, for messages match in order: by the one that needs most. What needs no slot goes whole.
  int64_t room = INT64_MAX;
  if (route.most_slots > 0) {
    room = std::max((kScratchBytes - kAlignment) / route.most_slots / kAlignment * kAlignment, kAlignment);
  }
  std::vector<Batch>& batches = collective.batches_;
  batches.push_back({&route, collective.pieces_.size(), collective.pieces_.size(), 0});
  for (const size_t b : buffers) {
    const CollectiveBuffer& buffer = collective.buffers_[b];
    const int64_t element = DTypeBytes(buffer.dtype);
    // Chunks differ by at most one element; the first is of the longest.
    const int64_t whole = collective.WholeElements(buffer, members());
    const int64_t longest = whole / route.chunks + (whole % route.chunks != 0);
    for (int64_t from = 0; from < longest;) {
      const int64_t length = std::min(longest - from, room / element);
      const int64_t bytes = RoundUp(length * element, kAlignment);
      if (batches.back().slot_bytes > room - bytes) {
        batches.push_back({&route, collective.pieces_.size(), collective.pieces_.size(), 0});
      }
      collective.pieces_.push_back({b, from, length, batches.back().slot_bytes});
      batches.back().last = collective.pieces_.size();
      batches.back().slot_bytes += bytes;
      from += length;
    }
  }
}

void Communicator::MakeRoom(const PreparedCollective& collective) {
  int64_t scratch = 0;
  size_t transfers = 0;
  for (const Batch& batch : collective.batches_) {
    if (batch.route->slots > 0) scratch = std::max(scratch, batch.slot_bytes * batch.route->slots + kAlignment);
    for (const RouteRound& round : batch.route->rounds) {
      transfers = std::max(transfers, (batch.last - batch.first) * (round.sends.size() + round.receives.size()));
    }
  }
  if (scratch > scratch_bytes()) scratch_.resize(scratch);
  if (transfers > most_transfers_) {
    transfers_ = std::make_unique<Transfer[]>(transfers);
    most_transfers_ = transfers;
  }
}

int64_t Communicator::Elements(const Piece& piece, int chunk) const {
  const int chunks = current_->batches_[batch_].route->chunks;
  const int64_t all = current_->WholeElements(current_->buffers_[piece.buffer], members());
  const int64_t size = ChunkBegin(all, chunks, chunk + 1) - ChunkBegin(all, chunks, chunk);
  return std::clamp<int64_t>(size - piece.from, 0, piece.length);
}

std::byte* Communicator::Slot(const Piece& piece, int slot) const {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(scratch_.data());
  std::byte* aligned = const_cast<std::byte*>(scratch_.data()) + (kAlignment - begin % kAlignment) % kAlignment;
  return aligned + slot * current_->batches_[batch_].slot_bytes + piece.offset;
}

std::byte* Communicator::Data(const Piece& piece, int chunk, int slot) const {
  if (slot != kHome) return Slot(piece, slot);
  const CollectiveBuffer& buffer = current_->buffers_[piece.buffer];
  const int64_t all = current_->WholeElements(buffer, members());
  const int64_t first = ChunkBegin(all, current_->batches_[batch_].route->chunks, chunk) + piece.from;
  // The source of a reduce-scatter is sent from, never written.
  void* home =
      current_->kind_ == CollectiveKind::kReduceScatter ? const_cast<void*>(buffer.source) : buffer.destination;
  return static_cast<std::byte*>(home) + first * DTypeBytes(buffer.dtype);
}

void Communicator::CopyOwn(const PreparedCollective& collective) const {
  for (const CollectiveBuffer& buffer : collective.buffers_) {
    const int64_t bytes = buffer.elements * DTypeBytes(buffer.dtype);
    if (bytes == 0) continue;
    if (collective.kind_ == CollectiveKind::kReduceScatter) {
      if (members() > 1) continue;
      AddTo(buffer.dtype, buffer.source, buffer.elements, buffer.accumulate, buffer.destination_dtype,
            buffer.destination);
      continue;
    }
    const int64_t offset = collective.kind_ == CollectiveKind::kAllGather ? self_ * bytes : 0;
    std::byte* own = static_cast<std::byte*>(buffer.destination) + offset;
    if (own != buffer.source) std::memcpy(own, buffer.source, bytes);
  }
}

absl::Status Communicator::Start(Endpoint& endpoint, const PreparedCollective& collective) {
  current_ = &collective;
  CopyOwn(collective);
  batch_ = members() > 1 ? 0 : collective.batches_.size();
  round_ = 0;
  start_ns_ = 0;
  used_transfers_ = 0;
  return batch_ < collective.batches_.size() ? PostRound(endpoint) : absl::OkStatus();
}

absl::Status Communicator::PostRound(Endpoint& endpoint) {
  const Batch& batch = current_->batches_[batch_];
  const RouteRound& round = batch.route->rounds[round_];
  used_transfers_ = 0;
  const auto post = [&](const RouteMessage& message, const Piece& piece, bool send) -> absl::Status {
    const int64_t elements = Elements(piece, message.chunk);
    if (elements == 0) return absl::OkStatus();
    Transfer& transfer = transfers_[used_transfers_++];
    const CollectivePeer& peer = members_[message.peer];
    transfer.data = Data(piece, message.chunk, message.slot);
    transfer.bytes = elements * DTypeBytes(current_->buffers_[piece.buffer].dtype);
    transfer.peer = peer.rank;
    transfer.channel = peer.channel;
    return send ? endpoint.PostSend(&transfer) : endpoint.PostRecv(&transfer);
  };
  for (const bool send : {false, true}) {
    for (size_t p = batch.first; p < batch.last; ++p) {
      for (const RouteMessage& message : send ? round.sends : round.receives) {
        WEFT_RETURN_IF_ERROR(post(message, current_->pieces_[p], send));
      }
    }
  }
  return absl::OkStatus();
}

void Communicator::FinishRound() {
  const Batch& batch = current_->batches_[batch_];
  const RouteRound& round = batch.route->rounds[round_];
  for (size_t p = batch.first; p < batch.last; ++p) {
    for (const RouteResult& result : round.results) FinishResult(current_->pieces_[p], round, result);
  }
}

void Communicator::FinishResult(const Piece& piece, const RouteRound& round, const RouteResult& result) {
  const int chunk = round.receives[result.first].chunk;
  const int64_t elements = Elements(piece, chunk);
  if (elements == 0) return;
  const CollectiveBuffer& buffer = current_->buffers_[piece.buffer];
  const auto received = [&](size_t i) { return Data(piece, chunk, round.receives[i].slot); };
  if (!result.reduces && result.completes) {
    // The member's range of a reduce-scatter, summed by another.
    AddTo(buffer.dtype, received(result.first), elements, buffer.accumulate, buffer.destination_dtype,
          static_cast<std::byte*>(buffer.destination) + piece.from * DTypeBytes(buffer.destination_dtype));
    return;
  }
  if (!result.reduces) {
    std::byte* to = Data(piece, chunk, result.result_slot);
    if (received(result.first) != to) std::memcpy(to, received(result.first), elements * DTypeBytes(buffer.dtype));
    return;
  }
  // In member order, its own term at its own place.
  parts_.clear();
  const std::byte* own = Data(piece, chunk, result.own_slot);
  bool own_added = false;
  for (size_t i = result.first; i < result.last; ++i) {
    if (!own_added && round.receives[i].peer > self_) {
      parts_.push_back(own);
      own_added = true;
    }
    parts_.push_back(received(i));
  }
  if (!own_added) parts_.push_back(own);
  if (!result.completes) {
    SumParts(buffer.dtype, elements, parts_, Data(piece, chunk, result.result_slot));
    return;
  }
  std::byte* to = static_cast<std::byte*>(buffer.destination) + piece.from * DTypeBytes(buffer.destination_dtype);
  if (OneByOne(current_->kind_, buffer)) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      AddTo(buffer.dtype, parts_[i], elements, buffer.accumulate || i > 0, buffer.destination_dtype, to);
    }
  } else if (buffer.dtype == buffer.destination_dtype && !buffer.accumulate) {
    SumParts(buffer.dtype, elements, parts_, to);
  } else {
    std::byte* sum = received(result.first);
    SumParts(buffer.dtype, elements, parts_, sum);
    AddTo(buffer.dtype, sum, elements, buffer.accumulate, buffer.destination_dtype, to);
  }
}

absl::StatusOr<bool> Communicator::Advance(Endpoint& endpoint) {
  if (current_ == nullptr) return true;
  while (batch_ < current_->batches_.size()) {
    for (size_t i = 0; i < used_transfers_; ++i) {
      if (!transfers_[i].done.load(std::memory_order_acquire)) return false;
    }
    if (start_ns_ == 0) {
      start_ns_ = INT64_MAX;
      for (size_t i = 0; i < used_transfers_; ++i) start_ns_ = std::min(start_ns_, transfers_[i].start_ns);
      if (used_transfers_ == 0) start_ns_ = 0;
    }
    FinishRound();
    if (++round_ == current_->batches_[batch_].route->rounds.size()) {
      round_ = 0;
      ++batch_;
    }
    if (batch_ == current_->batches_.size()) break;
    WEFT_RETURN_IF_ERROR(PostRound(endpoint));
  }
  used_transfers_ = 0;
  current_ = nullptr;
  return true;
}

int Communicator::waiting_for() const {
  for (size_t i = 0; i < used_transfers_; ++i) {
    if (!transfers_[i].done.load(std::memory_order_acquire)) return transfers_[i].peer;
  }
  return -1;
}

}  // namespace weft
