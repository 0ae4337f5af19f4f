// An emulation of CUDA's streams on the host, for tests that need no GPU. What is enqueued runs later, when the host
// asks about an event or wants memory, and then in a random legal order: FIFO within a stream, nothing but events
// between streams. So work that lacks a wait gives wrong results for some seed.
//
// Memory of the device is where the host faults when it touches it, as memory of a GPU is.
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
  // Of one thread, the order is the same for the same seed.
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
  // Runs some of the work, more than none if there is any, unless the event is over.
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

  // Any work. An error of it is that of the next call that returns one.
  absl::Status Enqueue(int stream, std::function<absl::Status()> work);
  // Work that holds up its stream until `ready`, which is asked whenever the stream has come to it and the device runs
  // something: a kernel that waits for another device. It must not call this device.
  absl::Status EnqueueWhen(int stream, std::function<bool()> ready, std::function<absl::Status()> work);
  // Where the host finds the bytes of an address of the device, within work that is enqueued; any other address is
  // itself.
  absl::StatusOr<std::byte*> OnHost(const void* address, int64_t bytes) const;
  int streams() const;
  // Work that has not run, records and waits among it.
  int64_t pending() const;

 private:
  struct Memory {
    int64_t bytes = 0;
    // Of device memory: where the bytes are. Null for memory of the host.
    std::byte* real = nullptr;
  };
  // Exactly one of the three.
  struct Item {
    std::function<absl::Status()> work = {};
    // Null: as soon as it heads its stream.
    std::function<bool()> ready = {};
    int event = -1;
    // Of a record: its own number. Of a wait: the record that must be over.
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

  // The lock is held in all of these.
  absl::Status CheckStream(int stream) const;
  absl::Status CheckEvent(int event) const;
  bool Over(int64_t record) const { return unfinished_.count(record) == 0; }
  bool Runnable(const Stream& stream) const;
  // Runs one item of a stream whose head can run; false if there is none, which is so only if all streams are empty or
  // one has come to work that is not ready.
  absl::StatusOr<bool> RunOne();
  // Where another device may have to go on first.
  void LetOthersRun(std::unique_lock<std::mutex>& lock);
  absl::Status Push(int stream, Item item);
  absl::StatusOr<std::byte*> Find(const void* address, int64_t bytes, bool any) const;
  // Of memory that Allocate has given.
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

// Runs kernels by `backend`, which runs them at once, as work of the device.
std::unique_ptr<Backend> MakeDeferredBackend(DeferredDevice* device, std::unique_ptr<Backend> backend);

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_DEFERRED_DEVICE_H_
