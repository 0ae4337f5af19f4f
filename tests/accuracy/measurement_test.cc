#include "tests/accuracy/measurement.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char kRun[] = R"([{"id": "r1", "family": "f", "source": "s", "group": "g", "notes": "n", "core": true, "tags": [],
  "model": {"layers": 4, "hidden": 64, "heads": 2, "kv_heads": 2, "ffn_hidden": 256, "vocab": null, "seq_len": 128,
            "params_b": 0.1, "kind": "dense-gpt"},
  "cluster": {"gpu": "A100-80GB", "gpus": 8, "gpus_per_node": 8, "intra_node_link": "NVLink", "inter_node_link": null},
  "plan": {"tp": 2, "pp": 2, "dp": 2, "cp": 1, "ep": 1, "vpp": 1, "schedule": "1f1b", "micro_batch": 1,
           "global_batch": 16, "zero_stage": 0, "recompute": "full", "sequence_parallel": false,
           "precision": "bf16", "offload": null},
  "plan_extra": {"attention_kernel": "FlashAttention", "tp_overlap": true, "n": 3, "none": null},
  "measured": {"iteration_s": null, "mfu": 0.5, "peak_memory_gb": 3.5, "oom": false},
  "derived": {"iteration_s": 1.5, "tokens_per_s_per_gpu": 7, "rounding_rel": 0.01, "iteration_from": "x"}}])";

std::string Error(const std::string& from, const std::string& to) {
  const std::string text = absl::StrReplaceAll(kRun, {{from, to}});
  EXPECT_NE(text, kRun) << from;
  const auto read = ParseMeasurements(text, "f.json");
  EXPECT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->runs.size(), 1u);
  EXPECT_NE(read->runs[0].unreadable, "") << to;
  EXPECT_EQ(read->runs[0].unreadable.find('\n'), std::string::npos);
  return read->runs[0].unreadable;
}

TEST(Measurements, ReadsARun) {
  const auto read = ParseMeasurements(kRun, "f.json");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->runs.size(), 1u);
  EXPECT_TRUE(read->unread.empty());
  const Measurement& run = read->runs[0];
  EXPECT_EQ(run.id, "r1");
  EXPECT_TRUE(run.core);
  EXPECT_EQ(run.model.layers, 4);
  EXPECT_FALSE(run.model.vocabulary);
  EXPECT_EQ(run.model.billions, 0.1);
  EXPECT_EQ(run.machine.gpu, "A100-80GB");
  EXPECT_EQ(run.machine.inter_node_link, "");
  EXPECT_EQ(run.plan.zero_stage, 0);
  EXPECT_EQ(run.plan.sequence_parallel, false);
  EXPECT_EQ(run.extra.at("attention_kernel"), "FlashAttention");
  EXPECT_EQ(run.extra.at("tp_overlap"), "true");
  EXPECT_EQ(run.extra.at("n"), "3");
  EXPECT_EQ(run.extra.count("none"), 0u);
  // If no time is printed, the derived time is used.
  EXPECT_EQ(run.seconds, 1.5);
  EXPECT_EQ(run.tokens_per_second_per_gpu, 7);
  EXPECT_EQ(run.rounding, 0.01);
  EXPECT_EQ(run.peak_memory_gb, 3.5);
  EXPECT_EQ(run.out_of_memory, false);
}

TEST(Measurements, PrintedTimeGoesFirst) {
  const auto read =
      ParseMeasurements(absl::StrReplaceAll(kRun, {{"\"iteration_s\": null", "\"iteration_s\": 2"}}), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->runs[0].seconds, 2);
}

