#include "simulator/engine/fold.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/engine/link_classes.h"

namespace weft::sim {
namespace {

using Key = std::vector<int64_t>;

// Numbers keys in the order of their first use.
class Numbers {
 public:
  int32_t NumberOf(const Key& key) { return numbers_.try_emplace(key, size()).first->second; }
  int32_t size() const { return static_cast<int32_t>(numbers_.size()); }

 private:
  absl::flat_hash_map<Key, int32_t> numbers_;
};

// Sorts each of `lists` and removes its duplicates.
void SortUnique(std::vector<std::vector<int64_t>>& lists) {
  for (std::vector<int64_t>& list : lists) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
}

// Returns, for each channel of a view, the sizes of the messages that the view's ranks send there.
std::vector<std::vector<int64_t>> MessageSizes(const TemplateView& t) {
  std::vector<std::vector<int64_t>> sizes(t.channels.size());
  const auto add = [&](int32_t action, int32_t channel) {
    if (!t.channels[channel].send) return;
    sizes[channel].push_back(t.proto->buffers(t.actions[action].action->sources(0)).bytes());
  };
  for (const Entry& entry : t.entries) {
    if (entry.channel >= 0) add(entry.action, entry.channel);
  }
  for (const GroupMember& member : t.group_members) add(member.action, member.channel);
  SortUnique(sizes);
  return sizes;
}

// Returns, for each stream of a view, the collectives on it.
std::vector<std::vector<int64_t>> StreamCalls(const TemplateView& t) {
  std::vector<std::vector<int64_t>> calls(t.streams.size());
  for (size_t s = 0; s < t.streams.size(); ++s) {
    if (t.streams[s].key.kind != StreamClass::kCollective) continue;
    for (const Range& entries : t.streams[s].entries) {
      for (int32_t e = entries.begin; e < entries.end; ++e) {
        for (int32_t r = t.entries[e].runs.begin; r < t.entries[e].runs.end; ++r) {
          calls[s].push_back(t.runs[r].collective);
        }
      }
    }
  }
  SortUnique(calls);
  return calls;
}

class Folder {
 public:
  Folder(const ProgramView& view, const NetworkModel& network, const RankLinks& all)
      : view_(view), network_(network), all_(all) {
    if (network_.LinkCapacities().empty()) return;
    shared_.emplace(network_.LinkCapacities(), static_cast<int32_t>(all_.channels.size() + all_.communicators.size()));
  }

  std::optional<RankLinks> Fold() {
    if (!TimeLinks()) return std::nullopt;
    MakeClasses();
    while (Refine()) {
    }
    if (classes_.size() == all_.ranks.size()) return std::nullopt;
    return Quotient();
  }

 private:
  const TemplateView& ViewOf(int32_t rank) const { return view_.templates[view_.template_of_rank[rank]]; }

  // Numbers the channels and communicators by the times that they take. Returns false if the network lacks a figure.
  bool TimeLinks() {
    std::vector<std::vector<std::vector<int64_t>>> sizes, calls;
    for (const TemplateView& t : view_.templates) {
      sizes.push_back(MessageSizes(t));
      calls.push_back(StreamCalls(t));
    }
    Numbers numbers;
    Key key;
    channel_times_.assign(all_.channels.size(), -1);
    for (size_t c = 0; c < all_.channels.size(); ++c) {
      const ChannelLink& channel = all_.channels[c];
      if (channel.send < 0 || channel.recv < 0) continue;
      const ChannelSide& send = all_.sides[channel.send];
      key.clear();
      for (const int64_t bytes : sizes[view_.template_of_rank[send.owner]][send.index]) {
        if (!TimeTransfer(static_cast<int32_t>(c), send.owner, all_.sides[channel.recv].owner, bytes, key))
          return false;
      }
      if (shared_) shared_->DescribeFlows(static_cast<int32_t>(c), &key);
      channel_times_[c] = numbers.NumberOf(key);
    }
    for (size_t c = 0; c < all_.communicators.size(); ++c) {
      const CommunicatorLink& communicator = all_.communicators[c];
      const CommunicatorStream& first = communicator.streams.front();
      const TemplateView& t = ViewOf(first.owner);
      key.assign(1, communicator.needed - static_cast<int64_t>(communicator.streams.size()));
      for (const int64_t call : calls[view_.template_of_rank[first.owner]][first.stream]) {
        if (!TimeCollective(UserOfCommunicator(c), t.collectives[call], call, communicator, key)) return false;
      }
      if (shared_) shared_->DescribeFlows(UserOfCommunicator(c), &key);
      communicator_times_.push_back(numbers.NumberOf(key));
    }
    return true;
  }

