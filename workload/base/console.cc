#include "workload/base/console.h"

#include <cstdio>

namespace stoker::bench {

namespace {

bool silent_process = false;
std::string& Prefix() {
  static std::string prefix;
  return prefix;
}

}  // namespace

void SetSpeaker(bool silent, const std::string& prefix) {
  silent_process = silent;
  Prefix() = prefix;
}

void Print(const std::string& text) {
  PrintRaw(text + "\n");
}

void PrintRaw(const std::string& text) {
  if (silent_process) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void Warn(const std::string& text) {
  std::fflush(stdout);
  std::fputs(("WARNING: " + Prefix() + text + "\n").c_str(), stderr);
}

int Fail(const std::string& text, int exit_status) {
  std::fflush(stdout);
  std::fputs(("stoker-bench: " + Prefix() + text + "\n").c_str(), stderr);
  return exit_status;
}

std::string Text(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace stoker::bench
