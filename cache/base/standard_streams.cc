#include "cache/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

namespace stoker {

void OpenStandardStreams() {
  // open() takes the lowest free number: the first that is above 2 says that all three are there.
  int fd;
  do {
    fd = ::open("/dev/null", O_RDWR);
  } while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd > STDERR_FILENO) ::close(fd);
}

}  // namespace stoker