  // Returns the index of a communicator among the users in shared_. Channels come first there, with their own indices.
  int32_t UserOfCommunicator(size_t c) const { return static_cast<int32_t>(all_.channels.size() + c); }

  bool TimeTransfer(int32_t channel, int64_t source, int64_t destination, int64_t bytes, Key& key) {
    if (shared_) {
      absl::StatusOr<Flow> flow = network_.TransferFlow(source, destination, bytes);
      if (flow.ok()) shared_->Add(channel, bytes, *std::move(flow));
      return flow.ok();
    }
    const auto time = network_.Transfer(source, destination, bytes);
    if (time.ok()) key.insert(key.end(), {bytes, time->occupancy.ps, time->latency.ps});
    return time.ok();
  }

  bool TimeCollective(int32_t user, const CollectiveCall& collective, int64_t call,
                      const CommunicatorLink& communicator, Key& key) {
    if (shared_) {
      absl::StatusOr<Flow> flow = network_.CollectiveFlow(collective, communicator.form, communicator.members);
      if (flow.ok()) shared_->Add(user, call, *std::move(flow));
      return flow.ok();
    }
    const auto time = network_.Collective(collective, communicator.form, communicator.members);
    if (time.ok()) key.insert(key.end(), {call, time->occupancy.ps, time->latency.ps});
    return time.ok();
  }

  void MakeClasses() {
    class_of_.assign(all_.ranks.size(), -1);
    // The class of each pair (view, speed) seen so far.
    absl::flat_hash_map<std::pair<int32_t, int64_t>, int32_t> known;
    for (size_t rank = 0; rank < all_.ranks.size(); ++rank) {
      const int64_t speed = view_.speed_of_rank.empty() ? 0 : view_.speed_of_rank[rank];
      const auto [own, is_new] =
          known.try_emplace({view_.template_of_rank[rank], speed}, static_cast<int32_t>(classes_.size()));
      if (is_new) classes_.emplace_back();
      class_of_[rank] = own->second;
      classes_[own->second].push_back(static_cast<int32_t>(rank));
    }
  }

  // Numbers all communicators by their times and members. The first member counts as well, because calls are numbered
  // by its template.
  void NumberCommunicators() {
    Numbers numbers;
    communicator_class_.clear();
    Key key;
    for (size_t c = 0; c < all_.communicators.size(); ++c) {
      key.clear();
      for (const CommunicatorStream& stream : all_.communicators[c].streams) {
        const int64_t member = int64_t{class_of_[stream.owner]} << 32 | stream.stream;
        if (key.empty() || key.back() != member) key.push_back(member);
      }
      const int64_t first = key.front();
      std::sort(key.begin(), key.end());
      key.erase(std::unique(key.begin(), key.end()), key.end());
      key.insert(key.end(), {first, communicator_times_[c]});
      if (shared_) shared_->DescribeLinks(UserOfCommunicator(c), &key);
      communicator_class_.push_back(numbers.NumberOf(key));
    }
    if (shared_) NumberUsers();
  }

