// How long gradients keep their bytes that wait for a reduce-scatter which nothing in their segment waits for.
//
//   compute   dW3   dW2   dW1   dW0          dW1 takes the bytes of dW3: it waits for s3.
//   z               s3    s2    s1   s0
//
// A gradient keeps its bytes until layers behind it have made so much that there is twice as much as the largest layer
// makes, so at least while the next layer is computed. As long as scatters do not fall behind by more than that, nobody
// waits for them.
#ifndef WEFT_COMPILER_MEMORY_DEFERRED_LIVES_H_
#define WEFT_COMPILER_MEMORY_DEFERRED_LIVES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compiler/memory/arena.h"

namespace weft {

struct DeferredValue {
  int64_t layer = 0;
  // Steps that make it, and that use it last.
  int first_step = 0;
  int last_step = 0;
  int64_t bytes = 0;
};

// Of each value in the order given; moments are steps, of which there are `steps`.
std::vector<ArenaItem> LivesOfDeferred(absl::Span<const DeferredValue> values, int steps);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_DEFERRED_LIVES_H_
