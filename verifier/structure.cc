// Checks sizes, names and ranges of everything except segments and actions: mesh, recipe, tensors, templates, buffers
// (P7, P8, P13).
#include <map>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_join.h"
#include "proto/util/units.h"
#include "verifier/cuts.h"
#include "verifier/index.h"
#include "verifier/room.h"

namespace weft::verify {
namespace {

void CheckMesh(const Program& program, Findings* findings) {
  int64_t ranks = 1;
  absl::flat_hash_set<std::string> seen;
  for (const MeshAxis& axis : program.mesh().axes()) {
    const std::string& name = axis.name();
    if (name != "x" && name != "y" && name != "z" && name != "data" && name != "pipe") {
      findings->Add("P13.mesh", "mesh axis '", name, "' is unknown; known: data, pipe, x, y, z");
    }
    if (!seen.insert(name).second) findings->Add("P13.mesh", "mesh axis '", name, "' is listed twice");
    if (axis.size() < 1 || axis.size() > Limits::kRanks / ranks) {
      findings->Add("P13.mesh", "mesh axis '", name, "' has size ", axis.size(),
                    "; sizes must be at least 1, and a mesh can have at most ", Limits::kRanks, " ranks");
      return;
    }
    ranks *= axis.size();
  }
}

void CheckRecipe(const Program& program, const VerifyOptions& options, Findings* findings) {
  const Recipe& r = program.recipe();
  const auto range = [&](const char* field, int64_t value, int64_t low, int64_t high) {
    if (value < low || value > high) {
      findings->Add("P13.recipe", field, " is ", value, "; it must be in [", low, ", ", high, "]");
    }
  };
  range("microbatches", program.microbatches(), 1, Limits::kMicrobatches);
  if (findings->empty()) range("steps_per_repetition", program.steps_per_repetition(), 0, program.microbatches());
  range("stages", program.stages(), 1, Limits::kStages);
  const bool images = program.image_size() > 0;
  range("vocabulary", program.vocabulary(), images ? 0 : 1, images ? 0 : int64_t{1} << 31);
  range("image_size", program.image_size(), 0, int64_t{1} << 15);
  range("image_channels", program.image_channels(), images ? 1 : 0, images ? int64_t{1} << 15 : 0);
  range("recipe.sequence_length", r.sequence_length(), 1, Limits::kRows);
  range("recipe.microbatch_sequences", r.microbatch_sequences(), 0, Limits::kRows);
  range("recipe.global_batch_sequences", r.global_batch_sequences(), 1, int64_t{1} << 40);
  range("recipe.steps", r.steps(), 0, int64_t{1} << 40);
  if (!findings->empty()) return;
  if (images && r.sequence_length() != program.image_size() * program.image_size()) {
    findings->Add("P13.recipe", "recipe.sequence_length is ", r.sequence_length(),
                  "; it must be the number of pixels of an image, ", program.image_size() * program.image_size());
  }
  const int64_t sequences = std::max<int64_t>(1, r.microbatch_sequences());
  if (sequences > Limits::kRows / r.sequence_length()) {
    findings->Add("P13.recipe", "recipe.microbatch_sequences x recipe.sequence_length is ", sequences, " x ",
                  r.sequence_length(), ", more than ", Limits::kRows, " rows");
  }
  int64_t data = 1, z = 1;
  for (const MeshAxis& axis : program.mesh().axes()) {
    if (axis.name() == "data") data = axis.size();
    if (axis.name() == "z") z = axis.size();
  }
  if (sequences % z != 0) {
    findings->Add("P9.batch", "recipe.microbatch_sequences is ", sequences, " and must be a multiple of the ", z,
                  " ranks of axis z, which share a microbatch");
  }
  // Both factors are at most 2^20, so neither their product nor its bytes as fp64 exceed 2^43. The product times
  // `sequences` might exceed int64, so the check divides.
  const int64_t microbatches = MicrobatchesPerStep(program) * data;
  const bool adds_up =
      r.global_batch_sequences() % microbatches == 0 && r.global_batch_sequences() / microbatches == sequences;
  if (options.completeness && !adds_up) {
    findings->Add("P9.batch", "recipe.global_batch_sequences is ", r.global_batch_sequences(),
                  ", but microbatches x data x microbatch_sequences is ", MicrobatchesPerStep(program), " x ", data,
                  " x ", sequences);
  }
  if (r.dropout() < 0 || r.dropout() >= 1) {
    findings->Add("P13.recipe", "recipe.dropout is ", r.dropout(), "; it must be in [0, 1)");
  }
  if (r.clip_norm() < 0) {
    findings->Add("P13.recipe", "recipe.clip_norm is ", r.clip_norm(), "; it must not be negative");
  }
}

// Refuses what an asynchronous program must not have.
void CheckAsynchronous(const Program& program, Findings* findings) {
  const auto bad = [&](const auto&... parts) { findings->Add("P14.program", "an asynchronous program ", parts...); };
  if (program.microbatches() % program.steps_per_repetition() != 0) {
    bad("must have the same number of microbatches in each step; ", program.microbatches(), " is not a multiple of ",
        program.steps_per_repetition(), " steps");
  }
  if (program.compute_order() != STATIC_ORDER) bad("must have compute_order STATIC_ORDER");
  if (program.accumulation() == EXACT) bad("must have accumulation IN_ORDER");
  if (!program.recipe().has_clip_norm() || program.recipe().clip_norm() != 0) bad("must have recipe.clip_norm 0");
  if (program.has_evaluation()) bad("must have no evaluation program");
  for (const LogicalTensor& tensor : program.tensors()) {
    if (tensor.uses() > 1) bad("must have one use of each tensor; '", tensor.name(), "' has ", tensor.uses());
  }
  for (const Template& t : program.templates()) {
    if (t.epilogue_size() > 0) bad("must have no epilogue; template '", t.name(), "' has one");
  }
}

void CheckSkips(const Program& program, Findings* findings) {
  if (program.skips_size() > Limits::kSkips) {
    findings->Add("P13.limits", "the program has ", program.skips_size(), " skips, at most ", Limits::kSkips);
    return;
  }
  for (int i = 0; i < program.skips_size() && !findings->full(); ++i) {
    const SkipEdge& skip = program.skips(i);
    if (skip.from_stage() < 0 || skip.to_stage() >= program.stages() || skip.from_stage() >= skip.to_stage()) {
      findings->Add("P4.skip", "skips[", i, "] '", skip.name(), "' leads from stage ", skip.from_stage(), " to stage ",
                    skip.to_stage(), "; it must lead to a later one of the ", program.stages(), " stages");
    }
  }
}

void CheckTensors(const Program& program, Findings* findings) {
  absl::flat_hash_set<std::string> names;
  for (int i = 0; i < program.tensors_size() && !findings->full(); ++i) {
    const LogicalTensor& tensor = program.tensors(i);
    const auto bad = [&](const auto&... parts) {
      findings->Add("P13.tensor", "tensors[", i, "] '", tensor.name(), "': ", parts...);
    };
    if (tensor.name().empty()) bad("has no name");
    if (!names.insert(tensor.name()).second) bad("another tensor has the same name");
    if (tensor.uses() < 1 || tensor.uses() > 1024) bad("uses is ", tensor.uses(), "; it must be in [1, 1024]");
    if (tensor.init_normal() < 0) bad("init_normal is ", tensor.init_normal(), "; it must not be negative");
    if (tensor.shape_size() != tensor.padded_shape_size() || tensor.shape_size() > 8) {
      bad("shape has ", tensor.shape_size(), " dimensions and padded_shape ", tensor.padded_shape_size(),
          "; both must have the same number, at most 8");
      continue;
    }
    for (int d = 0; d < tensor.shape_size(); ++d) {
      const int64_t extent = tensor.shape(d), padded = tensor.padded_shape(d);
      if (extent < 1 || padded < extent || (d > 0 && padded != extent)) {
        bad("dimension ", d, " is ", extent, ", padded ", padded,
            "; extents must be positive, and only dimension 0 may be padded");
      }
    }
    const std::optional<int64_t> count = ElementCount(tensor.padded_shape());
    if (!count || *count > Limits::kArenaBytes) bad("has more elements than any arena can hold");
  }
}

// Returns the name and dtype of the field of the program's precision that applies to a role; DTYPE_UNSPECIFIED = none.
std::pair<const char*, DType> PrecisionOf(const Precision& precision, BufferRole role) {
  switch (role) {
    case PARAM:
      return {"params", precision.params()};
    case MASTER:
      return {"master", precision.master()};
    case GRAD:
      return {"grads", precision.grads()};
    case MOMENT1:
    case MOMENT2:
    case KEPT_MOMENT1:
    case KEPT_MOMENT2:
      return {"moments", precision.moments()};
    default:
      return {"", DTYPE_UNSPECIFIED};
  }
}

void CheckRole(const Program& program, const Template& t, int b, Findings* findings) {
  const Buffer& buffer = t.buffers(b);
  const auto bad = [&](const auto&... parts) {
    findings->Add("P7.role", "template '", t.name(), "', ", DescribeBuffer(t, b), ": role ",
                  BufferRole_Name(buffer.role()), " ", parts...);
  };
  const auto shape_is = [&](std::initializer_list<int64_t> want) {
    return std::equal(buffer.shape().begin(), buffer.shape().end(), want.begin(), want.end());
  };
  const bool of_tensor = BelongsToTensor(buffer.role());
  const bool of_use = buffer.role() == GRAD || buffer.role() == GRAD_ACCUMULATOR;
  if (!of_tensor && buffer.tensor() != 0) return bad("belongs to no tensor, but tensor is ", buffer.tensor());
  const bool kept = program.post_validation() && buffer.role() == LOSS_SCALE;
  const int versions = IsAsynchronous(program) && buffer.role() == PARAM ? program.microbatches() : kept ? 2 : 1;
  if (buffer.version() < 0 || buffer.version() >= versions) {
    return bad("has version ", buffer.version(), "; it must be in [0, ", versions,
               "); only PARAM of asynchronous programs and LOSS_SCALE with post_validation have several versions");
  }
  if (!of_use && buffer.use() != 0) return bad("belongs to no use, but use is ", buffer.use());
  if (!of_tensor && buffer.has_shard()) return bad("belongs to no tensor, but has a shard");
  if (buffer.role() == NO_ROLE) return;
  if (!buffer.persistent()) bad("needs a persistent buffer");
  if (of_tensor) {
    if (buffer.tensor() < 0 || buffer.tensor() >= program.tensors_size()) {
      return bad("names tensor ", buffer.tensor(), ", but the program has ", program.tensors_size());
    }
    const LogicalTensor& tensor = program.tensors(buffer.tensor());
    if (of_use && (buffer.use() < 0 || buffer.use() >= tensor.uses())) {
      bad("names use ", buffer.use(), ", but tensor '", tensor.name(), "' has ", tensor.uses());
    }
    const std::string fault = ShardFault(program, tensor, buffer.shard());
    if (!fault.empty()) {
      findings->Add("P8.shard", "template '", t.name(), "', ", DescribeBuffer(t, b), ": tensor '", tensor.name(), "' ",
                    fault);
      return;
    }
    const std::vector<int64_t> want = ShardShape(program, tensor, buffer.shard());
    if (!std::equal(buffer.shape().begin(), buffer.shape().end(), want.begin(), want.end())) {
      bad("does not have the ",
          buffer.has_shard() ? absl::StrCat("shape of its part, [", absl::StrJoin(want, ","), "],")
                             : std::string("padded shape"),
          " of tensor '", tensor.name(), "'");
    }
    const bool floating =
        buffer.dtype() == FP64 || buffer.dtype() == FP32 || buffer.dtype() == BF16 || buffer.dtype() == FP16;
    if (buffer.role() == GRAD_ACCUMULATOR ? buffer.dtype() != EXACT192 : !floating) {
      bad("has dtype ", DTypeName(buffer.dtype()));
    }
    const auto [field, wanted] = PrecisionOf(program.precision(), buffer.role());
    if (wanted != DTYPE_UNSPECIFIED && buffer.dtype() != wanted) {
      bad("has dtype ", DTypeName(buffer.dtype()), ", but precision.", field, " is ", DTypeName(wanted));
    }
    return;
  }
  int64_t data = 1;
  for (const MeshAxis& axis : program.mesh().axes()) {
    if (axis.name() == "data") data = axis.size();
  }
  const bool losses = buffer.role() == LOCAL_LOSSES || buffer.role() == LOSSES;
  const int64_t elements = losses                        ? program.microbatches() * data
                           : buffer.role() == NORM       ? 2
                           : buffer.role() == LOSS_SCALE ? 3
                                                         : program.tensors_size();
  // Norms may be EXACT192 if accumulation is exact, because exact norms do not depend on how tensors are cut (P11).
  const bool norms = buffer.role() == LOCAL_NORMS || buffer.role() == NORMS;
  const DType dtype = norms && program.accumulation() == EXACT && buffer.dtype() == EXACT192 ? EXACT192 : FP64;
  if (buffer.dtype() != dtype || !shape_is({elements})) bad("must be ", DTypeName(dtype), " [", elements, "]");
}

void CheckTemplateBuffers(const Program& program, const Template& t, Findings* findings) {
  absl::flat_hash_map<std::pair<int64_t, int>, int> by_role;  // (role, tensor and use; version) -> buffer
  for (int b = 0; b < t.buffers_size() && !findings->full(); ++b) {
    const Buffer& buffer = t.buffers(b);
    const auto bad = [&](const char* rule, const auto&... parts) {
      findings->Add(rule, "template '", t.name(), "', ", DescribeBuffer(t, b), ": ", parts...);
    };
    if (buffer.class_() == BUFFER_CLASS_UNSPECIFIED) bad("P7.class", "has no class");
    const int64_t arena = buffer.place() == HOST ? t.host_arena_bytes() : t.device_arena_bytes();
    if (buffer.offset() < 0 || buffer.offset() % 256 != 0) {
      bad("P7.alignment", "offset ", buffer.offset(), " is not a multiple of 256");
    }
    if (buffer.bytes() < 1) {
      bad("P7.arena", "has ", buffer.bytes(), " bytes; it must have at least 1");
    } else if (buffer.offset() > arena || buffer.bytes() > arena - buffer.offset()) {
      bad("P7.arena", "bytes [", buffer.offset(), ", +", buffer.bytes(), ") leave the ",
          buffer.place() == HOST ? "host" : "device", " arena of ", arena, " bytes");
    }
    if (buffer.dtype() == DTYPE_UNSPECIFIED) {
      if (buffer.shape_size() > 0) bad("P7.shape", "has a shape but no dtype");
    } else if (const std::optional<int64_t> bytes = TensorBytes(buffer.dtype(), buffer.shape());
               bytes != buffer.bytes() && !(bytes && *bytes < buffer.bytes() && MayHaveRoom(buffer))) {
      bad("P7.shape", "has ", buffer.bytes(), " bytes, but its shape and dtype ", DTypeName(buffer.dtype()), " make ",
          bytes ? absl::StrCat(*bytes) : std::string("no valid size"));
    }
    CheckRole(program, t, b, findings);
    if (buffer.role() != NO_ROLE) {
      const int64_t key = (int64_t{buffer.role()} << 48) | (int64_t{buffer.use() & 0xffff} << 32) | buffer.tensor();
      const auto [it, fresh] = by_role.emplace(std::pair(key, buffer.version()), b);
      if (!fresh) bad("P7.role", "has the same role, tensor and use as ", DescribeBuffer(t, it->second));
    }
  }
}

// Checks that buffers of different roles and ranks hold matching parts of a tensor: they cut the same dimensions, and
// one of any two lists of ranges is the beginning of the other. Buffers of the same role (moments count as MASTER) are
// cut in the same way on all ranks.
void CheckShards(const Program& program, Findings* findings) {
  struct First {
    const Template* t = nullptr;
    int buffer = 0;
  };
  std::vector<std::map<int, First>> first(program.tensors_size());  // Role -> a buffer.
  const auto family = [](BufferRole role) {
    return role == MOMENT1 || role == MOMENT2 ? static_cast<int>(MASTER) : static_cast<int>(role);
  };
  for (const Template& t : program.templates()) {
    for (int b = 0; b < t.buffers_size() && !findings->full(); ++b) {
      const Buffer& buffer = t.buffers(b);
      if (!BelongsToTensor(buffer.role())) continue;
      for (const auto& [role, other] : first[buffer.tensor()]) {
        const Shard &x = buffer.shard(), &y = other.t->buffers(other.buffer).shard();
        const Cuts a = RangeCuts(program, x), c = RangeCuts(program, y);
        const bool continues = std::equal(a.begin(), a.begin() + std::min(a.size(), c.size()), c.begin(),
                                          c.begin() + std::min(a.size(), c.size()));
        const bool runs =
            std::equal(x.dimensions().begin(), x.dimensions().end(), y.dimensions().begin(), y.dimensions().end(),
                       [](const DimensionCut& p, const DimensionCut& q) {
                         return p.dimension() == q.dimension() && p.axis() == q.axis() && p.runs() == q.runs();
                       });
        if (runs && continues && (role != family(buffer.role()) || a == c)) continue;
        findings->Add("P8.shard", "template '", t.name(), "', ", DescribeBuffer(t, b),
                      " holds another part of tensor '", program.tensors(buffer.tensor()).name(), "' than ",
                      DescribeBuffer(*other.t, other.buffer), " of template '", other.t->name(),
                      "': ", runs ? "ranges" : "dimensions", " are cut over ",
                      DescribeCuts(program, runs ? a : DimensionCuts(program, x)), " and over ",
                      DescribeCuts(program, runs ? c : DimensionCuts(program, y)));
        break;
      }
      first[buffer.tensor()].emplace(family(buffer.role()), First{&t, b});
    }
  }
  if (findings->empty()) CheckRoom(program, findings);
}

}  // namespace

std::string DescribeBuffer(const Template& t, int buffer) {
  return absl::StrCat("buffer ", buffer, " '", t.buffers(buffer).name(), "'");
}

void CheckStructure(const Program& program, const VerifyOptions& options, Findings* findings) {
  if (program.does_not_fit() && !options.allow_unfit) {
    findings->Add("P13.fit", "the program is marked does_not_fit: it needs more memory than its cluster has");
  }
  CheckMesh(program, findings);
  if (findings->empty()) CheckRecipe(program, options, findings);
  if (program.model_flops() < 0 || program.model_flops_masked() < 0) {
    findings->Add("P13.range", "model_flops is negative");
  }
  CheckTensors(program, findings);
  if (findings->empty() && IsAsynchronous(program)) CheckAsynchronous(program, findings);
  CheckSkips(program, findings);
}

void CheckBuffers(const Program& program, Findings* findings) {
  for (const Template& t : program.templates()) {
    for (const auto& [name, bytes] : {std::pair("device_arena_bytes", t.device_arena_bytes()),
                                      std::pair("host_arena_bytes", t.host_arena_bytes())}) {
      if (bytes < 0 || bytes > Limits::kArenaBytes) {
        findings->Add("P7.arena", "template '", t.name(), "': ", name, " is ", bytes, "; it must be in [0, ",
                      Limits::kArenaBytes, "]");
      }
    }
    CheckTemplateBuffers(program, t, findings);
  }
  if (findings->empty()) CheckShards(program, findings);
}

}  // namespace weft::verify
