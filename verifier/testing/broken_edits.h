// Helpers to make broken programs, shared by several files.
#ifndef WEFT_VERIFIER_TESTING_BROKEN_EDITS_H_
#define WEFT_VERIFIER_TESTING_BROKEN_EDITS_H_

#include <algorithm>
#include <functional>
#include <string>

#include "proto/program.pb.h"
#include "verifier/testing/schedule_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft {

inline void Release(Program* p, int t, const char* action, const char* buffer) {
  FindAction(p, t, action)->add_releases(FindBuffer(*p, t, buffer));
}

inline void ForEachTemplate(Program* p, const std::function<void(int)>& edit) {
  for (int t = 0; t < p->templates_size(); ++t) edit(t);
}

inline int SegmentIndex(const Program& p, const std::string& name) {
  const auto it = std::find_if(p.segments().begin(), p.segments().end(),
                               [&](const Segment& segment) { return segment.name() == name; });
  return static_cast<int>(it - p.segments().begin());
}

// Index of the n-th value with this name (the halves of a pair use the same names).
inline int ValueIndex(const Segment& segment, const std::string& name, int n = 0) {
  for (int v = 0; v < segment.values_size(); ++v) {
    if (segment.values(v).name() == name && n-- == 0) return v;
  }
  return -1;
}

inline Value* ValueOf(Program* p, const char* segment, const std::string& name) {
  for (Value& value : *FindSegment(p, segment)->mutable_values()) {
    if (value.name() == name) return &value;
  }
  return nullptr;
}

inline Operand* OperandOf(Program* p, const char* segment, const std::string& name) {
  for (Operand& operand : *FindSegment(p, segment)->mutable_operands()) {
    if (operand.name() == name) return &operand;
  }
  return nullptr;
}

// Three stages on one rank.
inline ScheduleSpec OneRank() { return {{"F0.0 F1.0 F2.0 B2.0 B1.0 B0.0"}, {{0, 0, 0}}, {0}}; }

inline std::function<Program()> ProgramOf(ScheduleSpec (*spec)()) {
  return [spec] { return ScheduleProgram(spec()); };
}

}  // namespace weft

#endif  // WEFT_VERIFIER_TESTING_BROKEN_EDITS_H_
