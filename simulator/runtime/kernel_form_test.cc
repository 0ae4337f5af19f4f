#include "simulator/runtime/kernel_form.h"

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft::sim {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(KernelForm, TheLastOneForTheDeviceCounts) {
  Runtime runtime;
  ASSERT_TRUE(ParseMessage(R"(kernels { kernel: "MATMUL" time: 2 below_compute_capability: 100 }
                              kernels { kernel: "MATMUL" time: 3 from_compute_capability: 90 }
                              kernels { kernel: "ADD" time: 4 from_compute_capability: 90 })",
                           "test", &runtime)
                  .ok());
  EXPECT_EQ(FormOf(runtime, MATMUL, 0)->time(), 2);
  EXPECT_EQ(FormOf(runtime, MATMUL, 89)->time(), 2);
  EXPECT_EQ(FormOf(runtime, MATMUL, 90)->time(), 3);
  EXPECT_EQ(FormOf(runtime, MATMUL, 100)->time(), 3);
  EXPECT_EQ(FormOf(runtime, ADD, 89), nullptr);
  EXPECT_EQ(FormOf(runtime, GELU, 90), nullptr);
}

Device DeviceWith(int capability) {
  Device device;
  device.set_name("d");
  device.set_compute_capability(capability);
  return device;
}

Program With(std::initializer_list<Kernel> kernels) {
  Program program;
  program.add_segments();
  for (const Kernel kernel : kernels) program.add_segments()->add_steps()->set_kernel(kernel);
  return program;
}

// A form for some devices changes nothing for the others. Only `unsupported` forms lead to a refusal.
TEST(KernelForm, UnsupportedDevicesAreRefused) {
  const Program program = With({ADD, MATMUL});
  Runtime runtime;
  ASSERT_TRUE(ParseMessage(R"(name: "r"
                              kernels { kernel: "MATMUL" time: 0.5 }
                              kernels { kernel: "MATMUL" from_compute_capability: 1 below_compute_capability: 89
                                        unsupported: true }
                              kernels { kernel: "ADD" from_compute_capability: 90 })",
                           "test", &runtime)
                  .ok());
  for (const int capability : {0, 89, 90, 100})
    EXPECT_EQ(CheckForms(runtime, DeviceWith(capability), program), absl::OkStatus()) << capability;
  EXPECT_EQ(CheckForms(runtime, DeviceWith(1), program).message(),
            "runtime 'r' has no kernel for MATMUL on devices of compute capability 1 to 88; 'd' has 1");
  EXPECT_FALSE(CheckForms(runtime, DeviceWith(88), program).ok());
  EXPECT_THAT(NotesOnForms(runtime, DeviceWith(0), program),
              Contains("runtime 'r' has no kernel for MATMUL on devices of compute capability 1 to 88; 'd' states "
                       "none, so weft assumes a device with the kernel (set device.compute_capability)"));
  EXPECT_THAT(NotesOnForms(runtime, DeviceWith(90), program), Not(Contains(HasSubstr("weft assumes"))));
  // A later form makes the kernel available again.
  ASSERT_TRUE(ParseMessage(R"(name: "r" kernels { kernel: "MATMUL" unsupported: true }
                              kernels { kernel: "MATMUL" from_compute_capability: 80 })",
                           "test", &runtime)
                  .ok());
  EXPECT_EQ(CheckForms(runtime, DeviceWith(80), program), absl::OkStatus());
  EXPECT_EQ(CheckForms(runtime, DeviceWith(0), program).message(),
            "runtime 'r' has no kernel for MATMUL on devices of compute capability 0 and more; 'd' states none");
}

// If a device is in a gap between the forms of a kernel, the author may have forgotten it. Devices outside the range of
// all forms, or with a form of their own, get no note.
TEST(KernelForm, AGapBetweenFormsIsTold) {
  Runtime runtime;
  ASSERT_TRUE(ParseMessage(R"(name: "r"
                              kernels { kernel: "MATMUL" time: 2 from_compute_capability: 70
                                        below_compute_capability: 80 }
                              kernels { kernel: "MATMUL" time: 3 from_compute_capability: 90 })",
                           "test", &runtime)
                  .ok());
  const Program program = With({MATMUL});
  for (const int capability : {80, 89}) {
    EXPECT_EQ(CheckForms(runtime, DeviceWith(capability), program), absl::OkStatus());
    EXPECT_THAT(NotesOnForms(runtime, DeviceWith(capability), program),
                ElementsAre(absl::StrCat(
                    "runtime 'r' has forms of MATMUL for compute capabilities below and above ", capability,
                    ", that of 'd', but no form for it, so weft predicts the kernel without a form")));
    EXPECT_THAT(NotesOnForms(runtime, DeviceWith(capability), With({ADD})), IsEmpty());
  }
  for (const int capability : {1, 69, 70, 79, 90, 100}) {
    EXPECT_THAT(NotesOnForms(runtime, DeviceWith(capability), program), IsEmpty()) << capability;
  }
}

