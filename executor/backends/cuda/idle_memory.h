// Memory of the device that nobody uses before the first step. What libraries are to run is run in it once, because the
// code of a kernel is brought to the device at its first launch: in a step that may have to wait for all that the
// device runs, among it kernels that wait for another rank, which waits for this one.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_IDLE_MEMORY_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_IDLE_MEMORY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace weft::exec::cuda {

class IdleMemory {
 public:
  // Aligned to 256 bytes; null: there is none.
  IdleMemory(void* data, int64_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(data == nullptr ? 0 : bytes) {}

  bool empty() const { return bytes_ <= 0; }
  // From here on memory is handed out from the beginning again.
  void Begin() { next_ = 0; }
  // So many bytes, aligned to 256, behind those taken since Begin. If there is no room left, from the beginning again:
  // tensors then lie on one another, which is of no matter where nobody looks at the result. Null: more than there is.
  void* Take(int64_t bytes) {
    bytes = std::max<int64_t>(bytes, 1);
    if (bytes > bytes_) return nullptr;
    if (bytes > bytes_ - next_) next_ = 0;
    return Advance(bytes);
  }
  // The same, and null where there is no room left.
  void* TakeApart(int64_t bytes) {
    bytes = std::max<int64_t>(bytes, 1);
    return bytes > bytes_ - next_ ? nullptr : Advance(bytes);
  }

  void* data() const { return data_; }
  // All that was ever handed out lies below.
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
