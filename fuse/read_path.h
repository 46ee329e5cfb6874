#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cache/base/cancel.h"
#include "cache/base/fd.h"
#include "cache/base/metrics.h"
#include "cache/base/result.h"
#include "cache/base/units.h"
#include "cache/store/object_store.h"
#include "fuse/file_handle.h"
#include "prefetch/fetch_engine.h"

namespace stoker {

/// The bytes of one READ: either in memory (`pieces`, in order, alive as long as `keep_alive`), or in the
/// cache file
/// (`file` is set) at `range`, from where they go to the kernel without passing through the daemon.
struct ReadReply {
  ByteRange range;
  bool hit = false;  // the bytes were resident when they were asked for
  std::shared_ptr<const Fd> file;
  std::vector<std::span<const std::byte>> pieces;
  std::shared_ptr<const void> keep_alive;
};

/// Byte range → hit or fetch → reply. The one place that decides what is a hit. Whatever the cache does wrong
/// ends in bytes from the UFS, not in an error. Any thread.
class ReadPath {
 public:
  using Callback = std::function<void(Result<ReadReply>)>;

  ReadPath(ObjectStore& store, FetchEngine& engine, const ReadAheadOptions& read_ahead, Metrics& metrics)
      : store_(store), engine_(engine), read_ahead_(read_ahead), metrics_(metrics) {}

  /// The answer when it needs no fetch: all bytes resident, or none asked for. Counts the request, hit or
  /// miss, and lets the read-ahead see it. Never waits on the UFS.
  std::optional<ReadReply> Resident(FileHandle& handle, ByteRange range);
  /// REQUIRES that Resident() said no and that the handle is cacheable. Asks the engine; returns its ticket.
  /// kCorruption to `done`: fetched, but the cache file cannot be opened (see Salvage).
  uint64_t Fetch(const FileHandle& handle, ByteRange range, Callback done);
  /// The cache file did not give bytes that are said to be resident: forgets the parts of `range` and gets
  /// the bytes without trusting the cache file again. May wait on the cache disk and the UFS.
  Result<ReadReply> Salvage(const FileHandle& handle, ByteRange range, const CancelToken& cancel);
  /// From the UFS, past the cache. May wait on the UFS.
  Result<ReadReply> Direct(const FileHandle& handle, ByteRange range, const CancelToken& cancel);

  /// [offset, offset+size) cut at the end of the file.
  static ByteRange Clip(const FileHandle& handle, uint64_t offset, size_t size);

 private:
  ObjectStore& store_;
  FetchEngine& engine_;
  const ReadAheadOptions read_ahead_;
  Metrics& metrics_;
};

}  // namespace stoker
