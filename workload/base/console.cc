#include "workload/base/console.h"

#include <cstdio>

namespace stoker::bench {

void Print(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void Warn(const std::string& text) {
  std::fflush(stdout);
  std::fputs(("WARNING: " + text + "\n").c_str(), stderr);
}

int Fail(const std::string& text, int exit_status) {
  std::fflush(stdout);
  std::fputs(("stoker-bench: " + text + "\n").c_str(), stderr);
  return exit_status;
}

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace stoker::bench
