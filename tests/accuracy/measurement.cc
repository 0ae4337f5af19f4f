#include "tests/accuracy/measurement.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/io/json_value.h"
#include "proto/util/status.h"
#include "tests/accuracy/fields.h"

namespace weft {
namespace {

constexpr double kMaxNumber = Fields::kMaxNumber;

class RunReader {
 public:
  RunReader(const JsonValue& object, Measurement* run, std::vector<std::string>* unread)
      : object_(object), run_(*run), unread_(unread) {}

  absl::Status Read() {
    Fields fields(object_, "");
    WEFT_RETURN_IF_ERROR(fields.Text("id", &run_.id, true));
    fields.Ignore({"confidence", "flops_convention", "tags", "measured_extra", "relative"});
    WEFT_RETURN_IF_ERROR(fields.Text("family", &run_.family, true));
    WEFT_RETURN_IF_ERROR(fields.Text("source", &run_.source, true));
    WEFT_RETURN_IF_ERROR(fields.Text("group", &run_.group));
    WEFT_RETURN_IF_ERROR(fields.Text("notes", &run_.notes));
    std::optional<bool> core;
    WEFT_RETURN_IF_ERROR(fields.Truth("core", &core));
    run_.core = core.value_or(false);
    constexpr auto kObject = JsonValue::Kind::kObject;
    WEFT_ASSIGN_OR_RETURN(const JsonValue* model, fields.Nested("model", kObject, true));
    WEFT_ASSIGN_OR_RETURN(const JsonValue* cluster, fields.Nested("cluster", kObject, true));
    WEFT_ASSIGN_OR_RETURN(const JsonValue* plan, fields.Nested("plan", kObject, true));
    WEFT_ASSIGN_OR_RETURN(const JsonValue* measured, fields.Nested("measured", kObject, true));
    WEFT_ASSIGN_OR_RETURN(const JsonValue* derived, fields.Nested("derived", kObject, false));
    WEFT_ASSIGN_OR_RETURN(const JsonValue* extra, fields.Nested("plan_extra", kObject, false));
    WEFT_RETURN_IF_ERROR(fields.Rest(unread_));
    WEFT_RETURN_IF_ERROR(ReadModel(*model));
    WEFT_RETURN_IF_ERROR(ReadMachine(*cluster));
    WEFT_RETURN_IF_ERROR(ReadPlan(*plan));
    WEFT_RETURN_IF_ERROR(ReadMeasured(*measured));
    if (derived != nullptr) WEFT_RETURN_IF_ERROR(ReadDerived(*derived));
    return extra != nullptr ? ReadExtra(*extra) : absl::OkStatus();
  }

 private:
  absl::Status ReadModel(const JsonValue& object) {
    Fields f(object, "model");
    Measurement::Model& model = run_.model;
    f.Ignore({"moe"});
    WEFT_RETURN_IF_ERROR(f.Number("params_b", &model.billions));
    WEFT_RETURN_IF_ERROR(f.Text("kind", &model.kind));
    WEFT_RETURN_IF_ERROR(f.Count("layers", &model.layers));
    WEFT_RETURN_IF_ERROR(f.Count("hidden", &model.hidden));
    WEFT_RETURN_IF_ERROR(f.Count("heads", &model.heads));
    WEFT_RETURN_IF_ERROR(f.Count("kv_heads", &model.kv_heads));
    WEFT_RETURN_IF_ERROR(f.Count("ffn_hidden", &model.ffn_hidden));
    WEFT_RETURN_IF_ERROR(f.Count("vocab", &model.vocabulary));
    WEFT_RETURN_IF_ERROR(f.Count("seq_len", &model.sequence));
    return f.Rest(unread_);
  }

  absl::Status ReadMachine(const JsonValue& object) {
    Fields f(object, "cluster");
    Measurement::Machine& machine = run_.machine;
    WEFT_RETURN_IF_ERROR(f.Text("gpu", &machine.gpu, true));
    WEFT_RETURN_IF_ERROR(f.Count("gpus", &machine.gpus));
    WEFT_RETURN_IF_ERROR(f.Count("gpus_per_node", &machine.gpus_per_node));
    WEFT_RETURN_IF_ERROR(f.Text("intra_node_link", &machine.intra_node_link));
    WEFT_RETURN_IF_ERROR(f.Text("inter_node_link", &machine.inter_node_link));
    return f.Rest(unread_);
  }

