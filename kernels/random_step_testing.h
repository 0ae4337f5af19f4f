// Random steps made from rows of the table, and random changes to them, for tests of checks of steps.
#ifndef WEFT_KERNELS_RANDOM_STEP_TESTING_H_
#define WEFT_KERNELS_RANDOM_STEP_TESTING_H_

#include <cstdint>
#include <random>

#include "kernels/row.h"
#include "proto/program.pb.h"

namespace weft::kernels {

// The same numbers for the same seed on every machine: std distributions differ between libraries.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // Returns a number in [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  // True with probability 1/n.
  bool OneIn(int n) { return Between(0, n - 1) == 0; }

 private:
  std::mt19937_64 engine_;
};

// Fills a small program and a segment with one step of the row's kernel. Most of these steps are valid.
void MakeStep(const KernelRow& row, Random& random, Program& program, Segment& segment);

// Changes one random thing: an operand, an attribute, an alias, the stream, the kernel, or a field of the program.
void ChangeStep(Random& random, Program& program, Segment& segment);

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_RANDOM_STEP_TESTING_H_
