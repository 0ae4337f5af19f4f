// Tests that the verifier refuses broken post-validated programs (rule P15), and that it names the broken rule.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/rewrite/post_validation_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "verifier/verify.h"

namespace weft {
namespace {

using post_validation::CompileOrDie;
using post_validation::Exchange;
using post_validation::MoveUp;
using testing::HasSubstr;

// Every edit breaks one rule of the good program. The verifier names that rule.
TEST(PostValidationBroken, BrokenProgramsAreRefused) {
  const Program good = CompileOrDie({.pipe = 3, .microbatches = 6, .evaluation = true});
  const auto find = [](Program* p, int t, ActionKind kind, bool if_exceeded, int nth = 0) -> Action* {
    for (Action& action : *p->mutable_templates(t)->mutable_body()) {
      if (action.kind() == kind && action.if_exceeded() == if_exceeded && nth-- == 0) return &action;
    }
    ADD_FAILURE() << ActionKind_Name(kind);
    return p->mutable_templates(t)->mutable_body(0);
  };
  const auto drop_dep = [](Action* action, int on) {
    auto* deps = action->mutable_deps();
    for (int i = 0; i < deps->size(); ++i) {
      if (deps->Get(i).action() == on) deps->DeleteSubrange(i--, 1);
    }
  };
  struct Broken {
    const char* what;
    const char* rule;
    std::function<void(Program*)> change;
  };
  const std::vector<Broken> cases = {
      {"a plain program with a verdict", "P15.program", [](Program* p) { p->set_post_validation(false); }},
      {"a message-driven one", "P15.program", [](Program* p) { p->set_compute_order(ARRIVAL); }},
      {"no VALIDATE", "P15.lists", [&](Program* p) { find(p, 1, VALIDATE, false)->set_kind(CLEAR_GRADIENTS); }},
      {"an unconditional way back", "P15.lists",
       [&](Program* p) { find(p, 1, RESTORE_STATE, true)->set_if_exceeded(false); }},
      {"a conditional backward", "P15.lists",
       [&](Program* p) { find(p, 1, BACKWARD_INPUT, false)->set_if_exceeded(true); }},
      {"no KEEP_STATE", "P15.lists",
       [&](Program* p) {
         auto* body = p->mutable_templates(0)->mutable_body();
         for (int i = 0; i < body->size(); ++i) {
           if (body->Get(i).kind() == KEEP_STATE) body->DeleteSubrange(i--, 1);
         }
       }},
      {"no epilogue", "P15.lists", [](Program* p) { p->mutable_templates(2)->clear_epilogue(); }},
      {"one forward is not done again", "P15",
       [&](Program* p) {
         auto* body = p->mutable_templates(0)->mutable_body();
         for (int i = body->size() - 1; i >= 0; --i) {
           if (body->Get(i).kind() != FORWARD || !body->Get(i).if_exceeded()) continue;
           const int id = body->Get(i).id();
           body->DeleteSubrange(i, 1);
           for (Action& action : *body) drop_dep(&action, id);
           return;
         }
       }},
      {"another microbatch is done again", "P15.again",
       [&](Program* p) { find(p, 0, FORWARD, true)->set_microbatch(5); }},
      {"what is done again does not wait for the verdict", "P15.again",
       [&](Program* p) { drop_dep(find(p, 1, RECV, true), find(p, 1, VALIDATE, false)->id()); }},
      {"what is done again does not wait for the way back", "P15.again",
       [&](Program* p) { drop_dep(find(p, 0, FORWARD, true), find(p, 0, OPTIMIZER_STEP, true)->id()); }},
      {"a backward waits for the guess only", "P15.again",
       [&](Program* p) {
         Action* send = find(p, 0, SEND, false);
         for (Action& action : *p->mutable_templates(0)->mutable_body()) {
           if (action.if_exceeded() || action.kind() != BACKWARD_INPUT) continue;
           Dependency* dep = action.add_deps();
           dep->set_action(send->id());
           return;
         }
       }},
      {"the verdict does not wait for the norm", "P15.verdict",
       [&](Program* p) {
         Action* validate = find(p, 1, VALIDATE, false);
         for (const Action& action : p->templates(1).body()) {
           if (action.purpose() == NORM_SYNC) drop_dep(validate, action.id());
         }
       }},
      {"the verdict does not wait for the guess", "P15.verdict",
       [&](Program* p) { drop_dep(find(p, 0, VALIDATE, false), find(p, 0, FORWARD, false)->id()); }},
      {"the verdict is with another clip_norm", "P11.clip",
       [&](Program* p) {
         const int segment = find(p, 0, VALIDATE, false)->segment();
         p->mutable_segments(segment)->mutable_steps(0)->mutable_attributes()->set_clip_norm(7);
       }},
      {"the last verdict is with another clip_norm", "P15.verdict",
       [&](Program* p) {
         Action& validate = *p->mutable_templates(0)->mutable_epilogue(0);
         Segment own = p->segments(validate.segment());
         own.mutable_steps(0)->mutable_attributes()->set_clip_norm(7);
         *p->add_segments() = own;
         validate.set_segment(p->segments_size() - 1);
       }},
      {"the verdict on a norm of zero would be wrong", "P15.program",
       [](Program* p) {
         p->mutable_recipe()->set_clip_norm(1e-7);
         p->mutable_evaluation()->mutable_recipe()->set_clip_norm(1e-7);
         for (Segment& segment : *p->mutable_segments()) {
           for (Step& step : *segment.mutable_steps()) {
             if (step.kernel() == NORM_TOTAL) step.mutable_attributes()->set_clip_norm(1e-7);
           }
         }
       }},
      {"a transfer group is done again in part", "P15.closed",
       [](Program* p) {
         // The second rank sends its first microbatch after its whole guess, together with its third RECV.
         Template& t = *p->mutable_templates(1);
         int guessed = 0, again = 0;
         for (int i = 0; i < t.body_size(); ++i) {
           if (t.body(i).kind() == VALIDATE) guessed = i - 1;
           if (t.body(i).if_exceeded()) again = i;
         }
         const auto from = [&](ActionKind kind, int i) {
           while (t.body(i).kind() != kind || t.body(i).direction() != TOWARDS_LOSS) ++i;
           return i;
         };
         for (int i = from(SEND, 0); i < guessed; ++i) Exchange(&t, i);
         for (int i = from(SEND, guessed + 1); i < again; ++i) Exchange(&t, i);
         MoveUp(&t, from(RECV, again + 1), again + 1);
         ASSERT_TRUE(t.body(again).kind() == SEND && t.body(again).if_exceeded());
         for (const int member : {guessed, again, again + 1}) t.mutable_body(member)->set_transfer_group(1000);
       }},
      {"a copy is missing", "P15.kept",
       [&](Program* p) {
         const int segment = find(p, 0, KEEP_STATE, false)->segment();
         Segment& keep = *p->mutable_segments(segment);
         // KEEP_STATE no longer copies its first buffer.
         Action* action = find(p, 0, KEEP_STATE, false);
         keep.mutable_operands()->DeleteSubrange(0, 2);
         keep.mutable_values()->DeleteSubrange(0, 2);
         keep.mutable_steps()->DeleteSubrange(0, 1);
         for (Value& value : *keep.mutable_values()) value.set_operand(value.operand() - 2);
         for (Step& step : *keep.mutable_steps()) {
           step.set_inputs(0, step.inputs(0) - 2);
           step.set_outputs(0, step.outputs(0) - 2);
         }
         action->mutable_operands()->erase(action->operands().begin(), action->operands().begin() + 2);
       }},
      {"a copy comes back to another place", "P15.kept",
       [&](Program* p) {
         // Exchanges the two moments of one tensor, which have the same size.
         Action* restore = find(p, 0, RESTORE_STATE, true);
         std::vector<int> moments;
         for (int o = 0; o < restore->operands_size(); ++o) {
           const Buffer& buffer = p->templates(0).buffers(restore->operands(o));
           if (buffer.tensor() == 0 && (buffer.role() == MOMENT1 || buffer.role() == MOMENT2)) moments.push_back(o);
         }
         ASSERT_EQ(moments.size(), 2u);
         const int first = restore->operands(moments[0]);
         restore->set_operands(moments[0], restore->operands(moments[1]));
         restore->set_operands(moments[1], first);
       }},
      {"the step is taken again on a copy", "P15.kept",
       [&](Program* p) {
         Action* again = find(p, 0, OPTIMIZER_STEP, true);
         for (int& b : *again->mutable_operands()) {
           if (p->templates(0).buffers(b).role() != MOMENT1) continue;
           for (int k = 0; k < p->templates(0).buffers_size(); ++k) {
             const Buffer& buffer = p->templates(0).buffers(k);
             if (buffer.role() == KEPT_MOMENT1 && buffer.tensor() == p->templates(0).buffers(b).tensor()) {
               b = k;
               return;
             }
           }
         }
       }},
      {"a copy lies on other bytes that live", "P7",
       [&](Program* p) {
         Template& t = *p->mutable_templates(0);
         for (Buffer& buffer : *t.mutable_buffers()) {
           if (buffer.role() == KEPT_WEIGHT) {
             buffer.set_offset(t.buffers(0).offset());
             return;
           }
         }
       }},
      {"gradients are not cleared", "P9.zero",
       [&](Program* p) {
         const int segment = find(p, 0, CLEAR_GRADIENTS, false)->segment();
         const Value fill = p->segments(segment).values(0);
         Action* clear = find(p, 0, CLEAR_GRADIENTS, false);
         // Neither the body nor the epilogue clears the first gradient.
         for (int i = 0; i < p->segments_size(); ++i) {
           Segment& s = *p->mutable_segments(i);
           const Action& last = *p->templates(0).epilogue().rbegin();
           if (i != segment && i != last.segment()) continue;
           s.mutable_operands()->DeleteSubrange(0, 1);
           s.mutable_values()->DeleteSubrange(0, 1);
           s.mutable_steps()->DeleteSubrange(0, 1);
           for (Value& value : *s.mutable_values()) value.set_operand(value.operand() - 1);
           for (Step& step : *s.mutable_steps()) step.set_outputs(0, step.outputs(0) - 1);
         }
         clear->mutable_operands()->erase(clear->operands().begin());
         Action& last = *p->mutable_templates(0)->mutable_epilogue()->rbegin();
         last.mutable_operands()->erase(last.operands().begin());
       }},
      {"a message of the guess is received in the rest", "P15",
       [&](Program* p) {
         // Rank 1's first RECV, which belongs to the guess, becomes conditional.
         Action* recv = find(p, 1, RECV, false);
         recv->set_if_exceeded(true);
       }},
  };
  ASSERT_TRUE(VerifyProgram(good, {}).ok());
  for (const Broken& broken : cases) {
    Program program = good;
    broken.change(&program);
    const absl::Status status = VerifyProgram(program, {});
    EXPECT_FALSE(status.ok()) << broken.what;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("[", broken.rule))) << broken.what;
  }
}

