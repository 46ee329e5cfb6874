#include "fuse/cache_protocol.h"

#include <exception>
#include <nlohmann/json.hpp>

#include "fuse/control_protocol.h"

namespace stoker {
namespace {

using Json = nlohmann::ordered_json;
using Kind = CacheJobRequest::Kind;
using State = CacheJobProgress::State;

}  // namespace

std::string_view StateName(State state) {
  switch (state) {
    case State::kDone:
      return "done";
    case State::kFailed:
      return "failed";
    case State::kCancelled:
      return "cancelled";
    default:
      return "running";
  }
}

std::string EncodeCacheRequest(const CacheJobRequest& request) {
  Json json = Json::parse(EncodeWarmRequest(request.paths));
  if (request.bytes_per_second != 0) json["bytes_per_second"] = request.bytes_per_second;
  return json.dump() + "\n";
}

Result<CacheJobRequest> DecodeCacheRequest(Kind kind, std::string_view text) {
  CacheJobRequest request;
  request.kind = kind;
  ASSIGN_OR_RETURN(request.paths, DecodeWarmRequest(text));
  const Json json = Json::parse(text);  // which was decoded just now
  if (!json.contains("bytes_per_second")) return request;
  const Json& rate = json["bytes_per_second"];
  if (kind != Kind::kVerify || !rate.is_number_unsigned() || rate.get<uint64_t>() == 0) {
    return Status(Code::kInvalidArgument,
                  "'bytes_per_second' must be a whole number above 0, and goes with /verify only");
  }
  request.bytes_per_second = rate.get<uint64_t>();
  return request;
}

std::string EncodeCacheProgress(const CacheJobProgress& p) {
  Json json{{"job", p.id},
            {"kind", p.kind == Kind::kEvict ? "evict" : "verify"},
            {"state", StateName(p.state)},
            {"objects_seen", p.objects_seen},
            {"objects_total", p.objects_total},
            {"objects", p.objects},
            {"bytes", p.bytes},
            {"kept_open", p.kept_open},
            {"kept_warming", p.kept_warming},
            {"damaged_parts", p.damaged_parts},
            {"error", p.error},
            {"notes", Json::array()}};
  for (const auto& [path, what] : p.notes) json["notes"].push_back({{"path", path}, {"what", what}});
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<CacheJobProgress> DecodeCacheProgress(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    CacheJobProgress p;
    p.id = json.at("job").get<CacheJobId>();
    p.kind = json.at("kind").get<std::string>() == "evict" ? Kind::kEvict : Kind::kVerify;
    const std::string state = json.at("state").get<std::string>();
    for (const State each : {State::kDone, State::kFailed, State::kCancelled}) {
      if (state == StateName(each)) p.state = each;
    }
    p.objects_seen = json.at("objects_seen").get<uint64_t>();
    p.objects_total = json.at("objects_total").get<uint64_t>();
    p.objects = json.at("objects").get<uint64_t>();
    p.bytes = json.at("bytes").get<uint64_t>();
    p.kept_open = json.at("kept_open").get<uint64_t>();
    p.kept_warming = json.at("kept_warming").get<uint64_t>();
    p.damaged_parts = json.at("damaged_parts").get<uint64_t>();
    p.error = json.at("error").get<std::string>();
    for (const Json& note : json.at("notes")) {
      p.notes.emplace_back(note.at("path").get<std::string>(), note.at("what").get<std::string>());
    }
    return p;
  } catch (const std::exception& error) {
    return Status(Code::kInvalidArgument, std::string("unexpected JSON: ") + error.what());
  }
}

}  // namespace stoker
