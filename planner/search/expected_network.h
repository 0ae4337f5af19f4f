// How long the messages and the collectives of a mesh take alone, for estimates.
#ifndef WEFT_PLANNER_SEARCH_EXPECTED_NETWORK_H_
#define WEFT_PLANNER_SEARCH_EXPECTED_NETWORK_H_

#include <array>
#include <cstdint>
#include <string>

#include "planner/search/search_context.h"
#include "proto/plan.pb.h"

namespace weft::planner {

// The time of one kind of collective over one kind of group, by the bytes of the whole buffer.
class CollectiveTimes {
 public:
  // Times of kSizes, in picoseconds.
  static constexpr std::array<int64_t, 5> kSizes = {1 << 10, 1 << 16, 1 << 21, 1 << 26, 1 << 30};

  CollectiveTimes() = default;
  explicit CollectiveTimes(const std::array<int64_t, kSizes.size()>& times) : times_(times) {}

  // Interpolated; picoseconds. 0 for no bytes.
  int64_t At(double bytes) const;

 private:
  std::array<int64_t, kSizes.size()> times_ = {};
};

// Picoseconds on an idle network.
struct ExpectedNetwork {
  // From the end of a stage to the moment when the next stage has its output, and the same for gradients.
  int64_t forward_message = 0;
  int64_t backward_message = 0;
  // Over the replicas that share states; the sum is that over all replicas.
  CollectiveTimes sum;
  CollectiveTimes gather;
  CollectiveTimes scatter;
  // With zero.group: the sum over the replicas that hold the same part.
  CollectiveTimes sum_of_parts;
  // Between the first and the last stage's ranks, for the gradients of a parameter that both have.
  CollectiveTimes tied;
  // The sums of a few numbers after which each rank knows the gradient norm.
  int64_t norm = 0;
};

// Times that the network cannot tell are 0. `activation_bytes` and `gradient_bytes` are those of the messages between
// stages.
ExpectedNetwork ExpectedNetworkOf(const SearchContext& context, const Plan& plan, int64_t activation_bytes,
                                  int64_t gradient_bytes);

}  // namespace weft::planner

#endif  // WEFT_PLANNER_SEARCH_EXPECTED_NETWORK_H_