  absl::Status ReadPlan(const JsonValue& object) {
    Fields f(object, "plan");
    Measurement::Plan& plan = run_.plan;
    WEFT_RETURN_IF_ERROR(f.Count("tp", &plan.tp));
    WEFT_RETURN_IF_ERROR(f.Count("pp", &plan.pp));
    WEFT_RETURN_IF_ERROR(f.Count("dp", &plan.dp));
    WEFT_RETURN_IF_ERROR(f.Count("cp", &plan.cp));
    WEFT_RETURN_IF_ERROR(f.Count("ep", &plan.ep));
    WEFT_RETURN_IF_ERROR(f.Count("vpp", &plan.vpp));
    WEFT_RETURN_IF_ERROR(f.Count("micro_batch", &plan.micro_batch));
    WEFT_RETURN_IF_ERROR(f.Count("global_batch", &plan.global_batch));
    WEFT_RETURN_IF_ERROR(f.Count("zero_stage", &plan.zero_stage, 0));
    WEFT_RETURN_IF_ERROR(f.Truth("sequence_parallel", &plan.sequence_parallel));
    WEFT_RETURN_IF_ERROR(f.Text("schedule", &plan.schedule));
    WEFT_RETURN_IF_ERROR(f.Text("recompute", &plan.recompute));
    WEFT_RETURN_IF_ERROR(f.Text("precision", &plan.precision));
    WEFT_RETURN_IF_ERROR(f.Text("offload", &plan.offload));
    return f.Rest(unread_);
  }

  absl::Status ReadMeasured(const JsonValue& object) {
    Fields f(object, "measured");
    for (const char* rate : {"tflops_per_gpu", "mfu", "hfu"}) {
      std::optional<double> printed;
      WEFT_RETURN_IF_ERROR(f.Number(rate, &printed, true));
      run_.states_flops |= printed.has_value();
    }
    WEFT_RETURN_IF_ERROR(f.Number("samples_per_s", &run_.samples_per_second));
    WEFT_RETURN_IF_ERROR(f.Number("iteration_s", &run_.seconds));
    WEFT_RETURN_IF_ERROR(f.Number("tokens_per_s_per_gpu", &run_.tokens_per_second_per_gpu));
    WEFT_RETURN_IF_ERROR(f.Number("peak_memory_gb", &run_.peak_memory_gb));
    WEFT_RETURN_IF_ERROR(f.Truth("oom", &run_.out_of_memory));
    return f.Rest(unread_, /*slips=*/false);
  }

  absl::Status ReadDerived(const JsonValue& object) {
    Fields f(object, "derived");
    f.Ignore({"model_tflops_per_gpu_uniform", "model_util_vs_bf16_peak", "iteration_from"});
    std::optional<double> seconds, tokens, rounding;
    WEFT_RETURN_IF_ERROR(f.Number("iteration_s", &seconds));
    WEFT_RETURN_IF_ERROR(f.Number("tokens_per_s_per_gpu", &tokens));
    WEFT_RETURN_IF_ERROR(f.Number("rounding_rel", &rounding, true));
    if (!run_.seconds) run_.seconds = seconds;
    if (!run_.tokens_per_second_per_gpu) run_.tokens_per_second_per_gpu = tokens;
    run_.rounding = rounding.value_or(0);
    return f.Rest(unread_, /*slips=*/false);
  }

  absl::Status ReadExtra(const JsonValue& object) {
    for (size_t i = 0; i < object.names.size(); ++i) {
      const JsonValue& value = object.elements[i];
      if (value.kind == JsonValue::Kind::kNull) continue;
      if (value.is_object() || value.is_array()) {
        return Fields(object, "plan_extra").Bad(object.names[i], value, "a string, a number, true or false");
      }
      run_.extra[object.names[i]] =
          value.kind == JsonValue::Kind::kBool ? (value.boolean ? "true" : "false") : value.text;
    }
    return absl::OkStatus();
  }