// The figures of products in 8 bits are relative to products in 16 bits.
TEST(KernelForm, WideProductsAreNotMadeOf8Bits) {
  Runtime always, newer, neither;
  ASSERT_TRUE(
      ParseMessage(R"(name: "always" kernels { kernel: "MATMUL" time: 0.5 in_8_bits: true })", "test", &always).ok());
  ASSERT_TRUE(ParseMessage(R"(name: "newer" kernels { kernel: "MATMUL" time: 0.9 factor_bytes: 2 }
                              kernels { kernel: "MATMUL" time: 0.5 from_compute_capability: 90 in_8_bits: true })",
                           "test", &newer)
                  .ok());
  // Casts do not show that products are in 8 bits, and neither do forms for unsupported devices.
  ASSERT_TRUE(ParseMessage(R"(name: "neither" kernels { kernel: "MATMUL" time: 0.5 factor_bytes: 2 }
                              kernels { kernel: "MATMUL" from_compute_capability: 1 below_compute_capability: 89
                                        unsupported: true })",
                           "test", &neither)
                  .ok());
  Program program = With({ADD, MATMUL});
  program.set_name("p");
  for (const DType narrow : {BF16, FP16}) {
    program.mutable_precision()->set_compute(narrow);
    for (const int capability : {0, 89, 90}) {
      EXPECT_EQ(CheckForms(always, DeviceWith(capability), program), absl::OkStatus());
      EXPECT_EQ(CheckForms(newer, DeviceWith(capability), program), absl::OkStatus());
    }
    EXPECT_THAT(
        NotesOnForms(newer, DeviceWith(90), program),
        ElementsAre(
            "runtime 'newer' multiplies in 8 bits, but MFU, HFU and the lower bound of computation use the peak of " +
            DType_Name(narrow) + ", which products in 8 bits can exceed"));
    EXPECT_THAT(NotesOnForms(newer, DeviceWith(89), program), IsEmpty());
    EXPECT_THAT(NotesOnForms(neither, DeviceWith(90), program), IsEmpty());
    EXPECT_THAT(NotesOnForms(always, DeviceWith(90), With({ADD})), IsEmpty());
  }
  for (const DType wide : {FP32, TF32, FP64}) {
    program.mutable_precision()->set_compute(wide);
    const std::string given = absl::StrCat("precision.compute = ", DType_Name(wide), " in program 'p'; ");
    for (const int capability : {0, 89, 90}) {
      EXPECT_EQ(CheckForms(always, DeviceWith(capability), program).message(),
                given + "allowed for runtime 'always', which multiplies in 8 bits: BF16, FP16");
      EXPECT_EQ(CheckForms(neither, DeviceWith(capability), program), absl::OkStatus());
    }
    EXPECT_EQ(CheckForms(newer, DeviceWith(89), program), absl::OkStatus());
    EXPECT_EQ(CheckForms(newer, DeviceWith(90), program).message(),
              given + "allowed for runtime 'newer', which multiplies in 8 bits: BF16, FP16");
  }
  Program sums = With({ADD});
  sums.mutable_precision()->set_compute(FP32);
  EXPECT_EQ(CheckForms(always, DeviceWith(90), sums), absl::OkStatus());
}

// A runtime may lack a kernel if the program does not use it.
TEST(KernelForm, OnlyKernelsOfTheProgramAreAskedFor) {
  Runtime runtime;
  ASSERT_TRUE(ParseMessage(R"(name: "r"
                              kernels { kernel: "MATMUL" from_compute_capability: 1 below_compute_capability: 89
                                        unsupported: true }
                              kernels { kernel: "ADD" from_compute_capability: 80 below_compute_capability: 90
                                        unsupported: true })",
                           "test", &runtime)
                  .ok());
  EXPECT_EQ(CheckForms(runtime, DeviceWith(85), With({})), absl::OkStatus());
  EXPECT_EQ(CheckForms(runtime, DeviceWith(85), With({GELU})), absl::OkStatus());
  EXPECT_EQ(CheckForms(runtime, DeviceWith(75), With({ADD})), absl::OkStatus());
  EXPECT_FALSE(CheckForms(runtime, DeviceWith(85), With({GELU, ADD})).ok());
  EXPECT_FALSE(CheckForms(runtime, DeviceWith(75), With({ADD, MATMUL})).ok());
  EXPECT_THAT(NotesOnForms(runtime, DeviceWith(0), With({GELU})), IsEmpty());
}

}  // namespace
}  // namespace weft::sim
