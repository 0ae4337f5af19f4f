// Decides how long gradients keep their bytes while they wait for a reduce-scatter that no step of their segment waits
// for.
//
//   compute   dW3   dW2   dW1   dW0          dW1 takes the bytes of dW3: it waits for s3.
//   z               s3    s2    s1   s0
//
// dW3 makes the gradients of layer 3, and s3 is their reduce-scatter on communicator z. The gradients of a layer keep
// their bytes until some later layer begins: the first one for which the layers from this layer to that one together
// make more than twice the bytes of the largest layer. So they keep their bytes at least while the next layer is
// computed. As long as scatters do not fall behind by more than that, no step waits for them.
#ifndef WEFT_COMPILER_MEMORY_DEFERRED_LIVES_H_
#define WEFT_COMPILER_MEMORY_DEFERRED_LIVES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "compiler/memory/arena.h"

namespace weft {

struct DeferredValue {
  int64_t layer = 0;
  // The step that makes the value, and the step that uses it last.
  int first_step = 0;
  int last_step = 0;
  int64_t bytes = 0;
};

// Returns the life of each value, in the order given. Moments are steps; the segment has `steps` of them.
std::vector<ArenaItem> LivesOfDeferred(absl::Span<const DeferredValue> values, int steps);

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_DEFERRED_LIVES_H_
