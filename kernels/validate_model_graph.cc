#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/graph_view.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"
#include "proto/validate/field_check.h"
#include "proto/validate/validate.h"

namespace weft::kernels {
namespace {

std::string Shape(const GraphParameter& parameter) {
  return absl::StrCat("[", absl::StrJoin(parameter.shape(), ", "), "]");
}

class GraphValidator {
 public:
  explicit GraphValidator(const ModelGraph& graph) : graph_(graph) {}

  absl::Status Run() {
    WEFT_RETURN_IF_ERROR(CheckName("model_graph.name", graph_.name()));
    const bool images = graph_.image_size() != 0;
    WEFT_RETURN_IF_ERROR(CheckWithin("model_graph.image_size", graph_.image_size(), 0, kLargestSide));
    WEFT_RETURN_IF_ERROR(
        CheckWithin("model_graph.image_channels", graph_.image_channels(), images ? 1 : 0, images ? kLargestSide : 0));
    WEFT_RETURN_IF_ERROR(
        CheckWithin("model_graph.vocabulary", graph_.vocabulary(), images ? 0 : 1, images ? 0 : kMaxInt32 - 127));
    WEFT_RETURN_IF_ERROR(CheckWithin("model_graph.maximum_positions", graph_.maximum_positions(), 0, kMaxInt32));
    for (int i = 0; i < graph_.parameters_size(); ++i) WEFT_RETURN_IF_ERROR(AddParameter(i));
    if (graph_.ops_size() == 0) return absl::InvalidArgumentError("model_graph.ops is empty; a model needs ops");
    for (int i = 0; i < graph_.ops_size(); ++i) WEFT_RETURN_IF_ERROR(AddOp(i));
    return CheckEnd();
  }

 private:
  absl::Status Define(const std::string& path, const std::string& name, Named named) {
    WEFT_RETURN_IF_ERROR(CheckNotEmpty(path, name));
    named.path = path;
    const auto [it, inserted] = names_.emplace(name, std::move(named));
    if (inserted) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path, " = ", Quoted(name), " is taken by ", it->second.path, "; names must be unique"));
  }

