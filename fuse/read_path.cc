#include "fuse/read_path.h"

#include <algorithm>
#include <string>
#include <utility>

#include "cache/base/log.h"

namespace stoker {

ByteRange ReadPath::Clip(const FileHandle& handle, uint64_t offset, size_t size) {
  const uint64_t begin = std::min(offset, handle.size());
  return {begin, begin + std::min<uint64_t>(size, handle.size() - begin)};
}

std::optional<ReadReply> ReadPath::Resident(FileHandle& handle, ByteRange range) {
  metrics_.read_requests.Add();
  if (range.empty()) {
    metrics_.read_hits.Add();
    return ReadReply{range, true, nullptr, {}, nullptr};
  }
  const bool resident = handle.cacheable() && handle.file()->object().IsResident(range);
  handle.OnRead(range, !resident, read_ahead_, engine_);
  if (resident) {
    Result<std::shared_ptr<const Fd>> file = handle.file()->object().File();
    if (file.ok()) {
      metrics_.read_hits.Add();
      return ReadReply{range, true, std::move(file).value(), {}, nullptr};
    }
    LogWarn("fuse", "cache file of " + handle.file()->path() + ": " + file.status().ToString() +
                        "; reading from the UFS instead");
  }
  metrics_.read_misses.Add();
  return std::nullopt;
}

uint64_t ReadPath::Fetch(const FileHandle& handle, ByteRange range, Callback done) {
  auto on_bytes = [file = handle.file(), range, done = std::move(done)](Result<FetchedBytes> fetched) {
    if (!fetched.ok()) return done(fetched.status());
    ReadReply reply;
    reply.range = range;
    if (!fetched->resident) {
      reply.pieces = std::move(fetched->pieces);
      reply.keep_alive = std::move(fetched->keep_alive);
      return done(std::move(reply));
    }
    Result<std::shared_ptr<const Fd>> opened = file->object().File();
    if (!opened.ok())
      return done(Status(Code::kCorruption, opened.status().message(), opened.status().os_errno()));
    reply.file = std::move(opened).value();
    done(std::move(reply));
  };
  return engine_.Read(handle.file(), range, std::move(on_bytes));
}

Result<ReadReply> ReadPath::Salvage(const FileHandle& handle, ByteRange range, const CancelToken& cancel) {
  const ObjectRef& object = handle.file()->object();
  LogWarn("fuse", "the cache file of " + handle.file()->path() + " lacks bytes [" +
                      std::to_string(range.begin) + ", " + std::to_string(range.end) +
                      ") that were cached; dropping them and reading from the UFS");
  const uint32_t first = ToInt(object.PartAt(range.begin));
  const uint32_t last = ToInt(object.PartAt(range.end - 1));
  for (uint32_t part = first; part <= last; ++part) store_.DropDamaged(object, PartIndex{part});
  return Direct(handle, range, cancel);
}

Result<ReadReply> ReadPath::Direct(const FileHandle& handle, ByteRange range, const CancelToken& cancel) {
  ASSIGN_OR_RETURN(const std::shared_ptr<UfsFile> source, handle.file()->Source());
  auto bytes = std::make_shared<std::vector<std::byte>>(range.size());
  ASSIGN_OR_RETURN(const size_t got, source->Read(range.begin, *bytes, cancel));
  RETURN_IF_ERROR(source->CheckVersion());
  if (got < bytes->size()) {
    return Status(Code::kStale, handle.file()->path() + " ends before the size of its version");
  }
  ReadReply reply;
  reply.range = range;
  reply.pieces.emplace_back(*bytes);
  reply.keep_alive = std::move(bytes);
  return reply;
}

}  // namespace stoker
