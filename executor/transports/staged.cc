#include "executor/transports/staged.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/util/status.h"

namespace weft::exec {
namespace {

// Pinned memory of one piece that is in flight.
struct Slot {
  void* data = nullptr;
  int64_t bytes = 0;
  // The event of the copy between the slot and the device.
  int event = -1;
  Transfer message;
};

int64_t Pieces(int64_t bytes) {
  return std::max<int64_t>(1, bytes / kStagedPieceBytes + (bytes % kStagedPieceBytes != 0));
}

// Messages to or from one peer on one channel. Pieces use the slots in turn: of all pieces that were ever posted, piece
// i is in slot i mod kStagedPieces. A piece is counted three times. It begins with the copy to the slot (send) or with
// its message (receive). It turns when the message is posted (send) or the copy is enqueued (receive). It ends when the
// slot is free again.
struct Edge {
  bool send = false;
  int peer = 0;
  int channel = 0;
  Slot slots[kStagedPieces];
  int64_t slot_bytes = 0;
  int64_t begun = 0;
  int64_t turned = 0;
  int64_t ended = 0;
  // Posted transfers that are not done, oldest first. `beginning` is the first one with pieces that have not begun.
  Transfer* oldest = nullptr;
  Transfer* newest = nullptr;
  Transfer* beginning = nullptr;
  int64_t begun_of_it = 0;
  // True if the edge is in the list of edges that have work to do.
  bool listed = false;

  Slot& SlotOf(int64_t piece) { return slots[piece % kStagedPieces]; }
  bool Idle() const { return oldest == nullptr; }
};

class StagedEndpoint : public Endpoint {
 public:
  explicit StagedEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }

  absl::Status UseDevice(ComputeDevice* device) override {
    device_ = device;
    return absl::OkStatus();
  }

  int ranks_on_device() const override { return inner_->ranks_on_device(); }

  absl::Status Connect(absl::Span<const Transfer* const> sends, absl::Span<const Transfer* const> receives) override {
    if (device_ == nullptr) return absl::FailedPreconditionError("staged: Connect needs a device");
    for (const Transfer* transfer : sends) WEFT_RETURN_IF_ERROR(Connect(*transfer, /*send=*/true));
    for (const Transfer* transfer : receives) WEFT_RETURN_IF_ERROR(Connect(*transfer, /*send=*/false));
    active_.reserve(edges_.size());
    for (auto& [key, edge] : edges_) WEFT_RETURN_IF_ERROR(MakeSlots(edge));
    return absl::OkStatus();
  }

  absl::Status PostSend(Transfer* transfer) override {
    return transfer->stream < 0 ? inner_->PostSend(transfer) : Post(transfer, /*send=*/true);
  }
  absl::Status PostRecv(Transfer* transfer) override {
    return transfer->stream < 0 ? inner_->PostRecv(transfer) : Post(transfer, /*send=*/false);
  }

  absl::StatusOr<bool> Poll() override {
    WEFT_ASSIGN_OR_RETURN(const bool any, inner_->Poll());
    WEFT_ASSIGN_OR_RETURN(const bool done, AdvanceAll());
    return any || done;
  }

  // Device work wakes nobody, so the device is polled again soon while a copy is awaited.
  absl::StatusOr<bool> WaitForProgress(std::chrono::nanoseconds timeout) override {
    const auto end = std::chrono::steady_clock::now() + timeout;
    std::chrono::nanoseconds pause = std::chrono::microseconds(10);
    while (true) {
      WEFT_ASSIGN_OR_RETURN(const bool done, AdvanceAll());
      if (done) return true;
      const auto left = end - std::chrono::steady_clock::now();
      if (left <= std::chrono::nanoseconds(0)) return Poll();
      WEFT_ASSIGN_OR_RETURN(const bool any,
                            inner_->WaitForProgress(awaits_copy_ ? std::min<std::chrono::nanoseconds>(pause, left)
                                                                 : std::chrono::nanoseconds(left)));
      if (any) {
        WEFT_RETURN_IF_ERROR(AdvanceAll().status());
        return true;
      }
      pause = std::min<std::chrono::nanoseconds>(pause * 5 / 4, std::chrono::microseconds(500));
    }
  }

  void Wake() override { inner_->Wake(); }
  bool Abort(const absl::Status& status) override { return inner_->Abort(status); }
  absl::Status AbortReason() override { return inner_->AbortReason(); }
  void SetTimeout(std::chrono::nanoseconds timeout) override { inner_->SetTimeout(timeout); }
  void Note(int64_t step, int32_t action) override { inner_->Note(step, action); }
  absl::Status CheckPeers(LastNote* last) override { return inner_->CheckPeers(last); }

