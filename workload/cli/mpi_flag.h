#pragma once

#include <string>

#include "cache/base/result.h"
#include "workload/comm/launcher.h"

namespace CLI {
class App;
}

namespace stoker::bench {

/// --mpi, of the verbs that several processes can share.
class MpiFlag {
 public:
  void AddTo(CLI::App& app);
  /// kInvalidArgument: the message lists what is allowed.
  Result<MpiChoice> Choice() const { return ParseMpiChoice("--mpi", text_); }

 private:
  std::string text_ = "auto";
};

}  // namespace stoker::bench
