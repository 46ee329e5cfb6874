#pragma once

namespace stoker {

/// Opens /dev/null as standard input, output or error where the process was started without it. Otherwise the
/// next file opened would get that number, and console output would land in it. For the start of main(),
/// before anything is opened; a failure is not reported, as there is nowhere to report it.
void OpenStandardStreams();

}  // namespace stoker