// With ZeRO 3, collectives gather the weights beside the compute stream, so only dependencies make them wait for
// CLEAR_GRADIENTS.
TEST(PostValidationBroken, GathersOfWeightsWaitForTheWayBack) {
  const Program good =
      CompileOrDie({.schedule = "1f1b", .pipe = 2, .microbatches = 8, .data = 2, .plan_fields = "zero { stage: 3 }"});
  ASSERT_TRUE(VerifyProgram(good, {}).ok());
  for (int t = 0; t < good.templates_size(); ++t) {
    Program program = good;
    auto& body = *program.mutable_templates(t)->mutable_body();
    const auto clear =
        std::find_if(body.begin(), body.end(), [](const Action& action) { return action.kind() == CLEAR_GRADIENTS; });
    ASSERT_NE(clear, body.end());
    int dropped = 0;
    for (Action& action : body) {
      auto* deps = action.mutable_deps();
      for (int i = 0; i < deps->size(); ++i) {
        if (deps->Get(i).action() != clear->id() || deps->Get(i).distance() != 0) continue;
        deps->DeleteSubrange(i--, 1);
        ++dropped;
      }
    }
    EXPECT_GT(dropped, 0);
    EXPECT_THAT(std::string(VerifyProgram(program, {}).message()), HasSubstr("[P15.clear]")) << t;
  }
}

