#include "verifier/evaluation.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "proto/util/units.h"
#include "verifier/completeness.h"
#include "verifier/range_set.h"

namespace weft::verify {
namespace {

// Checks that evaluation has the same recipe, sizes and dtypes as training, and no dropout, so that it measures the
// model that is trained.
void CheckEvaluationFigures(const Program& program, const Program& evaluation, Findings* findings) {
  const auto same = [&](const char* field, const auto& got, const auto& want) {
    if (got != want) findings->Add("P13.evaluation", "evaluation.", field, " is ", got, ", but ", want, " in training");
  };
  const Recipe &ours = evaluation.recipe(), &theirs = program.recipe();
  same("recipe.sequence_length", ours.sequence_length(), theirs.sequence_length());
  same("recipe.microbatch_sequences", ours.microbatch_sequences(), theirs.microbatch_sequences());
  same("recipe.global_batch_sequences", ours.global_batch_sequences(), theirs.global_batch_sequences());
  same("microbatches", evaluation.microbatches(), program.microbatches());
  same("stages", evaluation.stages(), program.stages());
  same("vocabulary", evaluation.vocabulary(), program.vocabulary());
  same("image_size", evaluation.image_size(), program.image_size());
  same("image_channels", evaluation.image_channels(), program.image_channels());
  const Precision &p = evaluation.precision(), &q = program.precision();
  same("precision.compute", DTypeName(p.compute()), DTypeName(q.compute()));
  same("precision.params", DTypeName(p.params()), DTypeName(q.params()));
  same("precision.grads", DTypeName(p.grads()), DTypeName(q.grads()));
  same("precision.reduce", DTypeName(p.reduce()), DTypeName(q.reduce()));
  same("precision.master", DTypeName(p.master()), DTypeName(q.master()));
  same("precision.moments", DTypeName(p.moments()), DTypeName(q.moments()));
  if (ours.dropout() != 0) {
    findings->Add("P13.evaluation", "evaluation.recipe.dropout is ", ours.dropout(), "; it must be 0");
  }
  for (const Segment& segment : evaluation.segments()) {
    for (const Step& step : segment.steps()) {
      if (step.attributes().dropout() == 0) continue;
      findings->Add("P13.evaluation", "evaluation segment '", segment.name(), "', step '", step.name(),
                    "': dropout is ", step.attributes().dropout(), "; it must be 0");
    }
  }
}

bool SharesBytes(const Buffer& a, const Buffer& b) {
  return a.place() == b.place() && a.offset() < b.offset() + b.bytes() && b.offset() < a.offset() + a.bytes();
}

}  // namespace

void CheckEvaluation(const Program& program, Findings* findings) {
  const Program& evaluation = program.evaluation();
  const auto same = [](const auto& a, const auto& b) { return a.SerializeAsString() == b.SerializeAsString(); };
  if (evaluation.has_evaluation())
    findings->Add("P13.evaluation", "the evaluation program must not have an evaluation program of its own");
  if (IsTraining(evaluation))
    findings->Add("P13.evaluation", "the evaluation program must not hold actions or buffers of training");
  if (!same(program.mesh(), evaluation.mesh()))
    findings->Add("P13.evaluation", "the evaluation program must have the mesh of the training program");
  if (program.templates_size() != evaluation.templates_size()) {
    findings->Add("P13.evaluation", "the evaluation program has ", evaluation.templates_size(),
                  " templates, but the training program has ", program.templates_size());
  }
  if (!std::equal(program.tensors().begin(), program.tensors().end(), evaluation.tensors().begin(),
                  evaluation.tensors().end(), [](const LogicalTensor& a, const LogicalTensor& b) {
                    return a.name() == b.name() && std::equal(a.padded_shape().begin(), a.padded_shape().end(),
                                                              b.padded_shape().begin(), b.padded_shape().end());
                  })) {
    findings->Add("P13.evaluation", "the evaluation program must have the tensors of the training program");
  }
  CheckEvaluationFigures(program, evaluation, findings);
  if (!findings->empty()) return;
  for (int i = 0; i < program.templates_size() && !findings->full(); ++i) {
    const Template& train = program.templates(i);
    const Template& eval = evaluation.templates(i);
    const auto bad = [&](const auto&... parts) {
      findings->Add("P13.evaluation", "evaluation template '", eval.name(), "': ", parts...);
    };
    if (!std::equal(train.pins().begin(), train.pins().end(), eval.pins().begin(), eval.pins().end(), same)) {
      bad("its pins differ from those of training template '", train.name(), "'");
      continue;
    }
    std::map<std::tuple<int, int, int>, int> by_role;
    // Bytes of training's persistent buffers, by place.
    RangeSet kept[2];
    // Bytes of all of training's buffers, by place. Training may overwrite them between two evaluations.
    RangeSet used[2];
    for (int b = 0; b < train.buffers_size(); ++b) {
      const Buffer& buffer = train.buffers(b);
      used[buffer.place()].Add(buffer.offset(), buffer.offset() + buffer.bytes());
      if (!buffer.persistent()) continue;
      if (buffer.role() != NO_ROLE) by_role[{buffer.role(), buffer.tensor(), buffer.use()}] = b;
      kept[buffer.place()].Add(buffer.offset(), buffer.offset() + buffer.bytes());
    }
    for (int b = 0; b < eval.buffers_size() && !findings->full(); ++b) {
      const Buffer& buffer = eval.buffers(b);
      const auto it = by_role.find({buffer.role(), buffer.tensor(), buffer.use()});
      if (buffer.role() != NO_ROLE && it != by_role.end()) {
        const Buffer& other = train.buffers(it->second);
        if (buffer.offset() != other.offset() || buffer.bytes() != other.bytes() || buffer.place() != other.place() ||
            buffer.dtype() != other.dtype()) {
          bad(DescribeBuffer(eval, b), " is not at the place of ", DescribeBuffer(train, it->second), " in training");
        } else if (!same(buffer.shard(), other.shard())) {
          bad(DescribeBuffer(eval, b), " holds another part of its tensor than ", DescribeBuffer(train, it->second),
              " in training");
        }
        continue;
      }
      const int64_t begin = buffer.offset(), end = buffer.offset() + buffer.bytes();
      const auto first_of_training = [&](bool persistent_only) {
        for (int k = 0; k < train.buffers_size(); ++k) {
          if (persistent_only && !train.buffers(k).persistent()) continue;
          if (SharesBytes(train.buffers(k), buffer)) return DescribeBuffer(train, k);
        }
        return std::string("a buffer");
      };
      if (buffer.role() == PARAM) {
        bad(DescribeBuffer(eval, b), " is a parameter that the training program does not keep here");
      } else if (kept[buffer.place()].Overlaps(begin, end)) {
        bad(DescribeBuffer(eval, b), " overwrites ", first_of_training(true), " of training");
      } else if (buffer.persistent() && used[buffer.place()].Overlaps(begin, end)) {
        bad(DescribeBuffer(eval, b), " is persistent, but ", first_of_training(false), " of training overwrites it");
      }
    }
  }
}

}  // namespace weft::verify
