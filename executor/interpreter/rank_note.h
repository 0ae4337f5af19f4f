// Describes the last note (Endpoint::Note) of a rank that died.
#ifndef WEFT_EXECUTOR_INTERPRETER_RANK_NOTE_H_
#define WEFT_EXECUTOR_INTERPRETER_RANK_NOTE_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "executor/interface/transport.h"
#include "proto/program.pb.h"
#include "proto/util/mesh.h"

namespace weft::exec {

// Returns, for example, "step 3, action 7 'F s1 m3'", without the name if the program has no such action.
inline std::string DescribeNote(const Program& program, const Endpoint::LastNote& note) {
  std::string text = absl::StrCat("step ", note.step, ", action ", note.action);
  const int index = TemplateOfRank(program, note.rank);
  if (index < 0) return text;
  const Template& t = program.templates(index);
  for (const auto* list : {&t.prologue(), &t.body(), &t.epilogue()}) {
    for (const Action& action : *list) {
      if (action.id() == note.action) return absl::StrCat(text, " '", action.name(), "'");
    }
  }
  return text;
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_INTERPRETER_RANK_NOTE_H_
