// One rank's connection to another: reads and writes frames without waiting. Used under the endpoint's lock.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TCP_PEER_H_
#define WEFT_EXECUTOR_TRANSPORTS_TCP_PEER_H_

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "executor/interface/transport.h"
#include "executor/transports/tcp_frame.h"
#include "executor/transports/tcp_mesh.h"

namespace weft::exec {

// A queue of posted transfers in the order of posting. It links the transfers through their `next` fields, so it
// allocates nothing.
class TransferQueue {
 public:
  Transfer* head() const { return head_; }
  void Push(Transfer* transfer) {
    transfer->next = nullptr;
    (tail_ == nullptr ? head_ : tail_->next) = transfer;
    tail_ = transfer;
  }
  // Null if the queue is empty.
  Transfer* Pop() {
    Transfer* transfer = head_;
    if (transfer != nullptr && (head_ = transfer->next) == nullptr) tail_ = nullptr;
    return transfer;
  }
  void Clear() { head_ = tail_ = nullptr; }

 private:
  Transfer* head_ = nullptr;
  Transfer* tail_ = nullptr;
};

class TcpPeer {
 public:
  // The endpoint's handlers for what a peer sends. They are called from Read and Write.
  struct Events {
    std::function<void(Transfer*)> on_done;
    std::function<void(const absl::Status&)> on_abort;
    std::function<void(int by, const absl::Status&)> on_verdict;
    // Called for errors of the peer: sizes that differ, bytes that are no frames.
    std::function<void(const absl::Status&)> on_error;
  };

  TcpPeer(int self, int rank, int ranks, TcpConnection connection, const Events* events);

  // ---- For the endpoint's rank.
  void PostSend(Transfer* transfer);
  void PostRecv(Transfer* transfer);
  void Queue(const Frame& frame, absl::string_view payload);
  // Forgets all transfers; their memory is not touched any more. Frames in progress are completed with zeros.
  void DropTransfers();

  // ---- For the connection. Read and Write go on until they would have to wait.
  void Read();
  void Write();
  bool open() const { return connection_.socket.open(); }
  int fd() const { return connection_.socket.fd(); }
  // True if Write must go on when the connection takes more.
  bool blocked() const { return blocked_; }
  // True if no bytes are left to be written.
  bool flushed() const { return !open() || (!blocked_ && control_.empty() && !InPart() && sending_.head() == nullptr); }
  // Leaves the connection open until the process ends.
  void KeepOpen() { connection_.socket.Release(); }

  // ---- What is known of the peer.
  // It has ended in order.
  bool left() const { return left_; }
  // When its connection broke before it had ended in order; 0 = it did not break.
  int64_t lost_ns() const { return lost_ns_; }
  bool HasTransfers() const;
  int64_t step() const { return step_; }
  int32_t action() const { return action_; }
  // Returns the process and its host, as in "process 1234 at 10.0.0.2".
  std::string Description() const;

  // Sets the note that is sent with every frame.
  void SetNote(int64_t step, int32_t action) {
    own_step_ = step;
    own_action_ = action;
  }

 private:
  struct Channel {
    TransferQueue sends, receives;
    // Sizes of the peer's posted receives that have no send yet.
    std::deque<int64_t> ready;
    // Bytes of the first receive that have arrived so far.
    int64_t received = 0;
  };

  bool InPart() const { return header_sent_ < header_.size() || part_left_ > 0; }
  void Match(int number, Channel& channel);
  void BeginPart();
  void EndPart();
  void Lose();
  // Called when a whole header has arrived.
  void OnFrame(absl::string_view header);
  void OnPayload();
  void OnData();

  const int self_, rank_, ranks_;
  TcpConnection connection_;
  const Events& events_;
  std::map<int, Channel> channels_;
  bool left_ = false;
  int64_t lost_ns_ = 0;
  int64_t step_ = 0, own_step_ = 0;
  int32_t action_ = 0, own_action_ = 0;

  // Whole frames that carry no bytes of a message. They are written before the next part of a message.
  std::string control_;
  // Sends whose receives are ready, in order. `sent_` counts the bytes of the first send that were put into parts.
  TransferQueue sending_;
  int64_t sent_ = 0;
  // The part of a message that is being written: a frame header, then bytes. After an abort `part_data_` is null, and
  // zeros are written for the bytes that are left.
  std::string header_;
  size_t header_sent_ = 0;
  const char* part_data_ = nullptr;
  uint32_t part_left_ = 0;
  bool blocked_ = false;

  // Bytes that have arrived and have not been examined yet.
  std::vector<char> input_;
  size_t input_begin_ = 0, input_end_ = 0;
  Frame frame_;
  // The payload of the frame that is being read. If the target is null, the payload belongs to an abort or verdict
  // (`text_`), or is dropped.
  uint32_t payload_left_ = 0;
  char* payload_to_ = nullptr;
  std::string text_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TCP_PEER_H_
