#include <string>

#include "gtest/gtest.h"
#include "tests/full.h"

bool weft::full = false;

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) weft::full |= std::string(argv[i]) == "--full";
  return RUN_ALL_TESTS();
}
