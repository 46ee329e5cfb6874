#include "workload/cli/result_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <filesystem>

#include "cache/base/fd.h"

namespace stoker::bench {

Status CheckResultFile(const std::string& flag, const std::string& path) {
  if (path.empty()) return Status::Ok();
  struct stat info {};
  if (::lstat(path.c_str(), &info) == 0) {
    return Status(Code::kAlreadyExists,
                  flag + ": " + path + " exists; results are never overwritten: choose another name");
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string folder = parent.empty() ? std::string(".") : parent;
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return Status::FromErrno(errno, flag + ": folder " + folder);
  return Status::Ok();
}

Status WriteResultFile(const std::string& path, const std::string& text) {
  const std::string partial = path + ".part";
  {
    Fd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd.valid()) return Status::FromErrno(errno, "writing " + partial);
    for (size_t done = 0; done < text.size();) {
      const ssize_t wrote = ::write(fd.get(), text.data() + done, text.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return Status::FromErrno(errno, "writing " + partial);
      done += static_cast<size_t>(wrote);
    }
    if (::fsync(fd.get()) != 0) return Status::FromErrno(errno, "writing " + partial);
  }
  // link() fails when the name exists by now; rename() would replace it.
  const int error = ::link(partial.c_str(), path.c_str()) != 0 ? errno : 0;
  ::unlink(partial.c_str());
  return error == 0 ? Status::Ok() : Status::FromErrno(error, "writing " + path);
}

}  // namespace stoker::bench
