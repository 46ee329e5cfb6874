#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "prefetch/fetch_engine.h"

namespace stoker {

FetchFile::FetchFile(Ufs& ufs, std::string path, FileVersion version, ObjectRef object)
    : ufs_(ufs), path_(std::move(path)), version_(std::move(version)), object_(std::move(object)) {}

FetchFile::~FetchFile() = default;

Result<std::shared_ptr<UfsFile>> FetchFile::Source() {
  {
    MutexLock lock(mu_);
    if (source_ != nullptr) return source_;
  }
  // Outside the lock: this waits on the UFS. Whoever comes second throws his own away.
  Result<std::unique_ptr<UfsFile>> opened = ufs_.OpenFile(path_);
  if (!opened.ok()) {
    switch (opened.status().code()) {
      case Code::kNotFound:
      case Code::kIsADirectory:
      case Code::kNotADirectory:
      case Code::kUnsupported:
        return Status(Code::kStale, "'" + path_ + "' is not in the UFS any more", ESTALE);
      default:
        return opened.status();
    }
  }
  if (!((*opened)->version() == version_)) {
    return Status(Code::kStale, "'" + path_ + "' has another version in the UFS now", ESTALE);
  }
  std::shared_ptr<UfsFile> mine = std::move(opened).value();
  MutexLock lock(mu_);
  if (source_ == nullptr) source_ = mine;
  return source_;
}

void FetchFile::Discard(const std::shared_ptr<UfsFile>& source) {
  std::shared_ptr<UfsFile> last;  // declared first: closed after the lock is gone
  MutexLock lock(mu_);
  if (source_ == source) last = std::exchange(source_, nullptr);
}

bool FetchFile::InHole(const UfsFile& source, ByteRange range) {
  {
    MutexLock lock(mu_);
    if (known_hole_.Contains(range)) return true;
    if (known_data_.begin <= range.begin && range.begin < known_data_.end) return false;
  }
  const Result<uint64_t> data = source.NextData(range.begin);
  if (!data.ok()) return false;
  if (*data > range.begin) {
    MutexLock lock(mu_);
    known_hole_ = {range.begin, *data};
    return *data >= range.end;
  }
  const Result<uint64_t> hole = source.NextHole(range.begin);
  if (hole.ok()) {
    MutexLock lock(mu_);
    known_data_ = {range.begin, *hole};
  }
  return false;
}

}  // namespace stoker
