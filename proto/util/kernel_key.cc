#include "proto/util/kernel_key.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/util/units.h"

namespace weft {
namespace {

// Steps on more tensors, such as the steps of a whole stage, are told apart by their bytes.
constexpr int kMostTensors = 12;

// Returns "bf16*3,fp32".
template <typename Indices>
std::string Types(const Segment& segment, const Indices& values) {
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

bool IsAttention(Kernel kernel) {
  switch (kernel) {
    case ATTENTION:
    case ATTENTION_BACKWARD:
    case ATTENTION_SCORES:
    case ATTENTION_SCORES_BACKWARD:
    case ATTENTION_SOFTMAX:
    case ATTENTION_SOFTMAX_BACKWARD:
    case ATTENTION_VALUES:
    case ATTENTION_VALUES_BACKWARD:
      return true;
    default:
      return false;
  }
}

std::string Shapes(const Segment& segment, const Step& step) {
  std::vector<int> values(step.inputs().begin(), step.inputs().end());
  values.insert(values.end(), step.outputs().begin(), step.outputs().end());
  if (values.size() > kMostTensors) return absl::StrCat(std::max<int64_t>(1, step.work().bytes()));
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

std::string Extents(const Segment& segment, const Step& step) {
  const StepAttributes& a = step.attributes();
  if (step.kernel() == MATMUL && step.inputs_size() >= 2 && step.outputs_size() == 1) {
    const Value& out = segment.values(step.outputs(0));
    const Value& in = segment.values(step.inputs(0));
    return absl::StrCat(Extent(out, 0), "x", Extent(out, 1), "x", Extent(in, a.transpose_a() ? 0 : 1));
  }
  if (!IsAttention(step.kernel()) || a.heads() < 1 || a.sequence() < 1) return Shapes(segment, step);
  // In all of these kernels, the first tensor has a row per position.
  const int first = step.inputs_size() > 0 ? step.inputs(0) : step.outputs(0);
  const int64_t rows = Extent(segment.values(first), 0);
  const auto columns_of = [&](int value) { return Extent(segment.values(value), 1); };
  int64_t columns = a.heads();
  switch (step.kernel()) {
    case ATTENTION:
    case ATTENTION_VALUES:
      columns = step.outputs_size() > 0 ? columns_of(step.outputs(0)) : 1;
      break;
    case ATTENTION_BACKWARD:
    case ATTENTION_VALUES_BACKWARD:
      columns = columns_of(first);
      break;
    case ATTENTION_SCORES:
      // The first tensor is q, or q, k and v side by side.
      columns = columns_of(first) / (step.inputs_size() > 1 ? 1 : 3);
      break;
    case ATTENTION_SCORES_BACKWARD:
      columns =
          step.inputs_size() > 2 ? columns_of(step.inputs(1)) : columns_of(step.inputs(step.inputs_size() - 1)) / 3;
      break;
    default:
      break;
  }
  return absl::StrCat(std::max<int64_t>(1, rows / a.sequence()), "x", a.sequence(), "x", a.heads(), "x",
                      a.kv_heads() > 0 ? a.kv_heads() : a.heads(), "x", std::max<int64_t>(1, columns / a.heads()));
}

}  // namespace

std::string KernelKey(const Segment& segment, const Step& step) {
  return absl::StrCat(Kernel_Name(step.kernel()), " ", Types(segment, step.inputs()), ">",
                      Types(segment, step.outputs()), Options(step), " ", Extents(segment, step));
}

bool ParseKernelKey(absl::string_view key, KernelKeyParts* parts) {
  const size_t first = key.find(' '), last = key.rfind(' ');
  if (first == absl::string_view::npos || first == last || first == 0) return false;
  parts->kernel = key.substr(0, first);
  parts->form = key.substr(0, last);
  parts->extents.clear();
  for (const absl::string_view extent : absl::StrSplit(key.substr(last + 1), absl::ByAnyChar("x,"))) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(extent, &value) || value < 1) return false;
    parts->extents.push_back(value);
  }
  return true;
}

}  // namespace weft
