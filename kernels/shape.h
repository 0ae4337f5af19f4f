// Shapes of operands as text, parsed while weft is compiled: a shape with a mistake does not compile.
//
//   shape  = "..."                     any
//          | "=" operand               the shape of another operand
//          | ["@"] "[" dims "]" ["^" attribute]
//   dims   = [dim {"," dim}]           at most four
//   dim    = term {"+" term}           at most two
//   term   = factor {("*" | "/") factor}   at most four; a division leaves no remainder
//   factor = number | name             an attribute, a figure or a variable (attributes.h)
//
// A variable gets its value where it first occurs, alone or as the only unknown factor of a product. Operands with "@"
// are visited first, then inputs, then outputs. "^" exchanges the last two dims if the attribute is set.
#ifndef WEFT_KERNELS_SHAPE_H_
#define WEFT_KERNELS_SHAPE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "kernels/attributes.h"

namespace weft::kernels {

// A list of at most kMax items, stored in place.
template <typename T, size_t kMax>
struct Few {
  T items[kMax] = {};
  uint8_t count = 0;

  constexpr Few() = default;
  constexpr Few(std::initializer_list<T> list) {
    for (const T& item : list) Add(item);
  }
  constexpr void Add(const T& item) { items[count++] = item; }  // In a constant, one item too many does not compile.
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + count; }
  constexpr size_t size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr const T& operator[](size_t i) const { return items[i]; }
};

// One factor of a product. The type is small, because the rows of the table have hundreds of factors.
struct Factor {
  Symbol symbol = Symbol::kNone;  // kNone: the factor is `number`.
  bool divides = false;
  int16_t number = 1;
};
struct Term {
  Few<Factor, 4> factors;
};
struct Dim {
  Few<Term, 2> terms;
  Symbol name = Symbol::kNone;  // Set if the dim is a single name, as most dims are.
};

struct Shape {
  enum class Kind : uint8_t { kAny, kLike, kDims };

  const char* text = "...";
  Kind kind = Kind::kAny;
  bool first = false;                 // "@"
  Symbol swapped_by = Symbol::kNone;  // "^"
  const char* like = nullptr;         // The name of the operand with the same shape.
  Few<Dim, 4> dims;

  constexpr Shape() = default;
  consteval Shape(const char* t) : text(t) {  // NOLINT: implicit
    if (t[0] == '.') return;
    if (t[0] == '=') {
      kind = Kind::kLike;
      like = t + 1;
      return;
    }
    kind = Kind::kDims;
    if (*t == '@') first = true, ++t;
    Expect(*t == '[');
    ++t;
    while (*t != ']') {
      Dim dim;
      dim.terms.Add(Term());
      bool divides = false;
      for (;; ++t) {
        Factor factor;
        factor.divides = divides;
        int size = 0;
        while (IsWord(t[size])) ++size;
        Expect(size > 0);
        if (t[0] >= '0' && t[0] <= '9') {
          Expect(size <= 4);
          int number = 0;
          for (int i = 0; i < size; ++i) number = number * 10 + (t[i] - '0');
          factor.number = static_cast<int16_t>(number);
        } else {
          factor.symbol = internal::Find(t, size);
        }
        dim.terms.items[dim.terms.count - 1].factors.Add(factor);
        t += size;
        divides = *t == '/';
        if (*t == '+') dim.terms.Add(Term());
        if (*t != '*' && *t != '/' && *t != '+') break;
      }
      if (dim.terms.size() == 1 && dim.terms[0].factors.size() == 1) dim.name = dim.terms[0].factors[0].symbol;
      dims.Add(dim);
      Expect(*t == ',' || *t == ']');
      if (*t == ',') ++t;
    }
    ++t;
    if (*t == '^') {
      Expect(dims.size() >= 2);  // "^" exchanges the last two.
      swapped_by = SymbolNamed(t + 1);
      return;
    }
    Expect(*t == 0);
  }

 private:
  static constexpr bool IsWord(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  static constexpr void Expect(bool ok) {
    if (!ok) internal::NoSuchName();
  }
};

}  // namespace weft::kernels

#endif  // WEFT_KERNELS_SHAPE_H_
