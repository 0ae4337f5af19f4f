// A function with its own stack that can stop halfway and continue later, on the thread that made it.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FIBER_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FIBER_H_

#include <cstddef>
#include <memory>

namespace weft::exec::emulation {

class Fiber {
 public:
  // `function` must never return; it yields for the last time instead. If no stack can be allocated, the process ends,
  // as with `new`.
  Fiber(void (*function)(void*), void* argument);
  // Objects on the fiber's stack are not destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // Runs the fiber until it yields.
  void Resume();
  // Called in the fiber: returns to Resume.
  void Yield();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace weft::exec::emulation

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FIBER_H_
