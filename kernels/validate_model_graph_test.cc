#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/graph_row.h"
#include "proto/validate/validate_test_util.h"

namespace weft::kernels {
namespace {

using ::testing::HasSubstr;

// A graph with every kind of op on tokens. The table is tied: the embedding and the head share it.
const char kGraph[] = R"(
  name: "m" vocabulary: 50 maximum_positions: 16 loss: "loss"
  parameters { name: "wte" shape: [50, 8] init { normal: 0.02 } vocabulary_rows: true }
  parameters { name: "wpe" shape: [16, 8] init { normal: 0.02 } }
  parameters { name: "g" shape: 8 init { constant: 1 } }
  parameters { name: "b" shape: 8 init { constant: 0 } }
  parameters { name: "w" shape: [8, 24] init { normal: 0.02 } }
  parameters { name: "wb" shape: 24 init { constant: 0 } }
  parameters { name: "types" shape: [2, 8] init { normal: 0.02 } }
  parameters { name: "rg" shape: 8 init { constant: 1 } }
  parameters { name: "wq" shape: [8, 8] init { normal: 0.02 } }
  parameters { name: "wk" shape: [8, 4] init { normal: 0.02 } }
  ops { name: "tokens" kind: "tokens" outputs: "ids" }
  ops { name: "e" kind: "embedding" inputs: ["ids", "wte"] outputs: "e" }
  ops { name: "p" kind: "position_embedding" inputs: "wpe" outputs: "p" }
  ops { name: "x" kind: "add" inputs: ["e", "p"] outputs: "x" }
  ops { name: "n" kind: "layer_norm" inputs: ["x", "g", "b"] outputs: "n" layer: 1 attributes { epsilon: 1e-5 } }
  ops { name: "qkv" kind: "matmul" inputs: ["n", "w", "wb"] outputs: "qkv" layer: 1 }
  ops { name: "a" kind: "attention" inputs: "qkv" outputs: "a" layer: 1 attributes { heads: 2 causal: true } }
  ops { name: "d" kind: "dropout" inputs: "a" outputs: "d" layer: 1 attributes { dropout: 0.1 } }
  ops { name: "act" kind: "gelu" inputs: "d" outputs: "act" layer: 1 attributes { tanh_approximation: true } }
  ops { name: "type" kind: "type_embedding" inputs: "types" outputs: "type" layer: 1 }
  ops { name: "gate" kind: "swiglu" inputs: ["act", "type"] outputs: "gate" layer: 1 }
  ops { name: "rms" kind: "rms_norm" inputs: ["gate", "rg"] outputs: "rms" layer: 1 attributes { epsilon: 1e-6 } }
  ops { name: "query" kind: "matmul" inputs: ["rms", "wq"] outputs: "query" layer: 1 }
  ops { name: "key" kind: "matmul" inputs: ["rms", "wk"] outputs: "key" layer: 1 }
  ops { name: "turn" kind: "rope" inputs: "query" outputs: "turned" layer: 1 attributes {
    head_size: 4 base: 10000 factor: 8 ramp_low: 1 ramp_high: 4 ramp_positions: 512 magnitude: 1.5 } }
  ops { name: "group" kind: "attention" inputs: ["turned", "key", "key"] outputs: "group" layer: 1 attributes {
    heads: 2 kv_heads: 1 causal: true window: 4 } }
  ops { name: "head" kind: "matmul" inputs: ["group", "wte"] outputs: "logits" layer: 2
      attributes { transpose_b: true } }
  ops { name: "targets" kind: "targets" outputs: "targets" layer: 2 }
  ops { name: "loss" kind: "cross_entropy" inputs: ["logits", "targets"] outputs: "loss" layer: 2 }
)";

// A graph with every kind of op on images of 4 x 4 pixels, which are halved and doubled again.
const char kImages[] = R"(
  name: "u" image_size: 4 image_channels: 3 loss: "loss"
  parameters { name: "wt" shape: [6, 16] init { normal: 0.02 } }
  parameters { name: "in" shape: [8, 3, 3, 3] init { normal: 0.02 } }
  parameters { name: "g" shape: 8 init { constant: 1 } }
  parameters { name: "b" shape: 8 init { constant: 0 } }
  parameters { name: "down" shape: [8, 8, 3, 3] init { normal: 0.02 } }
  parameters { name: "qkv" shape: [24, 8, 1] init { normal: 0.02 } }
  parameters { name: "out" shape: [3, 16, 3, 3] init { constant: 0 } }
  parameters { name: "ob" shape: 3 init { constant: 0 } }
  parameters { name: "wa" shape: [6, 8] init { normal: 0.02 } }
  ops { name: "times" kind: "timesteps" outputs: "times" attributes { diffusion_steps: 10 } }
  ops { name: "time" kind: "timestep_embedding" inputs: "times" outputs: "time" attributes {
    columns: 6 timestep_scale: 2 } }
  ops { name: "t" kind: "silu" inputs: "time" outputs: "t" }
  ops { name: "s" kind: "matmul" inputs: ["t", "wt"] outputs: "s" }
  ops { name: "x" kind: "noisy_image" outputs: "x" attributes { diffusion_steps: 10 cosine_schedule: true } }
  ops { name: "c" kind: "conv2d" inputs: ["x", "in"] outputs: "c" }
  ops { name: "n" kind: "group_norm" inputs: ["c", "g", "b"] outputs: "n" attributes { groups: 4 epsilon: 1e-5 } }
  ops { name: "m" kind: "scale_shift" inputs: ["n", "s"] outputs: "m" }
  ops { name: "ta" kind: "matmul" inputs: ["t", "wa"] outputs: "ta" }
  ops { name: "h" kind: "add_per_sample" inputs: ["m", "ta"] outputs: "h" }
  ops { name: "d" kind: "conv2d" inputs: ["h", "down"] outputs: "d" attributes { stride: 2 } }
  ops { name: "q" kind: "conv2d" inputs: ["d", "qkv"] outputs: "q" }
  ops { name: "a" kind: "attention" inputs: "q" outputs: "a" attributes { heads: 2 qkv_by_head: true } }
  ops { name: "up" kind: "upsample" inputs: "a" outputs: "up" }
  ops { name: "j" kind: "concat" inputs: ["up", "c"] outputs: "j" }
  ops { name: "y" kind: "conv2d" inputs: ["j", "out", "ob"] outputs: "y" }
  ops { name: "noise" kind: "noise" outputs: "noise" }
  ops { name: "loss" kind: "squared_error" inputs: ["y", "noise"] outputs: "loss" }
)";

