#include "proto/io/set_field.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/io/io.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Specs {
  Recipe recipe;
  Plan plan;

  std::string Set(absl::string_view setting) {
    const absl::Status status = ApplySetting(setting, &recipe, &plan);
    return status.ok() ? "" : std::string(status.message());
  }

  std::string Axes() const {
    std::string out;
    for (const MeshAxis& axis : plan.mesh().axes()) out += axis.name() + "=" + std::to_string(axis.size()) + " ";
    return out;
  }
};

TEST(ApplySetting, AliasesOfMeshAxesKeepTheOrder) {
  Specs a;
  EXPECT_EQ(a.Set("pp=4"), "");
  EXPECT_EQ(a.Set("schedule="), "schedule has no value; expected a schedule's name");
  EXPECT_EQ(a.Set("dp=2"), "");
  EXPECT_EQ(a.Set("tp=1"), "");
  EXPECT_EQ(a.Axes(), "x=1 data=2 pipe=4 ");
  EXPECT_EQ(a.Set("dp=8"), "");
  EXPECT_EQ(a.Axes(), "x=1 data=8 pipe=4 ");
  EXPECT_EQ(a.Set("z=2"), "");
  EXPECT_EQ(a.Set("y=3"), "");
  EXPECT_EQ(a.Set("x=4"), "");
  EXPECT_EQ(a.Axes(), "x=4 y=3 z=2 data=8 pipe=4 ");
  // tp sets x to its value, and y and z to 1.
  EXPECT_EQ(a.Set("tp=2"), "");
  EXPECT_EQ(a.Axes(), "x=2 y=1 z=1 data=8 pipe=4 ");
  // A mesh that puts pipe innermost keeps its own order.
  Specs b;
  ASSERT_TRUE(
      ParseMessage("mesh { axes { name: \"pipe\" size: 2 } axes { name: \"data\" size: 2 } }", "p", &b.plan).ok());
  EXPECT_EQ(b.Set("pp=4"), "");
  EXPECT_EQ(b.Axes(), "pipe=4 data=2 ");
}

TEST(ApplySetting, DefaultTakesAnAxisOutOfTheMesh) {
  Specs s;
  for (const char* setting : {"x=2", "y=3", "z=5", "dp=8", "pp=4"}) ASSERT_EQ(s.Set(setting), "");
  EXPECT_EQ(s.Set("pp=default"), "");
  EXPECT_EQ(s.Axes(), "x=2 y=3 z=5 data=8 ");
  // Leaving out an absent field or axis is no error.
  EXPECT_EQ(s.Set("pp=default"), "");
  EXPECT_EQ(s.Set("y=default"), "");
  EXPECT_EQ(s.Axes(), "x=2 z=5 data=8 ");
  // tp=default removes all of x, y and z.
  EXPECT_EQ(s.Set("tp=default"), "");
  EXPECT_EQ(s.Axes(), "data=8 ");
  EXPECT_EQ(s.Set("dp=default"), "");
  EXPECT_FALSE(s.plan.has_mesh());
  EXPECT_EQ(s.Set("pp=defualt"), "pp = 'defualt' must be an integer of at least 1");
}

