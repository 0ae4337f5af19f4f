#include "executor/backends/cuda/cuda_device.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "executor/backends/cuda/cuda_check.h"
#include "executor/backends/cuda/cuda_status.h"
#include "executor/backends/cuda/kernels/sum_parts.h"
#include "executor/interface/transport.h"
#include "executor/numerics/sum_parts.h"
#include "executor/platform/host_pages.h"
#include "executor/platform/parallel_ranges.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {
namespace {

constexpr int64_t kAlignment = 4096;
// All cores bring in the pages of a block of host memory that has at least this size.
constexpr int64_t kLargeHostMemory = int64_t{1} << 30;
// Pause between polls of an event that somebody waits for. The first kFastPolls polls follow each other at once.
constexpr std::chrono::microseconds kPollPause(20);
constexpr int kFastPolls = 20;

// The CUDA device of the calling thread, if a CudaDevice has set it; else -1.
thread_local int thread_device = -1;

const char* Variable(const char* name) { return std::getenv(name); }

DriverFacts QueryDriver() {
  DriverFacts facts;
  if (const char* visible = Variable("CUDA_VISIBLE_DEVICES")) {
    facts.visible_devices_set = true;
    facts.visible_devices = visible;
  }
  if (cudaDriverGetVersion(&facts.driver_version) != cudaSuccess) facts.driver_version = 0;
  if (cudaRuntimeGetVersion(&facts.runtime_version) != cudaSuccess) facts.runtime_version = CUDART_VERSION;
  const cudaError_t error = cudaGetDeviceCount(&facts.devices);
  if (error != cudaSuccess) {
    facts.devices = 0;
    if (error != cudaErrorNoDevice) facts.error = std::string(CudaStatus("cudaGetDeviceCount", error).message());
    cudaGetLastError();  // Clears the error, so that later calls do not find it.
  }
  return facts;
}

absl::Status LaunchStatus(Outcome outcome) {
  return outcome == nullptr ? absl::OkStatus() : absl::InternalError(absl::StrCat("launching a kernel: ", outcome));
}

// Loads the code of the kernels that collectives run. Errors are ignored here: they are reported when the kernels run.
void LoadSums() {
  const void* const parts[kMaxParts] = {};
  for (const Type type : {Type::kFp64, Type::kFp32, Type::kExact192}) {
    for (const int count : {1, kMaxParts}) Launch(SumParts{type, 1, parts, count, nullptr}, LoadOnly());
    Launch(AddValues{{nullptr, Type::kFp32}, 1, true, {nullptr, type}}, LoadOnly());
  }
}

}  // namespace

CudaDevice::Reference::~Reference() {
  if (event != nullptr) cudaEventDestroy(event);
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(const DeviceOptions& options) {
  // The driver reads the variable when it starts. A value set by the user stays.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  std::unique_ptr<CudaDevice> device(new CudaDevice);
  // Interpret the variable as CUDA does: at most 32, and 8 if it is not a positive number.
  int queues = 0;
  if (!absl::SimpleAtoi(Variable("CUDA_DEVICE_MAX_CONNECTIONS"), &queues) || queues < 1) queues = 8;
  device->hardware_queues_ = std::min(queues, 32);
  WEFT_RETURN_IF_ERROR(device->Initialize(options));
  return device;
}

absl::Status CudaDevice::Initialize(const DeviceOptions& options) {
  const DriverFacts facts = QueryDriver();
  WEFT_RETURN_IF_ERROR(CheckDriver(facts));
  WEFT_ASSIGN_OR_RETURN(ordinal_, ChooseDevice(options.ordinal, facts.devices, &Variable));
  cudaDeviceProp properties;
  WEFT_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties, &properties, ordinal_);
  product_ = properties.name;
  architecture_ = 10 * properties.major + properties.minor;
  multiprocessors_ = properties.multiProcessorCount;
  WEFT_RETURN_IF_ERROR(CheckArchitecture(product_, properties.major, properties.minor));
  WEFT_RETURN_IF_ERROR(Use());
  // Waiting threads sleep: ranks that share a machine need its cores.
  WEFT_RETURN_IF_CUDA_ERROR(cudaSetDeviceFlags, cudaDeviceScheduleBlockingSync);
  int lowest_priority = 0;
  WEFT_RETURN_IF_CUDA_ERROR(cudaDeviceGetStreamPriorityRange, &lowest_priority, &highest_priority_);
  LoadSums();
  // Compare the clocks now, while no other work can delay the comparison. A later comparison that takes too long is
  // given up, because this one can replace it.
  const std::lock_guard<std::mutex> lock(mutex_);
  return FreshReference().status();
}