  // For shared links: numbers channels by the ranks at their ends and by their links, then numbers all users together.
  void NumberUsers() {
    Numbers numbers;
    Key key;
    user_class_.clear();
    for (size_t c = 0; c < all_.channels.size(); ++c) {
      key.assign(1, channel_times_[c]);
      for (const int32_t side : {all_.channels[c].send, all_.channels[c].recv}) {
        key.push_back(side < 0 ? -1 : int64_t{class_of_[all_.sides[side].owner]} << 32 | all_.sides[side].index);
      }
      shared_->DescribeLinks(static_cast<int32_t>(c), &key);
      user_class_.push_back(numbers.NumberOf(key));
    }
    const int32_t channels = numbers.size();
    for (const int32_t communicator : communicator_class_) user_class_.push_back(channels + communicator);
  }

  // Writes to `key`, for each channel of a rank: the channel's class (without shared links, the number of its times),
  // then the class of the rank at the other end and the index of that side, or -1 if there is none. The class of each
  // communicator of the rank follows. The length is the same for all ranks of one view.
  void Describe(int32_t rank, Key& key) const {
    key.clear();
    const LinkedRank& own = all_.ranks[rank];
    const TemplateView& t = ViewOf(rank);
    for (size_t i = 0; i < t.channels.size(); ++i) {
      const int32_t channel = all_.sides[own.first_side + i].channel;
      const int32_t other = t.channels[i].send ? all_.channels[channel].recv : all_.channels[channel].send;
      int64_t who = -1;
      if (other >= 0) who = int64_t{class_of_[all_.sides[other].owner]} << 32 | all_.sides[other].index;
      key.insert(key.end(), {shared_ ? user_class_[channel] : channel_times_[channel], who});
    }
    for (size_t s = 0; s < t.streams.size(); ++s) {
      const int32_t communicator = all_.streams[own.first_stream + s];
      if (communicator >= 0) key.push_back(communicator_class_[communicator]);
    }
  }

  // Splits each class by the keys that Describe gives its ranks. Then splits the classes of shared links. Returns true
  // if a class was split. All keys depend on the classes as they were before.
  bool Refine() {
    NumberCommunicators();
    const size_t before = classes_.size();
    std::vector<std::pair<int32_t, int32_t>> moved;
    Key first, key;
    for (size_t c = 0; c < before; ++c) {
      absl::flat_hash_map<Key, int32_t> others;
      const std::vector<int32_t> members = std::move(classes_[c]);
      std::vector<int32_t> kept;
      Describe(members.front(), first);
      for (const int32_t rank : members) {
        Describe(rank, key);
        if (key == first) {
          kept.push_back(rank);
          continue;
        }
        const auto [found, is_new] = others.try_emplace(key, static_cast<int32_t>(classes_.size()));
        if (is_new) classes_.emplace_back();
        classes_[found->second].push_back(rank);
        moved.push_back({rank, found->second});
      }
      classes_[c] = std::move(kept);
    }
    for (const auto& [rank, own] : moved) class_of_[rank] = own;
    const bool links = shared_ && shared_->Refine(user_class_);
    return links || classes_.size() > before;
  }

  // Returns the links of one rank of each class. Returns nothing if one rank of a class is not enough, for example
  // because a channel joins two ranks of the class.
  std::optional<RankLinks> Quotient() {
    // Order the classes by their lowest ranks.
    std::sort(classes_.begin(), classes_.end());
    RankLinks links;
    links.simulated_as.resize(all_.ranks.size());
    for (size_t c = 0; c < classes_.size(); ++c) {
      for (const int32_t rank : classes_[c]) class_of_[rank] = links.simulated_as[rank] = static_cast<int32_t>(c);
    }
    NumberCommunicators();
    if (shared_) {
      if (!shared_->Fold(user_class_)) return std::nullopt;
      links.flows.capacities = shared_->FoldedCapacities();
    }
    // The folded communicator of each class of communicators.
    absl::flat_hash_map<int32_t, int32_t> communicators;
    for (const std::vector<int32_t>& members : classes_) {
      const LinkedRank& own = all_.ranks[members.front()];
      const TemplateView& t = ViewOf(own.rank);
      const LinkedRank& folded = links.ranks.emplace_back(LinkedRank{
          .rank = own.rank,
          .stands_for = static_cast<int64_t>(members.size()),
          .first_side = static_cast<int32_t>(links.sides.size()),
          .first_stream = static_cast<int32_t>(links.streams.size()),
      });
      for (size_t i = 0; i < t.channels.size(); ++i) {
        if (!AddSide(own.first_side + static_cast<int32_t>(i), links)) return std::nullopt;
      }
      for (size_t s = 0; s < t.streams.size(); ++s) {
        const int32_t full = all_.streams[own.first_stream + s];
        links.streams.push_back(-1);
        if (full < 0) continue;
        const auto [at, is_new] =
            communicators.try_emplace(communicator_class_[full], static_cast<int32_t>(links.communicators.size()));
        if (is_new && !AddCommunicator(full, links)) return std::nullopt;
        links.streams[folded.first_stream + s] = at->second;
      }
    }
    return links;
  }