TEST(ApplySetting, EveryTypeOfField) {
  Specs s;
  EXPECT_EQ(s.Set("mbs=2"), "");
  EXPECT_EQ(s.Set("gbs = 64"), "");
  EXPECT_EQ(s.Set("seq=128"), "");
  EXPECT_EQ(s.Set("schedule=gpipe"), "");
  EXPECT_EQ(s.Set("recipe.seed=18446744073709551615"), "");
  EXPECT_EQ(s.Set("recipe.lr.peak=1e-3"), "");
  EXPECT_EQ(s.Set("recipe.clip_norm=0"), "");
  EXPECT_EQ(s.Set("plan.step_barrier=true"), "");
  EXPECT_EQ(s.Set("recompute.mode=full"), "");
  EXPECT_EQ(s.Set("precision.compute=Bf16"), "");
  EXPECT_EQ(s.Set("accumulation=EXACT"), "");
  EXPECT_EQ(s.Set("partition.layers_per_stage=3, 4,5"), "");
  EXPECT_EQ(s.Set("recompute.layers="), "");
  EXPECT_EQ(s.Set("schedule.waves=2"), "");
  EXPECT_EQ(s.Set("schedule.scaling=forward_doubling"), "");
  EXPECT_EQ(s.Set("plan.schedule.freeze=true"), "");
  EXPECT_EQ(s.Set("gradient_sync=eager_opt"), "");
  EXPECT_EQ(s.Set("transfer_order=together"), "");
  EXPECT_EQ(s.Set("transfer_placement=fastest"), "");
  EXPECT_EQ(s.Set("group_transfers=true"), "");
  EXPECT_EQ(s.plan.schedule().waves(), 2);
  EXPECT_EQ(s.plan.schedule().scaling(), PlanSchedule::FORWARD_DOUBLING);
  EXPECT_TRUE(s.plan.schedule().freeze());
  EXPECT_EQ(s.plan.gradient_sync(), EAGER_OPT);
  EXPECT_EQ(s.plan.transfer_order(), TOGETHER);
  EXPECT_EQ(s.plan.transfer_placement(), FASTEST);
  EXPECT_TRUE(s.plan.group_transfers());
  // A name replaces a definition.
  s.plan.mutable_schedule()->set_definition("0F0,0B0");
  EXPECT_EQ(s.Set("schedule=hanayo"), "");
  EXPECT_EQ(s.plan.schedule().definition(), "");
  EXPECT_EQ(s.Set("schedule=gpipe"), "");
  EXPECT_EQ(s.recipe.microbatch_sequences(), 2);
  EXPECT_EQ(s.recipe.global_batch_sequences(), 64);
  EXPECT_EQ(s.recipe.sequence_length(), 128);
  EXPECT_EQ(s.plan.schedule().name(), "gpipe");
  EXPECT_EQ(s.recipe.seed(), ~uint64_t{0});
  EXPECT_EQ(s.recipe.lr().peak(), 1e-3);
  EXPECT_TRUE(s.recipe.has_clip_norm());
  EXPECT_TRUE(s.plan.step_barrier());
  EXPECT_EQ(s.plan.recompute().mode(), Recompute::FULL);
  EXPECT_EQ(s.plan.precision().compute(), BF16);
  EXPECT_EQ(s.plan.accumulation(), EXACT);
  EXPECT_THAT(s.plan.partition().layers_per_stage(), testing::ElementsAre(3, 4, 5));
  // A list replaces the previous list.
  EXPECT_EQ(s.Set("partition.layers_per_stage=7"), "");
  EXPECT_THAT(s.plan.partition().layers_per_stage(), testing::ElementsAre(7));
  EXPECT_EQ(s.Set("vpp=2"), "");
  EXPECT_EQ(s.Set("waves=4"), "");
  EXPECT_EQ(s.Set("scaling=forward_doubling"), "");
  EXPECT_EQ(s.plan.schedule().virtual_stages(), 2);
  EXPECT_EQ(s.plan.schedule().waves(), 4);
  EXPECT_EQ(s.plan.schedule().scaling(), PlanSchedule::FORWARD_DOUBLING);
  EXPECT_EQ(s.Set("pp=2"), "");
  EXPECT_EQ(s.Set("plan.mesh.axes[0].size=3"), "");
  EXPECT_EQ(s.Axes(), "pipe=3 ");
  // Setting one member of a oneof replaces the other.
  EXPECT_EQ(s.Set("recipe.adamw.beta1=0.5"), "");
  EXPECT_EQ(s.Set("recipe.sgd.momentum=0.5"), "");
  EXPECT_TRUE(s.recipe.has_sgd());
}

// Setting a schedule by name replaces a definition, however the name is set.
TEST(ApplySetting, AScheduleByNameReplacesADefinition) {
  for (const char* setting : {"schedule=gpipe", "schedule.name=gpipe", "plan.schedule.name=gpipe"}) {
    Specs s;
    s.plan.mutable_schedule()->set_definition("0F0,0B0\n");
    EXPECT_EQ(s.Set(setting), "") << setting;
    EXPECT_EQ(s.plan.schedule().name(), "gpipe");
    EXPECT_EQ(s.plan.schedule().definition(), "") << setting;
  }
}