CudaDevice::~CudaDevice() {
  if (!Use().ok()) return;
  // Work that still runs may use the memory that is freed below, so wait for it.
  cudaDeviceSynchronize();
  reference_ = nullptr;
  for (Event& event : events_) {
    event.reference = nullptr;
    cudaEventDestroy(event.event);
  }
  for (cudaStream_t stream : streams_) cudaStreamDestroy(stream);
  if (clock_stream_ != nullptr) cudaStreamDestroy(clock_stream_);
  for (void* memory : device_memory_) cudaFree(memory);
  for (void* memory : host_memory_) cudaFreeHost(memory);
  for (const auto& [memory, bytes] : host_pages_) {
    cudaHostUnregister(memory);
    UnmapHostPages(memory, bytes);
  }
}

absl::Status CudaDevice::Use() {
  if (thread_device == ordinal_) return absl::OkStatus();
  WEFT_RETURN_IF_CUDA_ERROR(cudaSetDevice, ordinal_);
  thread_device = ordinal_;
  return absl::OkStatus();
}

absl::StatusOr<ComputeDevice::Properties> CudaDevice::properties() {
  WEFT_RETURN_IF_ERROR(Use());
  size_t free = 0, total = 0;
  WEFT_RETURN_IF_CUDA_ERROR(cudaMemGetInfo, &free, &total);
  Properties properties;
  properties.product = product_;
  properties.memory_bytes = static_cast<int64_t>(total);
  properties.free_bytes = static_cast<int64_t>(free);
  properties.multiprocessors = multiprocessors_;
  properties.compute_capability = architecture_;
  return properties;
}

absl::StatusOr<void*> CudaDevice::Allocate(Place place, int64_t bytes) {
  WEFT_RETURN_IF_ERROR(Use());
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("cannot allocate ", bytes, " bytes"));
  // Allocate at least one byte: an empty arena needs an address too.
  const size_t size = static_cast<size_t>(bytes == 0 ? 1 : bytes);
  if (place == HOST) return AllocateHost(static_cast<int64_t>(size));
  void* memory = nullptr;
  size_t free = 0, total = 0;
  WEFT_RETURN_IF_CUDA_ERROR(cudaMemGetInfo, &free, &total);
  WEFT_RETURN_IF_ERROR(CheckMemory(product_, bytes, static_cast<int64_t>(free), static_cast<int64_t>(total)));
  WEFT_RETURN_IF_CUDA_ERROR(cudaMalloc, &memory, size);
  void* aligned = memory;
  if (reinterpret_cast<uintptr_t>(memory) % kAlignment != 0) {
    // CUDA aligns small blocks to multiples of 256 only. Allocate more and round the address up.
    cudaFree(memory);
    WEFT_RETURN_IF_CUDA_ERROR(cudaMalloc, &memory, size + kAlignment);
    aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory) + kAlignment - 1) / kAlignment * kAlignment);
  }
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    device_memory_.push_back(memory);
  }
  WEFT_RETURN_IF_CUDA_ERROR(cudaMemset, aligned, 0, size);
  // cudaMemset returns before it has finished, and our streams do not wait for the stream that it uses. So wait here.
  WEFT_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize, cudaStreamLegacy);
  return aligned;
}

absl::StatusOr<void*> CudaDevice::AllocateHost(int64_t bytes) {
  // Most host memory holds optimizer states, in large blocks. cudaHostAlloc would bring their pages in on one core
  // only.
  if (bytes >= kLargeHostMemory) {
    if (void* const pages = MapHostPages(bytes); pages != nullptr) {
      const cudaError_t error =
          cudaHostRegister(pages, static_cast<size_t>(bytes), cudaHostRegisterPortable | cudaHostRegisterMapped);
      void* on_device = nullptr;
      // The pages are usable only if they have the same address on host and device, since programs use one address.
      if (error == cudaSuccess && cudaHostGetDevicePointer(&on_device, pages, 0) == cudaSuccess && on_device == pages) {
        const std::lock_guard<std::mutex> lock(mutex_);
        host_pages_.emplace_back(pages, bytes);
        return pages;
      }
      if (error == cudaSuccess) cudaHostUnregister(pages);
      cudaGetLastError();
      UnmapHostPages(pages, bytes);
    }
  }
  void* memory = nullptr;
  if (const cudaError_t error = cudaHostAlloc(&memory, static_cast<size_t>(bytes), cudaHostAllocPortable);
      error != cudaSuccess) {
    cudaGetLastError();
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot pin ", bytes, " bytes of the host's memory: ", CudaStatus("cudaHostAlloc", error).message()));
  }
  ParallelRanges(bytes, int64_t{64} << 20, [memory](int64_t first, int64_t last) {
    std::memset(static_cast<char*>(memory) + first, 0, static_cast<size_t>(last - first));
  });
  const std::lock_guard<std::mutex> lock(mutex_);
  host_memory_.push_back(memory);
  return memory;
}