// The gathers after the optimizer step are repeated after the conditional optimizer step.
TEST(PostValidationBroken, WeightsAreGatheredAgain) {
  const Program good = CompileOrDie({.schedule = "1f1b",
                                     .pipe = 2,
                                     .microbatches = 8,
                                     .evaluation = true,
                                     .data = 2,
                                     .plan_fields = "zero { stage: 1 }"});
  ASSERT_EQ(VerifyProgram(good, {}), absl::OkStatus());
  const auto find = [](Template* t, ActionKind kind, bool if_exceeded) -> Action* {
    for (Action& action : *t->mutable_body()) {
      if (action.kind() == kind && action.if_exceeded() == if_exceeded) return &action;
    }
    ADD_FAILURE() << ActionKind_Name(kind);
    return t->mutable_body(0);
  };
  const auto drop_dep = [](Action* action, int on, int distance) {
    auto* deps = action->mutable_deps();
    int dropped = 0;
    for (int i = 0; i < deps->size(); ++i) {
      if (deps->Get(i).action() != on || deps->Get(i).distance() != distance) continue;
      deps->DeleteSubrange(i--, 1);
      ++dropped;
    }
    EXPECT_GT(dropped, 0);
  };
  // Returns the action that waits for `gather` of the previous repetition.
  const auto reader = [](Template* t, const Action& gather, bool if_exceeded) -> Action* {
    bool behind = false;
    for (Action& action : *t->mutable_body()) {
      behind = behind || action.kind() == CLEAR_GRADIENTS;
      if (!behind || action.if_exceeded() != if_exceeded) continue;
      for (const Dependency& dep : action.deps()) {
        if (dep.action() == gather.id() && dep.distance() == 1) return &action;
      }
    }
    return nullptr;
  };
  struct Broken {
    const char* what;
    const char* rule;
    std::function<void(Template*)> change;
  };
  const std::vector<Broken> cases = {
      {"not at all", "P15.gather",
       [&](Template* t) {
         for (auto* list : {t->mutable_body(), t->mutable_epilogue()}) {
           for (int i = 0; i < list->size(); ++i) {
             if (list->Get(i).kind() != ALL_GATHER || !list->Get(i).if_exceeded()) continue;
             const int id = list->Get(i).id();
             list->DeleteSubrange(i--, 1);
             for (Action& action : *list) {
               for (Dependency& dep : *action.mutable_deps()) {
                 if (dep.action() == id) dep.set_action(find(t, VALIDATE, false)->id());
               }
             }
           }
         }
       }},
      {"at the end of a run not", "P15.gather",
       [&](Template* t) {
         auto* list = t->mutable_epilogue();
         for (int i = 0; i < list->size(); ++i) {
           if (list->Get(i).kind() == ALL_GATHER) list->DeleteSubrange(i--, 1);
         }
       }},
      {"whatever the verdict", "P15.lists", [&](Template* t) { find(t, ALL_GATHER, true)->set_if_exceeded(false); }},
      {"before the update", "P15.gather",
       [&](Template* t) { drop_dep(find(t, ALL_GATHER, true), find(t, OPTIMIZER_STEP, true)->id(), 0); }},
      {"before the verdict", "P15.gather",
       [&](Template* t) { drop_dep(find(t, ALL_GATHER, true), find(t, VALIDATE, false)->id(), 0); }},
      {"to another place", "P15.gather",
       [&](Template* t) {
         Action* again = find(t, ALL_GATHER, true);
         again->mutable_destinations()->SwapElements(0, again->destinations_size() - 1);
         again->mutable_sources()->SwapElements(0, again->sources_size() - 1);
       }},
      {"while they are sent", "P15.gather",
       [&](Template* t) { drop_dep(find(t, VALIDATE, false), find(t, ALL_GATHER, false)->id(), 1); }},
      {"and what is done again reads those before", "P15.gather",
       [&](Template* t) {
         Action* again = reader(t, *find(t, ALL_GATHER, false), true);
         ASSERT_NE(again, nullptr);
         drop_dep(again, find(t, ALL_GATHER, true)->id(), 0);
       }},
      {"of parts that do not last", "P15.kept",
       [&](Template* t) {
         Action* update = find(t, OPTIMIZER_STEP, false);
         for (const int b : update->operands()) {
           if (t->buffers(b).role() != NO_ROLE) continue;
           t->mutable_buffers(b)->set_persistent(false);
           update->add_releases(b);
           return;
         }
         FAIL();
       }},
  };
  for (const Broken& broken : cases) {
    Program program = good;
    broken.change(program.mutable_templates(0));
    EXPECT_THAT(std::string(VerifyProgram(program, {}).message()), HasSubstr(absl::StrCat("[", broken.rule)))
        << broken.what;
  }
}

