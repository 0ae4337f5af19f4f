#include "compiler/inputs/plan_notes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/util/mesh.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"

namespace weft {
namespace {

void NoteZero(const Plan& plan, std::vector<std::string>* notes) {
  if (plan.zero().stage() == 0 || AxisSize(plan.mesh(), "data") > 1) return;
  notes->push_back(absl::StrCat("plan.zero.stage = ", plan.zero().stage(),
                                " cuts nothing: mesh axis data (dp) has 1 rank; it needs at least 2"));
}

void NoteRecompute(const Recompute& recompute, std::vector<int32_t> layers, std::vector<std::string>* notes) {
  if (layers.empty()) return;
  // The last layer is the layer of the loss, which modes EVERY and INTERVAL never recompute.
  layers.back() -= 1;
  const int32_t longest = std::max(1, *std::max_element(layers.begin(), layers.end()));
  const auto note = [&](const char* field, int32_t value, const char* effect) {
    notes->push_back(absl::StrCat("plan.recompute.", field, " = ", value, " has the effect of ", longest,
                                  ": the longest stage has ", longest, longest == 1 ? " layer" : " layers",
                                  " to recompute, so in every stage ", effect, "; useful values are 1 to ", longest));
  };
  if (recompute.mode() == Recompute::INTERVAL && recompute.interval() > longest) {
    note("interval", recompute.interval(), "only the first input is kept");
  }
  if (recompute.mode() == Recompute::EVERY && recompute.every() > longest) {
    note("every", recompute.every(), "only the first layer is recomputed");
  }
}

void NoteActivations(const Offload& offload, const std::vector<int32_t>& layers, std::vector<std::string>* notes) {
  if (layers.empty()) return;
  const int32_t longest = *std::max_element(layers.begin(), layers.end());
  if (offload.activation_layers() <= longest) return;
  notes->push_back(absl::StrCat("plan.offload.activation_layers = ", offload.activation_layers(), " has the effect of ",
                                longest, ": the longest stage has ", longest, longest == 1 ? " layer" : " layers"));
}

void NoteWarmup(const Recipe& recipe, std::vector<std::string>* notes) {
  const int64_t warmup = recipe.lr().warmup_steps();
  if (recipe.steps() == 0 || warmup <= recipe.steps()) return;
  notes->push_back(absl::StrCat("recipe.lr.warmup_steps = ", warmup, " is more than recipe.steps = ", recipe.steps(),
                                ", so the learning rate never reaches recipe.lr.peak"));
}

// Adds a note if products are in fp32 by default although the device is faster in fp16. On devices where bf16 is no
// faster than fp32, fp32 is the default (validate_plan.cc).
void NotePrecision(const Precision& given, const Precision& taken, const Device& device,
                   std::vector<std::string>* notes) {
  if (given.compute() != DTYPE_UNSPECIFIED || taken.compute() != FP32) return;
  double fp32 = 0, fp16 = 0;
  for (const Peak& peak : device.peaks()) {
    if (peak.dtype() == FP32) fp32 = peak.flops_per_second();
    if (peak.dtype() == FP16) fp16 = peak.flops_per_second();
  }
  if (!(fp16 >= 1.5 * fp32)) return;
  notes->push_back(absl::StrCat("plan.precision.compute is not set; weft takes FP32, because ", Quoted(device.name()),
                                " is no faster with BF16; FP16 has ", absl::StrFormat("%.1f", fp16 / fp32),
                                " times the peak of FP32 (to use it, set precision.compute=FP16, with a loss_scale)"));
}

void NoteBuckets(const Offload& offload, const Program& program, std::vector<std::string>* notes) {
  if (!offload.optimizer()) return;
  int64_t most = 0;
  for (const Template& t : program.templates()) {
    int64_t elements = 0;
    for (const Buffer& buffer : t.buffers()) {
      if (buffer.place() != HOST || buffer.role() != MASTER || DTypeBytes(buffer.dtype()) <= 0) continue;
      elements += buffer.bytes() / DTypeBytes(buffer.dtype());
    }
    most = std::max(most, elements);
  }
  const bool given = offload.bucket_elements() > 0;
  const int64_t bucket = given ? offload.bucket_elements() : int64_t{1} << 24;
  if (most == 0 || bucket < most) return;
  notes->push_back(absl::StrCat("plan.offload.bucket_elements = ", bucket, given ? "" : " (the default)",
                                " holds all states of a rank, which are at most ", most,
                                " elements, so offload saves no device memory; try bucket_elements of at most ",
                                std::max<int64_t>(1, most / 4)));
}

}  // namespace

void AddPlanNotes(const Recipe& recipe, const Plan& plan, const Program& program, const Device& device,
                  const std::vector<int32_t>& layers_per_stage, std::vector<std::string>* notes) {
  NotePrecision(plan.precision(), program.precision(), device, notes);
  NoteWarmup(recipe, notes);
  NoteZero(plan, notes);
  NoteRecompute(plan.recompute(), layers_per_stage, notes);
  NoteBuckets(plan.offload(), program, notes);
  NoteActivations(plan.offload(), layers_per_stage, notes);
}

}  // namespace weft
