#include "tests/golden/golden.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "executor/state/safetensors.h"
#include "proto/util/status.h"

namespace weft {
namespace {

absl::StatusOr<GoldenTensors> ReadTensors(const std::string& path) {
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<exec::SafetensorsReader> reader, exec::SafetensorsReader::Open(path));
  GoldenTensors tensors;
  for (const exec::SafetensorsEntry& entry : reader->entries()) {
    std::vector<std::byte> bytes;
    WEFT_RETURN_IF_ERROR(reader->Read(entry, &bytes));
    int64_t elements = 1;
    for (int64_t extent : entry.shape) elements *= extent;
    std::vector<double>& values = tensors[entry.name];
    values.resize(elements);
    const auto target = absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(double));
    WEFT_RETURN_IF_ERROR(exec::ConvertFloats(entry.dtype, bytes, FP64, target));
  }
  return tensors;
}

std::vector<double> Numbers(const google::protobuf::Value& list) {
  std::vector<double> numbers;
  for (const google::protobuf::Value& value : list.list_value().values()) numbers.push_back(value.number_value());
  return numbers;
}

absl::StatusOr<google::protobuf::Struct> ReadJson(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/golden.json");
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  google::protobuf::Struct json;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text.str(), &json);
  if (!file || !parsed.ok()) return absl::InvalidArgumentError(absl::StrCat(path, ": unreadable or not JSON"));
  return json;
}

std::map<std::string, double> SingleNumbers(const google::protobuf::Struct& json) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : json.fields()) {
    if (value.kind_case() == google::protobuf::Value::kNumberValue) numbers[name] = value.number_value();
  }
  return numbers;
}

}  // namespace

absl::StatusOr<DelayedGolden> LoadDelayedGolden(const std::string& folder, const std::string& name) {
  WEFT_ASSIGN_OR_RETURN(const google::protobuf::Struct json, ReadJson(folder));
  const auto losses = json.fields().find("losses_" + name);
  if (losses == json.fields().end()) return absl::NotFoundError(absl::StrCat(folder, " has no case ", name));
  DelayedGolden golden;
  golden.numbers = SingleNumbers(json);
  golden.losses = Numbers(losses->second);
  WEFT_ASSIGN_OR_RETURN(golden.final, ReadTensors(absl::StrCat(folder, "/final_", name, ".safetensors")));
  return golden;
}

absl::StatusOr<Golden> LoadGolden(const std::string& folder) {
  WEFT_ASSIGN_OR_RETURN(const google::protobuf::Struct json, ReadJson(folder));
  Golden golden;
  golden.numbers = SingleNumbers(json);
  golden.losses_fp32 = Numbers(json.fields().at("losses_fp32"));
  golden.losses_fp64 = Numbers(json.fields().at("losses_fp64"));
  golden.grad_norms_fp32 = Numbers(json.fields().at("grad_norms_fp32"));
  golden.grad_norms_fp64 = Numbers(json.fields().at("grad_norms_fp64"));
  for (const google::protobuf::Value& range : json.fields().at("zero_gradients").list_value().values()) {
    const auto& parts = range.list_value().values();
    golden.zero_gradients.push_back({parts[0].string_value(), static_cast<int64_t>(parts[1].number_value()),
                                     static_cast<int64_t>(parts[2].number_value())});
  }
  WEFT_ASSIGN_OR_RETURN(golden.initial, ReadTensors(folder + "/initial.safetensors"));
  WEFT_ASSIGN_OR_RETURN(golden.gradients, ReadTensors(folder + "/gradients_fp64.safetensors"));
  WEFT_ASSIGN_OR_RETURN(golden.final, ReadTensors(folder + "/final_fp32.safetensors"));
  return golden;
}

double RelativeDistance(const std::string& tensor, const std::vector<double>& a, const std::vector<double>& b,
                        const std::vector<GoldenRange>& left_out) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    bool skip = false;
    for (const GoldenRange& range : left_out) {
      skip |= range.tensor == tensor && static_cast<int64_t>(i) >= range.first && static_cast<int64_t>(i) < range.last;
    }
    if (skip) continue;
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  // The distance is 0 if all nonzero elements are in ranges that are left out.
  if (norm == 0 && difference == 0) return 0;
  return std::sqrt(difference / norm);
}

}  // namespace weft