// VALIDATE must divide by the loss scale of the step that it judges. The factor that the update assumes must be the
// factor for a gradient of zero.
TEST(PostValidationBroken, LossScalesAreThoseOfTheStep) {
  const Program good =
      CompileOrDie({.schedule = "zb-h1", .pipe = 2, .microbatches = 4, .plan_fields = "precision { compute: FP16 }"});
  ASSERT_EQ(VerifyProgram(good, {}), absl::OkStatus());
  const auto use = [](Program* p, ActionKind kind, int from_version) {
    Template* t = p->mutable_templates(0);
    for (auto* list : {t->mutable_body(), t->mutable_epilogue()}) {
      for (Action& action : *list) {
        if (action.kind() != kind) continue;
        for (int& b : *action.mutable_operands()) {
          if (t->buffers(b).role() != LOSS_SCALE || t->buffers(b).version() != from_version) continue;
          for (int other = 0; other < t->buffers_size(); ++other) {
            if (t->buffers(other).role() != LOSS_SCALE || other == b) continue;
            b = other;
            break;
          }
        }
      }
    }
  };
  struct Broken {
    const char* what;
    const char* rule;
    std::function<void(Program*)> change;
  };
  const std::vector<Broken> cases = {
      {"the verdict is with the scale of the next step", "P15.scale", [&](Program* p) { use(p, VALIDATE, 1); }},
      {"the update changes the kept scale", "P15.kept", [&](Program* p) { use(p, OPTIMIZER_STEP, 0); }},
      {"the guess is clipped at another norm", "P15.scale",
       [](Program* p) {
         for (const Action& action : p->templates(0).body()) {
           if (action.kind() != KEEP_STATE) continue;
           for (Step& step : *p->mutable_segments(action.segment())->mutable_steps()) {
             if (step.kernel() == NORM_TOTAL) step.mutable_attributes()->set_clip_norm(7);
           }
         }
       }},
      {"a third copy of the scale", "P7.role",
       [](Program* p) {
         for (Buffer& buffer : *p->mutable_templates(0)->mutable_buffers()) {
           if (buffer.role() == LOSS_SCALE && buffer.version() == 1) buffer.set_version(2);
         }
       }},
  };
  for (const Broken& broken : cases) {
    Program program = good;
    broken.change(&program);
    EXPECT_THAT(std::string(VerifyProgram(program, {}).message()), HasSubstr(absl::StrCat("[", broken.rule)))
        << broken.what;
  }
}

