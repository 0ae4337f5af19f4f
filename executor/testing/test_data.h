// Training tokens for tests, computed by a formula.
#ifndef WEFT_EXECUTOR_TESTING_TEST_DATA_H_
#define WEFT_EXECUTOR_TESTING_TEST_DATA_H_

#include <cstdint>

#include "executor/data/data.h"

namespace weft::exec {

// Token i of sample s is (7 s + i^2) mod `vocabulary`. The target of each token is the next token.
class TestData : public DataSource {
 public:
  explicit TestData(int64_t vocabulary) : vocabulary_(vocabulary) {}
  int64_t windows() const override { return 1000; }
  absl::Status Sample(int64_t sample, absl::Span<int32_t> tokens, absl::Span<int32_t> targets) const override {
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = Token(sample, static_cast<int64_t>(i));
    for (size_t i = 0; i < targets.size(); ++i) targets[i] = Token(sample, static_cast<int64_t>(i) + 1);
    return absl::OkStatus();
  }
  int32_t Token(int64_t sample, int64_t i) const { return static_cast<int32_t>((7 * sample + i * i) % vocabulary_); }

 private:
  const int64_t vocabulary_;
};

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_TEST_DATA_H_
