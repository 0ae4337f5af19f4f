#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/status.h"
#include "proto/util/suggest.h"
#include "proto/util/units.h"
#include "proto/validate/field_check.h"
#include "proto/validate/graph_op_kinds.h"
#include "proto/validate/validate.h"

namespace weft {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

struct Named {
  Kind kind = Kind::kMatrix;
  int64_t columns = 0;  // Set for kMatrix.
  // Set for kMatrix in a model of images: the side of the square of positions of a sample; 1 = one row per sample.
  int64_t side = 0;
  const GraphParameter* parameter = nullptr;  // Set for kParameter.
  // `path`: the place of the definition, for errors. `read`: an op reads the name.
  std::string path;
  bool read = false;
};

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
      return BadField(path + ".shape[0]", parameter.shape(0),
                      absl::StrCat("model_graph.vocabulary = ", graph_.vocabulary(), ", as vocabulary_rows says"));
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
    for (const OpKind& kind : OpKinds()) kinds.push_back(std::string(kind.name));
    WEFT_RETURN_IF_ERROR(CheckOneOf(path_ + ".kind", op.kind(), kinds));
    const OpKind& kind =
        *std::find_if(OpKinds().begin(), OpKinds().end(), [&](const OpKind& k) { return k.name == op.kind(); });
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
    WEFT_RETURN_IF_ERROR(CheckOpAttributes(path_, graph_, op, kind));
    WEFT_RETURN_IF_ERROR(FindInputs(op, kind));
    Named output;
    output.kind = kind.output;
    WEFT_RETURN_IF_ERROR(InferColumns(op, &output.columns));
    if (output.kind == Kind::kMatrix || output.kind == Kind::kLoss) WEFT_RETURN_IF_ERROR(InferSide(op, &output));
    if (output.kind == Kind::kMatrix) {
      WEFT_RETURN_IF_ERROR(CheckWithin(absl::StrCat("columns of the output of ", path_), output.columns, 1, kMaxInt32));
    }
    if (op.outputs_size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ".outputs has ", op.outputs_size(), " names; it must have 1"));
    }
    loss_defined_ = loss_defined_ || output.kind == Kind::kLoss;
    return Define(path_ + ".outputs[0]", op.outputs(0), output);
  }

  absl::Status CheckSamples(const OpKind& kind) const {
    const bool images = graph_.image_size() > 0;
    if (kind.samples == Samples::kImages && !images) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " needs images, but model_graph.image_size is 0"));
    }
    if (kind.samples == Samples::kTokens && images) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " is of tokens, but the model's samples are images"));
    }
    return absl::OkStatus();
  }

  absl::Status FindInputs(const GraphOp& op, const OpKind& kind) {
    inputs_.clear();
    const int most = static_cast<int>(kind.inputs.size());
    const int least = most - kind.optional;
    if (op.inputs_size() < least || op.inputs_size() > most) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ".inputs has ", op.inputs_size(), " names; ", kind.name,
                                                     " takes ", least, least < most ? absl::StrCat(" or ", most) : ""));
    }
    for (int i = 0; i < op.inputs_size(); ++i) {
      const std::string path = absl::StrCat(path_, ".inputs[", i, "]");
      const auto it = names_.find(op.inputs(i));
      if (it == names_.end()) {
        std::vector<std::string> candidates;
        for (const auto& [name, named] : names_) {
          if (named.kind == kind.inputs[i]) candidates.push_back(name);
        }
        const std::string nearest = Nearest(op.inputs(i), candidates);
        return absl::InvalidArgumentError(
            absl::StrCat(path, " = ", Quoted(op.inputs(i)), " is neither a parameter nor the output of an earlier op",
                         nearest.empty() ? "" : absl::StrCat("; nearest: ", Quoted(nearest))));
      }
      if (it->second.kind != kind.inputs[i]) {
        return absl::InvalidArgumentError(absl::StrCat(path, " = ", Quoted(op.inputs(i)), " is ",
                                                       KindName(it->second.kind), "; it must be ",
                                                       KindName(kind.inputs[i])));
      }
      it->second.read = true;
      inputs_.push_back(&it->second);
    }
    return absl::OkStatus();
  }

  absl::Status BadShape(const GraphOp& op, int input, absl::string_view expected) const {
    const Named& named = *inputs_[static_cast<size_t>(input)];
    return absl::InvalidArgumentError(absl::StrCat(path_, ".inputs[", input, "] = ", Quoted(op.inputs(input)), " has ",
                                                   named.kind == Kind::kParameter
                                                       ? absl::StrCat("shape ", Shape(*named.parameter))
                                                       : absl::StrCat(named.columns, " columns"),
                                                   "; it must have ", expected));
  }

  absl::Status CheckVector(const GraphOp& op, int input, int64_t extent) const {
    const GraphParameter& parameter = *inputs_[input]->parameter;
    if (parameter.shape_size() == 1 && parameter.shape(0) == extent) return absl::OkStatus();
    return BadShape(op, input, absl::StrCat("shape [", extent, "]"));
  }

  // Columns of the output, after checking the columns of the inputs; 0 for ids and the loss.
  absl::Status InferColumns(const GraphOp& op, int64_t* columns) const {
    const std::string& kind = op.kind();
    const auto parameter = [&](int i) -> const GraphParameter& { return *inputs_[i]->parameter; };
    if (kind == "tokens" || kind == "targets") return absl::OkStatus();
    if (kind == "embedding") {
      if (parameter(1).shape_size() != 2 || parameter(1).shape(0) != graph_.vocabulary()) {
        return BadShape(op, 1, absl::StrCat("shape [model_graph.vocabulary = ", graph_.vocabulary(), ", columns]"));
      }
      *columns = parameter(1).shape(1);
      return absl::OkStatus();
    }
    if (kind == "position_embedding") {
      if (parameter(0).shape_size() != 2) return BadShape(op, 0, "shape [positions, columns]");
      if (graph_.maximum_positions() == 0 || parameter(0).shape(0) < graph_.maximum_positions()) {
        return absl::InvalidArgumentError(absl::StrCat("model_graph.maximum_positions = ", graph_.maximum_positions(),
                                                       " must be from 1 to ", parameter(0).shape(0), ", the rows of ",
                                                       Quoted(parameter(0).name()), ", which ", path_, " reads"));
      }
      *columns = parameter(0).shape(1);
      return absl::OkStatus();
    }
    if (kind == "type_embedding") {
      if (parameter(0).shape_size() != 2) return BadShape(op, 0, "shape [types, columns]");
      *columns = parameter(0).shape(1);
      return absl::OkStatus();
    }
    if (kind == "timesteps" || kind == "noisy_image" || kind == "noise") {
      *columns = kind == "timesteps" ? 0 : graph_.image_channels();
      return absl::OkStatus();
    }
    if (kind == "timestep_embedding") {
      *columns = op.attributes().columns();
      return absl::OkStatus();
    }
    const int64_t in = inputs_[0]->columns;
    *columns = in;
    if ((kind == "add" || kind == "swiglu") && inputs_[1]->columns != in) {
      return BadShape(op, 1, absl::StrCat(in, " columns, like the first"));
    }
    if (kind == "matmul") {
      const bool transposed = op.attributes().transpose_b();
      if (parameter(1).shape_size() != 2 || parameter(1).shape(transposed ? 1 : 0) != in) {
        return BadShape(op, 1, transposed ? absl::StrCat("shape [n, ", in, "]") : absl::StrCat("shape [", in, ", n]"));
      }
      *columns = parameter(1).shape(transposed ? 0 : 1);
      if (inputs_.size() == 3) WEFT_RETURN_IF_ERROR(CheckVector(op, 2, *columns));
    }
    if (kind == "layer_norm") {
      WEFT_RETURN_IF_ERROR(CheckVector(op, 1, in));
      WEFT_RETURN_IF_ERROR(CheckVector(op, 2, in));
    }
    if (kind == "rms_norm") WEFT_RETURN_IF_ERROR(CheckVector(op, 1, in));
    if (kind == "rope" && in % op.attributes().head_size() != 0) {
      return BadShape(op, 0, absl::StrCat("a multiple of head_size = ", op.attributes().head_size(), " columns"));
    }
    if (kind == "attention") return InferAttention(op, columns);
    if (kind == "conv2d") {
      const auto& shape = parameter(1).shape();
      const bool square = shape.size() == 4 && shape[2] == shape[3] && shape[2] % 2 == 1 && shape[2] <= kLargestSide;
      if (!(square || (shape.size() == 3 && shape[2] == 1)) || shape[1] != in) {
        return BadShape(op, 1,
                        absl::StrCat("shape [outputs, ", in, ", k, k] with an odd k, or [outputs, ", in, ", 1]"));
      }
      *columns = shape[0];
      if (inputs_.size() == 3) WEFT_RETURN_IF_ERROR(CheckVector(op, 2, *columns));
    }
    if (kind == "group_norm") {
      WEFT_RETURN_IF_ERROR(CheckVector(op, 1, in));
      WEFT_RETURN_IF_ERROR(CheckVector(op, 2, in));
      if (in % op.attributes().groups() != 0) {
        return BadField(path_ + ".attributes.groups", op.attributes().groups(),
                        absl::StrCat("a divisor of the ", in, " columns"));
      }
    }
    if (kind == "concat") *columns = in + inputs_[1]->columns;
    if (kind == "add_per_sample" && inputs_[1]->columns != in) {
      return BadShape(op, 1, absl::StrCat(in, " columns, like the first"));
    }
    if (kind == "scale_shift" && inputs_[1]->columns != 2 * in) {
      return BadShape(op, 1, absl::StrCat(2 * in, " columns, twice those of the first"));
    }
    if (kind == "squared_error") {
      if (inputs_[1]->columns != in) return BadShape(op, 1, absl::StrCat(in, " columns, like the first"));
      *columns = 0;
    }
    if (kind == "cross_entropy") {
      if (in != graph_.vocabulary()) {
        return BadShape(op, 0, absl::StrCat("model_graph.vocabulary = ", graph_.vocabulary(), " columns"));
      }
      *columns = 0;
    }
    return absl::OkStatus();
  }

  // Columns of attention with one input (q, k and v side by side) or with three.
  absl::Status InferAttention(const GraphOp& op, int64_t* columns) const {
    const int64_t in = inputs_[0]->columns, heads = op.attributes().heads(), kv_heads = op.attributes().kv_heads();
    const std::string path = path_ + ".attributes.kv_heads";
    if (inputs_.size() == 1) {
      if (in % 3 != 0 || in / 3 % heads != 0) {
        return BadShape(op, 0, absl::StrCat("a multiple of 3 * heads = ", 3 * heads, " columns (q, k and v)"));
      }
      if (kv_heads != 0) return BadField(path, kv_heads, "0 unless k and v are inputs of their own");
      *columns = in / 3;
      return absl::OkStatus();
    }
    if (inputs_.size() == 2) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ".inputs has 2 names; attention takes 1 or 3"));
    }
    if (in % heads != 0) return BadShape(op, 0, absl::StrCat("a multiple of heads = ", heads, " columns"));
    if (kv_heads < 1 || heads % kv_heads != 0) {
      return BadField(path, kv_heads, absl::StrCat("a divisor of heads = ", heads));
    }
    for (int i : {1, 2}) {
      const int64_t wanted = in / heads * kv_heads;
      if (inputs_[i]->columns != wanted) {
        return BadShape(op, i, absl::StrCat(wanted, " columns: kv_heads times q's head size"));
      }
    }
    *columns = in;
    if (!op.attributes().qkv_by_head()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ".attributes.qkv_by_head must be false where q, k and v are inputs of their own"));
  }

  absl::Status BadSide(const GraphOp& op, int input, const std::string& expected) const {
    const int64_t side = inputs_[static_cast<size_t>(input)]->side;
    return absl::InvalidArgumentError(absl::StrCat(path_, ".inputs[", input, "] = ", Quoted(op.inputs(input)), " has ",
                                                   side, " x ", side, " positions per sample; it must have ",
                                                   expected));
  }

  // Positions of the output in a model of images, after checking the positions of the inputs.
  absl::Status InferSide(const GraphOp& op, Named* output) const {
    if (graph_.image_size() == 0) return absl::OkStatus();
    const std::string& kind = op.kind();
    if (kind == "noisy_image" || kind == "noise") {
      output->side = graph_.image_size();
      return absl::OkStatus();
    }
    if (kind == "timestep_embedding") {
      output->side = 1;
      return absl::OkStatus();
    }
    const int64_t side = inputs_[0]->side;
    output->side = side;
    if (kind == "conv2d") {
      const int64_t stride = std::max<int64_t>(1, op.attributes().stride());
      output->side = (side - 1) / stride + 1;
    } else if (kind == "upsample") {
      output->side = 2 * side;
    } else if (kind == "add_per_sample" || kind == "scale_shift") {
      if (inputs_[1]->side != 1) return BadSide(op, 1, "one row per sample");
    } else if (kind == "add" || kind == "concat" || kind == "squared_error") {
      if (inputs_[1]->side != side) return BadSide(op, 1, absl::StrCat(side, " x ", side, ", like the first"));
    }
    if (output->side > kLargestSide) return BadSide(op, 0, absl::StrCat("at most ", kLargestSide / 2));
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
  // Ordered, so that errors do not depend on hashing.
  std::map<std::string, Named> names_;
  std::map<std::string, std::string> op_paths_;
  int64_t elements_ = 0;
  bool loss_defined_ = false;
  // Path and inputs of the op that is being checked.
  std::string path_;
  std::vector<Named*> inputs_;
};

}  // namespace

absl::Status Validate(const ModelGraph& graph) { return GraphValidator(graph).Run(); }

absl::Status ValidateTogether(const Recipe& recipe, const ModelGraph& graph) {
  if (graph.image_size() > 0) {
    const int64_t pixels = graph.image_size() * graph.image_size();
    if (recipe.sequence_length() == pixels) return absl::OkStatus();
    const std::string needed = absl::StrCat(pixels, ": a sample of model '", graph.name(), "' is an image of ",
                                            graph.image_size(), " x ", graph.image_size(), " pixels");
    if (recipe.sequence_length() == 0) {
      return absl::InvalidArgumentError(absl::StrCat("recipe.sequence_length is missing or 0; it must be ", needed));
    }
    return BadField("recipe.sequence_length", recipe.sequence_length(), needed);
  }
  if (graph.maximum_positions() == 0 || recipe.sequence_length() <= graph.maximum_positions()) return absl::OkStatus();
  return BadField(
      "recipe.sequence_length", recipe.sequence_length(),
      absl::StrCat("at most ", graph.maximum_positions(), ", the maximum_positions of model '", graph.name(), "'"));
}

}  // namespace weft
