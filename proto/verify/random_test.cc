// Random programs pass; random changes of them are refused or leave a program that is still sound by brute force.
#include <gtest/gtest.h>

#include "proto/verify/verify.h"
#include "tests/random_program.h"

namespace weft {
namespace {

VerifyOptions Safety() { return {.completeness = false}; }

TEST(RandomProgramTest, IsValid) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    RandomProgramOptions options;
    options.data = seed % 3 == 0;
    options.events = 1 + static_cast<int>(seed % 60);
    const Program program = RandomProgram(seed, options);
    const absl::Status status = VerifyProgram(program, Safety());
    ASSERT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
  }
}

}  // namespace
}  // namespace weft
