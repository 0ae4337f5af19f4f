// Checks one step, for tests of the table of kernels.
#ifndef WEFT_KERNELS_CHECK_STEP_TESTING_H_
#define WEFT_KERNELS_CHECK_STEP_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/step_view.h"

namespace weft::kernels {

struct Tensor {
  DType dtype;
  std::vector<int64_t> shape;
  int place = -1;  // The input whose memory it shares; -1: memory of its own.
};

// Returns the findings of CheckStep, one per line: the rule and the message. A microbatch has two sequences of 4 rows.
// `attributes`, `rest` and `overrides` are the text of StepAttributes, of other fields of the step, and of fields of
// the program.
inline std::string FindingsOf(Kernel kernel, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                              const std::string& attributes, const std::string& rest = "",
                              const std::string& overrides = "") {
  Program program;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "vocabulary: 50 microbatches: 3 recipe { sequence_length: 4 microbatch_sequences: 2 }", &program));
  Program fields;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(overrides, &fields)) << overrides;
  program.MergeFrom(fields);
  Segment segment;
  segment.set_name("s");
  Step& step = *segment.add_steps();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(rest, &step)) << rest;
  step.set_name("step");
  step.set_kernel(kernel);
  if (!attributes.empty()) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(attributes, step.mutable_attributes())) << attributes;
  }
  const auto add = [&](const Tensor& tensor) {
    Value& value = *segment.add_values();
    value.set_name(absl::StrCat("v", segment.values_size() - 1));
    value.set_operand(tensor.place >= 0 ? tensor.place : segment.values_size() - 1);
    value.set_dtype(tensor.dtype);
    for (int64_t extent : tensor.shape) value.add_shape(extent);
    segment.add_operands()->set_bytes(1 << 20);
    return segment.values_size() - 1;
  };
  for (const Tensor& tensor : in) step.add_inputs(add(tensor));
  for (const Tensor& tensor : out) step.add_outputs(add(tensor));
  std::string text;
  CheckStep(ProgramFacts(program), segment, 0,
            [&](const char* rule, const std::string& message) { absl::StrAppend(&text, rule, " ", message, "\n"); });
  return text;
}

inline void ExpectFinding(const std::string& findings, const std::string& part) {
  EXPECT_NE(findings.find(part), std::string::npos) << "no '" << part << "' in: " << findings;
}

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_CHECK_STEP_TESTING_H_
