// Decides which of a forward's saved values go to host memory (those that its first layers make), and where the values
// that leave and the values that stay are placed.
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

// Finds layers by the names of their ops.
class LayerNames {
 public:
  explicit LayerNames(const ModelGraph& model);
  // Returns the layer of the op that the step was made from, or -1 if there is no such op. The name of the step is the
  // op's name, possibly followed by a dot and more text.
  int LayerOf(const std::string& step) const;

 private:
  std::map<std::string, int> layers_;
};

// Returns the values that leave, by ascending offset: the values in operand `saved` of a forward that its first
// `layers` layers make. With `pair`, `forward` is a pair of a forward and a backward. Since the backward has layers
// too, only layers that save something in the operand count.
std::vector<SavedValue> LeavingValues(const Segment& forward, int saved, const LayerNames& names, int layers,
                                      bool pair);

// Where each value of operand `saved` goes: into host memory, or to a new place on the device.
struct SavedSplit {
  struct Range {
    int64_t end = 0;
    // New offset of the range's first byte.
    int64_t to = 0;
  };
  // The byte ranges that leave, by their old offset.
  std::map<int64_t, Range> gone;
  int64_t gone_bytes = 0;
  // The values to copy, in order. Neighboring values of one dtype are joined into one tensor.
  std::vector<Value> copies;

  // Returns the range that leaves and contains offset `offset`, and sets `begin` to the range's old offset. The range
  // may hold several microbatches that were saved together. Returns null if the value at `offset` stays.
  const Range* Find(int64_t offset, int64_t* begin) const;
  bool Goes(int64_t offset) const;
  // Returns the new offset of a value that stays: the old one minus the bytes that left before it.
  int64_t KeptOffset(int64_t offset) const;
};

// `leaving` is in ascending order without overlaps. The values that leave are placed one after the other, each at a
// multiple of 64 bytes.
SavedSplit SplitOfSaved(const std::vector<SavedValue>& leaving);

}  // namespace weft

#endif  // WEFT_COMPILER_REWRITE_SAVED_SPLIT_H_
