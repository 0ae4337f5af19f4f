#ifndef WEFT_EXECUTOR_TRANSPORTS_TRANSFER_QUEUE_H_
#define WEFT_EXECUTOR_TRANSPORTS_TRANSFER_QUEUE_H_

#include "executor/interface/transport.h"

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

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TRANSFER_QUEUE_H_
