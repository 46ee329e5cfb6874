#include "workload/io/lustre.h"

#include <sys/statfs.h>
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "workload/base/child_output.h"

namespace stoker::bench {
namespace {

constexpr long kLustreMagic = 0x0bd00bd0;  // LL_SUPER_MAGIC: what statfs says of a Lustre client mount

std::string FindLfs() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = folder + "/lfs";
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

}  // namespace

bool CanStripe(const std::string& file, std::string& why) {
  const std::string parent = std::filesystem::path(file).parent_path().string();
  const std::string folder = parent.empty() ? std::string(".") : parent;
  struct statfs fs {};
  if (::statfs(folder.c_str(), &fs) != 0 || fs.f_type != kLustreMagic) {
    why = folder + " is not on Lustre";
    return false;
  }
  if (FindLfs().empty()) {
    why = "the lfs command is not in PATH";
    return false;
  }
  return true;
}

std::vector<std::string> StripeCommand(const LustreStriping& striping, const std::string& file) {
  std::vector<std::string> command{"lfs", "setstripe"};
  if (striping.count != 0) command.insert(command.end(), {"-c", std::to_string(striping.count)});
  if (striping.size_bytes != 0) command.insert(command.end(), {"-S", std::to_string(striping.size_bytes)});
  if (striping.start >= 0) command.insert(command.end(), {"-i", std::to_string(striping.start)});
  command.push_back(file);
  return command;
}

Status CreateStriped(const LustreStriping& striping, const std::string& file) {
  std::vector<std::string> command = StripeCommand(striping, file);
  command[0] = FindLfs();
  const std::string what = "lfs setstripe " + file;
  const Result<ChildOutput> done = RunChild(command, std::chrono::minutes(1));
  if (!done.ok()) return Status(done.status().code(), what + ": " + done.status().message());
  if (done->exit_status != 0) {
    return Status(Code::kIo, what + ": status " + std::to_string(done->exit_status) + " " + done->err);
  }
  return Status::Ok();
}

}  // namespace stoker::bench
