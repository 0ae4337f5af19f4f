#include <array>

#include "kernels/rows.h"

namespace weft::kernels {
namespace {

const std::array<const KernelRow*, Kernel_ARRAYSIZE>& Table() {
  static const auto* table = [] {
    auto* t = new std::array<const KernelRow*, Kernel_ARRAYSIZE>{};
    for (const absl::Span<const KernelRow> rows : {kTokenRows, kProductRows, kNormRows, kAttentionRows, kPointwiseRows,
                                                   kOptimizerRows, kImageRows, kSplitRows}) {
      for (const KernelRow& row : rows) (*t)[row.kernel] = &row;
    }
    return t;
  }();
  return *table;
}

}  // namespace

const KernelRow* FindRow(Kernel kernel) {
  const int k = static_cast<int>(kernel);
  return k >= 0 && k < Kernel_ARRAYSIZE ? Table()[k] : nullptr;
}

const KernelRow& RowOf(Kernel kernel) { return *FindRow(kernel); }

}  // namespace weft::kernels