TEST(ApplySetting, DefaultIsAsIfTheFieldHadNotBeenGiven) {
  Specs s;
  ASSERT_EQ(s.Set("mbs=4"), "");
  ASSERT_EQ(s.Set("schedule=hanayo"), "");
  ASSERT_EQ(s.Set("recipe.clip_norm=0"), "");
  ASSERT_EQ(s.Set("offload.optimizer=true"), "");
  ASSERT_EQ(s.Set("offload.bucket_elements=1000"), "");
  ASSERT_EQ(s.Set("precision.compute=fp32"), "");
  ASSERT_EQ(s.Set("recompute.layers=1,2"), "");
  for (const char* setting :
       {"mbs=default", "schedule=default", "recipe.clip_norm=default", "offload.bucket_elements = default",
        "precision.compute=default", "recompute.layers=default"}) {
    EXPECT_EQ(s.Set(setting), "") << setting;
  }
  EXPECT_EQ(s.recipe.microbatch_sequences(), 0);
  EXPECT_EQ(s.plan.schedule().name(), "");
  EXPECT_FALSE(s.recipe.has_clip_norm());
  EXPECT_TRUE(s.plan.offload().optimizer());
  EXPECT_EQ(s.plan.offload().bucket_elements(), 0);
  EXPECT_EQ(s.plan.precision().compute(), DTYPE_UNSPECIFIED);
  EXPECT_EQ(s.plan.recompute().layers_size(), 0);
  // Leaves out a message with all its fields.
  EXPECT_EQ(s.Set("plan.offload=default"), "");
  EXPECT_FALSE(s.plan.has_offload());
}

TEST(ApplySetting, EnumNamesAsFlagsWriteThem) {
  for (const char* setting :
       {"scaling=forward-doubling", "scaling=FORWARD_DOUBLING", "schedule.scaling=Forward_Doubling"}) {
    Specs s;
    EXPECT_EQ(s.Set(setting), "") << setting;
    EXPECT_EQ(s.plan.schedule().scaling(), PlanSchedule::FORWARD_DOUBLING);
  }
}

TEST(FullSettingName, OneForAllThatAreOfOneField) {
  for (const char* name : {"mbs", " mbs ", "recipe.microbatch_sequences"}) {
    EXPECT_EQ(FullSettingName(name), "recipe.microbatch_sequences");
  }
  for (const char* name : {"vpp", "virtual", "schedule.virtual_stages", "plan.schedule.virtual_stages"}) {
    EXPECT_EQ(FullSettingName(name), "plan.schedule.virtual_stages");
  }
  for (const char* name : {"schedule", "schedule.name", "plan.schedule.name"}) {
    EXPECT_EQ(FullSettingName(name), "plan.schedule.name");
  }
  EXPECT_EQ(FullSettingName("mesh.axes[0].size"), "plan.mesh.axes[0].size");
  EXPECT_EQ(FullSettingName("pp"), "pp");
  EXPECT_EQ(FullSettingName("nonsense"), "nonsense");
}

TEST(ApplySetting, AxesOfOthersAreRefusedByTheirNames) {
  Specs s;
  EXPECT_EQ(s.Set("cp=2"),
            "cp = '2': weft has no context parallelism; allowed: 1; to cut sequences over axis x, set "
            "sequence_parallel=true");
  EXPECT_EQ(s.Set("ep=8"), "ep = '8': weft has no expert parallelism, because its models are dense; allowed: 1");
  EXPECT_EQ(s.Set("cp=1"), "");
  EXPECT_EQ(s.Set("ep=1"), "");
  EXPECT_EQ(s.Axes(), "");
}

