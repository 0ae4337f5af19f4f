// Derives which actions of one rank happen before which others for any timing (docs/program.md, P7), and adds the waits
// that enforce a required order.
//
// Actions of one repetition are listed in order, each on a stream. Known order comes from streams (an action starts
// after the end of the one before it on its stream, around the repetition) and from waits. Requirements state an order
// that must hold; Resolve() adds a wait for each that does not follow from what is known already.
//
//   stream c:  F0 F1 F2 ...      Require(S0, F2): the send of F0's output has finished before F2 starts.
//   stream s:  S0 S1 ...         Require(S1, F2) alone would imply it: S0 ended before S1 started.
//
// For each action and each stream, the class keeps how many of the stream's actions, in order over two repetitions, are
// known to have finished. Two repetitions suffice: an order that holds from one to the next holds for all.
//
// Time: O(actions * streams + requirements).
#ifndef WEFT_COMPILER_MEMORY_REPETITION_ORDER_H_
#define WEFT_COMPILER_MEMORY_REPETITION_ORDER_H_

#include <cstdint>
#include <vector>

namespace weft {

class RepetitionOrder {
 public:
  // A wait for the action `on` of the repetition `distance` repetitions earlier.
  struct Wait {
    int on = 0;
    int distance = 0;

    friend bool operator==(const Wait&, const Wait&) = default;
    friend auto operator<=>(const Wait&, const Wait&) = default;
  };

  // `finish_is_end`: true if actions of this stream are finished when they end (compute, sends), false if their effect
  // comes later (receives, collectives).
  int AddStream(bool finish_is_end);
  // Appends an action to the list and to `stream`.
  int AddAction(int stream);

  // Requires that `before` is finished when `after` starts: in the same repetition (distance 0, before < after in the
  // list), or from one repetition to the next (distance 1).
  void Require(int before, int after, int distance = 0);

  // States that this order holds already, so that no wait is added for it. Arguments as in Require.
  void Given(int before, int after, int distance = 0);

  // Adds waits until all requirements hold. Call it once, after all calls of the functions above.
  void Resolve();

  // Waits that were added for `action`, sorted by (distance, on).
  const std::vector<Wait>& waits(int action) const { return actions_[action].waits; }

  // Call after Resolve(). Returns how many actions of `stream` in this repetition are known to be finished when
  // `action` starts. This holds in every repetition except the first. -n means that the last n actions of the previous
  // repetition are not known to be finished either.
  int Finished(int action, int stream) const;
  // Position of `action` among the actions of its stream.
  int Index(int action) const { return actions_[action].index; }
  int Stream(int action) const { return actions_[action].stream; }
  int size() const { return static_cast<int>(actions_.size()); }

 private:
  struct Stream_ {
    bool finish_is_end = true;
    int actions = 0;
    int last = -1;
  };
  struct Action {
    int stream = 0;
    int index = 0;
    // The previous action on the same stream, or -1.
    int previous = -1;
    std::vector<Wait> given;
    std::vector<Wait> required;
    std::vector<Wait> waits;
    // known[s]: actions of stream s known to be finished, counted over two repetitions from the start of the first.
    std::vector<int> known;
  };

  // Call when `action` of `repetition` has ended: adds to `known` everything that was known when that action started
  // (`other`). With `finished`, also adds that the action itself has finished.
  void Learn(std::vector<int>& known, const std::vector<int>& other, int action, int repetition, bool finished) const;
  bool Knows(const std::vector<int>& known, int action, int repetition) const;

  std::vector<Stream_> streams_;
  std::vector<Action> actions_;
};

}  // namespace weft

#endif  // WEFT_COMPILER_MEMORY_REPETITION_ORDER_H_
