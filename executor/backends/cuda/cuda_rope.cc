// ROPE.
#include "executor/backends/cuda/cuda_call.h"
#include "executor/backends/cuda/kernels/rope.h"
#include "proto/util/status.h"

namespace weft::exec::cuda {

absl::Status RopeStep(const Call& call) {
  const StepAttributes& a = call.attributes();
  RopeTable table;
  table.in_double = ComputesInDouble(call.in);
  table.sequence = a.sequence();
  table.head_size = a.head_size();
  table.base = a.base();
  table.factor = a.factor();
  table.ramp_low = a.ramp_low();
  table.ramp_high = a.ramp_high();
  table.ramp_positions = a.ramp_positions();
  table.magnitude = a.magnitude();
  const std::vector<double> key = {table.in_double ? 8.0 : 4.0,
                                   static_cast<double>(a.sequence()),
                                   static_cast<double>(a.head_size()),
                                   a.base(),
                                   a.factor(),
                                   a.ramp_low(),
                                   a.ramp_high(),
                                   a.ramp_positions(),
                                   a.magnitude()};
  WEFT_ASSIGN_OR_RETURN(const KeptTables::Table kept,
                        call.Table(key, a.sequence() * a.head_size() * (table.in_double ? 8 : 4)));
  table.table = kept.data;
  if (!kept.filled) WEFT_RETURN_IF_ERROR(call.Launch(table));
  Rope rope;
  rope.x = ArrayOf(call.in[0]);
  rope.y = ArrayOf(call.out[0]);
  rope.table = kept.data;
  rope.rows = Rows(call.in[0]);
  rope.columns = Columns(call.in[0]);
  rope.sequence = a.sequence();
  rope.head_size = a.head_size();
  rope.inverse = a.inverse();
  rope.in_double = table.in_double;
  return call.Launch(rope);
}

}  // namespace weft::exec::cuda
