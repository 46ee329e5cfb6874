#include "fuse/cli.h"
#include "fuse/daemon.h"

int main(int argc, char** argv) {
  return stoker::RunCli(argc, argv, {.run_daemon = stoker::RunDaemon});
}
