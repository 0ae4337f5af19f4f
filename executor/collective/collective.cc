#include "executor/collective/collective.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/numerics/sum_parts.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

constexpr int64_t kAlignment = 64;

absl::Status CheckBuffer(CollectiveKind kind, int64_t members, const CollectiveBuffer& buffer) {
  const absl::string_view name = CollectiveKindName(kind);
  const auto type = [](DType dtype) { return std::string(DTypeName(dtype)); };
  if (DTypeBytes(buffer.dtype) <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the source has no dtype"));
  }
  if (kind != CollectiveKind::kAllGather && !HasSum(buffer.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": cannot sum ", type(buffer.dtype), "; allowed: fp64, fp32, bf16, fp16, exact192"));
  }
  if (kind != CollectiveKind::kReduceScatter) {
    if (buffer.destination_dtype != buffer.dtype || buffer.accumulate) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " of ", type(buffer.dtype), buffer.accumulate ? " is to be added" : "", " to ",
                       type(buffer.destination_dtype),
                       "; only a reduce-scatter can add to its destination's old values or convert"));
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

// True if the members' contributions are added to the destination one by one.
bool OneByOne(CollectiveKind kind, const CollectiveBuffer& buffer) {
  return kind == CollectiveKind::kReduceScatter && buffer.destination_dtype == EXACT192 && buffer.dtype != EXACT192;
}

ActionKind KindOfAction(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return ALL_REDUCE;
    case CollectiveKind::kAllGather:
      return ALL_GATHER;
    case CollectiveKind::kReduceScatter:
      return REDUCE_SCATTER;
  }
  return ACTION_UNSPECIFIED;
}

