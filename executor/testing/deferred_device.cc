#include "executor/testing/deferred_device.h"

#include <sys/mman.h>

#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "executor/interface/transport.h"
#include "executor/numerics/sum_parts.h"
#include "proto/util/status.h"
#include "proto/util/units.h"

namespace weft::exec {
namespace {

// Number of possible lengths of a turn, in which one stream is preferred. The seed chooses whether a turn lasts for 1,
// 2, 4, ... or 64 items on average. With long turns some streams get far ahead.
constexpr uint64_t kTurns = 7;
// Maximum number of items that one query runs.
constexpr uint64_t kMaxAtOnce = 64;

void* Map(int64_t bytes, int protection) {
  void* memory =
      mmap(nullptr, static_cast<size_t>(bytes), protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

class DeferredBackend : public Backend {
 public:
  DeferredBackend(DeferredDevice* device, std::unique_ptr<Backend> backend)
      : device_(*device), backend_(std::move(backend)) {}

  absl::Status Run(const Step& step, absl::Span<const TensorView> inputs, absl::Span<const TensorView> outputs,
                   const StepContext& context) override {
    WEFT_ASSIGN_OR_RETURN(std::vector<TensorView> in, OnHost(inputs));
    WEFT_ASSIGN_OR_RETURN(std::vector<TensorView> out, OnHost(outputs));
    return device_.Enqueue(context.stream, [this, &step, in = std::move(in), out = std::move(out), context] {
      return backend_->Run(step, in, out, context);
    });
  }

  absl::StatusOr<std::unique_ptr<StepRun>> PrepareRun(absl::Span<const StepOfRun> steps) override {
    // The inner vectors must stay in place, because the steps point into them.
    std::vector<std::vector<TensorView>> views;
    views.reserve(2 * steps.size());
    std::vector<StepOfRun> on_host(steps.begin(), steps.end());
    for (StepOfRun& step : on_host) {
      for (absl::Span<const TensorView>* side : {&step.inputs, &step.outputs}) {
        WEFT_ASSIGN_OR_RETURN(std::vector<TensorView> there, OnHost(*side));
        *side = views.emplace_back(std::move(there));
      }
    }
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StepRun> run, backend_->PrepareRun(on_host));
    if (run == nullptr) return run;
    return std::make_unique<DeferredRun>(device_, std::move(views), std::move(run));
  }

 private:
  class DeferredRun : public StepRun {
   public:
    DeferredRun(DeferredDevice& device, std::vector<std::vector<TensorView>> views, std::unique_ptr<StepRun> run)
        : device_(device), views_(std::move(views)), run_(std::move(run)) {}
    absl::Status Run(const StepContext& context) override {
      return device_.Enqueue(context.stream, [this, context] { return run_->Run(context); });
    }

   private:
    DeferredDevice& device_;
    const std::vector<std::vector<TensorView>> views_;
    std::unique_ptr<StepRun> run_;
  };

  absl::StatusOr<std::vector<TensorView>> OnHost(absl::Span<const TensorView> views) const {
    std::vector<TensorView> result(views.begin(), views.end());
    for (TensorView& view : result) {
      int64_t bytes = DTypeBytes(view.dtype);
      for (const int64_t extent : view.shape) bytes *= extent;
      WEFT_ASSIGN_OR_RETURN(view.data, device_.OnHost(view.data, bytes));
    }
    return result;
  }

  DeferredDevice& device_;
  std::unique_ptr<Backend> backend_;
};

}  // namespace

DeferredDevice::DeferredDevice(uint64_t seed, int hardware_queues)
    : hardware_queues_(hardware_queues), random_(seed), turn_(uint64_t{1} << random_() % kTurns) {}

DeferredDevice::~DeferredDevice() {
  for (const auto& [address, memory] : memory_) {
    munmap(reinterpret_cast<void*>(address), static_cast<size_t>(memory.bytes));
    if (memory.real != nullptr) munmap(memory.real, static_cast<size_t>(memory.bytes));
  }
}

absl::StatusOr<void*> DeferredDevice::Allocate(Place place, int64_t bytes) {
  const bool on_device = place != HOST;
  void* address = bytes > 0 ? Map(bytes, on_device ? PROT_NONE : PROT_READ | PROT_WRITE) : nullptr;
  void* real = address != nullptr && on_device ? Map(bytes, PROT_READ | PROT_WRITE) : nullptr;
  if (address == nullptr || (on_device && real == nullptr)) {
    if (address != nullptr) munmap(address, static_cast<size_t>(bytes));
    return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  memory_[reinterpret_cast<uintptr_t>(address)] = {bytes, static_cast<std::byte*>(real)};
  return address;
}

absl::StatusOr<int> DeferredDevice::NewStream(Priority) {
  std::lock_guard<std::mutex> lock(mutex_);
  streams_.emplace_back().priority = static_cast<uint32_t>(random_());
  return static_cast<int>(streams_.size()) - 1;
}

absl::StatusOr<int> DeferredDevice::NewEvent(bool timed) {
  std::lock_guard<std::mutex> lock(mutex_);
  events_.push_back({.timed = timed});
  return static_cast<int>(events_.size()) - 1;
}

absl::Status DeferredDevice::CheckStream(int stream) const {
  if (stream >= 0 && stream < static_cast<int64_t>(streams_.size())) return status_;
  return absl::InvalidArgumentError(absl::StrCat("stream ", stream, " of a device that has ", streams_.size()));
}

absl::Status DeferredDevice::CheckEvent(int event) const {
  if (event >= 0 && event < static_cast<int64_t>(events_.size())) return status_;
  return absl::InvalidArgumentError(absl::StrCat("event ", event, " of a device that has ", events_.size()));
}

absl::Status DeferredDevice::Push(int stream, Item item) {
  WEFT_RETURN_IF_ERROR(CheckStream(stream));
  streams_[stream].items.push_back(std::move(item));
  ++pending_;
  return absl::OkStatus();
}

absl::Status DeferredDevice::Enqueue(int stream, std::function<absl::Status()> work) {
  std::lock_guard<std::mutex> lock(mutex_);
  return Push(stream, {.work = std::move(work)});
}

absl::Status DeferredDevice::EnqueueWhen(int stream, std::function<bool()> ready, std::function<absl::Status()> work) {
  std::lock_guard<std::mutex> lock(mutex_);
  return Push(stream, {.work = std::move(work), .ready = std::move(ready)});
}

void DeferredDevice::LetOthersRun(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  std::this_thread::yield();
  lock.lock();
}

absl::Status DeferredDevice::Record(int event, int stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckEvent(event));
  WEFT_RETURN_IF_ERROR(CheckStream(stream));
  events_[event].record = ++records_;
  unfinished_.insert(records_);
  return Push(stream, {.event = event, .record = records_});
}

absl::Status DeferredDevice::Wait(int stream, int event) {
  std::lock_guard<std::mutex> lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckEvent(event));
  // The stream waits for the record that the event stands for now, even if the event stands for a later record when the
  // stream reaches the wait.
  const int64_t record = events_[event].record;
  return record == 0 ? CheckStream(stream) : Push(stream, {.record = record});
}

bool DeferredDevice::Runnable(const Stream& stream) const {
  if (stream.items.empty()) return false;
  const Item& head = stream.items.front();
  const bool waits = head.work == nullptr && head.event < 0;
  return waits ? Over(head.record) : head.ready == nullptr || head.ready();
}

absl::StatusOr<bool> DeferredDevice::RunOne() {
  WEFT_RETURN_IF_ERROR(status_);
  if (pending_ == 0) return false;
  if (random_() % turn_ == 0) {
    for (Stream& stream : streams_) stream.priority = static_cast<uint32_t>(random_());
  }
  Stream* chosen = nullptr;
  for (Stream& stream : streams_) {
    if (Runnable(stream) && (chosen == nullptr || stream.priority > chosen->priority)) chosen = &stream;
  }
  if (chosen == nullptr) {
    // A wait is for a record that was enqueued earlier. So of the items that head their streams, the one that was
    // enqueued first can always run, unless it is work that is not ready.
    for (const Stream& stream : streams_) {
      if (!stream.items.empty() && stream.items.front().ready != nullptr) return false;
    }
    return absl::InternalError("every stream of the deferred device waits");
  }
  const Item item = std::move(chosen->items.front());
  chosen->items.pop_front();
  --pending_;
  if (item.work != nullptr) {
    status_ = item.work();
  } else if (item.event >= 0) {
    unfinished_.erase(item.record);
    Event& event = events_[item.event];
    if (event.record == item.record) event.time_ns = MonotonicNanoseconds();
  }
  WEFT_RETURN_IF_ERROR(status_);
  return true;
}

absl::StatusOr<bool> DeferredDevice::Finished(int event) {
  std::lock_guard<std::mutex> lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckEvent(event));
  const int64_t record = events_[event].record;
  for (uint64_t left = random_() % kMaxAtOnce + 1; left > 0 && !Over(record); --left) {
    WEFT_ASSIGN_OR_RETURN(const bool ran, RunOne());
    if (!ran) break;
  }
  return Over(record);
}

