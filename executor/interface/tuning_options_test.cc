#include "executor/interface/tuning_options.h"

#include <gtest/gtest.h>

#include <string>

namespace weft::exec {
namespace {

TEST(ParseTuningOptions, Forms) {
  EXPECT_EQ(ParseTuningOptions("off")->mode, TuningOptions::Mode::kOff);
  EXPECT_EQ(ParseTuningOptions("write a b.txt")->path, "a b.txt");
  EXPECT_EQ(ParseTuningOptions("write:t.txt")->mode, TuningOptions::Mode::kWrite);
  EXPECT_EQ(ParseTuningOptions("read t.txt")->mode, TuningOptions::Mode::kRead);
  for (const char* wrong : {"", "on", "write", "write ", "reader t", "read"}) {
    EXPECT_EQ(
        ParseTuningOptions(wrong).status().message(),
        std::string("--tuning is '") + wrong + "'; allowed: off, 'write FILE', 'read FILE' (or write:FILE, read:FILE)");
  }
}

}  // namespace
}  // namespace weft::exec
