// The names that shapes and rules use: attributes of steps, figures of the program, and variables.
#ifndef WEFT_KERNELS_ATTRIBUTES_H_
#define WEFT_KERNELS_ATTRIBUTES_H_

#include <cstdint>

#include "proto/program.pb.h"

namespace weft::kernels {

// All names that a shape or a rule may contain.
enum class Symbol : uint8_t {
#define ATTRIBUTE(kind, field, camel) field,
#include "kernels/attributes.def"
#undef ATTRIBUTE
  kAttributes,  // All symbols before this one are attributes.

  // Figures of the program. If a step has no program, their values are unknown, and they count as variables.
  losses = kAttributes,  // Elements of a tensor of losses: microbatches x ranks of axis data.
  channels,              // Program.image_channels.
  // Figures that follow from attributes.
  positions,      // height x width.
  out_positions,  // Positions of a convolution's output.
  statistics,     // 1 with root_mean_square, else 2.
  blocks,         // groups, or 1 if groups is 0.
  kVariables,

  // Extents that operands have in common.
  rows = kVariables,
  d,         // Columns of activations.
  k,         // The inner extent of a product; the input channels of a convolution.
  m,         // Rows of a product; columns of the first input that CONCAT_COLUMNS joins.
  n,         // Columns of a result.
  h,         // Columns of one head.
  V,         // Rows of a table of tokens.
  M,         // Rows of a table of positions.
  T,         // Elements of a tensor of norms: one per tensor of the model.
  parts,     // Parts into which ranks split a row.
  E,         // Experts.
  capacity,  // Rows that fit into a buffer of routed tokens.
  columns,   // Columns that a parameter or an attribute of a graph op states.
  samples,   // For graph ops: one row for each sample.
  pixels,    // For graph ops: one row for each position of the image itself.
#ifdef WEFT_LATER
  top_k,
  sigmoid,
  normalize,
  drop,
  a_rows,
  a_columns,
  b_rows,
  b_columns,
#endif
  kSymbols,
  kNone = 255,
};

enum class AttributeKind : uint8_t { kBool, kInt, kDouble, kShift, kNames };

struct Attribute {
  const char* name;
  int number;  // Field number in StepAttributes.
  AttributeKind kind;
  // Functions that return the attribute: `integer` for kInt and kBool, `real` for kDouble. The other one is null; for
  // other kinds both are.
  int64_t (*integer)(const StepAttributes&);
  double (*real)(const StepAttributes&);
};

// All attributes, by Symbol.
extern const Attribute kAttributes[static_cast<int>(Symbol::kAttributes)];

namespace internal {
struct Name {
  const char* text;
  Symbol symbol;
};
inline constexpr Name kNames[] = {
#define ATTRIBUTE(kind, field, camel) {#field, Symbol::field},
#include "kernels/attributes.def"
#undef ATTRIBUTE
    {"losses", Symbol::losses},
    {"channels", Symbol::channels},
    {"positions", Symbol::positions},
    {"out_positions", Symbol::out_positions},
    {"statistics", Symbol::statistics},
    {"blocks", Symbol::blocks},
    {"rows", Symbol::rows},
    {"d", Symbol::d},
    {"k", Symbol::k},
    {"m", Symbol::m},
    {"n", Symbol::n},
    {"h", Symbol::h},
    {"V", Symbol::V},
    {"M", Symbol::M},
    {"T", Symbol::T},
    {"parts", Symbol::parts},
    {"E", Symbol::E},
    {"capacity", Symbol::capacity},
    {"columns", Symbol::columns},
    {"samples", Symbol::samples},
    {"pixels", Symbol::pixels},
#ifdef WEFT_LATER
    {"top_k", Symbol::top_k},
    {"sigmoid", Symbol::sigmoid},
    {"normalize", Symbol::normalize},
    {"drop", Symbol::drop},
    {"a_rows", Symbol::a_rows},
    {"a_columns", Symbol::a_columns},
    {"b_rows", Symbol::b_rows},
    {"b_columns", Symbol::b_columns},
#endif
};

constexpr bool Equal(const char* a, const char* b, int size) {
  for (int i = 0; i < size; ++i) {
    if (a[i] != b[i]) return false;
  }
  return a[size] == 0;
}
// Not constexpr, so that an unknown name does not compile.
Symbol NoSuchName();

constexpr Symbol Find(const char* text, int size) {
  for (const Name& name : kNames) {
    if (Equal(name.text, text, size)) return name.symbol;
  }
  return NoSuchName();
}
}  // namespace internal

consteval Symbol SymbolNamed(const char* text) {
  int size = 0;
  while (text[size] != 0) ++size;
  return internal::Find(text, size);
}

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_ATTRIBUTES_H_