 private:
  using Key = std::tuple<bool, int, int>;

  absl::Status Connect(const Transfer& transfer, bool send) {
    if (transfer.peer < 0 || transfer.peer >= size() || transfer.bytes < 0) return Refuse(transfer);
    const auto [found, is_new] = edges_.try_emplace(Key(send, transfer.peer, transfer.channel));
    Edge& edge = found->second;
    edge.send = send;
    edge.peer = transfer.peer;
    edge.channel = transfer.channel;
    edge.slot_bytes = std::max(edge.slot_bytes, std::min(transfer.bytes, kStagedPieceBytes));
    return absl::OkStatus();
  }

  absl::Status MakeSlots(Edge& edge) {
    for (Slot& slot : edge.slots) {
      if (slot.event < 0) {
        WEFT_ASSIGN_OR_RETURN(slot.event, device_->NewEvent(/*timed=*/false));
        slot.message.peer = edge.peer;
        slot.message.channel = edge.channel;
      }
      if (edge.slot_bytes <= slot.bytes) continue;
      WEFT_ASSIGN_OR_RETURN(slot.data, device_->Allocate(HOST, edge.slot_bytes));
      slot.bytes = edge.slot_bytes;
      slot.message.data = slot.data;
    }
    return absl::OkStatus();
  }