TEST(ApplySetting, ListsMayStandInBrackets) {
  for (const char* list : {"1,2", "[1,2]", " [ 1, 2 ] "}) {
    Specs s;
    for (const char* field : {"recompute.layers=", "zero.kept_layers=", "partition.layers_per_stage="}) {
      EXPECT_EQ(s.Set(std::string(field) + list), "") << field << list;
    }
    EXPECT_THAT(s.plan.recompute().layers(), testing::ElementsAre(1, 2));
    EXPECT_THAT(s.plan.zero().kept_layers(), testing::ElementsAre(1, 2));
    EXPECT_THAT(s.plan.partition().layers_per_stage(), testing::ElementsAre(1, 2));
    EXPECT_EQ(s.Set("recompute.layers=[ ]"), "");
    EXPECT_EQ(s.plan.recompute().layers_size(), 0);
    for (const char* bad : {"recompute.layers=[1", "recompute.layers=1]", "recompute.layers=[1,]"}) {
      EXPECT_THAT(s.Set(bad), HasSubstr("must be an integer")) << bad;
    }
  }
}

// Text protos follow the same rule.
TEST(ApplySetting, IntegersMayBeHexadecimalButNotOctal) {
  Specs s;
  EXPECT_EQ(s.Set("gbs=0x40"), "");
  EXPECT_EQ(s.recipe.global_batch_sequences(), 64);
  EXPECT_EQ(s.Set("dp=0X10"), "");
  EXPECT_EQ(s.Axes(), "data=16 ");
  EXPECT_EQ(s.Set("recompute.layers=0x1,0x1F"), "");
  EXPECT_THAT(s.plan.recompute().layers(), testing::ElementsAre(1, 31));
  EXPECT_THAT(s.Set("gbs=40x"), HasSubstr("must be an integer of 64 bits"));
  EXPECT_THAT(s.Set("gbs=4f"), HasSubstr("must be an integer of 64 bits"));
  EXPECT_THAT(s.Set("gbs=0x"), HasSubstr("must be an integer of 64 bits"));
  EXPECT_THAT(s.Set("gbs=0100"), HasSubstr("must be an integer of 64 bits without a 0 in front; nearest: 100"));
  EXPECT_THAT(s.Set("dp=08"), HasSubstr("dp = '08' must be an integer of at least 1 without a 0 in front"));
  EXPECT_EQ(s.recipe.global_batch_sequences(), 64);
}

// Neither text protos nor JSON accept a leading plus.
TEST(ApplySetting, NumbersHaveNoPlusInFront) {
  Specs s;
  EXPECT_EQ(s.Set("gbs=+010"),
            "recipe.global_batch_sequences = '+010' must be an integer of 64 bits without a + in front");
  EXPECT_EQ(s.Set("recipe.seed=+1"), "recipe.seed = '+1' must be an integer from 0 to 2^64-1 without a + in front");
  EXPECT_EQ(s.Set("dp=+4"), "dp = '+4' must be an integer of at least 1 without a + in front");
  EXPECT_EQ(s.Set("recompute.layers=1,+2"),
            "plan.recompute.layers = '+2' must be an integer of 32 bits without a + in front");
  EXPECT_EQ(s.Set("recipe.lr.peak=010"), "recipe.lr.peak = '010' must be a finite number without a 0 in front");
  EXPECT_EQ(s.Set("recipe.lr.peak=+0.1"), "recipe.lr.peak = '+0.1' must be a finite number without a + in front");
  EXPECT_EQ(s.recipe.ByteSizeLong(), 0u);
  EXPECT_EQ(s.Axes(), "");
  // An exponent may have a plus.
  EXPECT_EQ(s.Set("recipe.lr.peak=1e+2"), "");
  EXPECT_EQ(s.recipe.lr().peak(), 100);
}

