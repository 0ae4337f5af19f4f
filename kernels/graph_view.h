// OpView: one op of a model graph with its row of the table of ops (GraphRow), as the rules of that row see it. Only
// the validation of model graphs uses this header.
#ifndef WEFT_KERNELS_GRAPH_VIEW_H_
#define WEFT_KERNELS_GRAPH_VIEW_H_

#include <string>
#include <vector>

#include "kernels/graph_row.h"

namespace weft::kernels {

// A parameter or value that has a name.
struct Named {
  Kind kind = Kind::kActivation;
  int64_t columns = 0;  // Columns of an activation.
  int64_t side = 0;     // In a model of images: each sample has side x side rows. 1: one row per sample.
  const GraphParameter* parameter = nullptr;
  std::string path;  // The field that defines it, for errors.
  bool read = false;
};

class OpView {
 public:
  OpView(const ModelGraph& graph, const GraphOp& op, const GraphRow& row, std::string path)
      : graph(graph), op(op), row(row), path(std::move(path)) {}

  absl::Status CheckAttributes() const;
  // Infers the columns and the side of the output. The caller has set `inputs`, and they have the row's kinds.
  absl::Status Infer(Named* output);

  const ModelGraph& graph;
  const GraphOp& op;
  const GraphRow& row;
  const std::string path;
  std::vector<const Named*> inputs;

  const OpAttributes& attributes() const { return op.attributes(); }
  bool Known(Symbol s) const { return known_[static_cast<int>(s)]; }
  int64_t operator[](Symbol s) const { return values_[static_cast<int>(s)]; }
  void Set(Symbol s, int64_t value) { values_[static_cast<int>(s)] = value, known_[static_cast<int>(s)] = true; }

  absl::Status BadShape(int input, absl::string_view expected) const;
  absl::Status BadSide(int input, absl::string_view expected) const;

 private:
  absl::Status CheckShape(int input, const GraphOperand& operand);
  std::string Expected(const GraphOperand& operand, bool swap) const;
  bool Bind(const Dim& dim, int64_t extent, std::string* multiple);
  int64_t Value(const Dim& dim) const;

  int64_t values_[static_cast<int>(Symbol::kSymbols)] = {};
  bool known_[static_cast<int>(Symbol::kSymbols)] = {};
};

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_GRAPH_VIEW_H_
