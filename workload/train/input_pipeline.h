#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace stoker::bench {

struct PipelineOptions {
  uint64_t cycle = 1;       // files whose records are taken in turn
  uint64_t staged = 0;      // more files that are opened, and read into, before their turn
  uint64_t batch_size = 1;  // records
  uint64_t batches = 0;     // the stream ends after so many
  uint64_t in_flight = 1;   // batches made and not handed out, at most
  uint64_t shuffle = 0;     // records that the shuffle buffer holds before it gives one out; 0: there is none
  uint64_t shards = 1;      // of all records read, every shards-th is kept …
  uint64_t shard = 0;       // … beginning with this one
  bool shard_first = true;  // before the shuffle buffer; else behind it
};

/// What a TensorFlow input pipeline over record files does, without doing it: which file is read by whom,
/// when the next read is due, how many batches are made. Pure (no I/O, no threads, no clock), so that the
/// loader (stream_loader.h) and the tests share one meaning.
///
/// The records of `cycle` files are taken in turn, one each. Each file is read by a slot of its own, in
/// chunks; `staged` further slots have the next files open already. A slot asks for its next chunk while
/// fewer than kRecordsAhead whole records of what it read are unused: the framework's interleave keeps two in
/// a queue and one in hand. When a file is used up the first staged slot takes its turn, and its own slot
/// stages the next file. Records pass the shuffle buffer (which stores bytes in memory and is only counted
/// here), the shard and are put into batches; a pass's last incomplete batch is dropped. Then the next pass
/// begins: the stream knows no epochs.
class InputPipeline {
 public:
  static constexpr uint64_t kRecordsAhead = 3;

  /// `files_of_pass`: the files of one pass, in order; not empty. Called when a pass begins, from 0.
  InputPipeline(PipelineOptions options, std::function<std::vector<uint32_t>(uint64_t pass)> files_of_pass);

  uint64_t slots() const { return slots_.size(); }
  struct Work {
    uint64_t file = 0;
    uint64_t opening = 0;  // differs from that of the slot's file before: close that, open this
  };
  /// What the slot has to read from next; nothing while it has enough or has no file.
  std::optional<Work> Wanted(uint64_t slot) const;
  /// A read of the slot's wanted file completed `records` records; `ended`: it was the last.
  void Found(uint64_t slot, uint64_t records, bool ended);
  /// Hands out a batch, if one is made.
  bool Take();
  uint64_t handed_out() const { return handed_out_; }
  bool ready() const { return made_ > handed_out_; }
  /// Passes begun so far.
  uint64_t passes() const { return passes_; }

 private:
  struct Slot {
    uint64_t file = 0;
    uint64_t opening = 0;
    bool has_file = false;
    bool ended = false;
    uint64_t unused = 0;  // whole records read and not yet taken
  };

  /// Takes records as far as they are there and wanted.
  void Advance();
  void BeginPass();
  /// Gives the slot the pass's next file, if there is one.
  bool NextFile(uint64_t slot);
  /// Batches that `pulled` records of a pass make.
  uint64_t BatchesOf(uint64_t pulled, bool pass_ended) const;

  const PipelineOptions options_;
  const std::function<std::vector<uint32_t>(uint64_t)> files_of_pass_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> files_;  // of this pass
  size_t next_file_ = 0;
  std::vector<uint64_t> cycle_;  // slots whose turn it is, in order
  std::deque<uint64_t> staged_;  // slots that wait for theirs
  size_t turn_ = 0;              // in cycle_
  uint64_t passes_ = 0;
  uint64_t openings_ = 0;
  uint64_t pulled_ = 0;       // records of this pass
  uint64_t made_before_ = 0;  // batches of earlier passes
  uint64_t made_ = 0;
  uint64_t handed_out_ = 0;
};

}  // namespace stoker::bench
