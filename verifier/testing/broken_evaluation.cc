// Evaluation programs that do not match their training program, or are broken themselves.
#include <limits>
#include <string>
#include <vector>

#include "verifier/testing/broken_corpus.h"
#include "verifier/testing/split_program.h"
#include "verifier/testing/tiny_program.h"

namespace weft {
namespace {

// Removes the buffers for which `keep` is false. No action may use them.
template <typename Keep>
void KeepBuffers(Template* t, Keep keep) {
  std::vector<int> index;
  google::protobuf::RepeatedPtrField<Buffer> kept;
  for (const Buffer& buffer : t->buffers()) {
    index.push_back(kept.size());
    if (keep(buffer)) *kept.Add() = buffer;
  }
  t->mutable_buffers()->Swap(&kept);
  for (Action& action : *t->mutable_body()) {
    for (auto* buffers : {action.mutable_operands(), action.mutable_sources(), action.mutable_destinations(),
                          action.mutable_releases()}) {
      for (int& b : *buffers) b = index[b];
    }
  }
}

// SplitProgram() with an evaluation program. The evaluation has SplitProgram()'s forwards and its sum of the losses, on
// the same buffers.
Program SplitWithEvaluation() {
  Program p = SplitProgram();
  Program e = p;
  for (const char* name : {"B0", "B1", "sync tables", "sync vectors", "norm", "norm sync", "clip", "optimizer"}) {
    RemoveAction(&e, 0, name);
  }
  Template& t = *e.mutable_templates(0);
  AddDep(&e, 0, "F0", "loss sync", 1);
  for (const char* n : {"0", "1"}) {
    for (const char* buffer : {"tokens", "saved"}) {
      FindAction(&e, 0, std::string("F") + n)->add_releases(FindBuffer(e, 0, std::string(buffer) + n));
    }
  }
  KeepBuffers(&t, [](const Buffer& buffer) {
    const BufferRole role = buffer.role();
    return role == PARAM || role == LOCAL_LOSSES || role == LOSSES ||
           (role == NO_ROLE && buffer.name().substr(0, 2) != "B ");
  });
  *p.mutable_evaluation() = e;
  return p;
}

}  // namespace

std::vector<Broken> BrokenEvaluation() {
  return {
      {"P13.evaluation",
       "another_part_of_a_parameter",
       [](Program* p) {
         // Each rank holds the same number of rows, but from both halves of the table.
         for (const char* table : {"wte", "head"}) {
           MutableBuffer(p->mutable_evaluation(), 0, table)->mutable_shard()->mutable_dimensions(0)->set_runs(2);
         }
       },
       {"'wte'", "another part of its tensor"},
       SplitWithEvaluation},
      {"P13.evaluation",
       "parameter_elsewhere",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         Template& t = *p->mutable_evaluation()->mutable_templates(0);
         t.mutable_buffers(0)->set_offset(t.device_arena_bytes());
         t.set_device_arena_bytes(t.device_arena_bytes() + 256);
       },
       {"'wte'", "not at the place"}},
      {"P13.evaluation",
       "overwrites_training",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         MutableBuffer(p->mutable_evaluation(), 0, "y0")->set_offset(MutableBuffer(p, 0, "dwte")->offset());
       },
       {"'y0'", "'dwte'"}},
      {"P13.evaluation",
       "other_sequence_length",
       [](Program* p) {
         // A microbatch has the same number of rows, but they form shorter sequences.
         *p->mutable_evaluation() = TinyEvaluation();
         Recipe& recipe = *p->mutable_evaluation()->mutable_recipe();
         recipe.set_sequence_length(2);
         recipe.set_microbatch_sequences(2);
         recipe.set_global_batch_sequences(8);
       },
       {"recipe.sequence_length is 2", "4 in training"}},
      {"P13.evaluation",
       "other_precision",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         p->mutable_evaluation()->mutable_precision()->set_compute(BF16);
       },
       {"precision.compute is bf16"}},
      {"P13.evaluation",
       "other_vocabulary",
       [](Program* p) {
         Program& e = *p->mutable_evaluation() = TinyEvaluation();
         e.set_vocabulary(7);
         FindStep(&e, "F1", "loss")->mutable_attributes()->set_vocabulary(7);
       },
       {"vocabulary is 7", "8 in training"}},
      {"P13.evaluation",
       "dropout_on",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         p->mutable_evaluation()->mutable_recipe()->set_dropout(0.1);
       },
       {"dropout is 0.1"}},
      {"P13.evaluation",
       "keeps_what_training_overwrites",
       [](Program* p) {
         // A persistent buffer without a role, on the bytes of training's activations.
         Program& e = *p->mutable_evaluation() = TinyEvaluation();
         Buffer& kept = *MutableBuffer(&e, 0, "y0");
         const Buffer& y1 = *MutableBuffer(p, 0, "y1");
         kept.set_offset(y1.offset());
         kept.set_persistent(true);
         FindAction(&e, 0, "send F0")->clear_releases();
       },
       {"'y0'", "persistent", "'y1'"}},
      {"P13.unknown_enum",
       "place_in_the_evaluation",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         MutableBuffer(p->mutable_evaluation(), 0, "y0")->set_place(static_cast<Place>(77));
       },
       {"evaluation: ", "place", "77"}},
      {"P7.arena",
       "overflowing_offset_in_the_evaluation",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         MutableBuffer(p->mutable_evaluation(), 0, "y0")->set_offset((std::numeric_limits<int64_t>::max() >> 8) << 8);
       },
       {"evaluation: ", "'y0'"}},
      {"P13.evaluation", "trains", [](Program* p) { *p->mutable_evaluation() = TinyProgram(); }, {"training"}},
      {"P13.complete",
       "evaluation_misses_a_forward",
       [](Program* p) {
         *p->mutable_evaluation() = TinyEvaluation();
         FindAction(p->mutable_evaluation(), 1, "F1")->set_stage(0);
       },
       {"evaluation: ", "'F1'"}},
  };
}

}  // namespace weft
