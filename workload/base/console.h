#pragma once

#include <string>

namespace stoker::bench {

/// One line on stdout, at once.
void Print(const std::string& text);
/// "WARNING: text" on stderr.
void Warn(const std::string& text);
/// "stoker-bench: text" on stderr; returns `exit_status`, for `return Fail(…)`.
int Fail(const std::string& text, int exit_status);
/// printf of one number, e.g. Text("%.1f", 2.0).
std::string Text(const char* format, double value);

}  // namespace stoker::bench