  absl::Status AddParameter(int index) {
    const GraphParameter& parameter = graph_.parameters(index);
    const std::string path = absl::StrCat("model_graph.parameters[", index, "]");
    Named named;
    named.kind = Kind::kParameter;
    named.parameter = &parameter;
    WEFT_RETURN_IF_ERROR(Define(path + ".name", parameter.name(), named));
    if (parameter.shape_size() < 1 || parameter.shape_size() > 4) {
      return absl::InvalidArgumentError(absl::StrCat(path, ".shape = ", Shape(parameter), " (", parameter.name(),
                                                     ") must have one to four dimensions"));
    }
    for (int i = 0; i < parameter.shape_size(); ++i) {
      WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat(path, ".shape[", i, "]"), parameter.shape(i), 1, kMaxInt32 - 127));
    }
    constexpr int64_t kMaxElements = int64_t{1} << 48;
    const int64_t elements = ElementCount(parameter.shape()).value_or(kMaxElements + 1);
    WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat("elements of ", path), elements, 1, kMaxElements));
    elements_ += elements;
    WEFT_RETURN_IF_ERROR(CheckWithin("elements of model_graph.parameters", elements_, 1, kMaxElements));
    switch (parameter.init().kind_case()) {
      case Init::kNormal:
        WEFT_RETURN_IF_ERROR(CheckDeviation(path + ".init.normal", parameter.init().normal()));
        break;
      case Init::kConstant:
        WEFT_RETURN_IF_ERROR(CheckFinite(path + ".init.constant", parameter.init().constant()));
        break;
      case Init::KIND_NOT_SET:
        return absl::InvalidArgumentError(
            absl::StrCat(path, ".init is missing (", parameter.name(), "); give normal or constant"));
    }
    if (parameter.vocabulary_rows() && parameter.shape(0) != graph_.vocabulary()) {
      return BadField(
          path + ".shape[0]", parameter.shape(0),
          absl::StrCat("model_graph.vocabulary = ", graph_.vocabulary(), ", because vocabulary_rows is true"));
    }
    return absl::OkStatus();
  }

  absl::Status AddOp(int index) {
    const GraphOp& op = graph_.ops(index);
    path_ = absl::StrCat("model_graph.ops[", index, "]");
    WEFT_RETURN_IF_ERROR(CheckNotEmpty(path_ + ".name", op.name()));
    if (const auto [it, inserted] = op_paths_.emplace(op.name(), path_); !inserted) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ".name = ", Quoted(op.name()), " is taken by ", it->second,
                                                     "; names of ops must be unique"));
    }
    std::vector<std::string> kinds;
    for (const GraphRow& row : GraphRows()) kinds.push_back(row.kind);
    WEFT_RETURN_IF_ERROR(CheckOneOf(path_ + ".kind", op.kind(), kinds));
    const GraphRow& kind = *FindGraphRow(op.kind());
    path_ = absl::StrCat(path_, " (", op.kind(), " ", Quoted(op.name()), ")");

    const int previous = index == 0 ? 0 : graph_.ops(index - 1).layer();
    if (op.layer() != previous && (index == 0 || op.layer() != previous + 1)) {
      return BadField(path_ + ".layer", op.layer(),
                      index == 0 ? std::string("0: layers ascend from 0 without gaps")
                                 : absl::StrCat(previous, " or ", previous + 1, ": layers ascend without gaps"));
    }
    if (loss_defined_) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " comes after the loss, which must be the last op"));
    }
    WEFT_RETURN_IF_ERROR(CheckSamples(kind));
    OpView view(graph_, op, kind, path_);
    WEFT_RETURN_IF_ERROR(view.CheckAttributes());
    WEFT_RETURN_IF_ERROR(FindInputs(op, kind, &view));
    Named output;
    output.kind = kind.output.kind;
    WEFT_RETURN_IF_ERROR(view.Infer(&output));
    if (output.kind == Kind::kActivation) {
      WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat("columns of the output of ", path_), output.columns, 1, kMaxInt32));
    }
    if (op.outputs_size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ".outputs has ", op.outputs_size(), " names; it must have 1"));
    }
    loss_defined_ = loss_defined_ || output.kind == Kind::kLoss;
    return Define(path_ + ".outputs[0]", op.outputs(0), output);
  }

  absl::Status CheckSamples(const GraphRow& kind) const {
    const bool images = graph_.image_size() > 0;
    if (kind.samples == Samples::kImages && !images) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " needs images, but model_graph.image_size is 0"));
    }
    if (kind.samples == Samples::kTokens && images) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " is of tokens, but the model's samples are images"));
    }
    return absl::OkStatus();
  }

  absl::Status FindInputs(const GraphOp& op, const GraphRow& kind, OpView* view) {
    const int most = static_cast<int>(kind.inputs.size());
    int least = 0;
    for (const GraphOperand& input : kind.inputs) least += !input.optional;
    if (op.inputs_size() < least || op.inputs_size() > most) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ".inputs has ", op.inputs_size(), " names; ", kind.kind,
                                                     " takes ", least, least < most ? absl::StrCat(" or ", most) : ""));
    }
    for (int i = 0; i < op.inputs_size(); ++i) {
      const std::string path = absl::StrCat(path_, ".inputs[", i, "]");
      const auto it = names_.find(op.inputs(i));
      if (it == names_.end()) {
        std::vector<std::string> candidates;
        for (const auto& [name, named] : names_) {
          if (named.kind == kind.inputs[i].kind) candidates.push_back(name);
        }
        const std::string nearest = Nearest(op.inputs(i), candidates);
        return absl::InvalidArgumentError(
            absl::StrCat(path, " = ", Quoted(op.inputs(i)), " is neither a parameter nor the output of an earlier op",
                         nearest.empty() ? "" : absl::StrCat("; nearest: ", Quoted(nearest))));
      }
      if (it->second.kind != kind.inputs[i].kind) {
        return absl::InvalidArgumentError(absl::StrCat(path, " = ", Quoted(op.inputs(i)), " is ",
                                                       KindName(it->second.kind), "; it must be ",
                                                       KindName(kind.inputs[i].kind)));
      }
      it->second.read = true;
      view->inputs.push_back(&it->second);
    }
    return absl::OkStatus();
  }

  absl::Status CheckEnd() const {
    WEFT_RETURN_IF_ERROR(CheckNotEmpty("model_graph.loss", graph_.loss()));
    const auto it = names_.find(graph_.loss());
    if (it == names_.end() || it->second.kind != Kind::kLoss) {
      return absl::InvalidArgumentError(
          absl::StrCat("model_graph.loss = ", Quoted(graph_.loss()),
                       " must be the output of a cross_entropy or squared_error op, the last op"));
    }
    for (const auto& [name, named] : names_) {
      if (named.read || named.kind == Kind::kLoss) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(named.path, " = ", Quoted(name), " is read by no op; remove it or use it"));
    }
    return absl::OkStatus();
  }

  const ModelGraph& graph_;
  // Maps are ordered, so that errors do not depend on hashing.
  std::map<std::string, Named> names_;
  std::map<std::string, std::string> op_paths_;
  int64_t elements_ = 0;
  bool loss_defined_ = false;
  // The path of the current op.
  std::string path_;
};

}  // namespace

absl::Status ValidateModelGraph(const ModelGraph& graph) { return GraphValidator(graph).Run(); }

}  // namespace weft::kernels
