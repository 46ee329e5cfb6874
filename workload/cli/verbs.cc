#include "workload/cli/verb.h"
#include "workload/cli/verb_capacity.h"
#include "workload/cli/verb_compare.h"
#include "workload/cli/verb_datagen.h"
#include "workload/cli/verb_datasize.h"
#include "workload/cli/verb_io.h"
#include "workload/cli/verb_mdtest.h"
#include "workload/cli/verb_profiles.h"
#include "workload/cli/verb_report.h"
#include "workload/cli/verb_run.h"

namespace stoker::bench {

Verbs MakeVerbs() {
  Verbs verbs;
  verbs.push_back(std::make_unique<ProfilesVerb>());
  verbs.push_back(std::make_unique<DatasizeVerb>());
  verbs.push_back(std::make_unique<DatagenVerb>());
  verbs.push_back(std::make_unique<RunVerb>());
  verbs.push_back(std::make_unique<CapacityVerb>());
  verbs.push_back(std::make_unique<IoVerb>());
  verbs.push_back(std::make_unique<MdtestVerb>());
  verbs.push_back(std::make_unique<CompareVerb>());
  verbs.push_back(std::make_unique<ReportVerb>());
  return verbs;
}

}  // namespace stoker::bench
