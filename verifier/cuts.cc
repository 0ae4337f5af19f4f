#include "verifier/cuts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/mesh.h"
#include "proto/util/units.h"
#include "verifier/index.h"

namespace weft::verify {
namespace {

int AxisNumber(const Program& program, const std::string& name) {
  for (int i = 0; i < program.mesh().axes_size(); ++i) {
    if (program.mesh().axes(i).name() == name) return i;
  }
  return -1;
}

// Number of ranges that a cut makes.
int64_t RangesOf(const Program& program, const RangeCut& cut) {
  return cut.block() > 0 ? cut.block() : AxisSize(program.mesh(), cut.axis());
}

}  // namespace

int64_t PartsOf(const Program& program, const AxisCut& cut) {
  return cut.block > 0 ? cut.block : program.mesh().axes(cut.axis).size();
}

std::string DescribeCuts(const Program& program, const Cuts& cuts) {
  if (cuts.empty()) return "nothing";
  return absl::StrJoin(cuts, ", ", [&](std::string* out, const AxisCut& cut) {
    absl::StrAppend(out, program.mesh().axes(cut.axis).name());
    if (cut.block > 0) absl::StrAppend(out, " in blocks of ", cut.block);
    if (cut.stride > 0) absl::StrAppend(out, " in strides of ", cut.stride);
  });
}

GroupCuts CutsOf(const Program& program, const Group& group) {
  GroupCuts result;
  for (const AxisSubset& subset : group.axes()) {
    const int axis = AxisNumber(program, subset.axis());
    const int64_t size = program.mesh().axes(axis).size(), members = SubsetSize(subset, size);
    if (members == 1) continue;
    if (subset.axis() == "pipe") {
      result.pipe = true;
      continue;
    }
    AxisCut cut{axis, 0, 0};
    if (members < size) {
      cut.block = subset.block();
      cut.stride = subset.stride();
      if (subset.indices_size() > 0) {
        const int64_t step = subset.indices(1) - subset.indices(0);
        bool even = size % members == 0;
        for (int i = 1; i < subset.indices_size(); ++i) {
          even = even && subset.indices(i) - subset.indices(i - 1) == step;
        }
        if (even && step == 1 && subset.indices(0) % members == 0) {
          cut.block = members;
        } else if (even && step == size / members && subset.indices(0) < step) {
          cut.stride = step;
        } else {
          result.odd = subset.axis();
        }
      }
    }
    result.cuts.push_back(cut);
  }
  std::sort(result.cuts.begin(), result.cuts.end(), [](const AxisCut& a, const AxisCut& b) { return a.axis > b.axis; });
  return result;
}

bool AddSum(AxisCut cut, Cuts* sums) {
  const auto it =
      std::find_if(sums->begin(), sums->end(), [&](const AxisCut& other) { return other.axis == cut.axis; });
  if (it == sums->end()) {
    sums->push_back(cut);
    std::sort(sums->begin(), sums->end());
    return true;
  }
  const bool completes = (it->block > 0 && cut.stride == it->block) || (it->stride > 0 && cut.block == it->stride);
  if (!completes) return false;
  it->block = it->stride = 0;
  return true;
}

bool SumsAll(const Cuts& sums, int axis) {
  return std::find(sums.begin(), sums.end(), AxisCut{axis, 0, 0}) != sums.end();
}

bool SumsAny(const Cuts& sums, int axis) {
  return std::any_of(sums.begin(), sums.end(), [&](const AxisCut& cut) { return cut.axis == axis; });
}

std::string ShardFault(const Program& program, const LogicalTensor& tensor, const Shard& shard) {
  std::vector<std::string> axes;
  std::vector<int> dimensions;
  const auto axis_fault = [&](const std::string& axis) -> std::string {
    if (axis == "pipe" || AxisNumber(program, axis) < 0) {
      return absl::StrCat("is cut over axis '", axis, "'; the mesh has ",
                          absl::StrJoin(program.mesh().axes(), ", ",
                                        [](std::string* out, const MeshAxis& a) { absl::StrAppend(out, a.name()); }),
                          ", and axis pipe cuts no tensor");
    }
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      return absl::StrCat("is cut over axis ", axis, " twice");
    axes.push_back(axis);
    return "";
  };
  for (const DimensionCut& cut : shard.dimensions()) {
    if (const std::string fault = axis_fault(cut.axis()); !fault.empty()) return fault;
    if (cut.dimension() < 0 || cut.dimension() >= tensor.padded_shape_size() ||
        std::find(dimensions.begin(), dimensions.end(), cut.dimension()) != dimensions.end()) {
      return absl::StrCat("cuts dimension ", cut.dimension(), "; each of the tensor's ", tensor.padded_shape_size(),
                          " dimensions may be cut once");
    }
    dimensions.push_back(cut.dimension());
    const int64_t extent = tensor.padded_shape(cut.dimension()), size = AxisSize(program.mesh(), cut.axis());
    const int64_t runs = std::max<int64_t>(1, cut.runs());
    if (cut.runs() < 0 || runs > extent || extent % runs != 0 || extent / runs % size != 0) {
      return absl::StrCat("cuts dimension ", cut.dimension(), " of ", extent, " in ", cut.runs(), " runs over the ",
                          size, " ranks of axis ", cut.axis(), "; runs times ranks must divide the dimension");
    }
  }
  for (const RangeCut& cut : shard.ranges()) {
    if (const std::string fault = axis_fault(cut.axis()); !fault.empty()) return fault;
    const int64_t size = AxisSize(program.mesh(), cut.axis());
    if (cut.block() < 0 || cut.block() > size || (cut.block() > 0 && size % cut.block() != 0)) {
      return absl::StrCat("is cut into ranges over blocks of ", cut.block(), "; the block must divide the ", size,
                          " ranks of axis ", cut.axis());
    }
  }
  return "";
}

std::vector<int64_t> ShardShape(const Program& program, const LogicalTensor& tensor, const Shard& shard) {
  std::vector<int64_t> shape = {tensor.padded_shape().begin(), tensor.padded_shape().end()};
  for (const DimensionCut& cut : shard.dimensions()) shape[cut.dimension()] /= AxisSize(program.mesh(), cut.axis());
  if (shard.ranges_size() == 0) return shape;
  int64_t elements = *ElementCount(shape);
  for (const RangeCut& cut : shard.ranges()) {
    const int64_t ranges = RangesOf(program, cut);
    elements = (elements + ranges - 1) / ranges;
  }
  return {elements};
}

int64_t PartElements(const Program& program, int tensor, const Cuts& dimensions, const Cuts& ranges) {
  int64_t elements = *ElementCount(program.tensors(tensor).padded_shape());
  for (const AxisCut& cut : dimensions) elements /= program.mesh().axes(cut.axis).size();
  return RangeElements(program, elements, ranges);
}

int64_t RangeElements(const Program& program, int64_t block, const Cuts& ranges) {
  for (const AxisCut& cut : ranges) {
    const int64_t parts = PartsOf(program, cut);
    block = (block + parts - 1) / parts;
  }
  return block;
}

bool PaddedAtEnd(const Program& program, int64_t block, const Cuts& ranges, size_t n) {
  const size_t outer = ranges.size() - std::min(n, ranges.size());
  for (size_t held = outer + 1; held < ranges.size(); ++held) {
    const Cuts before(ranges.begin(), ranges.begin() + static_cast<int64_t>(held));
    if (RangeElements(program, block, before) % PartsOf(program, ranges[held]) != 0) return false;
  }
  return true;
}

Cuts DimensionCuts(const Program& program, const Shard& shard) {
  Cuts cuts;
  for (const DimensionCut& cut : shard.dimensions()) {
    if (AxisSize(program.mesh(), cut.axis()) > 1) cuts.push_back({AxisNumber(program, cut.axis()), 0, 0});
  }
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

Cuts RangeCuts(const Program& program, const Shard& shard) {
  Cuts cuts;
  for (const RangeCut& cut : shard.ranges()) {
    const int64_t ranges = RangesOf(program, cut), size = AxisSize(program.mesh(), cut.axis());
    if (ranges > 1) cuts.push_back({AxisNumber(program, cut.axis()), ranges < size ? ranges : 0, 0});
  }
  return cuts;
}

}  // namespace weft::verify
