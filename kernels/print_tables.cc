// Prints a page of docs with its marked tables regenerated from KernelRows and GraphRows (row.h, graph_row.h):
// print_tables PAGE > NEW. Lines of a table keep their order. Kernels or ops that the page lacks come at the end of its
// last table.
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "kernels/graph_row.h"
#include "kernels/row.h"

namespace weft::kernels {
namespace {

std::string OrDash(const std::vector<std::string>& items) { return items.empty() ? "–" : absl::StrJoin(items, ", "); }

std::string ShapeText(const Shape& shape, const char* doc_shape) {
  if (doc_shape != nullptr) return absl::StrCat(" ", doc_shape);
  if (shape.kind == Shape::Kind::kAny) return "";
  if (shape.kind == Shape::Kind::kLike) return absl::StrCat(" like ", shape.like);
  std::string text = shape.text + (shape.first ? 1 : 0);
  text = absl::StrReplaceAll(text.substr(0, text.find('^')), {{"*", "·"}});
  if (shape.swapped_by == Symbol::kNone) return absl::StrCat(" ", text);
  return absl::StrCat(" ", text, " (exchanged with ", kAttributes[static_cast<int>(shape.swapped_by)].name, ")");
}

const char* TypesText(Types types) {
  switch (types) {
    case Types::kFp64:
      return " fp64";
    case Types::kNorms:
      return " fp64 or EXACT192";
    case Types::kExact:
      return " EXACT192";
    case Types::kInt32:
      return " int32";
    case Types::kUint8:
      return " uint8";
    default:
      return "";
  }
}

template <typename Operands>
std::string OperandsText(const Operands& operands) {
  std::vector<std::string> texts;
  for (const OperandSpec& o : operands) {
    std::string text = absl::StrCat(o.presence == Presence::kOptional ? "optional " : "", o.name, TypesText(o.types),
                                    ShapeText(o.shape, o.doc_shape));
    if (o.when.attribute != Symbol::kNone) {
      absl::StrAppend(&text, o.when.set ? " with " : " without ", kAttributes[static_cast<int>(o.when.attribute)].name);
    }
    if (o.update == Update::kAccumulates) absl::StrAppend(&text, " acc");
    if (o.in_place) absl::StrAppend(&text, " in place");
    if (!o.in_place && o.alias != nullptr) absl::StrAppend(&text, " (may be ", o.alias[0] == 0 ? "x" : o.alias, ")");
    if (o.presence == Presence::kRepeated) absl::StrAppend(&text, ", …");
    texts.push_back(text);
  }
  return OrDash(texts);
}

std::string LineOf(const KernelRow& row) {
  std::vector<std::string> attributes;
  Symbol last = Symbol::kNone;
  for (const AttributeRule& rule : row.attributes) {
    const char* name = kAttributes[static_cast<int>(rule.attribute)].name;
    const std::string must = rule.must == nullptr ? "" : absl::StrCat(" (", rule.must, ")");
    if (rule.attribute == last) {
      absl::StrAppend(&attributes.back(), must);
    } else {
      attributes.push_back(absl::StrCat(name, must));
    }
    last = rule.attribute;
  }
  if (row.microbatch.reads != Microbatch::Reads::kNo) attributes.push_back("*microbatch*");
  return absl::StrCat("| ", Kernel_Name(row.kernel), " | ", OperandsText(row.inputs), " | ", OperandsText(row.outputs),
                      " | ", OrDash(attributes), " | ", row.result, row.result[0] == 0 ? "|" : " |");
}

std::string RangeText(const GraphAttribute& attribute) {
  const std::string bounds = attribute.high == kMaxInt32 ? absl::StrCat("at least ", attribute.low)
                                                         : absl::StrCat("from ", attribute.low, " to ", attribute.high);
  switch (attribute.range) {
    case GraphAttribute::Range::kAny:
      return "";
    case GraphAttribute::Range::kInt:
      return absl::StrCat(" (", bounds, attribute.divides == Symbol::kNone ? "" : ", a divisor of the columns", ")");
    case GraphAttribute::Range::kEven:
      return absl::StrCat(" (even, ", bounds, ")");
    case GraphAttribute::Range::kPositive:
      return " (positive)";
    case GraphAttribute::Range::kNotNegative:
      return " (at least 0)";
    case GraphAttribute::Range::kProbability:
      return " (from 0 to below 1)";
    case GraphAttribute::Range::kFinite:
      return " (finite)";
    case GraphAttribute::Range::kAboveOne:
      return " (above 1)";
  }
  return "";
}

std::string OperandText(const GraphOperand& o) {
  return absl::StrCat(o.optional ? "optional " : "", o.name,
                      o.kind == Kind::kLoss ? "" : ShapeText(o.shape, o.doc_shape));
}

std::string LineOf(const GraphRow& row) {
  std::vector<std::string> inputs, attributes;
  for (const GraphOperand& input : row.inputs) inputs.push_back(OperandText(input));
  for (const GraphAttribute& attribute : row.attributes) {
    attributes.push_back(absl::StrCat(attribute.name, RangeText(attribute)));
  }
  return absl::StrCat("| ", row.kind, " | ", OrDash(inputs), " | ", OperandText(row.output), " | ", OrDash(attributes),
                      " |");
}

// Returns the table lines of all ops (if `graph`) or all kernels, by the op's or kernel's name.
std::map<std::string, std::string> Lines(bool graph) {
  std::map<std::string, std::string> lines;
  if (graph) {
    for (const GraphRow& row : GraphRows()) lines[row.kind] = LineOf(row);
    return lines;
  }
  for (int i = 0; i < Kernel_descriptor()->value_count(); ++i) {
    const KernelRow* row = FindRow(static_cast<Kernel>(Kernel_descriptor()->value(i)->number()));
    if (row != nullptr) lines[Kernel_Name(row->kernel)] = LineOf(*row);
  }
  return lines;
}

int Write(const char* path) {
  std::ifstream file(path);
  const std::string page((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::map<std::string, std::string> lines = Lines(absl::StrContains(page, "<!-- ops"));
  const std::vector<std::string> old = absl::StrSplit(page, '\n');
  size_t last_end = 0;
  for (size_t i = 0; i < old.size(); ++i) {
    if (old[i] == "<!-- end of table -->") last_end = i;
  }
  if (last_end == 0) return std::cerr << path << " has no marks\n", 1;
  std::vector<std::string> out;
  bool in_table = false;
  for (size_t i = 0; i < old.size(); ++i) {
    in_table = (in_table || absl::StartsWith(old[i], "<!-- ops") || absl::StartsWith(old[i], "<!-- kernels")) &&
               old[i] != "<!-- end of table -->";
    const std::vector<std::string> cells = absl::StrSplit(old[i], '|');
    const bool is_row = in_table && cells.size() > 2 && cells[1] != " kernel " && cells[1] != " kind " &&
                        !absl::StartsWith(cells[1], "--");
    if (i == last_end) {
      for (const auto& [name, line] : lines) out.push_back(line);
    }
    if (!is_row) {
      out.push_back(old[i]);
      continue;
    }
    // Drops a line whose kernel or op no longer has a row.
    const auto found = lines.find(std::string(absl::StripAsciiWhitespace(cells[1])));
    if (found == lines.end()) continue;
    out.push_back(found->second);
    lines.erase(found);
  }
  std::cout << absl::StrJoin(out, "\n");
  return 0;
}

}  // namespace
}  // namespace weft::kernels

int main(int argc, char** argv) { return argc == 2 ? weft::kernels::Write(argv[1]) : 2; }
