// Device memory that is unused before the first step. In this memory, each library runs its kernels once before the
// first step, because the device loads a kernel's code at its first launch. If a step loaded the code, loading might
// have to wait for everything that the device runs. That includes kernels that wait for another rank, which in turn
// waits for this one.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_IDLE_MEMORY_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_IDLE_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::exec::cuda {

class IdleMemory {
 public:
  // `data` is aligned to 256 bytes; null = no idle memory.
  IdleMemory(void* data, int64_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(data == nullptr ? 0 : bytes) {}

  bool empty() const { return bytes_ <= 0; }
  // Makes Take start again at the beginning.
  void Begin() { next_ = 0; }
  // Returns `bytes` bytes, aligned to 256, after those taken since Begin. If too few are left, Take starts again at the
  // beginning; tensors may then overlap, which does no harm if nobody reads the result. Returns null if the idle memory
  // is smaller than `bytes`.
  void* Take(int64_t bytes) {
    bytes = std::max<int64_t>(bytes, 1);
    if (bytes > bytes_) return nullptr;
    if (bytes > bytes_ - next_) next_ = 0;
    return Advance(bytes);
  }
  // Like Take, but returns null if too few bytes are left.
  void* TakeApart(int64_t bytes) {
    bytes = std::max<int64_t>(bytes, 1);
    return bytes > bytes_ - next_ ? nullptr : Advance(bytes);
  }

  void* data() const { return data_; }
  // All bytes that were ever handed out lie below this offset.
  int64_t touched() const { return touched_; }

 private:
  void* Advance(int64_t bytes) {
    void* const taken = data_ + next_;
    touched_ = std::max(touched_, next_ + bytes);
    next_ = std::min(bytes_, (next_ + bytes + 255) / 256 * 256);
    return taken;
  }

  std::byte* data_;
  int64_t bytes_;
  int64_t next_ = 0;
  int64_t touched_ = 0;
};

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_IDLE_MEMORY_H_
