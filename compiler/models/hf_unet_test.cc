#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/models/hf_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/graph_row.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

// A small model that has every kind of block.
constexpr char kConfig[] =
    R"({"model_type": "unet", "image_size": 32, "model_channels": 128, "channel_mult": [1, 2, 2, 2],
    "num_res_blocks": 3, "attention_resolutions": [16, 8], "use_scale_shift_norm": true})";

std::string With(const std::string& fields) {
  return absl::StrReplaceAll(kConfig, {{"\"model_type\"", absl::StrCat(fields, ", \"model_type\"")}});
}
std::string Changed(const std::string& from, const std::string& to) {
  return absl::StrReplaceAll(kConfig, {{from, to}});
}
// Table II of the 4D paper (Singh et al., arXiv:2305.13525) names five models by their channels; section VI has one of
// 50M. Nichol and Dhariwal's model for 32 x 32 images has four levels of (1, 2, 2, 2) times the channels. Its parameter
// counts, listed here, are within a sixth of the sizes in the paper.
TEST(ImportUnet, ParametersOfThePapersModels) {
  const struct {
    int64_t channels;
    double name;
    int64_t parameters;
  } rows[] = {{128, 50e6, 52542979}, {256, 250e6, 209976323}, {416, 500e6, 554270083},
              {512, 1e9, 839514115}, {768, 2e9, 1888613379},  {1024, 4e9, 3357274115}};
  for (const auto& row : rows) {
    const auto graph = ImportHuggingFaceConfig(Changed("128", absl::StrCat(row.channels)), "unet");
    ASSERT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(kernels::ValidateModelGraph(*graph).ok()) << kernels::ValidateModelGraph(*graph);
    EXPECT_EQ(Elements(*graph), row.parameters);
    EXPECT_NEAR(static_cast<double>(row.parameters) / row.name, 1, 1.0 / 6);
  }
}

TEST(ImportUnet, NamesAndShapesAreThePublishedOnes) {
  const auto graph = ImportHuggingFaceConfig(kConfig, "unet");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::pair<const char*, std::vector<int64_t>> expected[] = {
      {"time_embed.0.weight", {512, 128}},
      {"input_blocks.0.0.weight", {128, 3, 3, 3}},
      {"input_blocks.1.0.in_layers.0.weight", {128}},
      {"input_blocks.1.0.in_layers.2.weight", {128, 128, 3, 3}},
      {"input_blocks.1.0.emb_layers.1.weight", {256, 512}},
      {"input_blocks.1.0.out_layers.3.bias", {128}},
      {"input_blocks.4.0.op.weight", {128, 128, 3, 3}},
      {"input_blocks.5.0.skip_connection.weight", {256, 128, 1, 1}},
      {"input_blocks.5.1.qkv.weight", {768, 256, 1}},
      {"middle_block.1.proj_out.weight", {256, 256, 1}},
      {"output_blocks.3.1.conv.weight", {256, 256, 3, 3}},
      {"output_blocks.7.2.conv.weight", {256, 256, 3, 3}},
      {"output_blocks.15.0.in_layers.2.weight", {128, 256, 3, 3}},
      {"out.2.weight", {3, 128, 3, 3}},
  };
  for (const auto& [name, shape] : expected) {
    bool found = false;
    for (const GraphParameter& parameter : graph->parameters()) {
      if (parameter.name() != name) continue;
      found = true;
      EXPECT_EQ(std::vector<int64_t>(parameter.shape().begin(), parameter.shape().end()), shape) << name;
    }
    EXPECT_TRUE(found) << name;
  }
  // 12 residual blocks and 3 convolutions down, 3 layers in the middle, 16 blocks up; embedding and loss.
  EXPECT_EQ(graph->ops(graph->ops_size() - 1).layer(), 1 + 15 + 3 + 16);
}

