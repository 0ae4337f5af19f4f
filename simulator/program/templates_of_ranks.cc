#include "simulator/program/templates_of_ranks.h"

#include <algorithm>

#include "proto/util/mesh.h"

namespace weft::sim {

std::vector<int32_t> TemplatesOfRanks(const Program& program) {
  struct Pinned {
    int64_t stride = 1;
    int64_t size = 1;
    int64_t index = 0;
  };
  std::vector<std::vector<Pinned>> pins(program.templates_size());
  for (int t = 0; t < program.templates_size(); ++t) {
    for (const Coordinate& pin : program.templates(t).pins()) {
      // An axis that the mesh does not list counts as an axis of size 1.
      Pinned& pinned = pins[t].emplace_back();
      pinned.index = pin.index();
      int64_t stride = 1;
      for (const MeshAxis& axis : program.mesh().axes()) {
        if (axis.name() == pin.axis()) pinned = {stride, axis.size(), pin.index()};
        stride *= axis.size();
      }
    }
  }
  std::vector<int32_t> templates(MeshRanks(program.mesh()), -1);
  for (int64_t rank = 0; rank < static_cast<int64_t>(templates.size()); ++rank) {
    for (int t = 0; t < program.templates_size() && templates[rank] < 0; ++t) {
      const bool matches = std::all_of(pins[t].begin(), pins[t].end(),
                                       [&](const Pinned& pin) { return rank / pin.stride % pin.size == pin.index; });
      if (matches) templates[rank] = t;
    }
  }
  return templates;
}

}  // namespace weft::sim
