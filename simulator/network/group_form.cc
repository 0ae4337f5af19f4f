#include "simulator/network/group_form.h"

#include <algorithm>

#include "proto/util/mesh.h"

namespace weft::sim {

std::vector<int64_t> LowestCoordinates(const GroupForm& form, std::vector<int64_t> own) {
  for (size_t i = 0; i < form.size(); ++i) {
    switch (form[i].kind) {
      case AxisPart::kOwn:
        break;
      case AxisPart::kAll:
        own[i] = 0;
        break;
      case AxisPart::kListed:
        own[i] = form[i].listed.front();
        break;
      case AxisPart::kBlock:
        own[i] -= own[i] % form[i].size;
        break;
      case AxisPart::kStride:
        own[i] %= form[i].size;
        break;
    }
  }
  return own;
}

bool TakesPart(const GroupForm& form, const std::vector<int64_t>& coordinates) {
  for (size_t i = 0; i < form.size(); ++i) {
    const std::vector<int64_t>& listed = form[i].listed;
    if (form[i].kind == AxisPart::kListed && !std::binary_search(listed.begin(), listed.end(), coordinates[i])) {
      return false;
    }
  }
  return true;
}

int64_t FormSize(const Mesh& mesh, const GroupForm& form) {
  int64_t members = 1;
  for (size_t i = 0; i < form.size(); ++i) {
    const int64_t size = mesh.axes(static_cast<int>(i)).size();
    switch (form[i].kind) {
      case AxisPart::kOwn:
        break;
      case AxisPart::kAll:
        members *= size;
        break;
      case AxisPart::kListed:
        members *= static_cast<int64_t>(form[i].listed.size());
        break;
      case AxisPart::kBlock:
        members *= form[i].size;
        break;
      case AxisPart::kStride:
        members *= size / form[i].size;
        break;
    }
  }
  return members;
}

std::vector<int64_t> FormMembers(const Mesh& mesh, int64_t rank, const GroupForm& form) {
  Group spelled;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i].kind == AxisPart::kOwn) continue;
    AxisSubset* axis = spelled.add_axes();
    axis->set_axis(mesh.axes(static_cast<int>(i)).name());
    if (form[i].kind == AxisPart::kBlock) axis->set_block(form[i].size);
    if (form[i].kind == AxisPart::kStride) axis->set_stride(form[i].size);
    axis->mutable_indices()->Add(form[i].listed.begin(), form[i].listed.end());
  }
  return GroupMembers(mesh, rank, spelled);
}

}  // namespace weft::sim