// Inserts a new action into the body before the action at `at`. Ids still ascend in steps of one: later ids grow by
// one.
Action* Insert(Template* t, int at) {
  const int id = t->body(at).id();
  for (auto* list : {t->mutable_body(), t->mutable_epilogue()}) {
    for (Action& action : *list) {
      action.set_id(action.id() + (action.id() >= id));
      for (Dependency& dep : *action.mutable_deps()) dep.set_action(dep.action() + (dep.action() >= id));
    }
  }
  t->add_body()->set_id(id);
  for (int i = t->body_size() - 1; i > at; --i) t->mutable_body()->SwapElements(i, i - 1);
  return t->mutable_body(at);
}

void Wait(Action* action, int on) { action->add_deps()->set_action(on); }

// A sum over replicas that writes to another buffer only reads the gradient. It must finish before the gradient is
// cleared.
TEST(PostValidationBroken, ReadersOfGradientsWaitUntilTheyAreCleared) {
  for (const bool waits : {true, false}) {
    Program program = CompileOrDie({.schedule = "1f1b", .pipe = 2, .microbatches = 8, .data = 2});
    Template& t = *program.mutable_templates(0);
    const auto index_of = [&](auto is) {
      return static_cast<int>(std::find_if(t.body().begin(), t.body().end(), is) - t.body().begin());
    };
    Action sum = t.body(index_of([](const Action& a) { return a.purpose() == GRADIENT_SYNC; }));
    Buffer copy = t.buffers(sum.sources(0));
    ASSERT_EQ(copy.role(), GRAD);
    copy.set_name("copy");
    copy.clear_role();
    copy.clear_tensor();
    copy.clear_use();
    copy.set_offset((t.device_arena_bytes() + 255) / 256 * 256);
    t.set_device_arena_bytes(copy.offset() + copy.bytes());
    *t.add_buffers() = copy;
    const int backward = index_of([](const Action& a) { return a.kind() == BACKWARD; });
    int rest = backward;
    while (!t.body(rest - 1).if_exceeded()) --rest;
    Action* read = Insert(&t, rest);
    const int id = read->id();
    const int source = sum.sources(0);
    *read = sum;
    read->set_id(id);
    read->set_name("read");
    read->set_purpose(TIED_SYNC);
    read->clear_releases();
    read->clear_deps();
    read->clear_sources();
    read->clear_destinations();
    read->add_sources(source);
    read->add_destinations(t.buffers_size() - 1);
    Wait(read, t.body(0).id());
    Wait(read, t.body(index_of([](const Action& a) { return a.kind() == FORWARD && a.if_exceeded(); })).id());
    if (waits) Wait(read, t.body(index_of([](const Action& a) { return a.kind() == CLEAR_GRADIENTS; })).id());
    Wait(t.mutable_body(backward + 1), id);
    const std::string message(VerifyProgram(program, {}).message());
    if (waits) {
      EXPECT_EQ(message, "");
    } else {
      EXPECT_THAT(message, HasSubstr("[P15.clear] template"));
      EXPECT_THAT(message, HasSubstr("'read'"));
    }
  }
}

}  // namespace
}  // namespace weft
