#include "executor/backends/cuda/cuda_check.h"

#include <gtest/gtest.h>

namespace weft::exec::cuda {
namespace {

constexpr int kRuntime = 13000;

DriverFacts Good() {
  DriverFacts facts;
  facts.driver_version = 13010;
  facts.runtime_version = kRuntime;
  facts.devices = 8;
  return facts;
}

TEST(CheckDriver, EachRefusalIsOneLine) {
  EXPECT_TRUE(CheckDriver(Good()).ok());
  DriverFacts none;
  none.runtime_version = kRuntime;
  EXPECT_EQ(CheckDriver(none).message(),
            "backend cuda: this machine has no NVIDIA driver (the loader finds no libcuda.so.1); install one, or run "
            "with --backend=cpu");
  DriverFacts old = Good();
  old.driver_version = 12080;
  old.error = "cudaGetDeviceCount: CUDA driver version is insufficient for CUDA runtime version";
  EXPECT_EQ(
      CheckDriver(old).message(),
      "backend cuda: the NVIDIA driver is too old (for CUDA 12.8); this program was built with CUDA 13.0 and needs a "
      "driver for CUDA 13.0 or newer; install one, or run with --backend=cpu");
  DriverFacts empty = Good();
  empty.devices = 0;
  EXPECT_EQ(CheckDriver(empty).message(),
            "backend cuda: this machine has an NVIDIA driver, but no GPU; run with --backend=cpu");
  empty.visible_devices_set = true;
  empty.visible_devices = "7";
  EXPECT_EQ(CheckDriver(empty).message(),
            "backend cuda: no GPU is visible (CUDA_VISIBLE_DEVICES is '7'); unset it, or run with --backend=cpu");
  DriverFacts broken = Good();
  broken.error = "cudaGetDeviceCount: initialization error (cudaErrorInitializationError)";
  EXPECT_EQ(CheckDriver(broken).message(), "backend cuda: " + broken.error);
}

TEST(CheckDriver, AnOlderMinorVersionRuns) {
  DriverFacts facts = Good();
  facts.driver_version = 13000;
  facts.runtime_version = 13020;
  EXPECT_TRUE(CheckDriver(facts).ok());
}

TEST(CheckArchitecture, BeforeAmpereIsRefusedWithTheReason) {
  EXPECT_EQ(CheckArchitecture("Tesla V100-SXM2-16GB", 7, 0).message(),
            "backend cuda: Tesla V100-SXM2-16GB has compute capability 7.0; allowed: 8.0 (A100) or newer, because "
            "older devices have no bfloat16 and CUDA 13 does not support V100 and older");
  EXPECT_FALSE(CheckArchitecture("T4", 7, 5).ok());
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}}) {
    EXPECT_TRUE(CheckArchitecture("a device", major, minor).ok()) << major << "." << minor;
  }
}

// Name and value of the environment variable that a launcher sets.
const char* set_name = nullptr;
const char* set_value = nullptr;
const char* Variable(const char* name) {
  return set_name != nullptr && absl::string_view(name) == set_name ? set_value : nullptr;
}

TEST(ChooseDevice, ByTheLocalRank) {
  set_name = nullptr;
  EXPECT_EQ(*ChooseDevice(-1, 8, Variable), 0);
  EXPECT_EQ(*ChooseDevice(3, 8, Variable), 3);
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    set_name = name;
    set_value = "5";
    EXPECT_EQ(*ChooseDevice(-1, 8, Variable), 5) << name;
    EXPECT_EQ(*ChooseDevice(2, 8, Variable), 2) << name;
    // Slurm, for example, may show each task only the one GPU that is bound to it.
    EXPECT_EQ(*ChooseDevice(-1, 1, Variable), 0) << name;
    EXPECT_EQ(ChooseDevice(-1, 4, Variable).status().message(),
              std::string("backend cuda: ") + name + " is 5, but this machine shows 4 GPUs, numbered from 0");
  }
  set_value = "x";
  EXPECT_EQ(ChooseDevice(-1, 4, Variable).status().message(),
            "backend cuda: SLURM_LOCALID is 'x'; allowed: the number of this process on its node, from 0");
  set_value = "-1";
  EXPECT_FALSE(ChooseDevice(-1, 4, Variable).ok());
  EXPECT_EQ(ChooseDevice(1, 1, Variable).status().message(),
            "backend cuda: the requested device is 1, but this machine shows 1 GPU, numbered from 0");
}

TEST(CheckMemory, SaysWhatIsPlannedAndFree) {
  EXPECT_TRUE(CheckMemory("H200", int64_t{100} << 30, int64_t{100} << 30, int64_t{140} << 30).ok());
  EXPECT_EQ(CheckMemory("H200", int64_t{150} << 30, int64_t{139} << 30, int64_t{140} << 30).message(),
            "backend cuda: too little memory on H200: the plan needs 161061273600 bytes (150.00 GiB), but only "
            "149250113536 (139.00 GiB) of 150323855360 (140.00 GiB) are free");
}

}  // namespace
}  // namespace weft::exec::cuda
