#include "simulator/program/rank_links.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

namespace weft::sim {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 32;
// Approximate memory, in bytes, of one stream or one channel end, with its share of the communicator or channel.
constexpr int64_t kSideBytes = 64;

struct Axis {
  int64_t stride = 1;
  int64_t size = 1;

  int64_t CoordinateOf(int64_t rank) const { return rank / stride % size; }
};

// A coordinate of the peer that differs from the rank's own: its axis and its index on that axis.
struct Fixed {
  Axis axis;
  int64_t index = 0;
};

// A channel of one template: who is at its other end, for any rank that runs the template.
struct ChannelShape {
  std::vector<Fixed> peer;
  // View of the most recent peer, and those of its channels that may be the other end of this channel.
  int32_t other_view = -1;
  absl::InlinedVector<int32_t, 2> others;

  int64_t PeerOf(int64_t rank) const {
    int64_t peer_rank = rank;
    for (const Fixed& fixed : peer) peer_rank += (fixed.index - fixed.axis.CoordinateOf(rank)) * fixed.axis.stride;
    return peer_rank;
  }
};

// A collective stream as the view of one template has it.
struct StreamShape {
  Purpose purpose = PURPOSE_UNSPECIFIED;
  int32_t stage = -1;
  const GroupForm* form = nullptr;
  // Groups of the same form have the same number.
  int32_t form_number = -1;
};

class Linker {
 public:
  explicit Linker(const ProgramView& view) : view_(view) {
    int64_t stride = 1;
    for (const MeshAxis& axis : view.program->mesh().axes()) {
      axes_.push_back({stride, axis.size()});
      stride *= axis.size();
    }
  }

