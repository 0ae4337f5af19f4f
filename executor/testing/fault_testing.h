// A program for tests of faults. The tests name its actions and run none of them.
#ifndef WEFT_EXECUTOR_TESTING_FAULT_TESTING_H_
#define WEFT_EXECUTOR_TESTING_FAULT_TESTING_H_

#include "proto/program.pb.h"
#include "tests/parse_text.h"

namespace weft::exec {

// Two ranks; action 0 is F, action 4 is B.
inline Program ForwardAndBackward() {
  return Parse<Program>(R"pb(mesh { axes { name: "pipe" size: 2 } }
                             templates {
                               name: "all"
                               body { id: 0 kind: FORWARD name: "F" }
                               body { id: 4 kind: BACKWARD name: "B" }
                             })pb");
}

}  // namespace weft::exec

#endif  // WEFT_EXECUTOR_TESTING_FAULT_TESTING_H_
