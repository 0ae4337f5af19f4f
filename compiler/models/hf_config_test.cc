#include "compiler/models/hf_config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::HasSubstr;

std::string Refusal(absl::string_view json) { return std::string(ParseHfConfig(json).status().message()); }

class HfConfigTest : public testing::Test {
 protected:
  HfConfig Config(absl::string_view json, const std::string& path = "") {
    auto parsed = ParseHfConfig(json);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    fields_ = *std::move(parsed);
    return HfConfig(fields_, path);
  }

  template <typename T>
  static std::string Said(const absl::StatusOr<T>& result) {
    return std::string(result.status().message());
  }
  static std::string Said(const absl::Status& status) { return std::string(status.message()); }

  google::protobuf::Struct fields_;
};

TEST_F(HfConfigTest, KeepsEveryKindOfValue) {
  const HfConfig config =
      Config(R"({"n": 1.5, "t": "a", "b": true, "z": null, "l": [1, {"x": 2}], "o": {"i": {"k": "v"}}})");
  EXPECT_EQ(config.Find("n")->number_value(), 1.5);
  EXPECT_EQ(config.Find("t")->string_value(), "a");
  EXPECT_TRUE(config.Find("b")->bool_value());
  EXPECT_EQ(config.Find("z"), nullptr);
  EXPECT_TRUE(config.IsNull("z"));
  EXPECT_FALSE(config.IsNull("y"));
  EXPECT_EQ(config.Find("l")->list_value().values(1).struct_value().fields().at("x").number_value(), 2);
  EXPECT_EQ(config.Find("o")->struct_value().fields().at("i").struct_value().fields().at("k").string_value(), "v");
}

TEST_F(HfConfigTest, RefusesAnythingButAnObjectWithItsPlace) {
  EXPECT_EQ(Refusal("[1]"), "the file must hold a JSON object, but holds an array");
  EXPECT_THAT(Refusal("{\n \"n\": }"), HasSubstr("JSON:2:7: expected a value"));
  EXPECT_THAT(Refusal(R"({"n": 1, "n": 2})"), HasSubstr("'n' is given twice"));
  // Python writes NaN, but it is not JSON.
  EXPECT_THAT(Refusal(R"({"n": NaN})"), HasSubstr("JSON:1:7: expected a value"));
}

TEST_F(HfConfigTest, NumbersThatNoDoubleHoldsAreRefusedByPath) {
  EXPECT_THAT(Refusal(R"({"initializer_range": 1e-400})"),
              HasSubstr("initializer_range = '1e-400'; it is out of range; allowed: 0, or a magnitude from"));
  EXPECT_THAT(Refusal(R"({"o": {"l": [0, 1e999]}})"), HasSubstr("o.l[1] = '1e999'; it is out of range"));
  EXPECT_EQ(Refusal(R"({"n": 0e-400})"), "");
}

TEST_F(HfConfigTest, SizesAreWholeNumbers) {
  const HfConfig config = Config(R"({"one": 1, "most": 16, "half": 0.5, "zero": 0, "more": 17, "text": "4"})", "a.");
  EXPECT_EQ(*config.Size("one", 16, 0), 1);
  EXPECT_EQ(*config.Size("most", 16, 0), 16);
  EXPECT_EQ(*config.Size("absent", 16, 7), 7);
  EXPECT_EQ(Said(config.Size("absent", 16, 0)), "a.absent = (not set); a whole number from 1 to 16 is required");
  for (const char* bad : {"half", "zero", "more", "text"}) EXPECT_THAT(Said(config.Size(bad, 16, 0)), HasSubstr(bad));
}

TEST_F(HfConfigTest, NumbersFlagsAndTextsAreOfTheirKind) {
  const HfConfig config = Config(R"({"n": 0.5, "zero": 0, "one": 1, "yes": true, "text": "gelu"})");
  EXPECT_EQ(*config.Number("n", 0, true, 1, 0), 0.5);
  EXPECT_EQ(*config.Number("zero", 0, false, 1, 9), 0);
  EXPECT_EQ(*config.Number("absent", 0, true, 1, 9), 9);
  EXPECT_EQ(Said(config.Number("zero", 0, true, 1, 9)), "zero = 0; a number in (0, 1) is allowed");
  EXPECT_EQ(Said(config.Number("one", 0, false, 1, 9)), "one = 1; a number in [0, 1) is allowed");
  EXPECT_TRUE(*config.Flag("yes", false));
  EXPECT_FALSE(*config.Flag("absent", false));
  EXPECT_EQ(Said(config.Flag("n", false)), "n = 0.5; true or false is allowed");
  EXPECT_EQ(*config.Text("text", "relu"), "gelu");
  EXPECT_EQ(*config.Text("absent", "relu"), "relu");
  EXPECT_EQ(Said(config.Text("yes", "relu")), "yes = true; a string is allowed");
}

TEST_F(HfConfigTest, NamesAreKnownOrHaveANearest) {
  const HfField own[] = {{"n_layer", HfUse::kRead}};
  EXPECT_EQ(Said(Config(R"({"n_layer": 1, "use_cache": true, "odd": null})").CheckNames(own, "gpt2")), "");
  EXPECT_THAT(Said(Config(R"({"n_layr": 1})").CheckNames(own, "gpt2")),
              HasSubstr("'n_layr' is not a known field of a gpt2 config; did you mean n_layer?"));
  EXPECT_THAT(Said(Config(R"({"quantization_config": {}})").CheckNames(own, "gpt2")),
              HasSubstr("quantized weights cannot be trained"));
  const absl::string_view exact[] = {"factor", "type"};
  EXPECT_EQ(Said(Config(R"({"factor": 2})", "rope.").CheckExactNames(exact)), "");
  EXPECT_EQ(Said(Config(R"({"facter": 2})", "rope.").CheckExactNames(exact)),
            "rope.facter is unknown; known: factor, type; did you mean factor?");
}

TEST_F(HfConfigTest, OneArchitectureAndNoVariants) {
  EXPECT_EQ(Said(Config("{}").CheckArchitecture("A")), "");
  EXPECT_EQ(Said(Config(R"({"architectures": ["A"]})").CheckArchitecture("A")), "");
  EXPECT_THAT(Said(Config(R"({"architectures": ["B"]})").CheckArchitecture("A")), HasSubstr("'A' is supported"));
  EXPECT_THAT(Said(Config(R"({"architectures": ["A", "B"]})").CheckArchitecture("A")),
              HasSubstr("a model must have one"));
  EXPECT_THAT(Said(Config(R"({"architectures": "A"})").CheckArchitecture("A")), HasSubstr("a list is allowed"));
  EXPECT_EQ(Said(Config(R"({"pruned_heads": {}, "chunk_size_feed_forward": 0})").CheckCommonVariants()), "");
  for (const char* variant : {R"({"is_encoder_decoder": true})", R"({"add_cross_attention": true})",
                              R"({"pruned_heads": {"0": [1]}})", R"({"chunk_size_feed_forward": 2})"}) {
    EXPECT_THAT(Said(Config(variant).CheckCommonVariants()), HasSubstr("supported")) << variant;
  }
}

}  // namespace
}  // namespace weft