absl::Status DeferredDevice::Synchronize(int event) {
  std::unique_lock<std::mutex> lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckEvent(event));
  const int64_t record = events_[event].record;
  while (!Over(record)) {
    WEFT_ASSIGN_OR_RETURN(const bool ran, RunOne());
    if (!ran) LetOthersRun(lock);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> DeferredDevice::TimeOf(int event) {
  std::lock_guard<std::mutex> lock(mutex_);
  WEFT_RETURN_IF_ERROR(CheckEvent(event));
  const Event& asked = events_[event];
  if (!asked.timed || asked.record == 0 || !Over(asked.record)) {
    return absl::FailedPreconditionError(
        absl::StrCat("event ", event, asked.timed ? " is not over" : " is not a timed one"));
  }
  return asked.time_ns;
}

absl::StatusOr<std::byte*> DeferredDevice::Find(const void* address, int64_t bytes, bool any) const {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  auto found = memory_.upper_bound(at);
  if (found != memory_.begin()) {
    const auto& [begin, memory] = *--found;
    const int64_t offset = static_cast<int64_t>(at - begin);
    if (offset < memory.bytes) {
      if (bytes < 0 || bytes > memory.bytes - offset) {
        return absl::OutOfRangeError(absl::StrCat(bytes, " bytes from byte ", offset, " of memory of ", memory.bytes));
      }
      return (memory.real != nullptr ? memory.real : reinterpret_cast<std::byte*>(begin)) + offset;
    }
  }
  if (any) return static_cast<std::byte*>(const_cast<void*>(address));
  if (bytes == 0) return nullptr;
  return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes that are not memory of the deferred device"));
}

absl::StatusOr<std::byte*> DeferredDevice::OnHost(const void* address, int64_t bytes) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return Find(address, bytes, /*any=*/true);
}

