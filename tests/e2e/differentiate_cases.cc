#include "tests/e2e/differentiate_cases.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/rows.h"

namespace weft {
namespace {

// Adds cases for every op with one formula per element: one case without attributes, and one for each attribute. The
// last input is %x, the other inputs are products of %x.
void AddPointwiseCases(std::vector<DifferentiateCase>& cases) {
  const std::string m = "tensor<6x4xf64>";
  for (const kernels::KernelRow& row : kernels::kPointwiseRows) {
    const std::string op = absl::AsciiStrToLower(Kernel_Name(row.kernel));
    if (!row.pointwise || absl::EndsWith(op, "_backward")) continue;
    DifferentiateCase c{op, {}, ""};
    std::string operands, types;
    for (size_t i = 1; i < row.inputs.size(); ++i) {
      c.parameters.push_back("4x4xf64");
      absl::StrAppend(&c.body, "%g", i, " = weft.matmul %x, %p", i, " {L} : (", m, ", tensor<4x4xf64>) -> ", m, "\n");
      absl::StrAppend(&operands, "%g", i, ", ");
      absl::StrAppend(&types, m, ", ");
    }
    const std::string inputs = c.body;
    std::vector<std::string> attributes = {""};
    for (const kernels::AttributeRule& rule : row.attributes) {
      attributes.push_back(absl::StrCat(", ", kernels::kAttributes[static_cast<int>(rule.attribute)].name));
    }
    for (const std::string& attribute : attributes) {
      c.name = op + attribute;
      c.body = absl::StrCat(inputs, "%y = weft.", op, " ", operands, "%x {L", attribute, "} : (", types, m, ") -> ", m);
      cases.push_back(c);
    }
  }
}

}  // namespace

std::vector<DifferentiateCase> DifferentiateCases() {
  const std::string m = "tensor<6x4xf64>";
  const std::string mm = absl::StrCat("(", m, ", ", m, ") -> ", m);
  std::vector<DifferentiateCase> cases;
  cases.push_back(
      {"matmul",
       {"4x4xf64", "4xf64"},
       "%y = weft.matmul %x, %p1 bias %p2 {L} : (tensor<6x4xf64>, tensor<4x4xf64>, tensor<4xf64>) -> " + m});
  cases.push_back({"matmul_transpose_b",
                   {"4x4xf64"},
                   "%y = weft.matmul %x, %p1 {L, transpose_b} : (tensor<6x4xf64>, tensor<4x4xf64>) -> " + m});
  // Slices of two columns in the middle of x and of one column at its end.
  cases.push_back({"slice_columns",
                   {"2x4xf64", "1x4xf64"},
                   "%s = weft.slice_columns %x {L, first_column = 1 : i64} : (" + m +
                       ") -> tensor<6x2xf64>\n%e = weft.slice_columns %x {L, first_column = 3 : i64} : (" + m +
                       ") -> tensor<6x1xf64>\n%a = weft.matmul %s, %p1 {L} : (tensor<6x2xf64>, tensor<2x4xf64>) -> " +
                       m + "\n%b = weft.matmul %e, %p2 {L} : (tensor<6x1xf64>, tensor<1x4xf64>) -> " + m +
                       "\n%y = weft.add %a, %b {L} : " + mm});
  // x (x^T x) p1: both operands of the product x^T x are activations, one transposed.
  cases.push_back({"matmul_transpose_a",
                   {"4x4xf64"},
                   "%s = weft.matmul %x, %x {L, transpose_a} : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<4x4xf64>\n"
                   "%t = weft.matmul %x, %s {L} : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.matmul %t, %p1 {L} : (tensor<6x4xf64>, tensor<4x4xf64>) -> " +
                       m});
  cases.push_back({"matmul_transpose_both",
                   {"6x4xf64"},
                   "%q = weft.matmul %x, %p1 {L, transpose_a} : (tensor<6x4xf64>, tensor<6x4xf64>) -> tensor<4x4xf64>\n"
                   "%s = weft.matmul %q, %x {L, transpose_a, transpose_b} : (tensor<4x4xf64>, tensor<6x4xf64>) -> "
                   "tensor<4x6xf64>\n"
                   "%y = weft.matmul %s, %q {L, transpose_a} : (tensor<4x6xf64>, tensor<4x4xf64>) -> " +
                       m});
  cases.push_back({"matmul_init",
                   {"4x4xf64"},
                   "%g = weft.gelu %x {L} : (tensor<6x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.matmul %x, %p1 init %g {L} : (tensor<6x4xf64>, tensor<4x4xf64>, tensor<6x4xf64>) -> " +
                       m});
  cases.push_back({"add",
                   {},
                   "%g = weft.gelu %x {L} : (tensor<6x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.add %x, %g {L} : " +
                       mm});
  cases.push_back({"add_to_itself", {}, "%y = weft.add %x, %x {L} : " + mm});
  cases.push_back({"add_init",
                   {},
                   "%g = weft.gelu %x {L} : (tensor<6x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.add %x, %x init %g {L} : (tensor<6x4xf64>, tensor<6x4xf64>, "
                   "tensor<6x4xf64>) -> " +
                       m});
  cases.push_back({"layer_norm",
                   {"4xf64", "4xf64"},
                   "%y, %mean, %rstd = weft.layer_norm %x, %p1, %p2 {L, epsilon = 1.0e-5 : f64} : (tensor<6x4xf64>, "
                   "tensor<4xf64>, tensor<4xf64>) -> (tensor<6x4xf64>, tensor<6xf64>, tensor<6xf64>)"});
  AddPointwiseCases(cases);
  for (const char* attributes : {"", ", causal", ", causal, dropout = 0.3 : f64, dropout_site = 5 : i32"}) {
    cases.push_back({absl::StrCat("attention", attributes),
                     {"4x12xf64"},
                     absl::StrCat("%qkv = weft.matmul %x, %p1 {L} : (tensor<6x4xf64>, tensor<4x12xf64>) -> "
                                  "tensor<6x12xf64>\n%y, %rows = weft.attention %qkv {L, heads = 2 : i64, scale = 0.7 "
                                  ": f64, sequence = 3 : i64",
                                  attributes, "} : (tensor<6x12xf64>) -> (tensor<6x4xf64>, tensor<6x2xf64>)")});
  }
  // Attention with three inputs and grouped heads, without and with a window. The queries are rotated, the keys are
  // not.
  for (const char* attributes : {"", ", window = 2 : i64"}) {
    cases.push_back(
        {absl::StrCat("attention_grouped", attributes),
         {"8x4xf64", "4x4xf64", "4x4xf64", "4x8xf64"},
         absl::StrCat(
             "%q = weft.matmul %x, %p1 {L, transpose_b} : (tensor<6x4xf64>, tensor<8x4xf64>) -> tensor<6x8xf64>\n"
             "%k = weft.matmul %x, %p2 {L, transpose_b} : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>\n"
             "%v = weft.matmul %x, %p3 {L, transpose_b} : (tensor<6x4xf64>, tensor<4x4xf64>) -> tensor<6x4xf64>\n"
             "%r = weft.rope %q {L, sequence = 3 : i64, head_size = 4 : i64, base = 10.0 : f64, magnitude = 1.25 : "
             "f64} : (tensor<6x8xf64>) -> tensor<6x8xf64>\n"
             "%o, %rows = weft.attention %r, %k, %v {L, causal, heads = 2 : i64, kv_heads = 1 : i64, scale = 0.7 : "
             "f64, sequence = 3 : i64",
             attributes,
             "} : (tensor<6x8xf64>, tensor<6x4xf64>, tensor<6x4xf64>) -> (tensor<6x8xf64>, tensor<6x2xf64>)\n"
             "%y = weft.matmul %o, %p4 {L, transpose_b} : (tensor<6x8xf64>, tensor<4x8xf64>) -> " +
                 m)});
  }
  // Attention in several ops: from one matrix, and from three matrices with grouped heads.
  for (const char* dropout :
       {"",
        "%d = weft.dropout %p {L, dropout = 0.3 : f64, dropout_site = 5 : i32, heads = 2 : i64, sequence = 3 : i64} : "
        "(tensor<6x6xf64>) -> tensor<6x6xf64>\n",
        "%d, %mask = weft.dropout_mask %p {L, dropout = 0.3 : f64, dropout_site = 5 : i32, heads = 2 : i64, sequence = "
        "3 "
        ": i64} : (tensor<6x6xf64>) -> (tensor<6x6xf64>, tensor<6x6xui8>)\n"}) {
    const char* p = *dropout == 0 ? "%p" : "%d";
    cases.push_back(
        {absl::StrCat("attention_ops ", dropout),
         {"4x12xf64"},
         absl::StrCat(
             "%qkv = weft.matmul %x, %p1 {L} : (tensor<6x4xf64>, tensor<4x12xf64>) -> tensor<6x12xf64>\n"
             "%s = weft.attention_scores %qkv {L, heads = 2 : i64, scale = 0.7 : f64, sequence = 3 : i64} : "
             "(tensor<6x12xf64>) -> tensor<6x6xf64>\n"
             "%p = weft.attention_softmax %s {L, causal, heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xf64>) -> "
             "tensor<6x6xf64>\n",
             dropout, "%y = weft.attention_values ", p,
             ", %qkv {L, heads = 2 : i64, sequence = 3 : i64} : (tensor<6x6xf64>, tensor<6x12xf64>) -> ", m)});
    cases.push_back(
        {absl::StrCat("attention_ops_grouped ", dropout),
         {"2x4xf64", "2x4xf64"},
         absl::StrCat("%k = weft.matmul %x, %p1 {L, transpose_b} : (tensor<6x4xf64>, tensor<2x4xf64>) -> "
                      "tensor<6x2xf64>\n%v = weft.matmul %x, %p2 {L, transpose_b} : (tensor<6x4xf64>, "
                      "tensor<2x4xf64>) -> tensor<6x2xf64>\n%s = weft.attention_scores %x, %k {L, heads = 2 : i64, "
                      "kv_heads = 1 : i64, scale = 0.7 : f64, sequence = 3 : i64} : (tensor<6x4xf64>, tensor<6x2xf64>) "
                      "-> tensor<6x6xf64>\n%p = weft.attention_softmax %s {L, causal, heads = 2 : i64, sequence = 3 : "
                      "i64, window = 2 : i64} : (tensor<6x6xf64>) -> tensor<6x6xf64>\n",
                      dropout, "%y = weft.attention_values ", p,
                      ", %v {L, heads = 2 : i64, kv_heads = 1 : i64, sequence = 3 : i64} : (tensor<6x6xf64>, "
                      "tensor<6x2xf64>) -> ",
                      m)});
  }
  // One value is the queries, keys and values.
  cases.push_back({"attention_shared",
                   {},
                   "%y, %rows = weft.attention %x, %x, %x {L, heads = 2 : i64, kv_heads = 2 : i64, scale = 0.7 : f64, "
                   "sequence = 3 : i64} : (tensor<6x4xf64>, tensor<6x4xf64>, tensor<6x4xf64>) -> (tensor<6x4xf64>, "
                   "tensor<6x2xf64>)"});
  cases.push_back(
      {"rms_norm",
       {"4xf64"},
       "%y, %rstd = weft.rms_norm %x, %p1 {L, epsilon = 1.0e-5 : f64} : (tensor<6x4xf64>, tensor<4xf64>) -> "
       "(tensor<6x4xf64>, tensor<6xf64>)"});
  cases.push_back(
      {"rope",
       {},
       "%y = weft.rope %x {L, sequence = 3 : i64, head_size = 2 : i64, base = 10.0 : f64, magnitude = 1.5 : "
       "f64, factor = 4.0 : f64, ramp_low = 0.0 : f64, ramp_high = 1.0 : f64} : (tensor<6x4xf64>) -> " +
           m});
  cases.push_back(
      {"dropout",
       {},
       "%y = weft.dropout %x {L, dropout = 0.3 : f64, dropout_site = 2 : i32} : (tensor<6x4xf64>) -> " + m});
  cases.push_back({"position_embedding",
                   {"5x4xf64"},
                   "%e = weft.position_embedding %p1 {L, sequence = 3 : i64} : (tensor<5x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.add %x, %e {L} : " +
                       mm});
  cases.push_back({"cast",
                   {},
                   "%g = weft.gelu %x {L} : (tensor<6x4xf64>) -> tensor<6x4xf64>\n"
                   "%y = weft.cast %g {L} : (tensor<6x4xf64>) -> " +
                       m});
  return cases;
}

std::vector<DifferentiateCase> SkipCases() {
  const std::string m = "tensor<6x4xf64>";
  const std::string mm = absl::StrCat("(", m, ", ", m, ") -> ", m);
  auto product = [&](const char* result, const char* of, int parameter, const char* layer) {
    return absl::StrCat("%p", parameter, " = weft.parameter ", parameter, " {", layer, "} : tensor<4x4xf64>\n%", result,
                        " = weft.matmul %", of, ", %p", parameter, " {", layer, "} : (", m, ", tensor<4x4xf64>) -> ", m,
                        "\n");
  };
  std::vector<DifferentiateCase> cases;
  // A skip connection over one stage.
  cases.push_back({"skip",
                   {"4x4xf64"},
                   absl::StrCat(product("a", "x", 1, "L"), "%b = weft.gelu %a {L2} : (", m, ") -> ", m,
                                "\n%y = weft.add %b, %a {L3} : ", mm),
                   3});
  // Three stages read one value, and one of them reads another skip.
  cases.push_back({"skips",
                   {"4x4xf64", "4x4xf64"},
                   absl::StrCat("%a = weft.gelu %x {L} : (", m, ") -> ", m, "\n", product("c", "a", 1, "L2"),
                                "%d = weft.add %c, %x {L2} : ", mm, "\n", product("e", "d", 2, "L3"),
                                "%f = weft.add %e, %x {L3} : ", mm, "\n%y = weft.add %f, %a {L3} : ", mm),
                   3});
  // The gradient of both inputs of the sum is the incoming gradient itself.
  cases.push_back({"skip_through",
                   {},
                   absl::StrCat("%a = weft.gelu %x {L} : (", m, ") -> ", m, "\n", "%y = weft.add %a, %x {L2} : ", mm),
                   2});
  return cases;
}

std::string ModelText(const DifferentiateCase& c, const std::string& accumulation) {
  std::string text = absl::StrCat("module attributes {weft.training = {accumulation = \"", accumulation,
                                  "\", clip_norm = 0.0 : f64, grads = f64, master = f64, moments = f64, optimizer = "
                                  "\"sgd\", momentum = 0.0 : f64}} {\n");
  std::vector<std::string> types = {"8x4xf64"};
  types.insert(types.end(), c.parameters.begin(), c.parameters.end());
  types.push_back("4x8xf64");
  for (size_t i = 0; i < types.size(); ++i) {
    std::vector<std::string> extents = absl::StrSplit(types[i], 'x');
    extents.pop_back();  // Drop the element type.
    absl::StrAppend(&text, "weft.tensor @t", i, " index ", i, " shape [", absl::StrJoin(extents, ", "), "] : tensor<",
                    types[i], ">\n");
  }
  absl::StrAppend(&text,
                  "weft.graph @g {\n^bb0(%losses: tensor<1xf64>):\n"
                  "%tokens = weft.load_tokens {layer = 0 : i32} : tensor<6xi32>\n"
                  "%p0 = weft.parameter 0 {layer = 0 : i32} : tensor<8x4xf64>\n"
                  "%x = weft.embedding %tokens, %p0 {layer = 0 : i32} : (tensor<6xi32>, tensor<8x4xf64>) -> "
                  "tensor<6x4xf64>\n");
  for (size_t i = 1; i <= c.parameters.size() && c.layers == 1; ++i) {
    absl::StrAppend(&text, "%p", i, " = weft.parameter ", i, " {layer = 1 : i32} : tensor<", types[i], ">\n");
  }
  std::string body = c.body;
  for (size_t at = 0; (at = body.find("{L", at)) != std::string::npos; ++at) {
    const bool numbered = body[at + 2] == '2' || body[at + 2] == '3';
    const std::string layer = numbered ? body.substr(at + 2, 1) : "1";
    body.replace(at, numbered ? 3 : 2, absl::StrCat("{layer = ", layer, " : i32"));
  }
  const std::string last = absl::StrCat("{layer = ", c.layers + 1, " : i32");
  absl::StrAppend(&text, body, "\n%head = weft.parameter ", types.size() - 1, " ", last,
                  "} : tensor<4x8xf64>\n"
                  "%logits = weft.matmul %y, %head ",
                  last,
                  "} : (tensor<6x4xf64>, tensor<4x8xf64>) -> "
                  "tensor<6x8xf64>\n"
                  "%targets = weft.load_targets ",
                  last,
                  "} : tensor<6xi32>\n"
                  "%lse, %new = weft.cross_entropy %logits, %targets, %losses ",
                  last,
                  ", loss_weight = 0.25 : "
                  "f64, vocabulary = 7 : i64} : (tensor<6x8xf64>, tensor<6xi32>, tensor<1xf64>) -> (tensor<6xf64>, "
                  "tensor<1xf64>)\nweft.yield %new : tensor<1xf64>\n}\n}\n");
  return text;
}

}  // namespace weft
