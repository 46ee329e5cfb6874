#include "prefetch/access_pattern.h"

#include <algorithm>

namespace stoker {
namespace {

/// The stretch over which density is measured: long enough to bridge what readahead leaves open for a moment,
/// short enough that a stream that turns random is noticed soon.
constexpr uint64_t kStretchBytes = 16 * kMiB;

}  // namespace

AccessPattern::Seen AccessPattern::Observe(ByteRange range) {
  Seen seen;
  ++reads_;
  // The stream whose frontier is nearest; going back is as good as going ahead within the stretch.
  Stream* mine = nullptr;
  uint64_t best = kNearBytes + 1;
  for (Stream& stream : streams_) {
    const uint64_t distance =
        range.begin >= stream.frontier ? range.begin - stream.frontier : stream.frontier - range.begin;
    if (distance < best) {
      best = distance;
      mine = &stream;
    }
  }
  if (mine != nullptr) {
    mine->begin = std::min(mine->begin, range.begin);
    mine->frontier = std::max(mine->frontier, range.end);
    mine->bytes = std::min(mine->bytes + range.size(), mine->frontier - mine->begin);
    if (mine->frontier - mine->begin > kStretchBytes) {
      mine->begin += (mine->frontier - mine->begin) / 2;
      mine->bytes /= 2;
    }
  } else {
    if (streams_.size() == kMaxStreams) {
      const auto oldest =
          std::min_element(streams_.begin(), streams_.end(),
                           [](const Stream& a, const Stream& b) { return a.last_read < b.last_read; });
      seen.ended.push_back(oldest->name);
      streams_.erase(oldest);
    }
    streams_.push_back({next_name_++, range.begin, range.end, range.size(), 0});
    mine = &streams_.back();
  }
  mine->last_read = reads_;
  seen.stream = mine->name;
  seen.frontier = mine->frontier;
  // Half of the stretch: readahead fills its gaps at once, scattered reads leave nearly all of it unread.
  seen.sequential = mine->bytes >= kSureBytes && mine->bytes * 2 >= mine->frontier - mine->begin;
  // A single read in the middle of a file is no stream yet, however large.
  if (mine->begin != 0 && mine->bytes == range.size() && mine->begin == range.begin) seen.sequential = false;
  for (size_t i = 0; i < streams_.size();) {
    if (reads_ - streams_[i].last_read > kStaleReads) {
      seen.ended.push_back(streams_[i].name);
      streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return seen;
}

}  // namespace stoker