TEST(ImportUnet, FieldsChangeTheModel) {
  const auto with = [](const std::string& fields) {
    const auto graph = ImportHuggingFaceConfig(With(fields), "unet");
    EXPECT_TRUE(graph.ok()) << graph.status();
    EXPECT_TRUE(graph.ok() && kernels::ValidateModelGraph(*graph).ok());
    return graph.ok() ? *graph : ModelGraph();
  };
  const auto op = [](const ModelGraph& graph, const std::string& name) {
    for (const GraphOp& op : graph.ops()) {
      if (op.name() == name) return op;
    }
    ADD_FAILURE() << "no op " << name;
    return GraphOp();
  };
  const ModelGraph heads = with(R"("num_heads": 2, "num_heads_upsample": 4)");
  EXPECT_EQ(op(heads, "input_blocks.5.1.attention").attributes().heads(), 2);
  EXPECT_EQ(op(heads, "output_blocks.0.0.residual").kind(), "add");
  EXPECT_EQ(op(heads, "output_blocks.5.1.attention").attributes().heads(), 4);
  EXPECT_TRUE(op(heads, "input_blocks.5.1.attention").attributes().qkv_by_head());
  EXPECT_FALSE(op(with(R"("num_heads": 2, "use_new_attention_order": true)"), "input_blocks.5.1.attention")
                   .attributes()
                   .qkv_by_head());
  EXPECT_EQ(op(with(R"("num_head_channels": 64)"), "middle_block.1.attention").attributes().heads(), 4);
  EXPECT_EQ(op(with(R"("dropout": 0.3)"), "out.1").kind(), "silu");
  EXPECT_EQ(op(with(R"("dropout": 0.3)"), "middle_block.0.out_layers.2").attributes().dropout(), 0.3);
  const ModelGraph diffusion =
      with(R"("diffusion_steps": 4000, "noise_schedule": "cosine", "rescale_timesteps": true, "sigma_small": true)");
  EXPECT_TRUE(op(diffusion, "image").attributes().cosine_schedule());
  EXPECT_EQ(op(diffusion, "timesteps").attributes().diffusion_steps(), 4000);
  EXPECT_EQ(op(diffusion, "timestep_embedding").attributes().timestep_scale(), 0.25);
  const auto added = ImportHuggingFaceConfig(Changed("true", "false"), "unet");
  ASSERT_TRUE(added.ok());
  EXPECT_EQ(op(*added, "middle_block.0.add_time").kind(), "add_per_sample");
}

TEST(ImportUnet, RefusesByName) {
  EXPECT_THAT(Error(With(R"("learn_sigma": true)")), HasSubstr("learn_sigma = true; only false"));
  EXPECT_THAT(Error(With(R"("class_cond": true)")), HasSubstr("class_cond = true"));
  EXPECT_THAT(Error(With(R"("num_classes": 10)")), HasSubstr("num_classes = 10; only null"));
  EXPECT_THAT(Error(With(R"("conv_resample": false)")), HasSubstr("conv_resample = false; only true"));
  EXPECT_THAT(Error(With(R"("resblock_updown": true)")), HasSubstr("resblock_updown"));
  EXPECT_THAT(Error(With(R"("dims": 3)")), HasSubstr("dims = 3; only 2"));
  EXPECT_THAT(Error(With(R"("out_channels": 6)")), HasSubstr("out_channels = 6; it must equal in_channels = 3"));
  EXPECT_THAT(Error(With(R"("noise_schedule": "sqrt")")), HasSubstr("noise_schedule = 'sqrt'; 'linear' and 'cosine'"));
  EXPECT_THAT(Error(With(R"("timestep_respacing": "250")")), HasSubstr("timestep_respacing"));
  EXPECT_THAT(Error(With(R"("num_res_block": 3)")), HasSubstr("num_res_block"));
  EXPECT_THAT(Error(With(R"("dropout": 1)")), HasSubstr("dropout"));
  EXPECT_THAT(Error(Changed("32", "36")),
              HasSubstr("image_size = 36; it must be a multiple of 8 for 4 levels; nearest: 32, 40"));
  EXPECT_THAT(Error(Changed("128", "130")), HasSubstr("model_channels = 130"));
  EXPECT_THAT(Error(Changed("128", "130")), HasSubstr("nearest: 128"));
  EXPECT_THAT(Error(Changed("[16, 8]", "[16, 7]")),
              HasSubstr("attention_resolutions = 7; no level has images of this side; the sides are 32, 16, 8, 4"));
  EXPECT_THAT(Error(Changed("[16, 8]", "\"16,8\"")), HasSubstr("attention_resolutions = '16,8'; a list of"));
  EXPECT_THAT(Error(Changed("[1, 2, 2, 2]", "[1, 2.5]")), HasSubstr("channel_mult[1] = 2.5"));
  EXPECT_THAT(Error(With(R"("num_heads": 3)")), HasSubstr("num_heads = 3; it must divide the 256 columns"));
  EXPECT_THAT(Error(R"({"model_type": "unet"})"), HasSubstr("image_size = (not set)"));
  EXPECT_THAT(Error(With(R"("architectures": ["BertModel"])")), HasSubstr("architectures"));
  // Messages escape a line break in a value.
  EXPECT_THAT(Error(With(R"("architectures": ["a\nb"])")), HasSubstr(R"('a\x0ab')"));
  EXPECT_THAT(Error(With(R"("noise_schedule": "a\nb")")), HasSubstr(R"('a\x0ab')"));
  EXPECT_THAT(Error(With(R"("a\nb": 1)")), HasSubstr(R"(a\x0ab is unknown)"));
}

}  // namespace
}  // namespace weft
