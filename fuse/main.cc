#include "cache/base/standard_streams.h"
#include "fuse/cli.h"
#include "fuse/daemon.h"

int main(int argc, char** argv) {
  stoker::OpenStandardStreams();
  return stoker::RunCli(argc, argv, {.run_daemon = stoker::RunDaemon});
}