// Fields that only a model of images sets.
const std::set<std::string>& ImageFields() {
  static const auto* fields = new std::set<std::string>{"image_size",
                                                        "image_channels",
                                                        "ops.attributes.columns",
                                                        "ops.attributes.cosine_schedule",
                                                        "ops.attributes.diffusion_steps",
                                                        "ops.attributes.groups",
                                                        "ops.attributes.qkv_by_head",
                                                        "ops.attributes.stride",
                                                        "ops.attributes.timestep_scale"};
  return *fields;
}

TEST(ValidateModelGraph, AcceptsEveryKind) {
  for (const char* text : {kGraph, kImages}) {
    const absl::Status status = ValidateModelGraph(Parse<ModelGraph>(text));
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(ValidateModelGraph, RefusesEveryBadField) {
  const std::vector<Bad> table = {
      {"name", "name: \"\"", "model_graph.name is missing"},
      {"vocabulary", "vocabulary: 0", "model_graph.vocabulary = 0 must be at least 1"},
      {"vocabulary", "vocabulary: 9223372036854775807", "model_graph.vocabulary"},
      {"vocabulary", "vocabulary: 51", "model_graph.parameters[0].shape[0] = 50 must be model_graph.vocabulary = 51"},
      {"maximum_positions", "maximum_positions: -1", "model_graph.maximum_positions = -1"},
      {"maximum_positions", "maximum_positions: 17", "model_graph.maximum_positions = 17 must be from 1 to 16"},
      {"maximum_positions", "maximum_positions: 0", "model_graph.maximum_positions = 0 must be from 1 to 16"},
      {"loss", "loss: \"\"", "model_graph.loss is missing"},
      {"loss", "loss: \"logits\"",
       "model_graph.loss = 'logits' must be the output of a cross_entropy or squared_error op"},
      {"parameters.name", "parameters[1].name=wte", "model_graph.parameters[1].name = 'wte' is taken"},
      {"parameters.name", "parameters[1].name=", "model_graph.parameters[1].name is missing"},
      {"parameters.shape", "parameters[4].shape=8,0", "model_graph.parameters[4].shape[1] = 0 must be at least 1"},
      {"parameters.shape", "parameters[4].shape=", "must have one to four dimensions"},
      {"parameters.shape", "parameters[4].shape=8,1,1,1,3", "must have one to four dimensions"},
      {"parameters.shape", "parameters[4].shape=8,8,8",
       "(matmul 'qkv').inputs[1] = 'w' has shape [8, 8, 8]; it must have shape [8, n]"},
      {"parameters.shape", "parameters[4].shape=2000000000,2000000000", "elements of model_graph.parameters[4]"},
      {"parameters.shape", "parameters[4].shape=9,24",
       "(matmul 'qkv').inputs[1] = 'w' has shape [9, 24]; it must have shape [8, n]"},
      {"parameters.shape", "parameters[5].shape=23",
       "(matmul 'qkv').inputs[2] = 'wb' has shape [23]; it must have shape [24]"},
      {"parameters.shape", "parameters[2].shape=8,1", "(layer_norm 'n').inputs[1] = 'g' has shape [8, 1]"},
      {"parameters.shape", "parameters[3].shape=9", "(layer_norm 'n').inputs[2] = 'b' has shape [9]"},
      {"parameters.shape", "parameters[1].shape=16,7", "(add 'x').inputs[1] = 'p' has 7 columns; it must have 8"},
      {"parameters.shape", "parameters[1].shape=16", "(position_embedding 'p').inputs[0] = 'wpe' has shape [16]"},
      {"parameters.init.normal", "parameters[0].init.normal=-1", "model_graph.parameters[0].init.normal = -1"},
      {"parameters.init.normal", "parameters { name: \"q\" shape: 1 init { normal: nan } }", "init.normal = nan"},
      {"parameters.init.constant", "parameters { name: \"q\" shape: 1 init { constant: inf } }", "init.constant = inf"},
      {"parameters.init.constant", "parameters { name: \"q\" shape: 1 }", "model_graph.parameters[10].init is missing"},
      {"parameters.vocabulary_rows", "parameters[1].vocabulary_rows=true", "because vocabulary_rows is true"},
      {"parameters.name", "parameters { name: \"q\" shape: 1 init { normal: 0 } }", "= 'q' is read by no op"},
      {"ops.name", "ops[2].name=", "model_graph.ops[2].name is missing"},
      {"ops.name", "ops[2].name=e", "model_graph.ops[2].name = 'e' is taken by model_graph.ops[1]"},
      {"ops.kind", "ops[8].kind=gleu", "model_graph.ops[8].kind = 'gleu' is unknown; nearest: 'gelu'"},
      {"ops.inputs", "ops[3].inputs=e", "(add 'x').inputs has 1 names; add takes 2"},
      {"ops.inputs", "ops[5].inputs=n", "(matmul 'qkv').inputs has 1 names; matmul takes 2 or 3"},
      {"ops.inputs", "ops[5].inputs=m,w", "inputs[0] = 'm' is neither a parameter nor the output of an earlier op"},
      {"ops.inputs", "ops[6].inputs=qvk", "nearest: 'qkv'"},
      {"ops.inputs", "ops[3].inputs=e,logits", "'logits' is neither a parameter nor the output of an earlier op"},
      {"ops.inputs", "ops[1].inputs=wpe,wte", "'wpe' is a parameter; it must be the ids of a tokens op"},
      {"ops.inputs", "ops[18].inputs=logits,ids",
       "'ids' is the ids of a tokens op; it must be the ids of a targets op"},
      {"ops.inputs", "ops[8].inputs=a", "= 'd' is read by no op"},
      {"ops.inputs", "ops[1].inputs=ids,wpe", "must have shape [model_graph.vocabulary = 50, columns]"},
      {"ops.inputs", "ops[18].inputs=act,targets", "'act' has 8 columns; it must have model_graph.vocabulary = 50"},
      {"ops.outputs", "ops[3].outputs=", "(add 'x').outputs has 0 names; it must have 1"},
      {"ops.outputs", "ops[3].outputs=x,y", "(add 'x').outputs has 2 names; it must have 1"},
      {"ops.outputs", "ops[3].outputs=e", "(add 'x').outputs[0] = 'e' is taken"},
      {"ops.outputs", "ops[3].outputs=w", "(add 'x').outputs[0] = 'w' is taken by model_graph.parameters[4]"},
      {"ops.layer", "ops[0].layer=1", "(tokens 'tokens').layer = 1 must be 0"},
      {"ops.layer", "ops[4].layer=2", "(layer_norm 'n').layer = 2 must be 0 or 1"},
      {"ops.layer", "ops[6].layer=0", "(attention 'a').layer = 0 must be 1 or 2"},
      {"ops.layer", "ops[6].layer=-1", "(attention 'a').layer = -1 must be"},
      {"ops.attributes.transpose_b", "ops[16].attributes.transpose_b=false",
       "(matmul 'head').inputs[1] = 'wte' has shape [50, 8]; it must have shape [8, n]"},
      {"ops.attributes.transpose_b", "ops[3].attributes.transpose_b=true",
       "(add 'x').attributes.transpose_b is no attribute of add; it has none"},
      {"ops.attributes.epsilon", "ops[4].attributes.epsilon=0", "(layer_norm 'n').attributes.epsilon = 0"},
      {"ops.attributes.heads", "ops[6].attributes.heads=3", "it must have a multiple of 3 * heads = 9 columns"},
      {"ops.attributes.heads", "ops[6].attributes.heads=0", "(attention 'a').attributes.heads = 0 must be at least 1"},
      {"ops.attributes.heads", "ops[6].attributes.heads=9223372036854775807", "attributes.heads = 92233"},
      {"ops.attributes.causal", "ops[7].attributes.causal=true", "causal is no attribute of dropout; known: dropout"},
      {"ops.attributes.scale", "ops[6].attributes.scale=-1", "(attention 'a').attributes.scale = -1"},
      {"ops.attributes.dropout", "ops[7].attributes.dropout=1", "(dropout 'd').attributes.dropout = 1"},
      {"ops.attributes.dropout", "ops[6].attributes.dropout=-0.5", "(attention 'a').attributes.dropout = -0.5"},
      {"ops.attributes.tanh_approximation", "ops[7].attributes.tanh_approximation=true", "is no attribute of dropout"},
      {"parameters.shape", "parameters[7].shape=9", "(rms_norm 'rms').inputs[1] = 'rg' has shape [9]"},
      {"parameters.shape", "parameters[6].shape=16", "(type_embedding 'type').inputs[0] = 'types' has shape [16]"},
      {"parameters.shape", "parameters[6].shape=2,7",
       "(swiglu 'gate').inputs[1] = 'type' has 7 columns; it must have 8"},
      {"parameters.shape", "parameters[9].shape=8,5",
       "(attention 'group').inputs[1] = 'key' has 5 columns; it must have 4"},
      {"ops.inputs", "ops[15].inputs=turned,key", "attention takes 1 or 3"},
      {"ops.attributes.epsilon", "ops[11].attributes.epsilon=-1", "(rms_norm 'rms').attributes.epsilon = -1"},
      {"ops.attributes.heads", "ops[15].attributes.heads=3",
       "'turned' has 8 columns; it must have a multiple of heads = 3"},
      {"ops.attributes.kv_heads", "ops[15].attributes.kv_heads=0", "kv_heads = 0 must be a divisor of heads = 2"},
      {"ops.attributes.kv_heads", "ops[6].attributes.kv_heads=2", "kv_heads = 2 must be 0 unless k and v"},
      {"ops.attributes.window", "ops[15].attributes.window=-1", "attributes.window = -1"},
      {"ops.attributes.window", "ops[15].attributes.causal=false", "attributes.window = 4 needs causal: true"},
      {"ops.attributes.head_size", "ops[14].attributes.head_size=3", "attributes.head_size = 3 must be even"},
      {"ops.attributes.head_size", "ops[14].attributes.head_size=6", "a multiple of head_size = 6 columns"},
      {"ops.attributes.head_size", "ops[14].attributes.head_size=0", "attributes.head_size = 0 must be at least 2"},
      {"ops.attributes.base", "ops[14].attributes.base=1", "attributes.base = 1 must be above 1"},
      {"ops.attributes.factor", "ops[14].attributes.factor=-1", "attributes.factor = -1"},
      {"ops.attributes.factor", "ops[14].attributes.factor=0", "ramp_positions need a factor"},
      {"ops.attributes.ramp_low", "ops[14].attributes.ramp_low=4", "ramp_low = 4 must be below ramp_high = 4"},
      {"ops.attributes.ramp_high", "ops[14].attributes.ramp_high=0.5", "must be below ramp_high = 0.5"},
      {"ops.attributes.ramp_positions", "ops[14].attributes.ramp_positions=-2", "attributes.ramp_positions = -2"},
      {"ops.attributes.magnitude", "ops[14].attributes.magnitude=-2", "attributes.magnitude = -2"},
      {"ops.attributes.dynamic_positions", "ops[14].attributes.dynamic_positions=8", "and no dynamic_positions"},
      {"ops.attributes.masked_fraction", "ops[0].attributes.masked_fraction=1.5",
       "masked_fraction = 1.5 must be from 0"},
      {"ops.attributes.masked_fraction", "ops[17].attributes.masked_fraction=0.5",
       "must be those of 'tokens', 0 and 0"},
      {"ops.attributes.mask_token", "ops[0].attributes.mask_token=50", "mask_token = 50"},
      {"ops.attributes.mask_token", "ops[0].attributes.mask_token=3", "mask_token = 3 must be 0 where masked_fraction"},
      {"ops.kind", "ops { name: \"z\" kind: \"gelu\" inputs: \"x\" outputs: \"z\" layer: 2 }", "comes after the loss"},
  };
  CheckTable<ModelGraph>(Parse<ModelGraph>(kGraph), table, ImageFields(),
                         [](ModelGraph* g) { return ValidateModelGraph(*g); });
  EXPECT_THAT(std::string(ValidateModelGraph(Parse<ModelGraph>("name: \"m\" vocabulary: 5")).message()),
              HasSubstr("model_graph.ops is empty"));
}

TEST(ValidateModelGraph, RefusesEveryBadFieldOfImages) {
  const std::vector<Bad> table = {
      {"image_size", "image_size: -1", "model_graph.image_size = -1 must be"},
      {"image_size", "image_size: 9223372036854775807", "model_graph.image_size = 92233"},
      {"image_size", "image_size: 0", "model_graph.image_channels = 3"},
      {"image_size", "image_size: 3",
       "(concat 'j').inputs[1] = 'c' has 3 x 3 positions per sample; it must have 4 x 4"},
      {"image_channels", "image_channels: 0", "model_graph.image_channels = 0 must be"},
      {"image_channels", "image_channels: 4",
       "(conv2d 'c').inputs[1] = 'in' has shape [8, 3, 3, 3]; it must have shape [outputs, 4, k, k]"},
      {"vocabulary", "vocabulary: 5", "model_graph.vocabulary = 5"},
      {"loss", "loss: \"y\"", "model_graph.loss = 'y' must be the output of a cross_entropy or squared_error op"},
      {"parameters.shape", "parameters[1].shape=8,3,2,2", "with an odd k"},
      {"parameters.shape", "parameters[1].shape=8,3,3,1", "with an odd k"},
      {"parameters.shape", "parameters[1].shape=8,3,4097,4097", "with an odd k"},
      {"parameters.shape", "parameters[5].shape=24,8,3", "or [outputs, 8, 1]"},
      {"parameters.shape", "parameters[7].shape=4", "(conv2d 'y').inputs[2] = 'ob' has shape [4]"},
      {"parameters.shape", "parameters[2].shape=7", "(group_norm 'n').inputs[1] = 'g' has shape [7]"},
      {"parameters.shape", "parameters[0].shape=6,15", "(scale_shift 'm').inputs[1] = 's' has 15 columns"},
      {"parameters.shape", "parameters[8].shape=6,9", "(add_per_sample 'h').inputs[1] = 'ta' has 9 columns"},
      {"ops.inputs", "ops[7].inputs=n,n", "(scale_shift 'm').inputs[1] = 'n' has 8 columns; it must have 16"},
      {"ops.inputs", "ops[9].inputs=m,n",
       "(add_per_sample 'h').inputs[1] = 'n' has 4 x 4 positions per sample; it must have one row per sample"},
      {"ops.inputs", "ops[17].inputs=y,up", "(squared_error 'loss').inputs[1] = 'up' has 8 columns; it must have 3"},
      {"ops.inputs", "ops[1].inputs=wt", "'wt' is a parameter; it must be the times of a timesteps op"},
      {"ops.kind", "ops[16].kind=tokens", "(tokens 'noise') is of tokens, but the model's samples are images"},
      {"ops.kind", "ops[2].kind=silo", "nearest: 'silu'"},
      {"ops.attributes.diffusion_steps", "ops[0].attributes.diffusion_steps=0",
       "(timesteps 'times').attributes.diffusion_steps = 0"},
      {"ops.attributes.diffusion_steps", "ops[4].attributes.diffusion_steps=9223372036854775807",
       "(noisy_image 'x').attributes.diffusion_steps = 92233"},
      {"ops.attributes.cosine_schedule", "ops[0].attributes.cosine_schedule=true",
       "cosine_schedule is no attribute of timesteps; known: diffusion_steps"},
      {"ops.attributes.columns", "ops[1].attributes.columns=1", "(timestep_embedding 'time').attributes.columns = 1"},
      {"ops.attributes.columns", "ops[1].attributes.columns=9223372036854775807", "attributes.columns = 92233"},
      {"ops.attributes.timestep_scale", "ops[1].attributes.timestep_scale=-1", "attributes.timestep_scale = -1"},
      {"ops.attributes.groups", "ops[6].attributes.groups=0", "(group_norm 'n').attributes.groups = 0"},
      {"ops.attributes.groups", "ops[6].attributes.groups=3", "groups = 3 must be a divisor of the 8 columns"},
      {"ops.attributes.epsilon", "ops[6].attributes.epsilon=0", "(group_norm 'n').attributes.epsilon = 0"},
      {"ops.attributes.stride", "ops[10].attributes.stride=-1", "(conv2d 'd').attributes.stride = -1"},
      {"ops.attributes.stride", "ops[10].attributes.stride=4097", "(conv2d 'd').attributes.stride = 4097"},
      {"ops.attributes.stride", "ops[10].attributes.stride=4", "(concat 'j').inputs[1] = 'c' has 4 x 4 positions"},
      {"ops.attributes.stride", "ops[13].attributes.stride=2", "stride is no attribute of upsample; it has none"},
      {"ops.attributes.qkv_by_head", "ops[13].attributes.qkv_by_head=true", "is no attribute of upsample"},
  };
  std::set<std::string> free;
  LeafFields(*ModelGraph::descriptor(), "", &free);
  for (const std::string& field : ImageFields()) free.erase(field);
  CheckTable<ModelGraph>(Parse<ModelGraph>(kImages), table, free, [](ModelGraph* g) { return ValidateModelGraph(*g); });
}

TEST(ValidateModelGraph, HeadsOfSeparateInputsAreNotSideBySide) {
  ModelGraph graph = Parse<ModelGraph>(kGraph);
  graph.mutable_ops(15)->mutable_attributes()->set_qkv_by_head(true);
  EXPECT_THAT(std::string(ValidateModelGraph(graph).message()), HasSubstr("qkv_by_head must be false"));
}

TEST(ValidateModelGraph, OpsOnImagesNeedImages) {
  ModelGraph graph = Parse<ModelGraph>(kGraph);
  graph.mutable_ops(12)->set_kind("conv2d");
  EXPECT_THAT(std::string(ValidateModelGraph(graph).message()),
              HasSubstr("needs images, but model_graph.image_size is 0"));
}

}  // namespace
}  // namespace weft::kernels
