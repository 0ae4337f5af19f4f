// Marks functions that a CUDA compiler also compiles for the device. Host and device then share one source for
// arithmetic that must agree bit for bit.
#ifndef WEFT_EXECUTOR_NUMERICS_DEVICE_CODE_H_
#define WEFT_EXECUTOR_NUMERICS_DEVICE_CODE_H_

#if defined(__CUDACC__)
#define WEFT_HOST_DEVICE __host__ __device__
#else
#define WEFT_HOST_DEVICE
#endif

#endif  // WEFT_EXECUTOR_NUMERICS_DEVICE_CODE_H_