// Scratch bytes of a reduce-scatter that the transport runs and whose result has `length` elements. The scratch memory
// holds the result and, unless the piece is the whole buffer, the members' contributions.
int64_t NativeScratch(const CollectiveBuffer& buffer, int64_t length, int64_t members) {
  const int64_t bytes = RoundUp(length * DTypeBytes(buffer.dtype), kAlignment);
  return length * members == buffer.elements ? bytes : bytes * (members + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> Communicator::Create(std::vector<CollectivePeer> members, int self,
                                                                   const CommunicatorPlace& place) {
  if (self < 0 || self >= static_cast<int64_t>(members.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("a communicator of ", members.size(), " members has no member ", self));
  }
  std::unique_ptr<Communicator> result(new Communicator);
  result->members_ = std::move(members);
  result->self_ = self;
  result->parts_.reserve(result->members_.size());
  if (place.device == nullptr) result->host_ = MakeHostDevice();
  result->device_ = place.device != nullptr ? place.device : result->host_.get();
  result->stream_ = place.device != nullptr ? place.stream : -1;
  if (place.native != nullptr && result->members() > 1) {
    std::vector<int> ranks;
    for (const CollectivePeer& member : result->members_) ranks.push_back(member.rank);
    result->native_ = place.native;
    WEFT_ASSIGN_OR_RETURN(result->native_group_, place.native->NewGroup(ranks, place.name));
  }
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
  result->native_.assign(result->buffers_.size(), false);
  std::vector<size_t> whole, one_by_one;
  for (size_t b = 0; b < result->buffers_.size(); ++b) {
    if (PlanNative(*result, b, algorithm.name)) continue;
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
  // All members must cut their buffers into the same pieces, because messages match in order. So the piece is as large
  // as the member that needs the most slots can hold. A route without slots takes every buffer whole.
  int64_t room = INT64_MAX;
  if (route.most_slots > 0) {
    room = std::max((kScratchBytes - kAlignment) / route.most_slots / kAlignment * kAlignment, kAlignment);
  }
  std::vector<Batch>& batches = collective.batches_;
  batches.push_back({&route, collective.pieces_.size(), collective.pieces_.size(), 0});
  for (const size_t b : buffers) {
    const CollectiveBuffer& buffer = collective.buffers_[b];
    const int64_t element = DTypeBytes(buffer.dtype);
    // Chunk lengths differ by at most one element; the first chunk has the greatest length.
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
    scratch = std::max(scratch, batch.slot_bytes * batch.route->slots);
    for (const RouteRound& round : batch.route->rounds) {
      transfers = std::max(transfers, (batch.last - batch.first) * (round.sends.size() + round.receives.size()));
    }
  }
  for (const PreparedCollective::NativePiece& piece : collective.native_pieces_) {
    scratch = std::max(scratch, NativeScratch(collective.buffers_[piece.buffer], piece.length, members()));
  }
  scratch_bytes_ = std::max(scratch_bytes_, scratch);
  if (transfers > most_transfers_) {
    transfers_ = std::make_unique<Transfer[]>(transfers);
    most_transfers_ = transfers;
  }
}

bool Communicator::PlanNative(PreparedCollective& collective, size_t index, absl::string_view algorithm) const {
  if (native_ == nullptr) return false;
  const CollectiveBuffer& buffer = collective.buffers_[index];
  const bool reduces = collective.kind_ != CollectiveKind::kAllGather;
  const NativeCollectives::Call call = {KindOfAction(collective.kind_), buffer.dtype, buffer.elements, buffer.source,
                                        buffer.destination};
  if (OneByOne(collective.kind_, buffer) || !native_->Has(call)) return false;
  collective.native_[index] = true;
  if (reduces && !native_->KeepsOrder(call, algorithm, members())) collective.keeps_order_ = false;
  if (buffer.elements == 0) return true;
  if (collective.kind_ != CollectiveKind::kReduceScatter ||
      (buffer.dtype == buffer.destination_dtype && !buffer.accumulate)) {
    collective.native_calls_.push_back(call);
    return true;
  }
  // One piece holds the member's whole share if the scratch memory is large enough.
  const int64_t share = buffer.elements / members();
  int64_t length = share;
  if (NativeScratch(buffer, length, members()) > kScratchBytes) {
    length = std::max<int64_t>(1, kScratchBytes / (members() + 1) / kAlignment * kAlignment / DTypeBytes(buffer.dtype));
  }
  for (int64_t from = 0; from < share; from += length) {
    collective.native_pieces_.push_back({index, from, std::min(length, share - from)});
  }
  return true;
}

NativeCollectives::Call Communicator::PieceCall(const PreparedCollective& collective,
                                                const PreparedCollective::NativePiece& piece) const {
  const CollectiveBuffer& buffer = collective.buffers_[piece.buffer];
  const bool whole = piece.length * members() == buffer.elements;
  const int64_t bytes = RoundUp(piece.length * DTypeBytes(buffer.dtype), kAlignment);
  // Scratch memory holds the result first, then the contributions.
  return {REDUCE_SCATTER, buffer.dtype, piece.length * members(), whole ? buffer.source : scratch_ + bytes, scratch_};
}

absl::Status Communicator::RunNative(const PreparedCollective& collective) {
  if (!collective.native_calls_.empty()) {
    WEFT_RETURN_IF_ERROR(native_->Enqueue(native_group_, collective.native_calls_, stream_));
  }
  for (const PreparedCollective::NativePiece& piece : collective.native_pieces_) {
    const CollectiveBuffer& buffer = collective.buffers_[piece.buffer];
    const int64_t element = DTypeBytes(buffer.dtype), share = buffer.elements / members();
    const NativeCollectives::Call call = PieceCall(collective, piece);
    for (int m = 0; m < members() && call.source != buffer.source; ++m) {
      WEFT_RETURN_IF_ERROR(device_->Copy(
          stream_, const_cast<std::byte*>(static_cast<const std::byte*>(call.source)) + m * piece.length * element,
          static_cast<const std::byte*>(buffer.source) + (m * share + piece.from) * element, piece.length * element));
    }
    WEFT_RETURN_IF_ERROR(native_->Enqueue(native_group_, absl::MakeConstSpan(&call, 1), stream_));
    WEFT_RETURN_IF_ERROR(device_->AddTo(
        stream_, buffer.dtype, scratch_, piece.length, buffer.accumulate, buffer.destination_dtype,
        static_cast<std::byte*>(buffer.destination) + piece.from * DTypeBytes(buffer.destination_dtype)));
  }
  return absl::OkStatus();
}

absl::Status Communicator::AllocateScratch() {
  if (scratch_bytes_ <= allocated_bytes_) return absl::OkStatus();
  if (host_ != nullptr) {
    // Growing the vector frees the old memory. A device would free it only when the device is destroyed.
    host_scratch_.resize(static_cast<size_t>(scratch_bytes_));
    scratch_ = host_scratch_.data();
  } else {
    WEFT_ASSIGN_OR_RETURN(void* const scratch, device_->Allocate(DEVICE, scratch_bytes_));
    scratch_ = static_cast<std::byte*>(scratch);
  }
  allocated_bytes_ = scratch_bytes_;
  return absl::OkStatus();
}

void Communicator::AppendTransfers(const PreparedCollective& collective, std::deque<Transfer>* sends,
                                   std::deque<Transfer>* receives) const {
  if (members() == 1) return;
  for (const Batch& batch : collective.batches_) {
    for (const RouteRound& round : batch.route->rounds) {
      for (size_t p = batch.first; p < batch.last; ++p) {
        for (const RouteMessage& message : round.sends) {
          Describe(collective, batch, collective.pieces_[p], message, &sends->emplace_back());
        }
        for (const RouteMessage& message : round.receives) {
          Describe(collective, batch, collective.pieces_[p], message, &receives->emplace_back());
        }
      }
    }
  }
}

void Communicator::Describe(const PreparedCollective& collective, const Batch& batch, const Piece& piece,
                            const RouteMessage& message, Transfer* transfer) const {
  const CollectivePeer& peer = members_[message.peer];
  transfer->bytes =
      Elements(collective, batch, piece, message.chunk) * DTypeBytes(collective.buffers_[piece.buffer].dtype);
  transfer->peer = peer.rank;
  transfer->channel = peer.channel;
  transfer->stream = stream_;
}

int64_t Communicator::Elements(const PreparedCollective& collective, const Batch& batch, const Piece& piece,
                               int chunk) const {
  const int chunks = batch.route->chunks;
  const int64_t all = collective.WholeElements(collective.buffers_[piece.buffer], members());
  const int64_t size = ChunkBegin(all, chunks, chunk + 1) - ChunkBegin(all, chunks, chunk);
  return std::clamp<int64_t>(size - piece.from, 0, piece.length);
}

std::byte* Communicator::Slot(const Piece& piece, int slot) const {
  return scratch_ + slot * current_->batches_[batch_].slot_bytes + piece.offset;
}

std::byte* Communicator::Data(const Piece& piece, int chunk, int slot) const {
  if (slot != kHome) return Slot(piece, slot);
  const CollectiveBuffer& buffer = current_->buffers_[piece.buffer];
  const int64_t all = current_->WholeElements(buffer, members());
  const int64_t first = ChunkBegin(all, current_->batches_[batch_].route->chunks, chunk) + piece.from;
  // A reduce-scatter only sends from its source and never writes to it, so the const_cast is safe.
  void* home =
      current_->kind_ == CollectiveKind::kReduceScatter ? const_cast<void*>(buffer.source) : buffer.destination;
  return static_cast<std::byte*>(home) + first * DTypeBytes(buffer.dtype);
}

absl::Status Communicator::CopyOwn(const PreparedCollective& collective) {
  for (const CollectiveBuffer& buffer : collective.buffers_) {
    const int64_t bytes = buffer.elements * DTypeBytes(buffer.dtype);
    if (bytes == 0 || collective.native_[&buffer - collective.buffers_.data()]) continue;
    if (collective.kind_ == CollectiveKind::kReduceScatter) {
      if (members() > 1) continue;
      WEFT_RETURN_IF_ERROR(device_->AddTo(stream_, buffer.dtype, buffer.source, buffer.elements, buffer.accumulate,
                                          buffer.destination_dtype, buffer.destination));
      continue;
    }
    const int64_t offset = collective.kind_ == CollectiveKind::kAllGather ? self_ * bytes : 0;
    std::byte* own = static_cast<std::byte*>(buffer.destination) + offset;
    if (own != buffer.source) WEFT_RETURN_IF_ERROR(device_->Copy(stream_, own, buffer.source, bytes));
  }
  return absl::OkStatus();
}

absl::Status Communicator::Start(Endpoint& endpoint, const PreparedCollective& collective) {
  WEFT_RETURN_IF_ERROR(AllocateScratch());
  current_ = &collective;
  batch_ = members() > 1 ? 0 : collective.batches_.size();
  round_ = 0;
  start_ns_ = 0;
  used_transfers_ = 0;
  WEFT_RETURN_IF_ERROR(RunNative(collective));
  WEFT_RETURN_IF_ERROR(CopyOwn(collective));
  return batch_ < collective.batches_.size() ? PostRound(endpoint) : absl::OkStatus();
}

absl::Status Communicator::PostRound(Endpoint& endpoint) {
  const Batch& batch = current_->batches_[batch_];
  const RouteRound& round = batch.route->rounds[round_];
  used_transfers_ = 0;
  const auto post = [&](const RouteMessage& message, const Piece& piece, bool send) -> absl::Status {
    Transfer& transfer = transfers_[used_transfers_];
    Describe(*current_, batch, piece, message, &transfer);
    if (transfer.bytes == 0) return absl::OkStatus();
    ++used_transfers_;
    transfer.data = Data(piece, message.chunk, message.slot);
    return send ? endpoint.PostSend(&transfer) : endpoint.PostRecv(&transfer);
  };
  WEFT_RETURN_IF_ERROR(endpoint.BeginGroup());
  for (const bool send : {false, true}) {
    for (size_t p = batch.first; p < batch.last; ++p) {
      for (const RouteMessage& message : send ? round.sends : round.receives) {
        WEFT_RETURN_IF_ERROR(post(message, current_->pieces_[p], send));
      }
    }
  }
  return endpoint.EndGroup();
}

absl::Status Communicator::FinishRound() {
  const Batch& batch = current_->batches_[batch_];
  const RouteRound& round = batch.route->rounds[round_];
  for (size_t p = batch.first; p < batch.last; ++p) {
    for (const RouteResult& result : round.results) {
      WEFT_RETURN_IF_ERROR(FinishResult(current_->pieces_[p], round, result));
    }
  }
  return absl::OkStatus();
}

absl::Status Communicator::FinishResult(const Piece& piece, const RouteRound& round, const RouteResult& result) {
  const int chunk = round.receives[result.first].chunk;
  const int64_t elements = Elements(piece, chunk);
  if (elements == 0) return absl::OkStatus();
  const CollectiveBuffer& buffer = current_->buffers_[piece.buffer];
  const auto received = [&](size_t i) { return Data(piece, chunk, round.receives[i].slot); };
  if (!result.reduces && result.completes) {
    // This is the member's own range of a reduce-scatter, which another member has summed.
    return device_->AddTo(
        stream_, buffer.dtype, received(result.first), elements, buffer.accumulate, buffer.destination_dtype,
        static_cast<std::byte*>(buffer.destination) + piece.from * DTypeBytes(buffer.destination_dtype));
  }
  if (!result.reduces) {
    std::byte* to = Data(piece, chunk, result.result_slot);
    if (received(result.first) == to) return absl::OkStatus();
    return device_->Copy(stream_, to, received(result.first), elements * DTypeBytes(buffer.dtype));
  }
  // The parts are summed in member order, with the member's own term at its own place.
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
    return device_->Sum(stream_, buffer.dtype, elements, parts_, Data(piece, chunk, result.result_slot));
  }
  std::byte* to = static_cast<std::byte*>(buffer.destination) + piece.from * DTypeBytes(buffer.destination_dtype);
  if (OneByOne(current_->kind_, buffer)) {
    for (size_t i = 0; i < parts_.size(); ++i) {
      WEFT_RETURN_IF_ERROR(device_->AddTo(stream_, buffer.dtype, parts_[i], elements, buffer.accumulate || i > 0,
                                          buffer.destination_dtype, to));
    }
    return absl::OkStatus();
  }
  if (buffer.dtype == buffer.destination_dtype && !buffer.accumulate) {
    return device_->Sum(stream_, buffer.dtype, elements, parts_, to);
  }
  std::byte* sum = received(result.first);
  WEFT_RETURN_IF_ERROR(device_->Sum(stream_, buffer.dtype, elements, parts_, sum));
  return device_->AddTo(stream_, buffer.dtype, sum, elements, buffer.accumulate, buffer.destination_dtype, to);
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
    WEFT_RETURN_IF_ERROR(FinishRound());
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

}  // namespace weft::exec
