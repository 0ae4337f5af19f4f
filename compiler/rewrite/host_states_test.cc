#include "compiler/rewrite/host_states.h"

#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

void Add(Template* t, const std::string& name, BufferRole role, int tensor, int64_t bytes, int64_t offset) {
  Buffer& buffer = *t->add_buffers();
  buffer.set_name(name);
  buffer.set_role(role);
  buffer.set_tensor(tensor);
  buffer.set_bytes(bytes);
  buffer.set_offset(offset);
  buffer.set_persistent(role != NO_ROLE);
}

const Buffer& Find(const Template& t, const std::string& name) {
  for (const Buffer& buffer : t.buffers()) {
    if (buffer.name() == name) return buffer;
  }
  ADD_FAILURE() << "no buffer " << name;
  return t.buffers(0);
}

// Tensor 0 has master weights, tensor 1 has none. The evaluation program has the same parameters and one more buffer.
TEST(HostStates, LeaveNoHole) {
  Program program;
  Template& t = *program.add_templates();
  t.set_name("pipe0");
  Add(&t, "moment 0", MOMENT1, 0, 300, 0);
  Add(&t, "param 0", PARAM, 0, 200, 512);
  Add(&t, "master 0", MASTER, 0, 300, 768);
  Add(&t, "param 1", PARAM, 1, 256, 1280);
  Add(&t, "moment 1", MOMENT1, 1, 256, 1536);
  Add(&t, "grad 1", GRAD, 1, 256, 1792);
  Add(&t, "saved", NO_ROLE, 0, 1000, 2048);
  t.set_device_arena_bytes(3072);
  Template& evaluation = *program.mutable_evaluation()->add_templates();
  evaluation.set_name("pipe0");
  Add(&evaluation, "param 0", PARAM, 0, 200, 512);
  Add(&evaluation, "param 1", PARAM, 1, 256, 1280);
  Add(&evaluation, "output", NO_ROLE, 0, 100, 2304);
  evaluation.set_device_arena_bytes(2560);
  MoveStatesToHost(&program);

  EXPECT_EQ(Find(t, "param 0").offset(), 0);
  EXPECT_EQ(Find(t, "param 1").offset(), 256);
  EXPECT_EQ(Find(t, "grad 1").offset(), 512);
  EXPECT_EQ(Find(t, "saved").offset(), 768);
  EXPECT_EQ(t.device_arena_bytes(), 3072 - 512 - 512 - 256);
  EXPECT_EQ(Find(evaluation, "param 0").offset(), 0);
  EXPECT_EQ(Find(evaluation, "param 1").offset(), 256);
  EXPECT_EQ(Find(evaluation, "output").offset(), 1024);
  EXPECT_EQ(evaluation.device_arena_bytes(), 2560 - 1280);
  // The host arena holds the buffers in their order in the template; new master weights come last.
  EXPECT_EQ(Find(t, "moment 0").offset(), 0);
  EXPECT_EQ(Find(t, "master 0").offset(), 512);
  EXPECT_EQ(Find(t, "moment 1").offset(), 1024);
  const Buffer& added = Find(t, "master param 1");
  EXPECT_EQ(added.offset(), 1280);
  EXPECT_EQ(added.role(), MASTER);
  EXPECT_EQ(added.tensor(), 1);
  EXPECT_EQ(t.host_arena_bytes(), 1536);
  for (const Buffer& buffer : t.buffers()) {
    EXPECT_EQ(buffer.place() == HOST, buffer.role() == MASTER || buffer.role() == MOMENT1) << buffer.name();
  }
}

}  // namespace
}  // namespace weft
