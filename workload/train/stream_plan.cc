#include "workload/train/stream_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cache/base/units.h"
#include "workload/train/sampler.h"

namespace stoker::bench {
namespace {

bool FilesAreShared(const StreamJob& job) {
  return job.loop != Edition::kV05 && job.files >= job.ranks;
}

}  // namespace

PipelineOptions PipelineOf(const StreamJob& job, uint64_t rank) {
  PipelineOptions out;
  out.batch_size = job.batch_size;
  out.in_flight = std::max<uint64_t>(1, job.prefetch + job.computation_threads);
  out.shuffle = job.shuffle;
  const uint64_t samples = job.files * job.samples_per_file;
  if (job.loop == Edition::kV05) {
    out.batches = samples / (job.ranks * job.batch_size);
  } else {
    out.cycle = job.read_threads;
    out.staged = 2 * job.read_threads;
    out.batches = job.epochs * CeilDiv(samples, job.ranks * job.batch_size);
  }
  if (!FilesAreShared(job)) {
    out.shards = job.ranks;
    out.shard = rank;
    out.shard_first = job.loop == Edition::kV05;
  }
  return out;
}

std::function<std::vector<uint32_t>(uint64_t)> FilesOf(const StreamJob& job, uint64_t rank) {
  return [job, rank](uint64_t pass) {
    std::vector<uint32_t> all;
    if (job.loop == Edition::kV05 ? job.file_shuffle : job.order == AccessOrder::kV1) {
      all = ShuffledUnits(job.files, job.seed, job.loop == Edition::kV05 ? 1 : pass + 1);
    } else {
      all.resize(job.files);
      std::iota(all.begin(), all.end(), 0u);
    }
    if (!FilesAreShared(job)) return all;
    std::vector<uint32_t> mine;
    mine.reserve(CeilDiv(job.files, job.ranks));
    for (uint64_t i = rank; i < job.files; i += job.ranks) mine.push_back(all[i]);
    return mine;
  };
}

uint64_t StreamThreads(const StreamJob& job) {
  const PipelineOptions pipeline = PipelineOf(job, 0);
  const uint64_t files = FilesAreShared(job) ? CeilDiv(job.files, job.ranks) : job.files;
  return std::min(pipeline.cycle + pipeline.staged, files);
}

}  // namespace stoker::bench
