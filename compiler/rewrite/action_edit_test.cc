#include "compiler/rewrite/action_edit.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace weft {
namespace {

Action Named(int id, const std::string& name) {
  Action action;
  action.set_id(id);
  action.set_name(name);
  return action;
}

TEST(ActionEdit, AWaitIsThereOnce) {
  Action action = Named(3, "a");
  AddDep(1, 0, false, &action);
  AddDep(1, 1, false, &action);
  AddDep(1, 0, true, &action);
  AddDep(1, 0, false, &action);
  ASSERT_EQ(action.deps_size(), 2);
  EXPECT_TRUE(action.deps(0).detached());
  EXPECT_FALSE(action.deps(1).detached());
  EXPECT_EQ(action.deps(1).distance(), 1);
}

// "b" is gone, "x" and "y" stand for it; who waited for it waits for "y".
TEST(ActionEdit, IdsBecomePositions) {
  Template t;
  *t.add_body() = Named(0, "old");
  std::vector<Action> body = {Named(4, "a"), Named(9, "x"), Named(8, "y"), Named(6, "c")};
  AddDep(4, 0, false, &body[1]);
  AddDep(9, 0, false, &body[2]);
  // Of itself in the repetition before, once it stands for "b".
  AddDep(5, 1, false, &body[2]);
  AddDep(5, 0, false, &body[3]);
  AddDep(8, 0, true, &body[3]);
  ReplaceBody(body, {{5, 8}}, &t);
  ASSERT_EQ(t.body_size(), 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(t.body(i).id(), i);
  EXPECT_EQ(t.body(1).name(), "x");
  ASSERT_EQ(t.body(2).deps_size(), 2);
  EXPECT_EQ(t.body(2).deps(0).action(), 1);
  EXPECT_EQ(t.body(2).deps(1).action(), 2);
  EXPECT_EQ(t.body(2).deps(1).distance(), 1);
  ASSERT_EQ(t.body(3).deps_size(), 1);
  EXPECT_EQ(t.body(3).deps(0).action(), 2);
  EXPECT_TRUE(t.body(3).deps(0).detached());
}

}  // namespace
}  // namespace weft
