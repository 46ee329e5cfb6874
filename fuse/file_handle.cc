#include "fuse/file_handle.h"

#include <utility>

namespace stoker {

FileHandle::FileHandle(NodeId node, ServeMode mode, std::shared_ptr<FetchFile> file, Metrics& metrics)
    : node_(node), mode_(mode), file_(std::move(file)), metrics_(metrics) {
  metrics_.open_handles.Add();
}

FileHandle::~FileHandle() {
  metrics_.open_handles.Sub();
}

void FileHandle::OnRead(ByteRange range, bool stalled, const ReadAheadOptions& options, FetchEngine& engine) {
  if (!options.enabled || !cacheable()) return;
  std::shared_ptr<ReadAhead> read_ahead;
  {
    MutexLock lock(mu_);
    if (read_ahead_ == nullptr) {
      if (file_->object().complete()) return;
      read_ahead_ = std::make_shared<ReadAhead>(options, engine, file_, metrics_);
    }
    read_ahead = read_ahead_;
  }
  read_ahead->OnRead(range, stalled);
}

}  // namespace stoker
