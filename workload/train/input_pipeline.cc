#include "workload/train/input_pipeline.h"

#include <algorithm>
#include <utility>

#include "cache/base/check.h"

namespace stoker::bench {

InputPipeline::InputPipeline(PipelineOptions options,
                             std::function<std::vector<uint32_t>(uint64_t)> files_of_pass)
    : options_(options), files_of_pass_(std::move(files_of_pass)) {
  STOKER_CHECK(options.cycle >= 1 && options.batch_size >= 1 && options.in_flight >= 1 &&
               options.shards >= 1);
  files_ = files_of_pass_(0);
  STOKER_CHECK(!files_.empty());
  slots_.resize(std::min<uint64_t>(options.cycle + options.staged, files_.size()));
  if (options.batches > 0) BeginPass();
}

std::optional<InputPipeline::Work> InputPipeline::Wanted(uint64_t slot) const {
  const Slot& mine = slots_[slot];
  if (!mine.has_file || mine.ended || mine.unused >= kRecordsAhead) return std::nullopt;
  return Work{mine.file, mine.opening};
}

void InputPipeline::Found(uint64_t slot, uint64_t records, bool ended) {
  slots_[slot].unused += records;
  slots_[slot].ended = ended;
  Advance();
}

bool InputPipeline::Take() {
  if (!ready()) return false;
  ++handed_out_;
  Advance();
  return true;
}

void InputPipeline::BeginPass() {
  if (passes_ > 0) files_ = files_of_pass_(passes_);
  ++passes_;
  next_file_ = 0;
  pulled_ = 0;
  turn_ = 0;
  cycle_.clear();
  staged_.clear();
  for (uint64_t slot = 0; slot < slots_.size(); ++slot) {
    if (!NextFile(slot)) break;
    if (slot < options_.cycle) {
      cycle_.push_back(slot);
    } else {
      staged_.push_back(slot);
    }
  }
}

bool InputPipeline::NextFile(uint64_t slot) {
  slots_[slot] = Slot();
  if (next_file_ == files_.size()) return false;
  slots_[slot].file = files_[next_file_++];
  slots_[slot].opening = ++openings_;
  slots_[slot].has_file = true;
  return true;
}

uint64_t InputPipeline::BatchesOf(uint64_t pulled, bool pass_ended) const {
  const auto kept = [&](uint64_t records) {
    return records > options_.shard ? (records - options_.shard - 1) / options_.shards + 1 : 0;
  };
  // The buffer gives out one record for each that comes once it is full, and all that is left at the end.
  const auto shuffled = [&](uint64_t records) {
    if (options_.shuffle <= 1 || pass_ended) return records;
    return records >= options_.shuffle ? records - options_.shuffle + 1 : 0;
  };
  return (options_.shard_first ? shuffled(kept(pulled)) : kept(shuffled(pulled))) / options_.batch_size;
}

void InputPipeline::Advance() {
  while (made_ < options_.batches && made_ - handed_out_ < options_.in_flight) {
    if (cycle_.empty()) {  // the pass is over; what is left in the shuffle buffer comes out
      const uint64_t made = std::min(made_before_ + BatchesOf(pulled_, true), options_.batches);
      if (made_ < made) {
        ++made_;
        continue;
      }
      made_before_ = made_;
      BeginPass();
    }
    Slot& slot = slots_[cycle_[turn_]];
    if (slot.unused == 0) {
      if (!slot.ended) return;  // its next chunk must come first
      const uint64_t freed = cycle_[turn_];
      if (!staged_.empty()) {
        cycle_[turn_] = staged_.front();
        staged_.pop_front();
        if (NextFile(freed)) staged_.push_back(freed);
      } else if (!NextFile(freed)) {  // without staged files the slot itself goes on with the next one
        cycle_.erase(cycle_.begin() + static_cast<ptrdiff_t>(turn_));
        if (turn_ == cycle_.size()) turn_ = 0;
      }
      continue;
    }
    // One record each; a single file's may be taken together, up to the next batch.
    uint64_t take = 1;
    if (cycle_.size() == 1) {
      const uint64_t short_of = options_.batch_size * options_.shards;  // never more than a batch at once
      take = std::min(slot.unused, std::max<uint64_t>(1, short_of / 2));
    }
    slot.unused -= take;
    pulled_ += take;
    turn_ = (turn_ + 1) % cycle_.size();
    made_ = std::max(made_, std::min(made_before_ + BatchesOf(pulled_, false), options_.batches));
  }
}

}  // namespace stoker::bench
