// A disk that misbehaves when told to: a FUSE file system that passes everything through to a directory, but
// for the calls that a rule (rules.h) picks.
//
//     fault_fs BACKING MOUNTPOINT CONTROL_SOCKET [--power-loss]
//
// In the foreground until it is unmounted, or told by SIGTERM. One command a line on the socket, one line of
// answer:
//   add RULE        the rule's number
//   remove N        (0: all)
//   report          JSON, the rules and how often each fired
//   powerloss SEED  what became of the unsynced writes; needs --power-loss, and nobody who writes meanwhile
//   ping
// An answer that begins with "error:" says why nothing was done. With the end of the process all that hangs
// is released.

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "tests/fault_fs/operations.h"

namespace stoker::testing {
namespace {

std::string Answer(Disk& disk, const std::string& line) {
  const size_t space = line.find(' ');
  const std::string verb = line.substr(0, space),
                    rest = space == std::string::npos ? "" : line.substr(space + 1);
  if (verb == "ping") return "pong";
  if (verb == "report") return disk.rules.Report();
  if (verb == "remove") {
    disk.rules.Remove(std::atoi(rest.c_str()));
    return "done";
  }
  if (verb == "powerloss") {
    return disk.log ? disk.log->PowerLoss(std::strtoull(rest.c_str(), nullptr, 10))
                    : "error: started without --power-loss";
  }
  if (verb == "add") {
    std::string why;
    const int id = disk.rules.Add(rest, &why);
    return id != 0 ? std::to_string(id) : "error: " + why;
  }
  return "error: there is no command '" + verb + "'";
}

/// One client at a time; a command that is cut short is no command.
void Serve(Disk& disk, int listener) {
  for (;;) {
    const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    FILE* const stream = ::fdopen(client, "r+");
    char* line = nullptr;
    size_t room = 0;
    while (::getline(&line, &room, stream) > 0) {
      std::string text = line;
      if (text.back() != '\n') break;
      text.pop_back();
      const std::string answer = Answer(disk, text) + "\n";
      if (::send(client, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) break;
    }
    std::free(line);
    std::fclose(stream);
  }
}

int Listen(const char* path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return -1;
  std::strcpy(address.sun_path, path);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return -1;  // NOLINT
  return ::listen(fd, 16) == 0 ? fd : -1;
}

}  // namespace

int Main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: fault_fs BACKING MOUNTPOINT CONTROL_SOCKET [--power-loss]\n");
    return 2;
  }
  const int root = ::open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
  const int listener = Listen(argv[3]);
  if (root < 0 || listener < 0) {
    std::perror("fault_fs");
    return 1;
  }
  ::umask(0);
  Disk disk(root);
  if (argc > 4 && std::strcmp(argv[4], "--power-loss") == 0) disk.log.emplace();
  // SIGTERM ends the loop only when no handler waits: a thread of its own takes it, and lets them go first.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  const char* options[] = {"fault_fs", "-oallow_other,default_permissions,fsname=fault_fs,subtype=fault_fs"};
  fuse_args args = FUSE_ARGS_INIT(2, const_cast<char**>(options));
  const fuse_lowlevel_ops ops = Operations();
  fuse_session* const session = fuse_session_new(&args, &ops, sizeof ops, &disk);
  if (session == nullptr || fuse_session_mount(session, argv[2]) != 0) return 1;
  std::thread([&] { Serve(disk, listener); }).detach();
  std::thread([&] {
    int number = 0;
    sigwait(&signals, &number);
    disk.rules.Close();
    fuse_session_exit(session);
    fuse_session_unmount(session);  // wakes the loop
  }).detach();
  fuse_loop_config* const config = fuse_loop_cfg_create();
  fuse_loop_cfg_set_max_threads(config, 64);  // so many calls may hang before the others do
  fuse_session_loop_mt(session, config);
  disk.rules.Close();
  fuse_session_unmount(session);
  // The detached threads use what is on this stack: no destructors.
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace stoker::testing

int main(int argc, char** argv) {
  return stoker::testing::Main(argc, argv);
}