TEST(Measurements, RefusesByRunAndField) {
  EXPECT_EQ(Error("\"layers\": 4", "\"layers\": 4.5"),
            "model.layers = 4.5 in line 2; allowed: a whole number from 1 to 2^40, or null");
  EXPECT_THAT(Error("\"heads\": 2, \"kv", "\"heads\": 0, \"kv"), HasSubstr("model.heads = 0"));
  EXPECT_THAT(Error("\"tp\": 2", "\"tp\": \"2\""), HasSubstr("plan.tp = '2'"));
  EXPECT_THAT(Error("\"zero_stage\": 0", "\"zero_stage\": -1"), HasSubstr("zero_stage = -1"));
  EXPECT_THAT(Error("\"sequence_parallel\": false", "\"sequence_parallel\": 0"), HasSubstr("sequence_parallel = 0"));
  EXPECT_THAT(Error("\"gpu\": \"A100-80GB\"", "\"gpu\": null"), HasSubstr("cluster.gpu is missing"));
  EXPECT_THAT(Error("\"iteration_s\": 1.5", "\"iteration_s\": -1.5"), HasSubstr("derived.iteration_s = -1.5"));
  EXPECT_THAT(Error("\"iteration_s\": 1.5", "\"iteration_s\": 1e999"), HasSubstr("iteration_s = 1e999"));
  EXPECT_THAT(Error("\"oom\": false", "\"oom\": \"no\""), HasSubstr("measured.oom = 'no'"));
  EXPECT_THAT(Error("\"n\": 3", "\"n\": [3]"), HasSubstr("plan_extra.n = an array"));
  EXPECT_THAT(Error("\"id\": \"r1\"", "\"id\": \"\""), HasSubstr("id = ''"));
  EXPECT_THAT(Error("\"plan\": {", "\"plan\": 3, \"x\": {"), HasSubstr("plan = 3"));
  EXPECT_THAT(Error("\"family\": \"f\", ", ""), HasSubstr("family is missing"));
  // A misspelled field is an error.
  EXPECT_THAT(Error("\"micro_batch\"", "\"micro_bacth\""), HasSubstr("nearest: 'micro_batch'"));
  EXPECT_THAT(std::string(ParseMeasurements("{}", "f").status().message()), HasSubstr("not a list of runs"));
}

TEST(Measurements, OneRunThatCannotBeReadLeavesTheOthers) {
  const std::string second =
      absl::StrReplaceAll(std::string(kRun + 1), {{"\"r1\"", "\"r2\""}, {"\"tp\": 2", "\"tp\": true"}});
  const std::string three = absl::StrCat("[3,\n{},\n", absl::StrReplaceAll(std::string(kRun + 1), {{"}}]", "}},"}}),
                                         absl::StrReplaceAll(second, {{"}}]", "}},"}}), kRun + 1);
  const auto read = ParseMeasurements(three, "f");
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->runs.size(), 5u);
  EXPECT_EQ(read->runs[0].id, "runs[0]");
  EXPECT_EQ(read->runs[0].unreadable, "line 1 holds a number; it must be an object");
  EXPECT_EQ(read->runs[1].id, "runs[1]");
  EXPECT_THAT(read->runs[1].unreadable, HasSubstr("id is missing"));
  EXPECT_EQ(read->runs[2].unreadable, "");
  EXPECT_EQ(read->runs[3].id, "r2");
  EXPECT_EQ(read->runs[3].family, "f");
  EXPECT_THAT(read->runs[3].unreadable, HasSubstr("plan.tp = true"));
  EXPECT_FALSE(read->runs[3].seconds);
  // A repeated id is made distinct.
  EXPECT_EQ(read->runs[4].id, "r1 (runs[4])");
  EXPECT_EQ(read->runs[4].unreadable, "its id is that of an earlier run");
}

TEST(Measurements, ASlipIsOfANameThatIsAbsent) {
  const auto unread = [](const char* from, const char* to) {
    const auto read = ParseMeasurements(absl::StrReplaceAll(kRun, {{from, to}}), "f");
    EXPECT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(read->runs[0].unreadable, "");
    return read->unread;
  };
  EXPECT_THAT(unread("\"micro_batch\": 1", "\"micro_batches\": 8, \"micro_batch\": 1"),
              ElementsAre("plan.micro_batches"));
  // `measured` may contain any other quantity, so its unknown members do not count as misspellings.
  EXPECT_THAT(unread("\"mfu\": 0.5", "\"tokens_per_s\": 5"), ElementsAre("measured.tokens_per_s"));
}

