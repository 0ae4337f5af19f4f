// Lets the source of a kernel compile twice: by nvcc for the device, and by a C++ compiler for the emulation of CUDA's
// grids, blocks and warps on the host (emulation.h), where every kernel is tested without a GPU.
//
// A kernel is a plain struct. Its members are its arguments, and `template <typename Thread> operator()(Thread& thread)
// const` is the work of one thread. `kMaxThreads` bounds the threads of its blocks. `kMinBlocks` (optional) limits
// registers so that this many such blocks fit on a multiprocessor. Blocks have one dimension and whole warps.
//
// A thread learns everything about its surroundings from `thread`:
//   index() count() lane() warp() warps()       in its block
//   block() blocks()                             of the grid
//   Sync()                                       barrier of the block: all its threads must reach it
//   ShuffleXor(x, mask), Shuffle(x, lane)        in the warp: all 32 lanes must reach it
//   Shared<T>(first_byte, elements)              part of the block's shared memory: read with [], written by Put(i, x)
//   AtomicAdd(p, x)                              integers only: sums of floats would depend on the order
//   SharedWords(byte)                            loads 16 bytes of shared memory at once
//   CopyAsync(byte, from)                        starts a copy of 16 bytes of memory to shared memory
//   EndCopies()                                  ends a group of the copies that this thread has started
//   AwaitCopies<n>()                             waits for all groups but the last n; after it, this thread (and no
//                                                other) sees what its groups have copied
#ifndef WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PORTABLE_H_
#define WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PORTABLE_H_

#include <math.h>
#include <stdio.h>

#include <atomic>
#include <type_traits>

#include "executor/backends/cuda/kernels/numbers.h"
#include "executor/backends/cuda/kernels/types.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#else
#include "executor/backends/cuda/kernels/emulation.h"
#endif

namespace weft::exec::cuda {

inline constexpr int kWarp = 32;

// True if a launch can pass the kernel, which holds its arguments, as bytes in 4 KB of constant memory.
template <typename Kernel>
constexpr bool kFitsLaunchArguments = sizeof(Kernel) <= 4096 && std::is_trivially_copyable_v<Kernel>;

#ifdef __CUDACC__

template <typename T>
struct SharedArray {
  T* data;
  WEFT_DEVICE const T& operator[](int64_t i) const { return data[i]; }
  WEFT_DEVICE void Put(int64_t i, const T& x) const { data[i] = x; }
};

class DeviceThread {
 public:
  WEFT_DEVICE int index() const { return static_cast<int>(threadIdx.x); }
  WEFT_DEVICE int count() const { return static_cast<int>(blockDim.x); }
  WEFT_DEVICE int lane() const { return index() % kWarp; }
  WEFT_DEVICE int warp() const { return index() / kWarp; }
  WEFT_DEVICE int warps() const { return count() / kWarp; }
  WEFT_DEVICE int64_t block() const { return blockIdx.x; }
  WEFT_DEVICE int64_t blocks() const { return gridDim.x; }
  WEFT_DEVICE void Sync() const { __syncthreads(); }
  template <typename T>
  WEFT_DEVICE T ShuffleXor(T x, int mask) const {
    return __shfl_xor_sync(0xffffffffu, x, mask);
  }
  template <typename T>
  WEFT_DEVICE T Shuffle(T x, int lane) const {
    return __shfl_sync(0xffffffffu, x, lane);
  }
  template <typename T>
  WEFT_DEVICE SharedArray<T> Shared(int64_t first_byte, int64_t elements) const {
    extern __shared__ __align__(16) unsigned char weft_shared[];
    return {reinterpret_cast<T*>(weft_shared + first_byte)};
  }
  WEFT_DEVICE int32_t AtomicAdd(int32_t* p, int32_t x) const { return atomicAdd(p, x); }
  WEFT_DEVICE Words SharedWords(int64_t byte) const {
    extern __shared__ __align__(16) unsigned char weft_shared[];
    const uint4 words = *reinterpret_cast<const uint4*>(weft_shared + byte);
    return {{words.x, words.y, words.z, words.w}};
  }
  // The copy bypasses L1, because copied data are read once. The clobber "memory" keeps the compiler from moving the
  // thread's earlier reads of the destination after the copy.
  WEFT_DEVICE void CopyAsync(int64_t byte, const void* from) const {
    extern __shared__ __align__(16) unsigned char weft_shared[];
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(weft_shared + byte));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  }
  WEFT_DEVICE void EndCopies() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  template <int kLast>
  WEFT_DEVICE void AwaitCopies() const {
    asm volatile("cp.async.wait_group %0;" ::"n"(kLast) : "memory");
  }
};

// Number of blocks that must fit on a multiprocessor: the kernel's kMinBlocks if it has one, otherwise 1.
template <typename Kernel>
constexpr int MinBlocks() {
  if constexpr (requires { Kernel::kMinBlocks; }) {
    return Kernel::kMinBlocks;
  } else {
    return 1;
  }
}