absl::StatusOr<int> CudaDevice::NewStream(Priority priority) {
  WEFT_RETURN_IF_ERROR(Use());
  cudaStream_t stream = nullptr;
  WEFT_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithPriority, &stream, cudaStreamNonBlocking,
                            priority == Priority::kHigh ? highest_priority_ : 0);
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.push_back(stream);
  return static_cast<int>(streams_.size()) - 1;
}

absl::StatusOr<int> CudaDevice::NewEvent(bool timed) {
  WEFT_RETURN_IF_ERROR(Use());
  Event event;
  event.timed = timed;
  // The flag cudaEventBlockingSync is left out: with it, the device would interrupt the host for each event. A trace
  // has some hundred thousand events, which the host polls and never waits for.
  WEFT_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags, &event.event, timed ? cudaEventDefault : cudaEventDisableTiming);
  const std::lock_guard<std::mutex> lock(mutex_);
  events_.push_back(std::move(event));
  return static_cast<int>(events_.size()) - 1;
}

void* CudaDevice::NativeStream(int stream) {
  const absl::StatusOr<cudaStream_t> found = FindStream(stream);
  return found.ok() ? *found : nullptr;
}

absl::StatusOr<cudaStream_t> CudaDevice::FindStream(int stream) {
  WEFT_RETURN_IF_ERROR(Use());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stream < 0 || stream >= static_cast<int>(streams_.size())) {
    return absl::InternalError(absl::StrCat("stream ", stream, " is not one of the device's ", streams_.size()));
  }
  return streams_[stream];
}

absl::StatusOr<cudaEvent_t> CudaDevice::FindEvent(int event) {
  WEFT_RETURN_IF_ERROR(Use());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (event < 0 || event >= static_cast<int>(events_.size())) {
    return absl::InternalError(absl::StrCat("event ", event, " is not one of the device's ", events_.size()));
  }
  return events_[event].event;
}

absl::StatusOr<std::shared_ptr<const CudaDevice::Reference>> CudaDevice::FreshReference() {
  // CUDA returns time differences as floats of milliseconds: exact to some 15 ns over a quarter of a second, but only
  // to a quarter of a millisecond over an hour. So times are measured from a recent reference, and each reference from
  // the one before it.
  constexpr double kRenewNanoseconds = 250e6, kPatienceNanoseconds = 1e6;
  const double now = static_cast<double>(MonotonicNanoseconds());
  if (reference_ != nullptr && now < renew_ns_) return reference_;
  if (clock_stream_ == nullptr) {
    WEFT_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithPriority, &clock_stream_, cudaStreamNonBlocking, highest_priority_);
  }
  auto fresh = std::make_shared<Reference>();
  // The loop below polls this event without a pause, because a sleeping thread would notice the event late.
  WEFT_RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags, &fresh->event, cudaEventDefault);
  const double before = static_cast<double>(MonotonicNanoseconds());
  WEFT_RETURN_IF_CUDA_ERROR(cudaEventRecord, fresh->event, clock_stream_);
  for (cudaError_t error; (error = cudaEventQuery(fresh->event)) != cudaSuccess;) {
    if (error != cudaErrorNotReady) return CudaStatus("cudaEventQuery", error);
    cudaGetLastError();  // Clears the status, so that later calls do not find it.
    // With more streams than hardware queues, this event may queue after work that waits for another rank, which in
    // turn waits for this thread. An older reference is good enough then.
    if (reference_ != nullptr && static_cast<double>(MonotonicNanoseconds()) - now > kPatienceNanoseconds) {
      renew_ns_ = static_cast<double>(MonotonicNanoseconds()) + kRenewNanoseconds;
      return reference_;
    }
  }
  if (reference_ == nullptr) {
    fresh->host_ns = (before + static_cast<double>(MonotonicNanoseconds())) / 2;
  } else {
    float milliseconds = 0;
    WEFT_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime, &milliseconds, reference_->event, fresh->event);
    fresh->host_ns = reference_->host_ns + 1e6 * static_cast<double>(milliseconds);
  }
  reference_ = std::move(fresh);
  renew_ns_ = now + kRenewNanoseconds;
  return reference_;
}

absl::Status CudaDevice::Record(int event, int stream) {
  WEFT_ASSIGN_OR_RETURN(const cudaStream_t native, FindStream(stream));
  WEFT_ASSIGN_OR_RETURN(const cudaEvent_t found, FindEvent(event));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (Event& entry = events_[event]; entry.timed) {
      WEFT_ASSIGN_OR_RETURN(entry.reference, FreshReference());
    }
  }
  WEFT_RETURN_IF_CUDA_ERROR(cudaEventRecord, found, native);
  return absl::OkStatus();
}