TEST(ApplySetting, RefusesByName) {
  Specs s;
  EXPECT_THAT(s.Set("pp"), HasSubstr("expected NAME=VALUE, got 'pp'"));
  EXPECT_THAT(s.Set("=4"), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(s.Set("pp=0"), HasSubstr("pp = '0' must be an integer of at least 1"));
  EXPECT_THAT(s.Set("pp=four"), HasSubstr("pp = 'four'"));
  EXPECT_THAT(s.Set("dp=99999999999999999999"), HasSubstr("at least 1"));
  EXPECT_THAT(s.Set("shedule=gpipe"), HasSubstr("nearest: 'schedule'"));
  EXPECT_THAT(s.Set("virtul=2"), HasSubstr("nearest: 'virtual'"));
  EXPECT_THAT(s.Set("sequence_length=4"), HasSubstr("'recipe.sequence_length'"));
  EXPECT_THAT(s.Set("recipe.lr.peek=1"), AllOf(HasSubstr("'recipe.lr.peek'"), HasSubstr("nearest: 'peak'")));
  EXPECT_THAT(s.Set("recipe.lr=1"), HasSubstr("recipe.lr has fields of its own; name one of them: peak"));
  EXPECT_THAT(s.Set("recipe.lr.peak.x=1"), HasSubstr("recipe.lr.peak has no fields"));
  EXPECT_THAT(s.Set("recipe.lr.peak=nan"), HasSubstr("recipe.lr.peak = 'nan' must be a finite number"));
  EXPECT_THAT(s.Set("recipe.lr.peak="), HasSubstr("finite number"));
  EXPECT_THAT(s.Set("recipe.lr.peak=1e-400"),
              HasSubstr("'1e-400' must be a number that a double can hold: 0, or a magnitude from"));
  EXPECT_THAT(s.Set("recipe.lr.peak=-1e400"), HasSubstr("a number that a double can hold"));
  EXPECT_THAT(s.Set("recipe.steps=1.5"), HasSubstr("recipe.steps = '1.5' must be an integer of 64 bits"));
  EXPECT_THAT(s.Set("recipe.seed=-1"), HasSubstr("from 0 to 2^64-1"));
  EXPECT_THAT(s.Set("recipe.lr.decay=\xff"), HasSubstr("invalid UTF-8"));
  EXPECT_THAT(s.Set("plan.receive_buffers=3000000000"), HasSubstr("32 bits; nearest: 2147483647"));
  EXPECT_THAT(s.Set("plan.step_barrier=yes"), HasSubstr("true or false"));
  EXPECT_THAT(s.Set("precision.compute=fp31"), HasSubstr("nearest: 'FP32'"));
  // The error names only types that a plan may use.
  EXPECT_THAT(s.Set("precision.compute=FP8"),
              AllOf(HasSubstr("known: FP16, BF16, TF32, FP32, FP64; "), HasSubstr("--runtime=NAME-fp8")));
  EXPECT_THAT(s.Set("precision.params=FP8"), HasSubstr("known: FP16, BF16, FP32, FP64; "));
  EXPECT_THAT(s.Set("gradient_sync=eager_op"), HasSubstr("nearest: 'EAGER_OPT'"));
  EXPECT_THAT(s.Set("schedule.wave=2"), AllOf(HasSubstr("'plan.schedule.wave'"), HasSubstr("nearest: 'waves'")));
  // The error offers only values that a user may give.
  EXPECT_THAT(s.Set("accumulation=sorted"), testing::Not(HasSubstr("UNSPECIFIED")));
  EXPECT_THAT(s.Set("partition.layers_per_stage=3,x"), HasSubstr("'x'"));
  EXPECT_THAT(s.Set("partition.layers_per_stage=3,"), HasSubstr("''"));
  EXPECT_THAT(s.Set("partition.layers_per_stage[0]=3"), HasSubstr("takes no index; give the whole list"));
  EXPECT_THAT(s.Set("mesh.axes[0].size=3"), HasSubstr("the list is empty"));
  EXPECT_THAT(s.Set("mesh.axes.size=3"), HasSubstr("the list is empty"));
  EXPECT_THAT(s.Set("mesh.axes=3"), HasSubstr("name one of them: name, size"));
  EXPECT_THAT(s.Set("mesh.axes[x].size=3"), HasSubstr("NAME[INDEX]"));
  EXPECT_THAT(s.Set("mesh.axes[-1].size=3"), HasSubstr("NAME[INDEX]"));
  EXPECT_THAT(s.Set("mesh.axes[+0].size=3"), HasSubstr("NAME[INDEX]"));
  EXPECT_THAT(s.Set("mesh.axes[00].size=3"), HasSubstr("NAME[INDEX]"));
  EXPECT_THAT(s.Set("recipe.=3"), HasSubstr("unknown field"));
  // None of these settings changed anything.
  EXPECT_EQ(s.recipe.ByteSizeLong(), 0u);
  EXPECT_EQ(s.plan.SerializeAsString(), Plan().SerializeAsString());
}

}  // namespace
}  // namespace weft
