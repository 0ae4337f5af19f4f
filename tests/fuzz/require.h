// Requirements of a fuzz target: a requirement that is not met looks like a crash to the fuzzer.
#ifndef WEFT_TESTS_FUZZ_REQUIRE_H_
#define WEFT_TESTS_FUZZ_REQUIRE_H_

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace weft {

inline void Require(bool condition) {
  if (!condition) std::abort();
}

// An error has a message, in one line.
inline void RequireMessage(const absl::Status& status) {
  Require(!status.message().empty() && status.message().find('\n') == absl::string_view::npos);
}

}  // namespace weft

#endif  // WEFT_TESTS_FUZZ_REQUIRE_H_
