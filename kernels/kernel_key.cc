#include "kernels/kernel_key.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/extents.h"
#include "proto/util/units.h"

namespace weft::kernels {
namespace {

// If a step has more tensors than this, as a collective may, its key contains the bytes of the step's work instead of
// shapes.
constexpr int kMaxTensors = 12;

// Returns the tensors' types with their counts, such as "bf16*3,fp32".
template <typename Indices>
std::string TypesText(const Segment& segment, const Indices& values) {
  std::string text;
  for (int i = 0; i < values.size();) {
    const DType dtype = segment.values(values[i]).dtype();
    int count = 1;
    while (i + count < values.size() && segment.values(values[i + count]).dtype() == dtype) ++count;
    absl::StrAppend(&text, text.empty() ? "" : ",", std::string(DTypeName(dtype)));
    if (count > 1) absl::StrAppend(&text, "*", count);
    i += count;
  }
  return text.empty() ? "-" : text;
}

std::string Options(const Step& step) {
  const StepAttributes& a = step.attributes();
  std::string text;
  const auto flag = [&](bool set, absl::string_view name) {
    if (set) absl::StrAppend(&text, " ", std::string(name));
  };
  const auto number = [&](int64_t value, absl::string_view name) {
    if (value > 0) absl::StrAppend(&text, " ", std::string(name), value);
  };
  flag(a.transpose_a(), "ta");
  flag(a.transpose_b(), "tb");
  flag(a.tf32(), "tf32");
  flag(step.accumulate(), "+=");
  flag(a.causal(), "causal");
  number(a.window(), "window");
  flag(a.dropout() > 0, "dropout");
  flag(a.qkv_by_head(), "by_head");
  flag(a.tanh_approximation(), "tanh");
  flag(a.root_mean_square(), "rms");
  flag(a.rounding_site() > 0, "stochastic");
  number(a.kernel_size(), "side");
  number(a.stride(), "stride");
  number(a.groups(), "groups");
  number(a.masked(), "masked");
  return text;
}

int64_t Extent(const Value& value, int dimension) {
  return dimension < value.shape_size() ? std::max<int64_t>(1, value.shape(dimension)) : 1;
}

// A kernel counts as attention if its steps must set `heads`. DROPOUT also reads `heads`, but its steps may omit it.
bool IsAttention(const KernelRow& row) {
  return std::any_of(row.attributes.begin(), row.attributes.end(),
                     [](const AttributeRule& rule) { return rule.attribute == Symbol::heads && rule.must != nullptr; });
}

std::string ShapesText(const Segment& segment, const Step& step) {
  std::vector<int> values(step.inputs().begin(), step.inputs().end());
  values.insert(values.end(), step.outputs().begin(), step.outputs().end());
  if (values.size() > kMaxTensors) return absl::StrCat(std::max<int64_t>(1, step.work().bytes()));
  std::vector<std::string> shapes;
  for (const int value : values) {
    std::string shape;
    for (int i = 0; i < std::max(1, segment.values(value).shape_size()); ++i) {
      absl::StrAppend(&shape, i == 0 ? "" : "x", Extent(segment.values(value), i));
    }
    if (std::find(shapes.begin(), shapes.end(), shape) == shapes.end()) shapes.push_back(std::move(shape));
  }
  return shapes.empty() ? "1" : absl::StrJoin(shapes, ",");
}

std::string ExtentsText(const Segment& segment, const Step& step) {
  const KernelRow* row = FindRow(step.kernel());
  const bool product = row != nullptr && row->work == WorkKind::kProduct;
  if (row == nullptr || !(product || IsAttention(*row))) return ShapesText(segment, step);
  const Extents of = ExtentsOf(segment, step);
  if (product && of[Symbol::m] > 0) return absl::StrCat(of[Symbol::m], "x", of[Symbol::n], "x", of[Symbol::k]);
  const int64_t heads = of[Symbol::heads], sequence = of[Symbol::sequence], kv_heads = of[Symbol::kv_heads];
  if (heads < 1 || sequence < 1) return ShapesText(segment, step);
  // The softmax kernels have no head size. For them `h` is 0, and the key has 1 in its place.
  return absl::StrCat(std::max<int64_t>(1, of[Symbol::rows] / sequence), "x", sequence, "x", heads, "x",
                      kv_heads > 0 ? kv_heads : heads, "x", std::max<int64_t>(1, of[Symbol::h]));
}

}  // namespace

std::string KernelKey(const Segment& segment, const Step& step) {
  return absl::StrCat(Kernel_Name(step.kernel()), " ", TypesText(segment, step.inputs()), ">",
                      TypesText(segment, step.outputs()), Options(step), " ", ExtentsText(segment, step));
}

}  // namespace weft::kernels
