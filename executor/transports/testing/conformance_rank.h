// A rank of a transport's conformance suite: its endpoint, and the memory of its messages.
#ifndef WEFT_EXECUTOR_TRANSPORTS_TESTING_CONFORMANCE_RANK_H_
#define WEFT_EXECUTOR_TRANSPORTS_TESTING_CONFORMANCE_RANK_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "proto/util/status.h"

namespace weft::exec {

class ConformanceRank {
 public:
  // For messages in host memory.
  explicit ConformanceRank(Endpoint* endpoint) : endpoint_(*endpoint), host_(MakeHostDevice()), device_(*host_) {}

  // For messages in device memory, on `streams` streams of the device in turn.
  static absl::StatusOr<std::unique_ptr<ConformanceRank>> OnDevice(Endpoint* endpoint, ComputeDevice* device,
                                                                   int streams) {
    std::unique_ptr<ConformanceRank> rank(new ConformanceRank(endpoint, device));
    WEFT_RETURN_IF_ERROR(endpoint->UseDevice(device));
    for (int i = 0; i < streams; ++i) {
      WEFT_ASSIGN_OR_RETURN(const int stream, device->NewStream(ComputeDevice::Priority::kNormal));
      rank->streams_.push_back(stream);
    }
    WEFT_ASSIGN_OR_RETURN(rank->event_, device->NewEvent(/*timed=*/false));
    return rank;
  }

  Endpoint& endpoint() { return endpoint_; }
  bool on_device() const { return host_ == nullptr; }
  // Null if messages are in host memory.
  ComputeDevice* device() { return on_device() ? &device_ : nullptr; }
  // The stream of the i-th transfer; -1 on the host.
  int Stream(int i) const { return on_device() ? streams_[i % streams_.size()] : -1; }

  // The bytes of a message: where the transport finds them, and where the host sees them. On a device, the host's bytes
  // are copied to the transport's place, and back, on the stream of the transfer.
  struct Memory {
    void* data = nullptr;
    uint8_t* host = nullptr;
    int64_t bytes = 0;
  };
  absl::StatusOr<Memory> NewMemory(int64_t bytes) {
    Memory memory;
    memory.bytes = bytes;
    WEFT_ASSIGN_OR_RETURN(void* const host, Take(HOST, bytes));
    memory.host = static_cast<uint8_t*>(host);
    memory.data = host;
    if (on_device()) {
      WEFT_ASSIGN_OR_RETURN(memory.data, Take(DEVICE, bytes));
    }
    return memory;
  }
  absl::Status Bring(const Memory& memory, int stream) {
    return on_device() ? device_.Copy(stream, memory.data, memory.host, memory.bytes) : absl::OkStatus();
  }
  absl::Status Fetch(const Memory& memory, int stream) {
    return on_device() ? device_.Copy(stream, memory.host, memory.data, memory.bytes) : absl::OkStatus();
  }
  // Overwrites what a message was sent from, which is allowed as soon as the send is done.
  absl::Status Overwrite(const Memory& memory, int stream) {
    return on_device() ? device_.Clear(stream, memory.data, memory.bytes) : absl::OkStatus();
  }
  // Waits until everything that this rank has enqueued is over. The host then sees what was fetched.
  absl::Status Finish() {
    for (const int stream : streams_) {
      WEFT_RETURN_IF_ERROR(device_.Record(event_, stream));
      WEFT_RETURN_IF_ERROR(device_.Synchronize(event_));
    }
    return absl::OkStatus();
  }
  // Makes all memory available again.
  void Reset() {
    for (Block& block : blocks_) block.used = false;
  }

  absl::Status Connect(const std::deque<Transfer>& sends, const std::deque<Transfer>& receives) {
    std::vector<const Transfer*> all[2];
    for (const Transfer& send : sends) all[0].push_back(&send);
    for (const Transfer& receive : receives) all[1].push_back(&receive);
    return endpoint_.Connect(all[0], all[1]);
  }

 private:
  struct Block {
    Place place = DEVICE;
    void* data = nullptr;
    int64_t bytes = 0;
    bool used = false;
  };

  ConformanceRank(Endpoint* endpoint, ComputeDevice* device) : endpoint_(*endpoint), device_(*device) {}

  absl::StatusOr<void*> Take(Place place, int64_t bytes) {
    for (Block& block : blocks_) {
      if (block.used || block.place != place || block.bytes != bytes) continue;
      block.used = true;
      return block.data;
    }
    WEFT_ASSIGN_OR_RETURN(void* const data, device_.Allocate(place, bytes));
    blocks_.push_back({place, data, bytes, true});
    return data;
  }

  Endpoint& endpoint_;
  std::unique_ptr<ComputeDevice> host_;
  ComputeDevice& device_;
  std::vector<int> streams_;
  int event_ = -1;
  std::vector<Block> blocks_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TRANSPORTS_TESTING_CONFORMANCE_RANK_H_
