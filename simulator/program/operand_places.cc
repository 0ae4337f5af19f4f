#include "simulator/program/operand_places.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace weft::sim {

int64_t AddressOf(const Buffer& buffer) { return buffer.place() == HOST ? ~buffer.offset() : buffer.offset(); }

void OperandPlaces::SortBuffers() {
  const int32_t count = template_.buffers_size();
  by_address_.resize(count);
  std::iota(by_address_.begin(), by_address_.end(), 0);
  std::sort(by_address_.begin(), by_address_.end(), [&](int32_t a, int32_t b) {
    const Buffer &x = template_.buffers(a), &y = template_.buffers(b);
    return std::make_tuple(x.place(), x.offset(), a) < std::make_tuple(y.place(), y.offset(), b);
  });
  place_of_.resize(count);
  for (int32_t i = 0; i < count; ++i) place_of_[by_address_[i]] = i;
}

bool OperandPlaces::AreApart(const Action& action) {
  if (place_of_.empty()) SortBuffers();
  // Scan all places between the first and the last instead of sorting: there are about as many places as operands.
  is_operand_.assign(place_of_.size(), false);
  int32_t first = static_cast<int32_t>(place_of_.size()), last = -1;
  for (const int b : action.operands()) {
    const int32_t place = place_of_[b];
    if (is_operand_[place]) return false;
    is_operand_[place] = true;
    first = std::min(first, place);
    last = std::max(last, place);
  }
  const Buffer* before = nullptr;
  for (int32_t place = first; place <= last; ++place) {
    if (!is_operand_[place]) continue;
    const Buffer& own = template_.buffers(by_address_[place]);
    if (own.bytes() <= 0) return false;
    if (before != nullptr && before->place() == own.place() && before->offset() + before->bytes() > own.offset()) {
      return false;
    }
    before = &own;
  }
  return true;
}

}  // namespace weft::sim