TEST(Measurements, FieldsHaveOtherNames) {
  const auto read = [](const char* from, const char* to) {
    const auto runs = ParseMeasurements(absl::StrReplaceAll(kRun, {{from, to}}), "f");
    EXPECT_TRUE(runs.ok() && runs->unread.empty()) << runs.status();
    EXPECT_EQ(runs->runs[0].unreadable, "");
    return runs->runs[0];
  };
  EXPECT_EQ(read("\"micro_batch\": 1", "\"micro_batch_size\": 3").plan.micro_batch, 3);
  EXPECT_EQ(read("\"tp\": 2", "\"tp\": null, \"tensor_parallel_size\": 5").plan.tp, 5);
  EXPECT_EQ(read("\"layers\": 4", "\"num_layers\": 6").model.layers, 6);
  // If several names are given, their values must be equal.
  EXPECT_EQ(read("\"tp\": 2", "\"tp\": 2, \"tensor_parallel\": 2.0").plan.tp, 2);
  EXPECT_EQ(Error("\"tp\": 2", "\"tp\": 2, \"tensor_parallel\": 5"),
            "plan.tp = 2 and plan.tensor_parallel = 5 in line 5; allowed: one value, they are names of one field");
}

TEST(Measurements, AYesOrNoIsAWord) {
  const auto read = ParseMeasurements(absl::StrReplaceAll(kRun, {{"\"offload\": null", "\"offload\": false"}}), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->runs[0].plan.offload, "false");
}

TEST(Measurements, OtherRates) {
  const auto read = ParseMeasurements(absl::StrReplaceAll(kRun, {{"\"mfu\": 0.5", "\"samples_per_s\": 5"}}), "f");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->runs[0].samples_per_second, 5);
  EXPECT_FALSE(read->runs[0].states_flops);
  EXPECT_TRUE(ParseMeasurements(kRun, "f")->runs[0].states_flops);
}

TEST(Measurements, OtherMembersAreListed) {
  const auto read =
      ParseMeasurements(absl::StrReplaceAll(kRun, {{"\"gpus\": 8", "\"coolant\": 1, \"gpus\": 8"}}), "f.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(read->unread, ElementsAre("cluster.coolant"));
}

TEST(RankingSets, ReadAndRefused) {
  const auto read = ParseRankingSets(
      R"([{"group": "g", "strict": true, "metric": "mfu", "ids_best_to_worst": ["a", "b"], "values": [2, 1.5]}])", "r");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT((*read)[0].ids, ElementsAre("a", "b"));
  EXPECT_THAT((*read)[0].values, ElementsAre(2, 1.5));
  const auto error = [](const char* ids, const char* values) {
    const std::string text =
        absl::StrCat(R"([{"group": "g", "metric": "mfu", "ids_best_to_worst": )", ids, ", \"values\": ", values, "}]");
    const auto sets = ParseRankingSets(text, "r");
    EXPECT_TRUE(sets.ok()) << sets.status();
    EXPECT_EQ((*sets)[0].group, "g");
    EXPECT_TRUE((*sets)[0].ids.empty());
    return (*sets)[0].unreadable;
  };
  EXPECT_THAT(error("[\"a\"]", "[]"), HasSubstr("values has 0 entries"));
  EXPECT_THAT(error("[\"a\", \"a\"]", "[1, 1]"), HasSubstr("ids_best_to_worst[1] = 'a'"));
  EXPECT_THAT(error("[\"a\"]", "[0]"), HasSubstr("values[0] = 0"));
  EXPECT_THAT(error("3", "[]"), HasSubstr("ids_best_to_worst = 3"));
}

TEST(FittedSource, IsAFixedHash) {
  // FNV-1a hashes of these names: af63dc4c8601ec8c, 85944171f73967e8, 08985907b541d342.
  EXPECT_FALSE(IsFittedSource("a"));
  EXPECT_FALSE(IsFittedSource("foobar"));
  EXPECT_TRUE(IsFittedSource("fo"));
}

}  // namespace
}  // namespace weft