absl::Status CudaDevice::Wait(int stream, int event) {
  WEFT_ASSIGN_OR_RETURN(const cudaStream_t native, FindStream(stream));
  WEFT_ASSIGN_OR_RETURN(const cudaEvent_t found, FindEvent(event));
  WEFT_RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent, native, found, 0);
  return absl::OkStatus();
}

absl::StatusOr<bool> CudaDevice::Finished(int event) {
  WEFT_ASSIGN_OR_RETURN(const cudaEvent_t found, FindEvent(event));
  const cudaError_t error = cudaEventQuery(found);
  if (error == cudaErrorNotReady) {
    cudaGetLastError();  // Clears the status, which is not an error.
    return false;
  }
  if (error != cudaSuccess) return CudaStatus("cudaEventQuery", error);
  return true;
}

absl::Status CudaDevice::Synchronize(int event) {
  // cudaEventSynchronize would keep a core busy that other ranks need.
  for (int polls = 0;; ++polls) {
    WEFT_ASSIGN_OR_RETURN(const bool finished, Finished(event));
    if (finished) return absl::OkStatus();
    if (polls >= kFastPolls) std::this_thread::sleep_for(kPollPause);
  }
}

absl::StatusOr<int64_t> CudaDevice::TimeOf(int event) {
  WEFT_ASSIGN_OR_RETURN(const cudaEvent_t found, FindEvent(event));
  std::shared_ptr<const Reference> reference;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!events_[event].timed) return absl::InternalError(absl::StrCat("event ", event, " was made without times"));
    reference = events_[event].reference;
  }
  if (reference == nullptr) return absl::InternalError(absl::StrCat("event ", event, " was never recorded"));
  float milliseconds = 0;
  WEFT_RETURN_IF_CUDA_ERROR(cudaEventElapsedTime, &milliseconds, reference->event, found);
  return std::llround(reference->host_ns + 1e6 * static_cast<double>(milliseconds));
}

absl::Status CudaDevice::Copy(int stream, void* to, const void* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const cudaStream_t native, FindStream(stream));
  WEFT_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync, to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, native);
  return absl::OkStatus();
}

absl::Status CudaDevice::Clear(int stream, void* to, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  WEFT_ASSIGN_OR_RETURN(const cudaStream_t native, FindStream(stream));
  WEFT_RETURN_IF_CUDA_ERROR(cudaMemsetAsync, to, 0, static_cast<size_t>(bytes), native);
  return absl::OkStatus();
}

absl::Status CudaDevice::Sum(int stream, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                             void* destination) {
  if (!HasSum(dtype)) return absl::InvalidArgumentError(absl::StrCat("values of ", DType_Name(dtype), " have no sum"));
  if (parts.empty() || parts.size() > static_cast<size_t>(kMaxParts)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a sum of ", parts.size(), " parts; a device adds from 1 to ", kMaxParts, " at once"));
  }
  WEFT_ASSIGN_OR_RETURN(const cudaStream_t native, FindStream(stream));
  SumParts sum;
  sum.type = static_cast<Type>(dtype);
  sum.elements = elements;
  sum.parts = parts.data();
  sum.count = static_cast<int>(parts.size());
  sum.destination = destination;
  return LaunchStatus(Launch(sum, native));
}

absl::Status CudaDevice::AddTo(int stream, DType from, const void* values, int64_t elements, bool accumulate, DType to,
                               void* destination) {
  if (!CanAddTo(from, to)) {
    return absl::InvalidArgumentError(
        absl::StrCat("values of ", DType_Name(from), " cannot be added to ", DType_Name(to)));
  }
  WEFT_ASSIGN_OR_RETURN(const cudaStream_t native, FindStream(stream));
  AddValues add;
  add.values = {const_cast<void*>(values), static_cast<Type>(from)};
  add.elements = elements;
  add.accumulate = accumulate;
  add.destination = {destination, static_cast<Type>(to)};
  return LaunchStatus(Launch(add, native));
}

absl::Status CudaDevice::CopyNow(void* to, const void* from, int64_t bytes) {
  WEFT_RETURN_IF_ERROR(Use());
  WEFT_RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize);
  if (bytes == 0) return absl::OkStatus();
  WEFT_RETURN_IF_CUDA_ERROR(cudaMemcpy, to, from, static_cast<size_t>(bytes), cudaMemcpyDefault);
  // From pageable memory, cudaMemcpy returns once it has read the bytes, before they have arrived. Our streams do not
  // wait for the stream that cudaMemcpy uses. So wait here.
  WEFT_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize, cudaStreamLegacy);
  return absl::OkStatus();
}

}  // namespace weft::exec::cuda