  bool AddSide(int32_t full_side, RankLinks& links) const {
    const ChannelSide& full = all_.sides[full_side];
    const int32_t side = static_cast<int32_t>(links.sides.size());
    const int32_t own = class_of_[full.owner];
    const ChannelLink& channel = all_.channels[full.channel];
    const bool send = channel.send == full_side;
    const int32_t other = send ? channel.recv : channel.send;
    int32_t folded = -1;
    if (other >= 0) {
      const int32_t other_class = class_of_[all_.sides[other].owner];
      if (other_class == own) return false;
      // If the other class is an earlier one, the channel exists already.
      if (other_class < own) {
        folded = links.sides[links.ranks[other_class].first_side + all_.sides[other].index].channel;
      }
    }
    if (folded < 0) {
      folded = static_cast<int32_t>(links.channels.size());
      links.channels.emplace_back();
      if (shared_) links.flows.of_channel.push_back(shared_->FoldedFlows(full.channel, user_class_));
    }
    (send ? links.channels[folded].send : links.channels[folded].recv) = side;
    links.sides.push_back({own, full.index, folded});
    return true;
  }

  bool AddCommunicator(int32_t full_communicator, RankLinks& links) const {
    const CommunicatorLink& full = all_.communicators[full_communicator];
    if (full.needed != static_cast<int64_t>(full.streams.size())) return false;
    CommunicatorLink& folded = links.communicators.emplace_back();
    folded.form = full.form;
    folded.members = full.members;
    std::vector<std::pair<int32_t, int32_t>> streams;
    for (const CommunicatorStream& stream : full.streams) {
      streams.push_back({class_of_[stream.owner], stream.stream});
    }
    const std::pair<int32_t, int32_t> first = streams.front();
    std::sort(streams.begin(), streams.end());
    streams.erase(std::unique(streams.begin(), streams.end()), streams.end());
    folded.streams.push_back({first.first, first.second});
    for (size_t i = 0; i < streams.size(); ++i) {
      if (i > 0 && streams[i].first == streams[i - 1].first) return false;
      if (streams[i] != first) folded.streams.push_back({streams[i].first, streams[i].second});
    }
    folded.needed = static_cast<int64_t>(folded.streams.size());
    if (shared_) {
      links.flows.of_communicator.push_back(shared_->FoldedFlows(UserOfCommunicator(full_communicator), user_class_));
    }
    return true;
  }

  const ProgramView& view_;
  const NetworkModel& network_;
  const RankLinks& all_;
  // A number for each channel and each communicator. Equal numbers mean equal times, apart from the links that they
  // use.
  std::vector<int32_t> channel_times_;
  std::vector<int32_t> communicator_times_;
  // Class of each communicator; communicators of one class are alike.
  std::vector<int32_t> communicator_class_;
  // For a network with shared links: the classes of links, and the class of each user of links.
  std::optional<LinkClasses> shared_;
  std::vector<int32_t> user_class_;
  // Ranks of each class, ascending; and the class of each rank.
  std::vector<std::vector<int32_t>> classes_;
  std::vector<int32_t> class_of_;
};

}  // namespace

std::optional<RankLinks> FoldRanks(const ProgramView& view, const NetworkModel& network, const RankLinks& all) {
  return Folder(view, network, all).Fold();
}

}  // namespace weft::sim