template <typename Kernel>
__global__ void __launch_bounds__(Kernel::kMaxThreads, MinBlocks<Kernel>())
    RunKernel(const __grid_constant__ Kernel kernel) {
  DeviceThread thread;
  kernel(thread);
}

// Returns, for example, "cudaLaunchKernel: invalid argument (cudaErrorInvalidValue)". It reports the error of this
// call, not the thread's last error, which an event query or a library may have left. It also clears the last error, so
// that no later call reports it. An error of a running kernel appears in a later call, which did not cause it.
inline Outcome OutcomeOf(const char* call, cudaError_t error) {
  if (error == cudaSuccess) return nullptr;
  cudaGetLastError();
  // Errors of a kernel that has run; whichever call comes next reports them. All other errors belong to this call.
  const bool asynchronous = error == cudaErrorIllegalAddress || error == cudaErrorMisalignedAddress ||
                            error == cudaErrorIllegalInstruction || error == cudaErrorInvalidAddressSpace ||
                            error == cudaErrorInvalidPc || error == cudaErrorHardwareStackError ||
                            error == cudaErrorLaunchFailure || error == cudaErrorLaunchTimeout ||
                            error == cudaErrorAssert || error == cudaErrorECCUncorrectable || error == cudaErrorUnknown;
  static thread_local char text[256];
  snprintf(text, sizeof text, "%s: %s (%s)%s", call, cudaGetErrorString(error), cudaGetErrorName(error),
           !asynchronous ? "" : ", of this kernel or of one before it; CUDA_LAUNCH_BLOCKING=1 shows which one");
  return text;
}

