#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "cache/base/metrics.h"
#include "cache/base/mutex.h"
#include "fuse/inode_table.h"
#include "prefetch/read_ahead.h"

namespace stoker {

using HandleId = uint64_t;

/// One open file: which version it reads, and what its reader is likely to ask for next. Shared by its table
/// and by the reads under way, which may outlive the close. Any thread.
class FileHandle {
 public:
  /// `file` is null for an empty file; without an object in it the bytes come straight from the UFS.
  FileHandle(NodeId node, ServeMode mode, std::shared_ptr<FetchFile> file, Metrics& metrics);
  ~FileHandle();
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;

  NodeId node() const { return node_; }
  ServeMode mode() const { return mode_; }
  uint64_t size() const { return file_ == nullptr ? 0 : file_->version().size; }
  /// REQUIRES size() > 0.
  const std::shared_ptr<FetchFile>& file() const { return file_; }
  bool cacheable() const { return file_ != nullptr && static_cast<bool>(file_->object()); }

  /// Tells the read-ahead about one READ. Whole objects need none.
  void OnRead(ByteRange range, bool stalled, const ReadAheadOptions& options, FetchEngine& engine)
      EXCLUDES(mu_);

 private:
  const NodeId node_;
  const ServeMode mode_;
  const std::shared_ptr<FetchFile> file_;
  Metrics& metrics_;
  Mutex mu_;
  std::shared_ptr<ReadAhead> read_ahead_
      GUARDED_BY(mu_);  // made at the first read that needs it; called without mu_
};

}  // namespace stoker
