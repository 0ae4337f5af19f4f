// Tests CudaDevice as far as possible without a GPU: the absence of a GPU is reported in one clear line, errors have
// the right texts and codes, and CUDA_DEVICE_MAX_CONNECTIONS is set. tests/gpu holds the other tests.
#include "executor/backends/cuda/cuda_device.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "executor/backends/cuda/cuda_status.h"

namespace weft::exec::cuda {
namespace {

TEST(CudaDevice, RefusesInOneLineWhereThereIsNone) {
  int driver = 0;
  ASSERT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  const auto device = CudaDevice::Open({});
  if (driver != 0 && device.ok()) GTEST_SKIP() << "there is a GPU here";
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.status().code(), absl::StatusCode::kFailedPrecondition) << device.status();
  const std::string message(device.status().message());
  EXPECT_EQ(message.rfind("backend cuda: ", 0), 0u) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  if (driver == 0) {
    EXPECT_EQ(message,
              "backend cuda: this machine has no NVIDIA driver (the loader finds no libcuda.so.1); install one, or run "
              "with --backend=cpu");
  }
  // The variable must have its maximum before the driver starts.
  EXPECT_STREQ(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
}

TEST(CudaStatus, NamesCallAndError) {
  EXPECT_TRUE(CudaStatus("cudaMalloc", cudaSuccess).ok());
  EXPECT_EQ(CudaStatus("cudaMemcpyAsync", cudaErrorIllegalAddress).message(),
            "cudaMemcpyAsync: an illegal memory access was encountered (cudaErrorIllegalAddress)");
  EXPECT_EQ(CudaStatus("cudaMalloc", cudaErrorMemoryAllocation).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace weft::exec::cuda
