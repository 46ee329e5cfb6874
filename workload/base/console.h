#pragma once

#include <string>

namespace stoker::bench {

/// For a process among many: `silent` ones print nothing on stdout, and what all say on stderr begins with
/// `prefix` ("process 3 on host b: "). Before other threads exist.
void SetSpeaker(bool silent, const std::string& prefix);

/// One line on stdout, at once.
void Print(const std::string& text);
/// "WARNING: text" on stderr.
void Warn(const std::string& text);
/// "stoker-bench: text" on stderr; returns `exit_status`, for `return Fail(…)`.
int Fail(const std::string& text, int exit_status);
/// As it stands on stdout, at once; nothing from a silent process.
void PrintRaw(const std::string& text);
/// printf of one number, e.g. Text("%.1f", 2.0).
std::string Text(const char* format, double value);

}  // namespace stoker::bench
