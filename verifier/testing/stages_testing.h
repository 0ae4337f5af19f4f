// Helpers for tests of single checks of the verifier.
#ifndef WEFT_VERIFIER_TESTING_STAGES_TESTING_H_
#define WEFT_VERIFIER_TESTING_STAGES_TESTING_H_

#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "verifier/index.h"
#include "verifier/testing/tiny_program.h"

namespace weft::verify {

// TinyProgram() after an edit.
inline Program Edited(const std::function<void(Program*)>& edit) {
  Program program = TinyProgram();
  edit(&program);
  return program;
}

// The findings of a check, as "RULE: message".
inline std::vector<std::string> Texts(Findings findings) {
  std::vector<std::string> texts;
  for (const Finding& finding : findings.Take()) texts.push_back(std::string(finding.rule) + ": " + finding.message);
  return texts;
}

// The index of a program that has no fault so far. The program must outlive the index.
inline Index IndexOf(const Program& program) {
  Findings findings(20);
  Index index;
  index.program = &program;
  EXPECT_TRUE(CheckRoles(&index, &findings));
  CheckSegmentOrder(&index, &findings);
  EXPECT_TRUE(BuildTemplates(&index, &findings));
  EXPECT_TRUE(findings.empty());
  return index;
}

}  // namespace weft::verify

#endif  // WEFT_VERIFIER_TESTING_STAGES_TESTING_H_
