// Marks functions that a CUDA compiler makes for the device too, so that host and device share one source of arithmetic
// that must agree bit for bit.
#ifndef WEFT_EXECUTOR_NUMERICS_DEVICE_CODE_H_
#define WEFT_EXECUTOR_NUMERICS_DEVICE_CODE_H_

#if defined(__CUDACC__)
#define WEFT_HOST_DEVICE __host__ __device__
#else
#define WEFT_HOST_DEVICE
#endif

#endif  // WEFT_EXECUTOR_NUMERICS_DEVICE_CODE_H_