  absl::Status Refuse(const Transfer& transfer) const {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank(), ": a transfer of ", transfer.bytes,
                                                   " bytes with rank ", transfer.peer, " of ", size()));
  }

  absl::Status Post(Transfer* transfer, bool send) {
    if (transfer->peer < 0 || transfer->peer >= size() || transfer->bytes < 0) return Refuse(*transfer);
    const auto found = edges_.find(Key(send, transfer->peer, transfer->channel));
    if (found == edges_.end() || found->second.slot_bytes < std::min(transfer->bytes, kStagedPieceBytes)) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank(), ": a ", send ? "send" : "receive", " of ", transfer->bytes, " bytes with rank ",
                       transfer->peer, " on channel ", transfer->channel, " was not announced to the transport: ",
                       found == edges_.end() ? 0 : found->second.slot_bytes, " bytes are reserved"));
    }
    Edge& edge = found->second;
    transfer->owner = rank();
    transfer->next = nullptr;
    transfer->start_ns = 0;
    transfer->parts_left = Pieces(transfer->bytes);
    transfer->done.store(false, std::memory_order_relaxed);
    if (edge.Idle()) {
      edge.oldest = transfer;
    } else {
      edge.newest->next = transfer;
    }
    edge.newest = transfer;
    if (!std::exchange(edge.listed, true)) active_.push_back(&edge);
    if (edge.beginning == nullptr) {
      edge.beginning = transfer;
      edge.begun_of_it = 0;
    }
    return Advance(edge).status();
  }

  // Returns whether a transfer became done.
  absl::StatusOr<bool> AdvanceAll() {
    bool any = std::exchange(done_since_, false);
    awaits_copy_ = false;
    // Edges that are idle now leave the list.
    size_t kept = 0;
    for (size_t i = 0; i < active_.size(); ++i) {
      Edge& edge = *active_[i];
      WEFT_RETURN_IF_ERROR(Advance(edge).status());
      edge.listed = !edge.Idle();
      if (edge.listed) active_[kept++] = &edge;
    }
    active_.resize(kept);
    any |= std::exchange(done_since_, false);
    return any;
  }

  absl::StatusOr<bool> Advance(Edge& edge) {
    while (true) {
      WEFT_ASSIGN_OR_RETURN(bool moved, edge.send ? AdvanceSend(edge) : AdvanceReceive(edge));
      if (!moved) return false;
    }
  }

  // NextBytes: the bytes of the piece that begins next. PieceData: the address of a piece on the device.
  static int64_t NextBytes(const Edge& edge) {
    return std::min(kStagedPieceBytes, edge.beginning->bytes - edge.begun_of_it * kStagedPieceBytes);
  }
  static std::byte* PieceData(const Transfer& transfer, int64_t piece) {
    return static_cast<std::byte*>(transfer.data) + piece * kStagedPieceBytes;
  }
  static void Begun(Edge& edge) {
    ++edge.begun;
    if (++edge.begun_of_it < Pieces(edge.beginning->bytes)) return;
    edge.beginning = edge.beginning->next;
    edge.begun_of_it = 0;
  }

  absl::StatusOr<bool> AdvanceSend(Edge& edge) {
    bool moved = false;
    if (edge.beginning != nullptr && edge.begun - edge.ended < kStagedPieces) {
      Slot& slot = edge.SlotOf(edge.begun);
      const Transfer& transfer = *edge.beginning;
      slot.message.bytes = NextBytes(edge);
      if (slot.message.bytes > 0) {
        WEFT_RETURN_IF_ERROR(
            device_->Copy(transfer.stream, slot.data, PieceData(transfer, edge.begun_of_it), slot.message.bytes));
      }
      WEFT_RETURN_IF_ERROR(device_->Record(slot.event, transfer.stream));
      Begun(edge);
      moved = true;
    }
    if (edge.turned < edge.begun) {
      Slot& slot = edge.SlotOf(edge.turned);
      WEFT_ASSIGN_OR_RETURN(const bool copied, device_->Finished(slot.event));
      if (copied) {
        WEFT_RETURN_IF_ERROR(inner_->PostSend(&slot.message));
        ++edge.turned;
        moved = true;
      } else {
        awaits_copy_ = true;
      }
    }
    if (edge.ended < edge.turned && edge.SlotOf(edge.ended).message.done.load(std::memory_order_acquire)) {
      PieceDone(edge, edge.SlotOf(edge.ended).message);
      ++edge.ended;
      moved = true;
    }
    return moved;
  }

  absl::StatusOr<bool> AdvanceReceive(Edge& edge) {
    bool moved = false;
    if (edge.beginning != nullptr && edge.begun - edge.ended == kStagedPieces && edge.ended < edge.turned) {
      WEFT_ASSIGN_OR_RETURN(const bool copied, device_->Finished(edge.SlotOf(edge.ended).event));
      edge.ended += copied;
      awaits_copy_ |= !copied;
    }
    if (edge.beginning != nullptr && edge.begun - edge.ended < kStagedPieces) {
      Slot& slot = edge.SlotOf(edge.begun);
      slot.message.bytes = NextBytes(edge);
      WEFT_RETURN_IF_ERROR(inner_->PostRecv(&slot.message));
      Begun(edge);
      moved = true;
    }
    if (edge.turned < edge.begun && edge.SlotOf(edge.turned).message.done.load(std::memory_order_acquire)) {
      Slot& slot = edge.SlotOf(edge.turned);
      // The next pieces to turn are those of the oldest transfer.
      const Transfer& transfer = *edge.oldest;
      if (slot.message.bytes > 0) {
        WEFT_RETURN_IF_ERROR(device_->Copy(transfer.stream,
                                           PieceData(transfer, Pieces(transfer.bytes) - transfer.parts_left), slot.data,
                                           slot.message.bytes));
      }
      WEFT_RETURN_IF_ERROR(device_->Record(slot.event, transfer.stream));
      ++edge.turned;
      PieceDone(edge, slot.message);
      moved = true;
    }
    return moved;
  }

  // Called when a piece of the oldest transfer is done.
  void PieceDone(Edge& edge, const Transfer& message) {
    Transfer* transfer = edge.oldest;
    if (transfer->start_ns == 0) transfer->start_ns = message.start_ns;
    if (--transfer->parts_left > 0) return;
    transfer->end_ns = std::max(message.end_ns, transfer->start_ns);
    edge.oldest = transfer->next;
    done_since_ = true;
    // From here on the owner may reuse the transfer.
    transfer->done.store(true, std::memory_order_release);
  }

  std::unique_ptr<Endpoint> inner_;
  ComputeDevice* device_ = nullptr;
  std::map<Key, Edge> edges_;
  // Edges with transfers that are not done, and maybe some that just became idle.
  std::vector<Edge*> active_;
  // True if a transfer became done since AdvanceAll last reported it.
  bool done_since_ = false;
  // True if a piece waits for a copy of the device, as AdvanceAll found.
  bool awaits_copy_ = false;
};

}  // namespace

std::unique_ptr<Endpoint> MakeStagedEndpoint(std::unique_ptr<Endpoint> inner) {
  return std::make_unique<StagedEndpoint>(std::move(inner));
}

absl::StatusOr<bool> UseDeviceOrStage(std::unique_ptr<Endpoint>& endpoint, ComputeDevice* device) {
  const absl::Status status = endpoint->UseDevice(device);
  if (!absl::IsUnimplemented(status)) {
    WEFT_RETURN_IF_ERROR(status);
    return false;
  }
  endpoint = MakeStagedEndpoint(std::move(endpoint));
  WEFT_RETURN_IF_ERROR(endpoint->UseDevice(device));
  return true;
}

}  // namespace weft::exec
