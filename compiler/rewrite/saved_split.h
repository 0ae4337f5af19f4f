// What of a forward's saved values goes to host memory: those that its first layers make, and where they and what stays
// lie from then on.
#ifndef WEFT_COMPILER_REWRITE_SAVED_SPLIT_H_
#define WEFT_COMPILER_REWRITE_SAVED_SPLIT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "proto/model_graph.pb.h"
#include "proto/program.pb.h"

namespace weft {

// A floating-point tensor in the operand `saved` of a stage's segments.
struct SavedValue {
  int64_t offset = 0;
  DType dtype = DTYPE_UNSPECIFIED;
  int64_t elements = 0;
};

// Layers by the names of their ops.
class LayerNames {
 public:
  explicit LayerNames(const ModelGraph& model);
  // Of the op that a step was made of, which is named as that op, perhaps with something behind a dot; -1 = of none.
  int Of(const std::string& step) const;

 private:
  std::map<std::string, int> layers_;
};

// What goes of the operand `saved` of a forward, by ascending offset: what its first `layers` layers make. Where it is
// half of a pair, the backward has layers too; then those count that save something.
std::vector<SavedValue> LeavingValues(const Segment& forward, int saved, const LayerNames& names, int layers,
                                      bool pair);

// Where the values of `saved` go.
struct SavedSplit {
  struct Range {
    int64_t end = 0;
    // New offset of its first byte.
    int64_t to = 0;
  };
  // What goes, by its old offset.
  std::map<int64_t, Range> gone;
  int64_t gone_bytes = 0;
  // What goes, in order: neighbours of one dtype are one tensor.
  std::vector<Value> copies;

  // The range that a value at `offset` is of, perhaps one of the microbatches that were saved together; null if it
  // stays.
  const Range* Find(int64_t offset, int64_t* begin) const;
  bool Goes(int64_t offset) const;
  // Where what stays lies: it moves down by what has gone before it.
  int64_t KeptOffset(int64_t offset) const;
};

// `leaving` does not overlap and ascends; what goes lies one after the other, each at a multiple of 64 bytes.
SavedSplit SplitOfSaved(const std::vector<SavedValue>& leaving);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_SAVED_SPLIT_H_