int DeferredDevice::streams() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(streams_.size());
}

int64_t DeferredDevice::pending() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return pending_;
}

absl::Status DeferredDevice::Copy(int stream, void* to, const void* from, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  WEFT_ASSIGN_OR_RETURN(std::byte * target, Own(to, bytes));
  WEFT_ASSIGN_OR_RETURN(const std::byte* source, Own(from, bytes));
  return Push(stream, {.work = [=] {
                if (bytes > 0) std::memcpy(target, source, static_cast<size_t>(bytes));
                return absl::OkStatus();
              }});
}

absl::Status DeferredDevice::Clear(int stream, void* to, int64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  WEFT_ASSIGN_OR_RETURN(std::byte * target, Own(to, bytes));
  return Push(stream, {.work = [=] {
                if (bytes > 0) std::memset(target, 0, static_cast<size_t>(bytes));
                return absl::OkStatus();
              }});
}

absl::Status DeferredDevice::Sum(int stream, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                                 void* destination) {
  if (!HasSum(dtype)) return absl::InvalidArgumentError(absl::StrCat("values of ", DType_Name(dtype), " have no sum"));
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t bytes = elements * DTypeBytes(dtype);
  std::vector<const void*> sources;
  for (const void* part : parts) {
    WEFT_ASSIGN_OR_RETURN(const std::byte* source, Own(part, bytes));
    sources.push_back(source);
  }
  WEFT_ASSIGN_OR_RETURN(std::byte * target, Own(destination, bytes));
  return Push(stream, {.work = [=, sources = std::move(sources)] {
                SumParts(dtype, elements, sources, target);
                return absl::OkStatus();
              }});
}

absl::Status DeferredDevice::AddTo(int stream, DType from, const void* values, int64_t elements, bool accumulate,
                                   DType to, void* destination) {
  if (!CanAddTo(from, to)) {
    return absl::InvalidArgumentError(
        absl::StrCat("values of ", DType_Name(from), " cannot be added to ", DType_Name(to)));
  }
  std::lock_guard<std::mutex> lock(mutex_);
  WEFT_ASSIGN_OR_RETURN(const std::byte* source, Own(values, elements * DTypeBytes(from)));
  WEFT_ASSIGN_OR_RETURN(std::byte * target, Own(destination, elements * DTypeBytes(to)));
  return Push(stream, {.work = [=] {
                weft::exec::AddTo(from, source, elements, accumulate, to, target);
                return absl::OkStatus();
              }});
}

absl::Status DeferredDevice::CopyNow(void* to, const void* from, int64_t bytes) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (pending_ > 0) {
    WEFT_ASSIGN_OR_RETURN(const bool ran, RunOne());
    if (!ran) LetOthersRun(lock);
  }
  if (bytes == 0) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(std::byte * target, Find(to, bytes, /*any=*/true));
  WEFT_ASSIGN_OR_RETURN(const std::byte* source, Find(from, bytes, /*any=*/true));
  std::memcpy(target, source, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

std::unique_ptr<Backend> MakeDeferredBackend(DeferredDevice* device, std::unique_ptr<Backend> backend) {
  return std::make_unique<DeferredBackend>(device, std::move(backend));
}

}  // namespace weft::exec
