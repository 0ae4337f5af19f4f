#include "kernels/random_step_testing.h"

#include <algorithm>
#include <map>
#include <string>

#include "google/protobuf/descriptor.h"
#include "kernels/attributes.h"

namespace weft::kernels {
namespace {

using Extents = std::map<Symbol, int64_t>;

// Returns dim `i` of a shape; 1 where a division makes it 0.
int64_t ExtentOf(const Shape& sh, size_t i, bool swap, Extents& extents) {
  const Dim& d = sh.dims[swap ? sh.dims.size() - 1 - i : i];
  int64_t sum = 0;
  for (auto& t : d.terms) {
    int64_t x = 1;
    for (auto& f : t.factors) {
      int64_t y = f.symbol == Symbol::kNone ? f.number : extents[f.symbol];
      if (f.divides)
        x = y ? x / y : 1;
      else
        x *= y;
    }
    sum += x;
  }
  return std::max<int64_t>(1, sum);
}
DType PickDType(Random& random, Types t, DType act) {
  switch (t) {
    case Types::kFloat:
      return random.OneIn(4) ? FP32 : act;
    case Types::kSum:
      return random.OneIn(3) ? act : FP32;
    case Types::kStatistics:
      return random.OneIn(4) ? FP64 : FP32;
    case Types::kFp64:
      return FP64;
    case Types::kNorms:
      return random.OneIn(2) ? FP64 : EXACT192;
    case Types::kExact:
      return EXACT192;
    case Types::kFloatOrExact:
      return random.OneIn(3) ? EXACT192 : act;
    case Types::kAddend:
      return act;
    case Types::kInt32:
      return INT32;
    case Types::kUint8:
      return UINT8;
    default:
      return act;
  }
}
}  // namespace

void MakeStep(const KernelRow& row, Random& random, Program& program, Segment& segment) {
  program.Clear();
  segment.Clear();
  segment.set_name("s");
  const int64_t tokens = 1 << random.Between(0, 3), samples = 1 << random.Between(0, 2), z = random.OneIn(3) ? 2 : 1,
                data = random.Between(1, 3);
  const bool image = random.OneIn(3);
  const int64_t side = random.Between(1, 3);
  auto axis = [&](const char* n, int64_t k) {
    auto* a = program.mutable_mesh()->add_axes();
    a->set_name(n);
    a->set_size(k);
  };
  axis("x", random.Between(1, 3));
  if (z > 1 || random.OneIn(2)) axis("z", z);
  axis("data", data);
  const int64_t seq = image ? side * side : tokens;
  program.mutable_recipe()->set_sequence_length(seq);
  program.mutable_recipe()->set_microbatch_sequences(samples * z);
  program.set_vocabulary(image ? 0 : random.Between(2, 9));
  if (image) {
    program.set_image_size(side);
    program.set_image_channels(random.Between(1, 3));
  }
  program.set_microbatches(random.Between(1, 4));
  const bool exact = random.OneIn(4);
  if (random.OneIn(2)) program.mutable_precision()->set_compute(random.OneIn(2) ? TF32 : BF16);
  const int rec = random.Between(0, 3);
  const int64_t width = random.OneIn(4) ? 2 : 1;
  int64_t sequence = random.OneIn(4) ? random.Between(1, 3) : seq;
  StepAttributes a;
  Extents extents;
  extents[Symbol::height] = random.Between(1, 4);
  extents[Symbol::width] = random.Between(1, 4);
  extents[Symbol::stride] = random.Between(1, 3);
  extents[Symbol::kernel_size] = 2 * random.Between(0, 2) + 1;
  extents[Symbol::positions] = extents[Symbol::height] * extents[Symbol::width];
  extents[Symbol::out_positions] = ((extents[Symbol::height] - 1) / extents[Symbol::stride] + 1) *
                                   ((extents[Symbol::width] - 1) / extents[Symbol::stride] + 1);
  extents[Symbol::sequence] = sequence;
  int64_t rows = samples * width *
                 (row.kernel == LOAD_TIMESTEPS || row.kernel == TIMESTEP_EMBEDDING     ? 1
                  : row.microbatch.rows_of_sample == Microbatch::RowsOfSample::kRecipe ? seq
                                                                                       : sequence);
  if (row.work == WorkKind::kConvolution || row.kernel == UPSAMPLE || row.kernel == UPSAMPLE_BACKWARD)
    rows = samples * extents[Symbol::positions];
  bool grouped = random.OneIn(2);
  int64_t kv = random.Between(1, 2), heads = kv * random.Between(1, 2);
  bool has_heads = true;
  if (row.kernel == DROPOUT || row.kernel == DROPOUT_MASK) has_heads = random.OneIn(2);
  extents[Symbol::heads] = heads;
  extents[Symbol::kv_heads] = kv;
  extents[Symbol::h] = random.Between(1, 3);
  extents[Symbol::groups] = random.Between(1, 3);
  extents[Symbol::blocks] = 1;
  extents[Symbol::d] = extents[Symbol::groups] * random.Between(1, 3);
  extents[Symbol::head_size] = 2;
  if (row.kernel == ROPE) extents[Symbol::d] = 2 * random.Between(1, 3);
  if (row.kernel == SLICE_COLUMNS) {
    int64_t g = random.Between(0, 3);
    extents[Symbol::groups] = g;
    extents[Symbol::blocks] = std::max<int64_t>(1, g);
    rows = extents[Symbol::blocks] * random.Between(1, 3);
  }
  if (row.kernel == DROPOUT || row.kernel == DROPOUT_MASK) {
    if (has_heads) {
      sequence = seq;
      extents[Symbol::d] = heads * seq;
      rows = samples * seq;
      a.set_heads(heads);
      a.set_sequence(seq);
    } else if (image) {
      a.set_sequence(sequence);
      rows = samples * sequence;
    } else {
      rows = samples * seq;
      if (random.OneIn(3)) {
        a.mutable_row_shift();
        a.set_sequence(seq);
        if (random.OneIn(2)) {
          auto* t = a.mutable_row_shift()->add_terms();
          t->set_axis("data");
          t->set_stride(1);
          rows = std::max<int64_t>(1, rows - data + 1);
        }
      }
    }
  }
  extents[Symbol::rows] = rows;
  extents[Symbol::k] = random.Between(1, 4);
  extents[Symbol::m] = random.Between(1, 4);
  extents[Symbol::n] = random.Between(1, 4);
  extents[Symbol::V] = program.vocabulary() + random.Between(0, 2);
  extents[Symbol::M] = sequence + random.Between(0, 2);
  extents[Symbol::T] = random.Between(1, 4);
  extents[Symbol::parts] = random.Between(1, 3);
  if (row.kernel == POSITION_EMBEDDING || row.kernel == POSITION_EMBEDDING_BACKWARD) {
    extents[Symbol::sequence] = sequence = seq;
    extents[Symbol::M] = seq + random.Between(0, 2);
    rows = extents[Symbol::rows] = samples * seq;
    if (random.OneIn(3)) {
      a.mutable_row_shift();
      if (random.OneIn(2)) {
        extents[Symbol::rows] = std::max<int64_t>(1, rows - data + 1);
        auto* t = a.mutable_row_shift()->add_terms();
        t->set_axis("data");
        t->set_stride(1);
      }
    }
  }
  const bool rms = random.OneIn(2);
  extents[Symbol::statistics] = rms ? 1 : 2;
  extents[Symbol::losses] = program.microbatches() * data;
  extents[Symbol::channels] = program.image_channels();
  if (row.family == Family::kLoss || row.kernel == CROSS_ENTROPY_BACKWARD || row.kernel == CROSS_ENTROPY_PARTIAL)
    extents[Symbol::n] = program.vocabulary() + random.Between(0, 2);
  Step step;
  step.set_name("step");
  step.set_kernel(row.kernel);
  for (const AttributeRule& rule : row.attributes) {
    switch (rule.attribute) {
      case Symbol::transpose_a:
        a.set_transpose_a(random.OneIn(2));
        break;
      case Symbol::transpose_b:
        a.set_transpose_b(random.OneIn(2));
        break;
      case Symbol::epsilon:
        a.set_epsilon(random.OneIn(3) ? 0 : 1e-5);
        break;
      case Symbol::heads:
        if (row.kernel != DROPOUT && row.kernel != DROPOUT_MASK) a.set_heads(heads);
        break;
      case Symbol::sequence:
        if (row.kernel != DROPOUT && row.kernel != DROPOUT_MASK)
          a.set_sequence(row.kernel == LOAD_NOISE || row.kernel == LOAD_NOISY_IMAGE ? seq : sequence);
        break;
      case Symbol::causal:
        a.set_causal(random.OneIn(2));
        break;
      case Symbol::scale:
        a.set_scale(0.5);
        break;
      case Symbol::dropout:
        a.set_dropout(random.OneIn(2) ? 0 : 0.1);
        break;
      case Symbol::dropout_site:
        a.set_dropout_site(random.Between(0, 3));
        break;
      case Symbol::tanh_approximation:
        a.set_tanh_approximation(random.OneIn(2));
        break;
      case Symbol::vocabulary:
        if (row.family != Family::kLoad) a.set_vocabulary(program.vocabulary());
        break;
      case Symbol::masked:
        if (random.OneIn(2) && program.vocabulary() > 0) {
          a.set_masked(random.Between(1, seq));
          a.set_vocabulary(program.vocabulary());
          a.set_mask_token(random.Between(0, program.vocabulary() - 1));
        }
        break;
      case Symbol::loss_weight:
        a.set_loss_weight(0.25);
        break;
      case Symbol::value:
        a.set_value(random.Between(0, 2));
        break;
      case Symbol::slot:
        a.set_slot(random.Between(0, extents[Symbol::T] - 1));
        break;
      case Symbol::clip_norm:
        a.set_clip_norm(random.Between(0, 2));
        break;
      case Symbol::beta1:
        a.set_beta1(0.9);
        break;
      case Symbol::beta2:
        a.set_beta2(0.95);
        break;
      case Symbol::weight_decay:
        a.set_weight_decay(random.OneIn(2) ? 0.1 : 0);
        break;
      case Symbol::momentum:
        a.set_momentum(random.OneIn(2) ? 0.9 : 0);
        break;
      case Symbol::kv_heads:
        if (grouped) a.set_kv_heads(kv);
        break;
      case Symbol::window:
        if (a.causal()) a.set_window(random.Between(0, 3));
        break;
      case Symbol::head_size:
        a.set_head_size(2);
        break;
      case Symbol::base:
        a.set_base(10000);
        break;
      case Symbol::magnitude:
        a.set_magnitude(1);
        break;
      case Symbol::factor:
        if (random.OneIn(2)) {
          a.set_factor(8);
          a.set_ramp_low(-1);
          a.set_ramp_high(2);
          a.set_ramp_positions(random.OneIn(2) ? 5 : 0);
        }
        break;
      case Symbol::height:
        a.set_height(extents[Symbol::height]);
        break;
      case Symbol::width:
        a.set_width(extents[Symbol::width]);
        break;
      case Symbol::stride:
        a.set_stride(extents[Symbol::stride]);
        break;
      case Symbol::kernel_size:
        a.set_kernel_size(extents[Symbol::kernel_size]);
        break;
      case Symbol::groups:
        a.set_groups(extents[Symbol::groups]);
        break;
      case Symbol::diffusion_steps:
        a.set_diffusion_steps(random.Between(1, 1000));
        break;
      case Symbol::timestep_scale:
        a.set_timestep_scale(1);
        break;
      case Symbol::qkv_by_head:
        if (!grouped) a.set_qkv_by_head(random.OneIn(2));
        break;
      case Symbol::root_mean_square:
        a.set_root_mean_square(rms);
        break;
      case Symbol::whole_columns:
        a.set_whole_columns(row.kernel == NORM_COMBINE          ? extents[Symbol::parts] * random.Between(1, 3)
                            : row.kernel == NORM_BACKWARD_APPLY ? extents[Symbol::n] + random.Between(0, 2)
                            : random.OneIn(2)                   ? 0
                                                                : extents[Symbol::heads] + extents[Symbol::d] + 3);
        break;
      case Symbol::loss_scale:
        if (row.kernel == UPDATE_LOSS_SCALE) a.set_loss_scale(1024);
        break;
      case Symbol::growth_interval:
        a.set_growth_interval(5);
        break;
      case Symbol::counted_once:
        if (random.OneIn(2)) a.add_counted_once("data");
        break;
      case Symbol::column_shift:
        if (random.OneIn(3)) {
          auto* t = a.mutable_column_shift()->add_terms();
          t->set_axis(random.OneIn(2) ? "x" : "data");
          t->set_stride(1);
        }
        break;
      default:
        break;
    }
  }
  if (row.kernel == NORM_TOTAL && random.OneIn(2)) a.set_loss_scale(8);
  if (row.microbatch.reads != Microbatch::Reads::kNo && random.OneIn(3)) a.set_of_backward(true);
  if (row.kernel == SLICE_COLUMNS) {
    extents[Symbol::n] = random.Between(1, extents[Symbol::blocks] * extents[Symbol::d]);
    a.set_first_column(random.Between(0, extents[Symbol::blocks] * extents[Symbol::d] - extents[Symbol::n]));
    if (random.OneIn(2)) {
      a.clear_column_shift();
    }
  }
  static const DType acts[] = {FP32, FP32, BF16, FP16, FP64};
  DType act = acts[random.Between(0, 4)];
  if (row.kernel == ADD && exact) act = EXACT192;
  std::map<std::string, Value> made;
  int more = row.family == Family::kCollective ? random.Between(1, 3) : 1;
  const bool opt1 = random.OneIn(2), opt2 = opt1 && random.OneIn(2);
  int optional_in = 0;
  auto add = [&](const OperandSpec& o, bool input) {
    if (o.when.attribute != Symbol::kNone) {
      const Attribute& at = kAttributes[static_cast<int>(o.when.attribute)];
      bool set = at.integer ? at.integer(a) != 0 : at.real(a) != 0;
      if (set != o.when.set) return;
    }
    if (o.presence == Presence::kOptional) {
      if (input ? !(optional_in++ == 0 ? opt1 : opt2) : random.OneIn(2)) return;
    }
    Value v;
    v.set_name(o.name);
    DType t = PickDType(random, o.types, act);
    v.set_dtype(t);
    if (o.shape.kind == Shape::Kind::kLike)
      *v.mutable_shape() = made[o.shape.like].shape();
    else if (o.shape.kind == Shape::Kind::kAny || o.by_rule) {
      if (std::string(o.name).find("weight") != std::string::npos) {
        int64_t k = a.kernel_size();
        v.add_shape(extents[Symbol::n]);
        v.add_shape(extents[Symbol::k]);
        if (k == 1 && random.OneIn(2))
          v.add_shape(1);
        else {
          v.add_shape(k);
          v.add_shape(k);
        }
      } else {
        int n = random.Between(0, 3);
        for (int i = 0; i < n; ++i) v.add_shape(random.Between(1, 4));
      }
    } else
      for (size_t i = 0; i < o.shape.dims.size(); ++i) {
        bool sw = o.shape.swapped_by != Symbol::kNone && kAttributes[static_cast<int>(o.shape.swapped_by)].integer(a);
        v.add_shape(ExtentOf(o.shape, i, sw, extents));
      }
    if (!made.count(o.name)) made[o.name] = v;
    segment.add_operands()->set_bytes(1 << 20);
    v.set_operand(segment.operands_size() - 1);
    *segment.add_values() = v;
    if (input)
      step.add_inputs(segment.values_size() - 1);
    else
      step.add_outputs(segment.values_size() - 1);
  };
  // An operand may be like a later one: shape all of them first.
  for (const OperandSpec& o : row.inputs)
    if (o.shape.kind == Shape::Kind::kDims) {
      Value v;
      for (size_t i = 0; i < o.shape.dims.size(); ++i) v.add_shape(ExtentOf(o.shape, i, false, extents));
      made[o.name] = v;
    }
  for (int m = 0; m < more; ++m)
    for (const OperandSpec& o : row.inputs) add(o, true);
  for (int m = 0; m < more; ++m)
    for (const OperandSpec& o : row.outputs) add(o, false);
  if (row.kernel == ADAMW || row.kernel == SGD_STEP || row.kernel == UPDATE_LOSS_SCALE) {
    int states = row.kernel == ADAMW ? 3 : row.kernel == SGD_STEP ? (a.momentum() != 0 ? 2 : 1) : 1;
    for (int i = 0; i < states && i < step.outputs_size(); ++i) step.set_outputs(i, step.inputs(i + 1));
  }
  if (row.kernel == MATMUL)
    a.set_tf32(segment.values(step.inputs(0)).dtype() == FP32 && segment.values(step.inputs(1)).dtype() == FP32 &&
               program.precision().compute() == TF32);
  if (row.family == Family::kOptimizer) {
    if (rec == 1) {
      program.mutable_recipe()->mutable_sgd()->set_momentum(a.momentum());
      program.mutable_recipe()->mutable_sgd()->set_weight_decay(0.1);
    }
    if (rec == 2) {
      program.mutable_recipe()->mutable_adamw()->set_beta1(0.9);
      program.mutable_recipe()->mutable_adamw()->set_weight_decay(0.1);
    }
    if (random.OneIn(3)) {
      program.mutable_recipe()->set_weight_rounding(STOCHASTIC);
      int st = row.kernel == ADAMW ? 3 : a.momentum() != 0 ? 2 : 1;
      if (step.outputs_size() > st) {
        auto t = segment.values(step.outputs(st)).dtype();
        if (t == BF16 || t == FP16) {
          a.set_rounding_site(2);
          a.set_first_element(random.Between(0, 5));
          if (random.OneIn(2))
            for (int k = 0; k < segment.values_size(); ++k)
              if (step.outputs(0) == k) segment.mutable_values(k)->set_dtype(FP32);
        }
      }
    }
  }
  if (random.OneIn(2))
    for (size_t o = 0; o < row.outputs.size(); ++o)
      if (row.outputs[o].alias && !row.outputs[o].in_place && static_cast<int>(o) < step.outputs_size()) {
        std::string al = row.outputs[o].alias;
        for (int i = 0; i < step.inputs_size(); ++i)
          if ((al.empty() && i == static_cast<int>(o)) || segment.values(step.inputs(i)).name() == al) {
            Value* y = segment.mutable_values(step.outputs(o));
            const Value& x = segment.values(step.inputs(i));
            y->set_operand(x.operand());
            y->set_offset(x.offset());
            if (random.OneIn(2)) y->set_dtype(x.dtype());
          }
      }
  if (row.stream == Stream::kCollective) {
    step.set_stream(COLLECTIVE);
    auto* c = step.mutable_collective();
    c->set_purpose(TENSOR);
    c->set_algorithm("ring");
    auto* x = c->mutable_group()->add_axes();
    x->set_axis("data");
    int64_t n = data;
    for (int i = 0; i < more; ++i) {
      Value* in = segment.mutable_values(step.inputs(i));
      Value* out = segment.mutable_values(step.outputs(i));
      if (random.OneIn(5)) continue;
      *out->mutable_shape() = in->shape();
      if (row.kernel != GROUP_REDUCE_SCATTER || in->dtype() == EXACT192 || random.OneIn(2)) out->set_dtype(in->dtype());
      if (row.kernel == GROUP_ALL_GATHER) {
        out->add_shape(n);
      }
      if (row.kernel == GROUP_REDUCE_SCATTER) in->add_shape(n);
    }
  }
  for (const OperandSpec& o : row.outputs)
    if (o.update == Update::kAccumulates && random.OneIn(2)) step.set_accumulate(true);
  if (a.ByteSizeLong() > 0 || a.has_row_shift()) *step.mutable_attributes() = a;
  *segment.add_steps() = step;
}

void ChangeStep(Random& random, Program& program, Segment& segment) {
  Step& t = *segment.mutable_steps(0);
  StepAttributes& a = *t.mutable_attributes();
  const auto* d = StepAttributes::descriptor();
  const auto* re = a.GetReflection();
  auto value = [&]() -> Value* {
    int n = t.inputs_size() + t.outputs_size();
    if (!n) return nullptr;
    int i = random.Between(0, n - 1);
    return segment.mutable_values(i < t.inputs_size() ? t.inputs(i) : t.outputs(i - t.inputs_size()));
  };
  switch (random.Between(0, 13)) {
    case 0:
    case 1:
    case 2:
      if (Value* v = value()) {
        if (v->shape_size() == 0) {
          v->add_shape(2);
          break;
        }
        int i = random.Between(0, v->shape_size() - 1);
        static const int64_t big[] = {1, 2, 3, 6, 12, (int64_t{1} << 31) - 1, int64_t{1} << 20};
        int64_t x = v->shape(i);
        x = random.OneIn(3)   ? x + 1
            : random.OneIn(3) ? x * 2
            : random.OneIn(2) ? std::max<int64_t>(1, x - 1)
                              : big[random.Between(0, 6)];
        v->set_shape(i, x);
      }
      break;
    case 3:
      if (Value* v = value()) {
        if (random.OneIn(2) || v->shape_size() == 0)
          v->add_shape(random.Between(1, 2));
        else
          v->mutable_shape()->RemoveLast();
      }
      break;
    case 4:
      if (Value* v = value()) v->set_dtype(static_cast<DType>(random.Between(1, 7)));
      break;
    case 5:
    case 6:
    case 7: {  // an attribute that the row has, or any
      const KernelRow* row = FindRow(t.kernel());
      const google::protobuf::FieldDescriptor* f = d->field(random.Between(0, d->field_count() - 1));
      if (row && row->attributes.size() && !random.OneIn(5))
        f = d->FindFieldByName(
            kAttributes[static_cast<int>(row->attributes[random.Between(0, row->attributes.size() - 1)].attribute)]
                .name);
      static const int64_t ints[] = {0,
                                     1,
                                     -1,
                                     2,
                                     3,
                                     4,
                                     5,
                                     7,
                                     1 << 15,
                                     (1 << 15) + 1,
                                     int64_t{1} << 31,
                                     int64_t{1} << 62,
                                     -(int64_t{1} << 62),
                                     (int64_t{1} << 20) + 1};
      static const double reals[] = {0, -1, 0.5, 1, 2, 1e30, -1e-30, 1e300, 0x1p60, 0x1p-60, 0x1p61};
      switch (f->cpp_type()) {
        case f->CPPTYPE_BOOL:
          re->SetBool(&a, f, !re->GetBool(a, f));
          break;
        case f->CPPTYPE_INT64:
          re->SetInt64(&a, f,
                       random.OneIn(2) ? re->GetInt64(a, f) + random.Between(-1, 1) : ints[random.Between(0, 13)]);
          break;
        case f->CPPTYPE_INT32:
          re->SetInt32(&a, f, static_cast<int32_t>(ints[random.Between(0, 9)]));
          break;
        case f->CPPTYPE_UINT32:
          re->SetUInt32(&a, f, static_cast<uint32_t>(ints[random.Between(0, 9)]));
          break;
        case f->CPPTYPE_DOUBLE:
          re->SetDouble(&a, f, reals[random.Between(0, 10)]);
          break;
        case f->CPPTYPE_MESSAGE: {
          auto* sh = static_cast<weft::Shift*>(re->MutableMessage(&a, f));
          if (random.OneIn(4))
            re->ClearField(&a, f);
          else {
            auto* term = sh->add_terms();
            static const char* ax[] = {"x", "data", "z", "q"};
            term->set_axis(ax[random.Between(0, 3)]);
            static const int64_t str[] = {0, 1, 2, 3, 100, -1};
            term->set_stride(str[random.Between(0, 5)]);
          }
          break;
        }
        default:
          if (f->is_repeated()) re->AddString(&a, f, random.OneIn(2) ? "data" : "q");
      }
      break;
    }
    case 8:
      if (t.inputs_size() && random.OneIn(2))
        t.mutable_inputs()->RemoveLast();
      else if (t.outputs_size() && random.OneIn(2))
        t.mutable_outputs()->RemoveLast();
      else if (segment.values_size()) {
        if (random.OneIn(2))
          t.add_inputs(random.Between(0, segment.values_size() - 1));
        else
          t.add_outputs(random.Between(0, segment.values_size() - 1));
      }
      break;
    case 9:
      if (t.inputs_size() > 1)
        t.mutable_inputs()->SwapElements(random.Between(0, t.inputs_size() - 1),
                                         random.Between(0, t.inputs_size() - 1));
      break;
    case 10:
      if (random.OneIn(3))
        t.set_accumulate(!t.accumulate());
      else if (random.OneIn(2))
        t.set_stream(static_cast<StreamKind>(random.Between(0, 3)));
      else if (random.OneIn(2)) {
        if (t.has_collective())
          t.clear_collective();
        else
          t.mutable_collective();
      } else if (t.has_collective()) {
        auto* c = t.mutable_collective();
        if (random.OneIn(3))
          c->set_purpose(static_cast<Purpose>(0));
        else if (random.OneIn(2))
          c->set_algorithm("");
        else if (c->group().axes_size() > 0)
          c->mutable_group()->mutable_axes(0)->set_axis("q");
      }
      break;
    case 11:
      if (t.inputs_size() && t.outputs_size()) {
        const Value& x = segment.values(t.inputs(random.Between(0, t.inputs_size() - 1)));
        Value* y = segment.mutable_values(t.outputs(random.Between(0, t.outputs_size() - 1)));
        y->set_operand(x.operand());
        y->set_offset(x.offset() + (random.OneIn(4) ? 64 : 0));
        if (random.OneIn(2)) y->set_dtype(x.dtype());
        if (random.OneIn(6) && t.outputs_size() > 1) t.set_outputs(0, t.outputs(1));
      }
      break;
    case 12:
      switch (random.Between(0, 8)) {
        case 0:
          program.set_vocabulary(program.vocabulary() + 1);
          break;
        case 1:
          program.mutable_recipe()->set_sequence_length(random.Between(1, 8));
          break;
        case 2:
          program.set_image_size(program.image_size() ? 0 : 2);
          break;
        case 3:
          program.mutable_precision()->set_compute(static_cast<DType>(random.Between(1, 8)));
          break;
        case 4:
          program.mutable_recipe()->set_weight_rounding(static_cast<WeightRounding>(random.Between(0, 1)));
          break;
        case 5:
          program.mutable_recipe()->mutable_sgd()->set_momentum(random.Between(0, 1));
          break;
        case 6:
          program.mutable_recipe()->mutable_adamw()->set_epsilon(0);
          break;
        case 7:
          program.set_microbatches(program.microbatches() + 1);
          break;
        case 8:
          program.mutable_recipe()->set_microbatch_sequences(random.Between(0, 5));
          break;
      }
      break;
    case 13:
      if (random.OneIn(4))
        t.set_kernel(static_cast<Kernel>(
            Kernel_descriptor()->value(random.Between(0, Kernel_descriptor()->value_count() - 1))->number()));
      break;
  }
  if (a.ByteSizeLong() == 0 && random.OneIn(2)) t.clear_attributes();
}

}  // namespace weft::kernels
