#include "workload/base/rules.h"

#include "cache/base/spelling.h"
#include "workload/base/name_table.h"

namespace stoker::bench {
namespace {

constexpr NameTable<Edition, 4> kEditions{
    {{Edition::kV05, "v0.5"}, {Edition::kV10, "v1.0"}, {Edition::kV20, "v2.0"}, {Edition::kV30, "v3.0"}}};
constexpr NameTable<AccessOrder, 3> kOrders{
    {{AccessOrder::kV1, "v1"}, {AccessOrder::kV2, "v2"}, {AccessOrder::kV3, "v3"}}};
constexpr NameTable<ReadShape, 3> kShapes{
    {{ReadShape::kNpz, "npz"}, {ReadShape::kWhole, "whole"}, {ReadShape::kODirect, "odirect"}}};
constexpr NameTable<ResultsLayout, 3> kLayouts{
    {{ResultsLayout::kFlat, "flat"}, {ResultsLayout::kV2, "v2.0"}, {ResultsLayout::kV3, "v3.0"}}};
constexpr NameTable<CacheControl, 2> kControls{
    {{CacheControl::kNone, "none"}, {CacheControl::kFadvise, "fadvise"}}};

}  // namespace

Result<Edition> ParseEdition(std::string_view flag, std::string_view text) {
  return ParseName(kEditions, flag, text);
}
Result<AccessOrder> ParseAccessOrder(std::string_view flag, std::string_view text) {
  return ParseName(kOrders, flag, text);
}
Result<ReadShape> ParseReadShape(std::string_view flag, std::string_view text) {
  return ParseName(kShapes, flag, text);
}
Result<ResultsLayout> ParseResultsLayout(std::string_view flag, std::string_view text) {
  return ParseName(kLayouts, flag, text);
}
Result<CacheControl> ParseCacheControl(std::string_view flag, std::string_view text) {
  return ParseName(kControls, flag, text);
}

std::string_view Name(Edition edition) {
  return NameIn(kEditions, edition);
}
std::string_view Name(AccessOrder order) {
  return NameIn(kOrders, order);
}
std::string_view Name(ReadShape shape) {
  return NameIn(kShapes, shape);
}
std::string_view Name(ResultsLayout layout) {
  return NameIn(kLayouts, layout);
}
std::string_view Name(CacheControl control) {
  return NameIn(kControls, control);
}

Rules RulesOf(Edition edition) {
  Rules rules;
  rules.datasize = rules.file_layout = rules.loop = rules.metric = rules.results = edition;
  switch (edition) {
    case Edition::kV05:
      // Its sampler draws a new global permutation each epoch, which is what order v1 does; it loads x and y.
      rules.order = AccessOrder::kV1;
      rules.read_shape = ReadShape::kNpz;
      rules.read_labels = true;
      rules.results_layout = ResultsLayout::kFlat;
      rules.cache_control = CacheControl::kNone;
      break;
    case Edition::kV10:
      rules.order = AccessOrder::kV1;
      rules.read_shape = ReadShape::kNpz;
      rules.results_layout = ResultsLayout::kFlat;
      rules.cache_control = CacheControl::kNone;
      break;
    case Edition::kV20:
      rules.order = AccessOrder::kV2;
      rules.read_shape = ReadShape::kNpz;
      rules.results_layout = ResultsLayout::kV2;
      rules.cache_control = CacheControl::kNone;
      break;
    case Edition::kV30:
      // The public tool empties the whole machine's page cache before each epoch, as root. Giving back each
      // file's pages right after it was read leaves the same state at the next epoch and needs no rights.
      rules.order = AccessOrder::kV3;
      rules.read_shape = ReadShape::kWhole;
      rules.results_layout = ResultsLayout::kV3;
      rules.cache_control = CacheControl::kFadvise;
      break;
  }
  return rules;
}

const std::vector<Edition>& AllEditions() {
  static const std::vector<Edition> all = {Edition::kV05, Edition::kV10, Edition::kV20, Edition::kV30};
  return all;
}

std::string Join(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) {
    if (!out.empty()) out += ", ";
    out += item;
  }
  return out;
}

std::string NotOneOf(std::string_view what, std::string_view value, const std::vector<std::string>& allowed) {
  std::string out(what);
  out += ": \"";
  out += value;
  out += "\" is not one of " + Join(allowed);
  const std::string near = NearestSpelling(value, allowed);
  if (!near.empty()) out += "; did you mean \"" + near + "\"?";
  return out;
}

}  // namespace stoker::bench
