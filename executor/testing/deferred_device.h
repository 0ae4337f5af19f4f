// An emulation of CUDA's streams on the host, for tests that need no GPU. Enqueued work runs later, when the host asks
// about an event or wants memory, and then in a random legal order: FIFO within a stream, and ordered between streams
// by events only. Work that lacks a wait therefore gives wrong results for some seed.
//
// The host faults when it touches device memory, as it does with a GPU's memory.
#ifndef WEFT_EXECUTOR_TESTING_DEFERRED_DEVICE_H_
#define WEFT_EXECUTOR_TESTING_DEFERRED_DEVICE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "executor/interface/backend.h"
#include "executor/interface/device.h"

namespace weft::exec {

// Thread-safe: ranks may share it.
class DeferredDevice : public ComputeDevice {
 public:
  // With one thread, the order is the same for the same seed.
  explicit DeferredDevice(uint64_t seed, int hardware_queues = 0);
  ~DeferredDevice() override;

  absl::string_view name() const override { return "deferred"; }
  bool asynchronous() const override { return true; }
  int hardware_queues() const override { return hardware_queues_; }
  absl::StatusOr<void*> Allocate(Place place, int64_t bytes) override;
  absl::StatusOr<int> NewStream(Priority priority) override;
  absl::StatusOr<int> NewEvent(bool timed) override;
  absl::Status Record(int event, int stream) override;
  absl::Status Wait(int stream, int event) override;
  // Unless the event is over, runs some of the work: at least one item if there is any.
  absl::StatusOr<bool> Finished(int event) override;
  absl::Status Synchronize(int event) override;
  absl::StatusOr<int64_t> TimeOf(int event) override;
  absl::Status Copy(int stream, void* to, const void* from, int64_t bytes) override;
  absl::Status Clear(int stream, void* to, int64_t bytes) override;
  absl::Status Sum(int stream, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                   void* destination) override;
  absl::Status AddTo(int stream, DType from, const void* values, int64_t elements, bool accumulate, DType to,
                     void* destination) override;
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override;

  // Enqueues any work. If the work fails, later calls that name a stream or an event return its error.
  absl::Status Enqueue(int stream, std::function<absl::Status()> work);
  // Enqueues work that holds up its stream until `ready` returns true, like a kernel that waits for another device.
  // `ready` is called whenever the stream has come to this work and the device runs something. It must not call this
  // device.
  absl::Status EnqueueWhen(int stream, std::function<bool()> ready, std::function<absl::Status()> work);
  // Returns where the host finds the bytes of a device address, within enqueued work. Any other address is returned as
  // it is.
  absl::StatusOr<std::byte*> OnHost(const void* address, int64_t bytes) const;
  int streams() const;
  // Number of items that have not run, including records and waits.
  int64_t pending() const;

 private:
  struct Memory {
    int64_t bytes = 0;
    // The address where the bytes of device memory are. Null for host memory.
    std::byte* real = nullptr;
  };
  // Exactly one of three: work, a record, or a wait.
  struct Item {
    std::function<absl::Status()> work = {};
    // Null: the work can run as soon as it heads its stream.
    std::function<bool()> ready = {};
    int event = -1;
    // For a record: its own number. For a wait: the record that must be over.
    int64_t record = 0;
  };
  struct Stream {
    std::deque<Item> items;
    uint32_t priority = 0;
  };
  struct Event {
    bool timed = false;
    // The last record; 0 = none.
    int64_t record = 0;
    int64_t time_ns = 0;
  };

  // The lock is held when these are called.
  absl::Status CheckStream(int stream) const;
  absl::Status CheckEvent(int event) const;
  bool Over(int64_t record) const { return unfinished_.count(record) == 0; }
  bool Runnable(const Stream& stream) const;
  // Runs one item of a stream whose head can run. False if there is none: all streams are empty, or one has come to
  // work that is not ready.
  absl::StatusOr<bool> RunOne();
  // Called where another device may have to go on first.
  void LetOthersRun(std::unique_lock<std::mutex>& lock);
  absl::Status Push(int stream, Item item);
  absl::StatusOr<std::byte*> Find(const void* address, int64_t bytes, bool any) const;
  // Calls Find for an address in memory that Allocate has returned; any other address is an error.
  absl::StatusOr<std::byte*> Own(const void* address, int64_t bytes) const { return Find(address, bytes, false); }

  const int hardware_queues_;
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  const uint64_t turn_;
  std::map<uintptr_t, Memory> memory_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  int64_t records_ = 0;
  // Records that have been enqueued and have not run.
  std::set<int64_t> unfinished_;
  int64_t pending_ = 0;
  // The first error of work.
  absl::Status status_;
};

// Returns a backend that enqueues kernels as work of the device. `backend` runs them at once.
std::unique_ptr<Backend> MakeDeferredBackend(DeferredDevice* device, std::unique_ptr<Backend> backend);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_DEFERRED_DEVICE_H_