  const JsonValue& object_;
  Measurement& run_;
  std::vector<std::string>* unread_;
};

absl::StatusOr<JsonValue> ParseList(absl::string_view json, absl::string_view source, absl::string_view what) {
  WEFT_ASSIGN_OR_RETURN(JsonValue list, ParseJson(json, source));
  if (list.is_array()) return list;
  return absl::InvalidArgumentError(absl::StrCat(source, " holds ", JsonKindName(list.kind), ", not a list of ", what));
}

absl::Status CheckObject(const JsonValue& entry) {
  if (entry.is_object()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("line ", entry.line, " holds ", JsonKindName(entry.kind), "; it must be an object"));
}

absl::Status ReadRankingSet(const JsonValue& object, RankingSet* set) {
  WEFT_RETURN_IF_ERROR(CheckObject(object));
  Fields f(object, "");
  WEFT_RETURN_IF_ERROR(f.Text("group", &set->group, true));
  f.Ignore({"strict", "gpus", "seq_len", "global_batch", "precision", "n", "n_oom", "best_over_worst", "oom_ids"});
  WEFT_RETURN_IF_ERROR(f.Text("metric", &set->metric, true));
  WEFT_ASSIGN_OR_RETURN(const JsonValue* ids, f.Nested("ids_best_to_worst", JsonValue::Kind::kArray, true));
  WEFT_ASSIGN_OR_RETURN(const JsonValue* values, f.Nested("values", JsonValue::Kind::kArray, true));
  std::vector<std::string> unread;
  WEFT_RETURN_IF_ERROR(f.Rest(&unread));
  if (ids->elements.size() != values->elements.size()) {
    return absl::InvalidArgumentError(absl::StrCat("values has ", values->elements.size(),
                                                   " entries; it must have as many as ids_best_to_worst, ",
                                                   ids->elements.size()));
  }
  std::set<std::string> seen;
  for (size_t i = 0; i < ids->elements.size(); ++i) {
    const JsonValue& id = ids->elements[i];
    if (id.kind != JsonValue::Kind::kString || !seen.insert(id.text).second) {
      return f.Bad(absl::StrCat("ids_best_to_worst[", i, "]"), id, "an id that the list does not have yet");
    }
    const std::optional<double> value = values->elements[i].Double();
    if (!value || !(*value > 0) || *value > kMaxNumber) {
      return f.Bad(absl::StrCat("values[", i, "]"), values->elements[i], "a number above 0 to 1e18");
    }
    set->ids.push_back(id.text);
    set->values.push_back(*value);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Measurements> ParseMeasurements(absl::string_view json, absl::string_view source) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue list, ParseList(json, source, "runs"));
  Measurements measurements;
  std::set<std::string> ids;
  for (size_t i = 0; i < list.elements.size(); ++i) {
    const std::string place = absl::StrCat("runs[", i, "]");
    Measurement run;
    absl::Status status = CheckObject(list.elements[i]);
    if (status.ok()) status = RunReader(list.elements[i], &run, &measurements.unread).Read();
    if (run.id.empty()) run.id = place;
    if (status.ok() && ids.count(run.id) > 0) status = absl::InvalidArgumentError("its id is that of an earlier run");
    if (!status.ok()) {
      Measurement refused;
      refused.id = ids.count(run.id) > 0 ? absl::StrCat(run.id, " (", place, ")") : run.id;
      refused.family = run.family;
      refused.unreadable = std::string(status.message());
      run = std::move(refused);
    }
    ids.insert(run.id);
    measurements.runs.push_back(std::move(run));
  }
  return measurements;
}

absl::StatusOr<std::vector<RankingSet>> ParseRankingSets(absl::string_view json, absl::string_view source) {
  WEFT_ASSIGN_OR_RETURN(const JsonValue list, ParseList(json, source, "sets"));
  std::vector<RankingSet> sets;
  for (size_t i = 0; i < list.elements.size(); ++i) {
    RankingSet set;
    if (const absl::Status status = ReadRankingSet(list.elements[i], &set); !status.ok()) {
      const std::string group = set.group.empty() ? absl::StrCat("sets[", i, "]") : set.group;
      set = RankingSet();
      set.group = group;
      set.unreadable = std::string(status.message());
    }
    sets.push_back(std::move(set));
  }
  return sets;
}

bool IsFittedSource(absl::string_view source) {
  uint64_t hash = 0xcbf29ce484222325;
  for (unsigned char byte : source) hash = (hash ^ byte) * 0x100000001b3;
  return hash >> 63 == 0;
}

}  // namespace weft
