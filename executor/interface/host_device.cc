#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "executor/interface/device.h"
#include "executor/interface/transport.h"
#include "executor/numerics/sum_parts.h"

namespace weft::exec {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

class HostDevice : public ComputeDevice {
 public:
  absl::string_view name() const override { return "host"; }
  bool asynchronous() const override { return false; }

  absl::StatusOr<void*> Allocate(Place place, int64_t bytes) override {
    constexpr size_t kPage = 4096;
    void* memory = nullptr;
    if (bytes < 0 || posix_memalign(&memory, kPage, static_cast<size_t>(bytes)) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot allocate ", bytes, " bytes"));
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      memory_.emplace_back(memory);
    }
    // Every page is touched here, so that no step touches one for the first time.
    std::memset(memory, 0, static_cast<size_t>(bytes));
    return memory;
  }

  absl::StatusOr<int> NewStream(Priority) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return streams_++;
  }
  absl::StatusOr<int> NewEvent(bool) override {
    std::lock_guard<std::mutex> lock(mutex_);
    times_.push_back(0);
    return static_cast<int>(times_.size()) - 1;
  }
  absl::Status Record(int event, int) override {
    std::lock_guard<std::mutex> lock(mutex_);
    times_[event] = MonotonicNanoseconds();
    return absl::OkStatus();
  }
  absl::Status Wait(int, int) override { return absl::OkStatus(); }
  absl::StatusOr<bool> Finished(int) override { return true; }
  absl::Status Synchronize(int) override { return absl::OkStatus(); }
  absl::StatusOr<int64_t> TimeOf(int event) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return times_[event];
  }

  absl::Status Copy(int, void* to, const void* from, int64_t bytes) override { return CopyNow(to, from, bytes); }
  absl::Status Clear(int, void* to, int64_t bytes) override {
    std::memset(to, 0, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Sum(int, DType dtype, int64_t elements, absl::Span<const void* const> parts,
                   void* destination) override {
    if (SumParts(dtype, elements, parts, destination)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("values of ", DType_Name(dtype), " have no sum"));
  }
  absl::Status AddTo(int, DType from, const void* values, int64_t elements, bool accumulate, DType to,
                     void* destination) override {
    if (!CanAddTo(from, to)) {
      return absl::InvalidArgumentError(
          absl::StrCat("values of ", DType_Name(from), " cannot be added to ", DType_Name(to)));
    }
    weft::exec::AddTo(from, values, elements, accumulate, to, destination);
    return absl::OkStatus();
  }
  absl::Status CopyNow(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

 private:
  // Ranks may share the device.
  std::mutex mutex_;
  std::vector<std::unique_ptr<void, Free>> memory_;
  int streams_ = 0;
  std::vector<int64_t> times_;
};

}  // namespace

std::unique_ptr<ComputeDevice> MakeHostDevice() { return std::make_unique<HostDevice>(); }

}  // namespace weft::exec
