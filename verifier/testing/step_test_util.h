// Checks one step by itself, for tests of kernels.
#ifndef WEFT_VERIFIER_TESTING_STEP_TEST_UTIL_H_
#define WEFT_VERIFIER_TESTING_STEP_TEST_UTIL_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/step_view.h"
#include "verifier/index.h"

namespace weft::verify {

struct Tensor {
  DType dtype;
  std::vector<int64_t> shape;
};

// Sequences of 4 rows, two in a microbatch: 8 rows.
inline std::string FindingsOf(Kernel kernel, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                              const std::string& attributes) {
  Program program;
  program.set_vocabulary(50);
  program.mutable_recipe()->set_sequence_length(4);
  program.mutable_recipe()->set_microbatch_sequences(2);
  Segment segment;
  segment.set_name("s");
  Step& step = *segment.add_steps();
  step.set_name("step");
  step.set_kernel(kernel);
  if (!attributes.empty()) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(attributes, step.mutable_attributes())) << attributes;
  }
  const auto add = [&](const Tensor& tensor) {
    Value& value = *segment.add_values();
    value.set_name(absl::StrCat("v", segment.values_size() - 1));
    value.set_operand(segment.values_size() - 1);
    value.set_dtype(tensor.dtype);
    for (int64_t extent : tensor.shape) value.add_shape(extent);
    segment.add_operands()->set_bytes(1 << 20);
    return segment.values_size() - 1;
  };
  for (const Tensor& tensor : in) step.add_inputs(add(tensor));
  for (const Tensor& tensor : out) step.add_outputs(add(tensor));
  Findings findings(20);
  kernels::CheckStep(kernels::ProgramFacts(program), segment, 0,
                     [&](const char* rule, const std::string& message) { findings.Add(rule, message); });
  std::string text;
  for (const Finding& finding : findings.Take()) absl::StrAppend(&text, finding.rule, " ", finding.message, "\n");
  return text;
}

inline void ExpectFinding(const std::string& findings, const std::string& part) {
  EXPECT_NE(findings.find(part), std::string::npos) << "no '" << part << "' in: " << findings;
}

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_TESTING_STEP_TEST_UTIL_H_
