// The table of kernels (kernels/) accepts the same steps as CheckStep of the verifier: on random steps of every kernel,
// on the corpus of broken programs and on mutated programs. One difference is known: see IsKnownHole.
#include <gtest/gtest.h>

#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "kernels/random_step_testing.h"
#include "kernels/step_view.h"
#include "kernels/traits.h"
#include "proto/util/sample_rows.h"
#include "tests/random_program.h"
#include "verifier/index.h"
#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/split_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {
namespace {

std::vector<std::string> OldFaults(const Program& program, const Segment& segment, int step) {
  Findings findings(1000);
  CheckStep(program, {}, segment, step, &findings);
  std::vector<std::string> faults;
  for (const Finding& finding : findings.Take()) faults.push_back(finding.rule + " " + finding.message);
  return faults;
}

std::vector<std::string> NewFaults(const Program& program, const Segment& segment, int step) {
  std::vector<std::string> faults;
  kernels::CheckStep(kernels::ProgramFacts(program), segment, step,
                     [&](const char* rule, std::string message) { faults.push_back(rule + (" " + message)); });
  return faults;
}

// The verifier checks steps only if its earlier checks have passed.
bool MayBeChecked(const Segment& segment, const Step& step) {
  for (const Value& value : segment.values()) {
    if (value.operand() < 0 || value.operand() >= segment.operands_size() || value.offset() < 0) return false;
    if (!TensorBytes(value.dtype(), value.shape())) return false;
  }
  for (const auto* list : {&step.inputs(), &step.outputs()}) {
    for (int value : *list) {
      if (value < 0 || value >= segment.values_size()) return false;
    }
  }
  std::vector<const google::protobuf::FieldDescriptor*> set;
  const auto* reflection = step.attributes().GetReflection();
  reflection->ListFields(step.attributes(), &set);
  for (const auto* field : set) {
    if (field->cpp_type() == field->CPPTYPE_DOUBLE && !std::isfinite(reflection->GetDouble(step.attributes(), field))) {
      return false;
    }
  }
  return true;
}

// ADAMW and SGD_STEP: the old check lets the copy of the weight for compute overwrite the norm that the step reads.
bool IsKnownHole(const Step& step, const std::vector<std::string>& new_faults) {
  if (step.kernel() != ADAMW && step.kernel() != SGD_STEP) return false;
  for (const std::string& fault : new_faults) {
    if (fault.find("P2.alias") != 0 || fault.find("shares bytes with input") == std::string::npos) return false;
  }
  return true;
}

struct Counts {
  int64_t accepted = 0, refused = 0, holes = 0;
};

void Compare(const Program& program, const Segment& segment, int index, Counts* counts) {
  const Step& step = segment.steps(index);
  if (!MayBeChecked(segment, step)) return;
  const std::vector<std::string> old_faults = OldFaults(program, segment, index);
  const std::vector<std::string> new_faults = NewFaults(program, segment, index);
  if (old_faults.empty() && !new_faults.empty() && IsKnownHole(step, new_faults)) {
    ++counts->holes;
    return;
  }
  ++(old_faults.empty() ? counts->accepted : counts->refused);
  ASSERT_EQ(old_faults.empty(), new_faults.empty())
      << (old_faults.empty() ? "only the table refuses: " + new_faults[0]
                             : "only the old check refuses: " + old_faults[0])
      << "\n"
      << step.ShortDebugString() << "\n"
      << segment.ShortDebugString();
  if (!old_faults.empty()) return;
  EXPECT_EQ(kernels::ReadsMicrobatch(step), ReadsMicrobatch(step)) << step.ShortDebugString();
  EXPECT_EQ(kernels::RowsOfSample(program, step), RowsOfSample(program, step)) << step.ShortDebugString();
  EXPECT_EQ(kernels::RowsValue(segment, step), RowsValue(segment, step)) << step.ShortDebugString();
  for (int o = 0; o < step.outputs_size(); ++o) {
    EXPECT_EQ(kernels::AddsToOutput(step, o), ReadsOutput(step, o)) << step.ShortDebugString();
  }
  if (step.kernel() == ADAMW || step.kernel() == SGD_STEP) {
    EXPECT_EQ(kernels::OptimizerStates(step), OptimizerStates(step)) << step.ShortDebugString();
  }
}

void CompareAll(const Program& program, Counts* counts) {
  Findings findings(1);
  CheckMessage(program, &findings);
  if (!findings.empty()) return;
  CheckStructure(program, {}, &findings);
  if (!findings.empty()) return;
  for (const Segment& segment : program.segments()) {
    for (int i = 0; i < segment.steps_size(); ++i) Compare(program, segment, i, counts);
  }
  if (program.has_evaluation()) CompareAll(program.evaluation(), counts);
}

TEST(KernelRowsAgreementTest, RandomSteps) {
  constexpr int kRounds = 1000;
  kernels::Random random(1);
  Counts all;
  for (int i = 0; i < Kernel_descriptor()->value_count(); ++i) {
    const Kernel kernel = static_cast<Kernel>(Kernel_descriptor()->value(i)->number());
    if (kernel == KERNEL_UNSPECIFIED) continue;
    Counts made;
    for (int n = 0; n < kRounds; ++n) {
      Program program;
      Segment segment;
      kernels::MakeStep(kernels::RowOf(kernel), random, program, segment);
      Compare(program, segment, 0, &made);
      const int64_t changes = n % 4 == 0 ? random.Between(2, 4) : 1;
      for (int64_t c = 0; c < changes; ++c) kernels::ChangeStep(random, program, segment);
      Compare(program, segment, 0, &all);
      if (HasFatalFailure()) return;
    }
    EXPECT_GE(made.accepted, kRounds / 20) << "few valid steps of " << Kernel_Name(kernel);
    all.accepted += made.accepted;
    all.refused += made.refused;
    all.holes += made.holes;
  }
  EXPECT_GT(all.refused, 1000);
  RecordProperty("accepted", std::to_string(all.accepted));
  std::cout << all.accepted << " accepted, " << all.refused << " refused, " << all.holes << " of the known hole\n";
}

TEST(KernelRowsAgreementTest, BrokenCorpus) {
  Counts counts;
  for (const auto& part :
       {BrokenActions, BrokenMemory, BrokenTraining, BrokenSchedules, BrokenReplicas, BrokenEvaluation,
        BrokenCollectives, BrokenShards, BrokenSums, BrokenLossScale, BrokenElements, BrokenHost}) {
    for (const Broken& broken : part()) {
      Program program = broken.base ? broken.base() : TinyProgram();
      CompareAll(program, &counts);
      broken.edit(&program);
      CompareAll(program, &counts);
    }
  }
  EXPECT_GT(counts.accepted, 20000);
  EXPECT_GE(counts.refused, 50);
  std::cout << counts.accepted << " accepted, " << counts.refused << " refused, " << counts.holes << " holes\n";
}

TEST(KernelRowsAgreementTest, MutatedPrograms) {
  std::vector<Program> bases = {TinyProgram(),
                                TinyProgram(EXACT),
                                TinyProgram(IN_ORDER, TinyScaling::kDynamic),
                                TinyProgram(IN_ORDER, TinyScaling::kFixedByUpdate),
                                TinyProgram(EXACT, TinyScaling::kFixedByScale),
                                SplitProgram(false),
                                SplitProgram(true)};
  for (int i = 0; i < 20; ++i) {
    RandomProgramOptions options;
    options.collectives = i % 2 == 1;
    options.schedules = i % 3 != 0;
    options.data = i % 3 == 0;
    bases.push_back(RandomProgram(i, options));
  }
  Counts counts;
  for (size_t b = 0; b < bases.size(); ++b) {
    for (uint64_t m = 0; m < 100; ++m) {
      Program program = bases[b];
      Mutate(&program, b * 1000 + m);
      CompareAll(program, &counts);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(counts.refused, 50);
  std::cout << counts.accepted << " accepted, " << counts.refused << " refused, " << counts.holes << " holes\n";
}

}  // namespace
}  // namespace weft::verify
