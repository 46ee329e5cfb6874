#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>

#include "cache/io/queues.h"

namespace stoker {
namespace {

class PreadQueue final : public IoQueue {
 public:
  explicit PreadQueue(unsigned depth) : depth_(depth) {}

  unsigned depth() const override { return depth_; }
  unsigned pending() const override { return static_cast<unsigned>(queued_.size()); }
  std::string_view kind() const override { return "pread"; }

  bool QueueRead(int fd, std::span<std::byte> to, uint64_t offset, uint64_t tag) override {
    return Queue({fd, to.data(), nullptr, to.size(), offset, tag});
  }
  bool QueueWrite(int fd, std::span<const std::byte> from, uint64_t offset, uint64_t tag) override {
    return Queue({fd, nullptr, from.data(), from.size(), offset, tag});
  }

  Status Wait(std::vector<Completion>& done) override {
    if (queued_.empty()) return Status::Ok();
    const Operation operation = queued_.front();
    queued_.pop_front();
    done.push_back({operation.tag, Run(operation)});
    return Status::Ok();
  }

 private:
  struct Operation {
    int fd;
    std::byte* to;          // null: a write
    const std::byte* from;  // null: a read
    size_t size;
    uint64_t offset;
    uint64_t tag;
  };

  bool Queue(const Operation& operation) {
    if (queued_.size() >= depth_) return false;
    queued_.push_back(operation);
    return true;
  }

  static int64_t Run(const Operation& operation) {
    const size_t size = std::min(operation.size, kMaxOperationBytes);
    const auto offset = static_cast<off_t>(operation.offset);
    while (true) {
      const ssize_t moved = operation.to != nullptr ? ::pread(operation.fd, operation.to, size, offset)
                                                    : ::pwrite(operation.fd, operation.from, size, offset);
      if (moved >= 0) return moved;
      if (errno != EINTR) return -errno;  // signals are few and end the process: no bound is needed here
    }
  }

  const unsigned depth_;
  std::deque<Operation> queued_;
};

}  // namespace

std::unique_ptr<IoQueue> MakePreadQueue(unsigned depth) {
  return std::make_unique<PreadQueue>(depth);
}

}  // namespace stoker