  absl::StatusOr<RankLinks> Link() {
    int64_t sides = 0, streams = 0;
    for (const int32_t t : view_.template_of_rank) {
      sides += static_cast<int64_t>(view_.templates[t].channels.size());
      streams += static_cast<int64_t>(view_.templates[t].streams.size());
    }
    const int64_t ranks = static_cast<int64_t>(view_.template_of_rank.size());
    if ((ranks + sides + streams) * kSideBytes > kMaxBytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the program has ", streams, " streams over ", ranks, " ranks; simulating them takes ",
          (ranks + sides + streams) * kSideBytes >> 20, " MiB of memory; allowed: ", kMaxBytes >> 20, " MiB"));
    }
    links_.ranks.reserve(ranks);
    links_.sides.reserve(sides);
    links_.streams.reserve(streams);
    AddShapes();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int32_t t = view_.template_of_rank[rank];
      links_.ranks.push_back({.rank = static_cast<int32_t>(rank),
                              .stands_for = 1,
                              .first_side = static_cast<int32_t>(links_.sides.size()),
                              .first_stream = static_cast<int32_t>(links_.streams.size())});
      for (size_t i = 0; i < view_.templates[t].channels.size(); ++i) AddSide(rank, static_cast<int32_t>(i));
      for (size_t s = 0; s < view_.templates[t].streams.size(); ++s) AddStream(rank, static_cast<int32_t>(s));
    }
    return std::move(links_);
  }

 private:
  void AddShapes() {
    for (const TemplateView& t : view_.templates) {
      std::vector<ChannelShape>& channels = channel_shapes_.emplace_back();
      for (const ChannelView& channel : t.channels) {
        ChannelShape& shape = channels.emplace_back();
        for (size_t i = 0; i < channel.peer.size(); ++i) {
          if (channel.peer[i] >= 0) shape.peer.push_back({axes_[i], channel.peer[i]});
        }
      }
      std::vector<StreamShape>& streams = stream_shapes_.emplace_back();
      for (const StreamView& stream : t.streams) {
        StreamShape& shape = streams.emplace_back();
        if (stream.key.kind != StreamClass::kCollective) continue;
        const auto number = forms_.try_emplace(stream.key.group, static_cast<int32_t>(forms_.size())).first;
        shape = {stream.key.purpose, stream.key.stage, &number->first, number->second};
      }
    }
  }

  // Returns the other end of channel `index` of `rank`: rank and channel, -1 = there is none.
  std::pair<int64_t, int32_t> OtherEnd(int64_t rank, int32_t index) {
    const int32_t own_view = view_.template_of_rank[rank];
    ChannelShape& shape = channel_shapes_[own_view][index];
    const int64_t peer = shape.PeerOf(rank);
    // A program that was not verified may name a peer that does not exist.
    if (peer < 0 || peer >= static_cast<int64_t>(view_.template_of_rank.size())) return {-1, -1};
    const int32_t other_view = view_.template_of_rank[peer];
    if (shape.other_view != other_view) {
      shape.other_view = other_view;
      shape.others.clear();
      const ChannelView& own = view_.templates[own_view].channels[index];
      const std::vector<ChannelView>& channels = view_.templates[other_view].channels;
      for (size_t i = 0; i < channels.size(); ++i) {
        const ChannelView& other = channels[i];
        if (other.send == own.send || other.lane != own.lane || other.direction != own.direction) continue;
        if (other.skip == own.skip && other.slot == own.slot) shape.others.push_back(static_cast<int32_t>(i));
      }
    }
    for (const int32_t other : shape.others) {
      if (channel_shapes_[other_view][other].PeerOf(peer) == rank) return {peer, other};
    }
    return {-1, -1};
  }

  void AddSide(int64_t rank, int32_t index) {
    const int32_t side = static_cast<int32_t>(links_.sides.size());
    const auto [peer, other] = OtherEnd(rank, index);
    int32_t channel = -1;
    // A peer with a lower rank already has its channel ends.
    if (peer >= 0 && peer < rank) channel = links_.sides[links_.ranks[peer].first_side + other].channel;
    if (peer == rank && other < index) channel = links_.sides[side - index + other].channel;
    const bool send = view_.templates[view_.template_of_rank[rank]].channels[index].send;
    if (channel < 0 || (send ? links_.channels[channel].send : links_.channels[channel].recv) >= 0) {
      channel = static_cast<int32_t>(links_.channels.size());
      links_.channels.emplace_back();
    }
    (send ? links_.channels[channel].send : links_.channels[channel].recv) = side;
    links_.sides.push_back({static_cast<int32_t>(rank), index, channel});
  }

  void AddStream(int64_t rank, int32_t s) {
    const StreamShape& shape = stream_shapes_[view_.template_of_rank[rank]][s];
    if (shape.form == nullptr) {
      links_.streams.push_back(-1);
      return;
    }
    // The lowest member and the form identify a group. Its members are listed only the first time.
    const int64_t lowest = LowestMember(rank, *shape.form);
    const auto [at, inserted] =
        communicator_of_.try_emplace({shape.purpose, shape.stage, lowest, shape.form_number}, -1);
    if (inserted) {
      // Templates with other pins may write the same group in another way.
      const auto [found, is_new] =
          communicator_of_members_.try_emplace({shape.purpose, shape.stage, Members(lowest, *shape.form)},
                                               static_cast<int32_t>(links_.communicators.size()));
      if (is_new) {
        CommunicatorLink& communicator = links_.communicators.emplace_back();
        communicator.form = *shape.form;
        communicator.members = std::get<2>(found->first);
        communicator.needed = static_cast<int64_t>(communicator.members.size());
      }
      at->second = found->second;
    }
    links_.communicators[at->second].streams.push_back({static_cast<int32_t>(rank), s});
    links_.streams.push_back(at->second);
  }

  // Returns the rank at LowestCoordinates, without a table of coordinates.
  int64_t LowestMember(int64_t rank, const GroupForm& form) const {
    int64_t lowest = rank;
    for (size_t i = 0; i < form.size(); ++i) {
      const int64_t own = axes_[i].CoordinateOf(rank);
      int64_t low = own;
      switch (form[i].kind) {
        case AxisPart::kOwn:
          break;
        case AxisPart::kAll:
          low = 0;
          break;
        case AxisPart::kListed:
          low = form[i].listed.front();
          break;
        case AxisPart::kBlock:
          low = own - own % form[i].size;
          break;
        case AxisPart::kStride:
          low = own % form[i].size;
          break;
      }
      lowest += (low - own) * axes_[i].stride;
    }
    return lowest;
  }

  // Returns the members of the group with this lowest member. They ascend, because axes are innermost first.
  std::vector<int64_t> Members(int64_t lowest, const GroupForm& form) const {
    std::vector<int64_t> members = {lowest};
    for (size_t i = 0; i < form.size(); ++i) {
      // Offsets of the members along this axis from the lowest one.
      std::vector<int64_t> steps;
      const AxisPart& part = form[i];
      if (part.kind == AxisPart::kListed) {
        for (const int64_t index : part.listed) steps.push_back(index - part.listed.front());
      } else if (part.kind != AxisPart::kOwn) {
        const int64_t step = part.kind == AxisPart::kStride ? part.size : 1;
        const int64_t end = part.kind == AxisPart::kBlock ? part.size : axes_[i].size;
        for (int64_t index = 0; index < end; index += step) steps.push_back(index);
      }
      const size_t inner = members.size();
      for (size_t k = 1; k < steps.size(); ++k) {
        for (size_t m = 0; m < inner; ++m) members.push_back(members[m] + steps[k] * axes_[i].stride);
      }
    }
    return members;
  }

  const ProgramView& view_;
  std::vector<Axis> axes_;
  // Channels and collective streams of each view.
  std::vector<std::vector<ChannelShape>> channel_shapes_;
  std::vector<std::vector<StreamShape>> stream_shapes_;
  std::map<GroupForm, int32_t> forms_;
  // Communicators by (purpose, stage, lowest member, number of the form), and by (purpose, stage, members).
  absl::flat_hash_map<std::tuple<int, int32_t, int64_t, int32_t>, int32_t> communicator_of_;
  absl::flat_hash_map<std::tuple<int, int32_t, std::vector<int64_t>>, int32_t> communicator_of_members_;
  RankLinks links_;
};

}  // namespace

absl::StatusOr<RankLinks> LinkRanks(const ProgramView& view) { return Linker(view).Link(); }

}  // namespace weft::sim
