#include "simulator/program/stream_key.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/util/mesh.h"

namespace weft::sim {
namespace {

// Returns the coordinate on `axis` that all ranks of the template have, or -1.
int64_t Pin(const Template& t, absl::string_view axis) {
  for (const Coordinate& pin : t.pins()) {
    if (pin.axis() == axis) return pin.index();
  }
  return -1;
}

AxisPart ResolveAxis(int64_t size, int64_t pin, const AxisSubset& subset) {
  AxisPart part;
  const bool cut = subset.block() > 1 ? subset.block() < size : subset.stride() > 1 && subset.stride() < size;
  if (subset.indices_size() > 0 || (cut && pin >= 0)) {
    part.listed = SubsetCoordinates(subset, size, pin);
    if (static_cast<int64_t>(part.listed.size()) == size) return {.kind = AxisPart::kAll, .size = 0, .listed = {}};
    if (part.listed.size() == 1 && part.listed[0] == pin) return {};
    part.kind = AxisPart::kListed;
  } else if (cut) {
    part.kind = subset.block() > 1 ? AxisPart::kBlock : AxisPart::kStride;
    part.size = subset.block() > 1 ? subset.block() : subset.stride();
  } else if (subset.block() != 1 && subset.stride() != size) {
    part.kind = AxisPart::kAll;
  }
  return part;
}

std::string PartName(const std::string& axis, const AxisPart& part) {
  switch (part.kind) {
    case AxisPart::kListed:
      return absl::StrCat(axis, "={", absl::StrJoin(part.listed, ","), "}");
    case AxisPart::kBlock:
      return absl::StrCat(axis, "/", part.size);
    case AxisPart::kStride:
      return absl::StrCat(axis, "%", part.size);
    default:
      return axis;
  }
}

}  // namespace

StreamKey TransferStream(TransferStreams sharing, const ChannelView& channel) {
  StreamKey key;
  key.kind = StreamClass::kTransfers;
  if (sharing == SHARED) return key;
  key.direction = channel.direction;
  if (sharing == PER_DIRECTION) return key;
  key.kind = channel.send ? StreamClass::kSend : StreamClass::kRecv;
  key.peer = channel.peer;
  key.lane = channel.lane;
  key.skip = channel.skip;
  return key;
}

StreamKey CollectiveStream(const Mesh& mesh, const Template& t, const Group& group, Purpose purpose) {
  StreamKey key;
  key.kind = StreamClass::kCollective;
  key.purpose = purpose;
  key.group.resize(mesh.axes_size());
  for (int i = 0; i < mesh.axes_size(); ++i) {
    const MeshAxis& axis = mesh.axes(i);
    for (const AxisSubset& subset : group.axes()) {
      if (subset.axis() != axis.name() || axis.size() == 1) continue;
      key.group[i] = ResolveAxis(axis.size(), Pin(t, axis.name()), subset);
    }
  }
  return key;
}

std::vector<int64_t> ResolvePeer(const Mesh& mesh, const Template& t, const Peer& peer) {
  std::vector<int64_t> resolved(mesh.axes_size(), -1);
  for (int i = 0; i < mesh.axes_size(); ++i) {
    for (const Coordinate& at : peer.at()) {
      if (at.axis() != mesh.axes(i).name()) continue;
      resolved[i] = at.index() == Pin(t, at.axis()) ? -1 : at.index();
    }
  }
  return resolved;
}

std::string StreamName(const Mesh& mesh, const StreamKey& key) {
  std::vector<std::string> parts;
  switch (key.kind) {
    case StreamClass::kCompute:
      return "compute";
    case StreamClass::kD2h:
      return "d2h";
    case StreamClass::kH2d:
      return "h2d";
    case StreamClass::kSend:
    case StreamClass::kRecv:
      parts.push_back(key.kind == StreamClass::kSend ? "send" : "recv");
      for (size_t i = 0; i < key.peer.size(); ++i) {
        if (key.peer[i] >= 0) {
          parts.push_back(absl::StrCat(mesh.axes(static_cast<int>(i)).name(), "=", key.peer[i]));
        }
      }
      parts.push_back(absl::AsciiStrToLower(Direction_Name(key.direction)));
      parts.push_back(absl::StrCat("lane ", key.lane));
      if (key.skip > 0) parts.push_back(absl::StrCat("skip ", key.skip));
      break;
    case StreamClass::kTransfers:
      parts.push_back("p2p");
      if (key.direction != DIRECTION_UNSPECIFIED) parts.push_back(absl::AsciiStrToLower(Direction_Name(key.direction)));
      break;
    case StreamClass::kCollective:
      parts.push_back("collective");
      for (size_t i = 0; i < key.group.size(); ++i) {
        if (key.group[i].kind == AxisPart::kOwn) continue;
        parts.push_back(PartName(mesh.axes(static_cast<int>(i)).name(), key.group[i]));
      }
      parts.push_back(absl::AsciiStrToLower(Purpose_Name(key.purpose)));
      if (key.stage >= 0) parts.push_back(absl::StrCat("s", key.stage));
      break;
  }
  return absl::StrJoin(parts, " ");
}

}  // namespace weft::sim
