#include "compiler/rewrite/bucket_steps.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/util/units.h"

namespace weft {
namespace {

int64_t Share(int64_t work, double share) { return static_cast<int64_t>(static_cast<double>(work) * share); }

}  // namespace

void BucketSteps::Add(const Bucket& bucket, const BucketPiece& piece, const TensorUpdate& update, int device,
                      BoundSegment* fetch, BoundSegment* step, BoundSegment* back) const {
  const Step& original = whole_.steps(update.step);
  const int states = static_cast<int>(update.states.size());
  const auto part = [&](int buffer, int64_t offset, DType dtype, const std::string& name, BoundSegment* segment) {
    Value value;
    value.set_name(name);
    value.set_offset(offset);
    value.set_dtype(dtype);
    value.add_shape(piece.count);
    return AddValue(t_, buffer, std::move(value), segment);
  };
  const std::string range = absl::StrCat("[", piece.first, ", ", piece.first + piece.count, ")");
  // The part of a value of the whole segment that belongs to the piece.
  const auto part_of = [&](int v) {
    const Value& value = whole_.values(v);
    return part(BufferOf(v), value.offset() + piece.first * DTypeBytes(value.dtype()), value.dtype(),
                absl::StrCat(value.name(), " ", range), step);
  };
  std::vector<int> copies;
  int64_t region = 0;
  for (int k = 0; k < states; ++k) {
    const Buffer& host = t_.buffers(update.states[k]);
    const int64_t size = DTypeBytes(host.dtype());
    const int64_t there = piece.first * size, here = region + piece.position * size;
    const std::string name = absl::StrCat(host.name(), " ", range);
    for (BoundSegment* segment : {fetch, back}) {
      const bool comes = segment == fetch;
      const int from = part(comes ? update.states[k] : device, comes ? there : here, host.dtype(), name, segment);
      const int to = part(comes ? device : update.states[k], comes ? here : there, host.dtype(), name, segment);
      Step& copy = *segment->segment.add_steps();
      copy.set_name(name);
      copy.set_kernel(CAST);
      copy.set_stream(comes ? H2D : D2H);
      copy.add_inputs(from);
      copy.add_outputs(to);
      // Work.bytes counts each byte once, because it crosses the link once.
      copy.mutable_work()->set_bytes(piece.count * size);
      copy.mutable_work()->set_dtype(host.dtype());
    }
    copies.push_back(part(device, here, host.dtype(), name, step));
    region += bucket.elements * size;
  }
  Step update_step = original;
  update_step.set_name(absl::StrCat(original.name(), " ", range));
  update_step.clear_inputs();
  update_step.clear_outputs();
  update_step.clear_deps();
  if (update_step.attributes().rounding_site() > 0) {
    update_step.mutable_attributes()->set_first_element(piece.first);
  }
  update_step.add_inputs(part_of(original.inputs(0)));
  for (int v : copies) update_step.add_inputs(v), update_step.add_outputs(v);
  // The other inputs do not have one entry per element, so every piece reads them whole.
  for (int i = states + 1; i < original.inputs_size(); ++i) {
    update_step.add_inputs(AddValue(t_, BufferOf(original.inputs(i)), whole_.values(original.inputs(i)), step));
  }
  int64_t more = 0;
  if (original.outputs_size() > states) {
    update_step.add_outputs(part_of(original.outputs(states)));
  } else {
    // The original kernel updates the weights in place, in the buffer that compute or a collective reads. The kernel of
    // a piece updates the bucket's copy instead, so it writes these weights as an additional output.
    const auto gathered = gathered_.find(update.states[0]);
    const DType dtype = whole_.values(original.outputs(0)).dtype();
    update_step.add_outputs(gathered == gathered_.end()
                                ? part_of(original.outputs(0))
                                : part(gathered->second, piece.first * DTypeBytes(dtype), dtype,
                                       absl::StrCat(t_.buffers(gathered->second).name(), " ", range), step));
    more = piece.count * DTypeBytes(whole_.values(original.outputs(0)).dtype());
  }
  const double share = static_cast<double>(piece.count) / static_cast<double>(update.elements);
  update_step.mutable_work()->set_bytes(Share(original.work().bytes(), share) + more);
  update_step.mutable_work()->set_flops(Share(original.work().flops(), share));
  *step->segment.add_steps() = std::move(update_step);
  if (update.zero < 0) return;
  Step zero = whole_.steps(update.zero);
  const int value = part_of(zero.outputs(0));
  zero.set_name(absl::StrCat(zero.name(), " ", range));
  zero.clear_outputs();
  zero.clear_deps();
  zero.add_outputs(value);
  zero.mutable_work()->set_bytes(Share(zero.work().bytes(), share));
  *step->segment.add_steps() = std::move(zero);
}

}  // namespace weft