// Requests much shared memory: CUDA gives a kernel more than 48 KiB only on request. The request is made once per
// device, for the maximum: ranks that share a device launch one kernel with different sizes at the same time, and the
// size of one rank must not limit another.
template <typename Kernel>
Outcome AllowSharedMemory(const void* function) {
  static std::atomic<uint64_t> allowed{0};
  int device = 0, most = 0;
  if (const Outcome outcome = OutcomeOf("cudaGetDevice", cudaGetDevice(&device)); outcome != nullptr) return outcome;
  const uint64_t bit = device < 64 ? uint64_t{1} << device : 0;
  if ((allowed.load() & bit) != 0) return nullptr;
  Outcome outcome = OutcomeOf("cudaDeviceGetAttribute",
                              cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  if (outcome != nullptr) return outcome;
  outcome = OutcomeOf("cudaFuncSetAttribute",
                      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  if (outcome != nullptr) return outcome;
  // A hint to make shared memory as large as possible, at the expense of L1. The number of blocks that fit on a
  // multiprocessor matters more than L1, and registers limit that number too.
  outcome = OutcomeOf(
      "cudaFuncSetAttribute",
      cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
  if (outcome == nullptr) allowed.fetch_or(bit);
  return outcome;
}

// Enqueues the kernel on a cudaStream_t. With no blocks there is nothing to do.
template <typename Kernel>
Outcome LaunchKernel(const Kernel& kernel, int64_t blocks, int threads, int64_t shared_bytes, void* stream) {
  static_assert(kFitsLaunchArguments<Kernel>);
  if (blocks <= 0) return nullptr;
  if (blocks > 0x7fffffff || threads > Kernel::kMaxThreads || threads % kWarp != 0 || threads <= 0) {
    return "the grid or block of a launch is too large, or the block does not hold whole warps";
  }
  const void* function = reinterpret_cast<const void*>(&RunKernel<Kernel>);
  if (stream == LoadOnly()) {
    cudaFuncAttributes attributes;
    return OutcomeOf("cudaFuncGetAttributes", cudaFuncGetAttributes(&attributes, function));
  }
  // Even where less would be given without a request, the driver's own division of L1 may leave room for fewer blocks.
  constexpr int64_t kMuchShared = 16 * 1024;
  if (shared_bytes > kMuchShared) {
    const Outcome outcome = AllowSharedMemory<Kernel>(function);
    if (outcome != nullptr) return outcome;
  }
  void* arguments[] = {const_cast<Kernel*>(&kernel)};
  return OutcomeOf("cudaLaunchKernel",
                   cudaLaunchKernel(function, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
                                    arguments, static_cast<size_t>(shared_bytes), static_cast<cudaStream_t>(stream)));
}

WEFT_DEVICE Words LoadWords(const void* p) {
  const uint4 words = *static_cast<const uint4*>(p);
  return {{words.x, words.y, words.z, words.w}};
}
WEFT_DEVICE void StoreWords(void* p, const Words& words) {
  *static_cast<uint4*>(p) = make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
}

// Load and store eight aligned bytes.
WEFT_DEVICE void LoadPair(const void* p, uint32_t (&words)[2]) {
  const uint2 pair = *static_cast<const uint2*>(p);
  words[0] = pair.x;
  words[1] = pair.y;
}
WEFT_DEVICE void StorePair(void* p, const uint32_t (&words)[2]) {
  *static_cast<uint2*>(p) = make_uint2(words[0], words[1]);
}

// Load and store four aligned bytes.
WEFT_DEVICE uint32_t LoadWord(const void* p) { return *static_cast<const uint32_t*>(p); }
WEFT_DEVICE void StoreWord(void* p, uint32_t word) { *static_cast<uint32_t*>(p) = word; }

// Keeps the bits but hides them from the compiler.
WEFT_DEVICE void Opaque(uint32_t& word) { asm volatile("" : "+r"(word)); }

WEFT_DEVICE double DoubleOf(uint32_t low, uint32_t high) {
  return __hiloint2double(static_cast<int>(high), static_cast<int>(low));
}
WEFT_DEVICE uint32_t LowWord(double x) { return static_cast<uint32_t>(__double2loint(x)); }
WEFT_DEVICE uint32_t HighWord(double x) { return static_cast<uint32_t>(__double2hiint(x)); }

// a / b for positive b; 0 for b beyond 2^126.
WEFT_DEVICE float Quotient(float a, float b) { return __fdividef(a, b); }

// 2 to the power of x, within two units of the last place; results below 2^-126 are 0.
WEFT_DEVICE float PowerOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// a * b + c, rounded once.
WEFT_DEVICE float MultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }

#else

// Runs the kernel before it returns. The kernel is not enqueued on the stream.
template <typename Kernel>
Outcome LaunchKernel(const Kernel& kernel, int64_t blocks, int threads, int64_t shared_bytes, void* stream) {
  static_assert(kFitsLaunchArguments<Kernel>);
  if (blocks <= 0) return nullptr;
  if (blocks > 0x7fffffff || threads > Kernel::kMaxThreads || threads % kWarp != 0 || threads <= 0) {
    return "the grid or block of a launch is too large, or the block does not hold whole warps";
  }
  if (stream == LoadOnly()) return nullptr;
  const auto body = [](const void* arguments, emulation::Thread& thread) {
    (*static_cast<const Kernel*>(arguments))(thread);
  };
  return emulation::Run(blocks, threads, shared_bytes, body, &kernel);
}

inline Words LoadWords(const void* p) {
  emulation::CheckAlignment(p, 16);
  Words words;
  memcpy(&words, p, sizeof(words));
  return words;
}
inline void StoreWords(void* p, const Words& words) {
  emulation::CheckAlignment(p, 16);
  memcpy(p, &words, sizeof(words));
}

inline void LoadPair(const void* p, uint32_t (&words)[2]) {
  emulation::CheckAlignment(p, 8);
  memcpy(words, p, sizeof(words));
}
inline void StorePair(void* p, const uint32_t (&words)[2]) {
  emulation::CheckAlignment(p, 8);
  memcpy(p, words, sizeof(words));
}

inline uint32_t LoadWord(const void* p) {
  emulation::CheckAlignment(p, 4);
  uint32_t word;
  memcpy(&word, p, sizeof(word));
  return word;
}
inline void StoreWord(void* p, uint32_t word) {
  emulation::CheckAlignment(p, 4);
  memcpy(p, &word, sizeof(word));
}

inline float PowerOfTwo(float x) { return exp2f(x); }
inline float MultiplyAdd(float a, float b, float c) { return fmaf(a, b, c); }

inline void Opaque(uint32_t&) {}

inline double DoubleOf(uint32_t low, uint32_t high) {
  const uint64_t bits = uint64_t{high} << 32 | low;
  double x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
inline uint64_t BitsOfDouble(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline uint32_t LowWord(double x) { return static_cast<uint32_t>(BitsOfDouble(x)); }
inline uint32_t HighWord(double x) { return static_cast<uint32_t>(BitsOfDouble(x) >> 32); }

inline float Quotient(float a, float b) { return a / b; }

#endif

WEFT_DEVICE double Quotient(double a, double b) { return a / b; }
WEFT_DEVICE float Exp(float x) { return expf(x); }
WEFT_DEVICE double Exp(double x) { return exp(x); }
WEFT_DEVICE float Log(float x) { return logf(x); }
WEFT_DEVICE double Log(double x) { return log(x); }
WEFT_DEVICE float Sqrt(float x) { return sqrtf(x); }
WEFT_DEVICE double Sqrt(double x) { return sqrt(x); }
WEFT_DEVICE float Erfc(float x) { return erfcf(x); }
WEFT_DEVICE double Erfc(double x) { return erfc(x); }
template <typename T>
WEFT_DEVICE T Least(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
WEFT_DEVICE T Largest(T a, T b) {
  return a < b ? b : a;
}

// Quotient and remainder of non-negative numbers. 64-bit division is slow on a GPU and mostly not needed.
WEFT_DEVICE int64_t Divide(int64_t a, int64_t b) {
  if (((static_cast<uint64_t>(a) | static_cast<uint64_t>(b)) >> 32) == 0) {
    return static_cast<int64_t>(static_cast<uint32_t>(a) / static_cast<uint32_t>(b));
  }
  return a / b;
}
WEFT_DEVICE int64_t Modulo(int64_t a, int64_t b) { return a - Divide(a, b) * b; }

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace weft::exec::cuda

#endif  // WEFT_EXECUTOR_BACKENDS_CUDA_KERNELS_PORTABLE_H_
