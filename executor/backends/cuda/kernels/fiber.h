// A function with a stack of its own that can stop half-way and go on later, on the thread that made it.
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FIBER_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FIBER_H_

#include <cstddef>
#include <memory>

namespace weft::exec::emulation {

class Fiber {
 public:
  // `function` never returns; it yields for the last time. No stack to be had: ends the process, as `new` would.
  Fiber(void (*function)(void*), void* argument);
  // What is on its stack is not destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;

  // Runs it until it yields.
  void Resume();
  // In the fiber: goes back to Resume.
  void Yield();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace weft::exec::emulation

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_FIBER_H_
