// Finds which steps communicate with each other, by counting the steps of every channel and communicator (rule P4).
#include <map>

#include "simulator/naive/coordinates.h"
#include "simulator/naive/expansion.h"

namespace weft::sim::naive {

void MatchPartners(Expansion& expansion, const NaiveDurations& durations) {
  // The steps of each key in list order; a key names a channel or a communicator. Collectives have one list for each
  // rank. The i-th steps of all lists of a key communicate with each other.
  std::map<std::string, std::vector<int>> sends;
  std::map<std::string, std::vector<int>> recvs;
  std::map<std::string, std::map<int64_t, std::vector<int>>> collectives;
  for (size_t i = 0; i < expansion.nodes.size(); ++i) {
    Node& node = expansion.nodes[i];
    const int64_t rank = expansion.steps[i].rank;
    node.together = {static_cast<int>(i)};
    if (node.kind == Node::kTransfer) {
      const bool send = node.action->kind() == SEND;
      const int64_t peer = PeerOf(*expansion.program, rank, *node.action);
      const std::string key = std::to_string(send ? rank : peer) + ">" + std::to_string(send ? peer : rank) + " " +
                              std::to_string(node.action->lane()) + " " + std::to_string(node.action->direction()) +
                              " " + std::to_string(node.action->skip());
      (send ? sends : recvs)[key].push_back(static_cast<int>(i));
    } else if (node.kind == Node::kCollective) {
      collectives[node.stream][rank].push_back(static_cast<int>(i));
    }
  }
  for (const auto& [key, list] : sends) {
    for (size_t i = 0; i < list.size(); ++i) {
      Node& send = expansion.nodes[list[i]];
      Node& recv = expansion.nodes[recvs[key].at(i)];
      const int64_t bytes = send.t->buffers(send.action->sources(0)).bytes();
      send.together = recv.together = {list[i], recvs[key][i]};
      send.time = recv.time =
          durations.transfer(expansion.steps[list[i]].rank, expansion.steps[recvs[key][i]].rank, bytes);
      send.time.latency = 0;
    }
  }
  for (const auto& [key, lists] : collectives) {
    const std::vector<int>& first = lists.begin()->second;
    for (size_t i = 0; i < first.size(); ++i) {
      const Node& node = expansion.nodes[first[i]];
      const NaiveTime time = durations.collective(node.collective);
      std::vector<int> together;
      for (const int64_t member : node.collective.members) together.push_back(lists.at(member).at(i));
      for (const int j : together) {
        expansion.nodes[j].together = together;
        expansion.nodes[j].time = time;
      }
    }
  }
}

}  // namespace weft::sim::naive
