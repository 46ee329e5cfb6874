#include "fuse/fuse_ops.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cache/base/fd.h"
#include "cache/base/log.h"
#include "cache/base/units.h"
#include "fuse/errno_map.h"

namespace stoker {

namespace {

#define STOKER_LIBFUSE_PASSTHROUGH (FUSE_VERSION >= FUSE_MAKE_VERSION(3, 17))

// The kernel's protocol, as far as libfuse 3.14 does not speak it (linux/fuse.h, protocol 7.40).
namespace abi {
struct InHeader {
  uint32_t len, opcode;
  uint64_t unique, nodeid;
  uint32_t uid, gid, pid;
  uint16_t total_extlen, padding;
};
struct OutHeader {
  uint32_t len;
  int32_t error;
  uint64_t unique;
};
struct InitIn {
  uint32_t major, minor, max_readahead, flags, flags2;
};
struct InitOut {
  uint32_t major, minor, max_readahead, flags;
  uint16_t max_background, congestion_threshold;
  uint32_t max_write, time_gran;
  uint16_t max_pages, map_alignment;
  uint32_t flags2, max_stack_depth;
  uint16_t request_timeout, unused[11];
};
struct OpenOut {
  uint64_t fh;
  uint32_t open_flags;
  int32_t backing_id;
};
static_assert(sizeof(InHeader) == 40 && sizeof(OutHeader) == 16 && sizeof(InitOut) == 64 &&
              sizeof(OpenOut) == 16);
constexpr uint32_t kOpInit = 26;
constexpr uint32_t kInitExt = 1U << 30;
constexpr uint32_t kParallelDirops = 1U << 18;
constexpr uint32_t kPassthroughHigh = 1U << (37 - 32);  // of flags2
constexpr uint32_t kOpenNoFlush = 1U << 5;
constexpr uint32_t kOpenPassthrough = 1U << 7;
}  // namespace abi

// Requests are at most this long: a reply of 1 MiB and its header do not fit a pipe of the default limit, and
// libfuse then copies through a fresh buffer for each request (four times the CPU, measured).
constexpr size_t kMaxRequestBytes = 512 * kKiB;
constexpr size_t kPipeBytes = 1 * kMiB;
// Below this, one pread and one copy cost less than the system calls of a splice.
constexpr size_t kSpliceFromBytes = 32 * kKiB;

thread_local bool t_serves = false;

FuseContext& Context(fuse_req_t req) {
  return *static_cast<FuseContext*>(fuse_req_userdata(req));
}

double Seconds(Nanos time) {
  return std::chrono::duration<double>(time).count();
}

void ReplyError(fuse_req_t req, const Status& status, const char* what) {
  const LogLevel level = LogLevelFor(status);
  if (level != LogLevel::kDebug || LogDebugEnabled()) {
    Context(req).failures_log().Log(level, "fuse", std::string(what) + ": " + status.ToString());
  }
  fuse_reply_err(req, ToErrno(status));
}

void OnInterrupt(fuse_req_t req, void* data) noexcept {
  // Answering from in here would free the request under libfuse's lock.
  Context(req).interrupts().Told(reinterpret_cast<WaitId>(data), fuse_req_ctx(req)->pid);
}

Caller MakeCaller(fuse_req_t req) {
  Caller caller;
  caller.uid = fuse_req_ctx(req)->uid;
  caller.on_wait = [req](WaitId id) {
    // The id, not a pointer: libfuse may call with it after the request was answered.
    fuse_req_interrupt_func(req, &OnInterrupt, reinterpret_cast<void*>(id));
  };
  return caller;
}

/// Last net of every callback: nothing may be thrown through libfuse's C frames.
template <typename Body>
void Guarded(fuse_req_t req, const Body& body) noexcept {
  FuseContext& context = Context(req);
  context.Begin();
  try {
    body(context);
  } catch (const std::exception& e) {
    LogError("fuse", std::string("a request failed inside: ") + e.what());
    fuse_reply_err(req, EIO);
    context.End();
  }
}

/// A reply function for one request: an error is answered here, a value by `deliver`.
template <typename T, typename Deliver>
Filesystem::Reply<T> Answer(FuseContext& context, fuse_req_t req, const char* what, Deliver deliver) {
  return [&context, req, what, deliver = std::move(deliver)](Result<T> result) {
    if (result.ok()) {
      deliver(context, req, std::move(result).value());
    } else {
      ReplyError(req, result.status(), what);
    }
    context.End();
  };
}

fuse_entry_param ToEntry(const NodeAttr& attr) {
  fuse_entry_param entry{};
  entry.ino = attr.node;
  entry.attr = attr.attr;
  entry.attr_timeout = entry.entry_timeout = Seconds(attr.ttl);
  return entry;
}

// --- names and attributes ---

void OpLookup(fuse_req_t req, fuse_ino_t parent, const char* name) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().Lookup(
        parent, name, MakeCaller(req),
        Answer<NodeAttr>(context, req, "lookup", [](FuseContext& c, fuse_req_t r, NodeAttr&& attr) {
          const fuse_entry_param entry = ToEntry(attr);
          if (fuse_reply_entry(r, &entry) != 0 && attr.node != 0) {
            c.filesystem().Forget(attr.node, 1);
          }
        }));
  });
}

void OpForget(fuse_req_t req, fuse_ino_t node, uint64_t lookups) noexcept {
  Context(req).filesystem().Forget(node, lookups);
  fuse_reply_none(req);
}

void OpForgetMulti(fuse_req_t req, size_t count, fuse_forget_data* forgets) noexcept {
  Filesystem& filesystem = Context(req).filesystem();
  for (size_t i = 0; i < count; ++i) filesystem.Forget(forgets[i].ino, forgets[i].nlookup);
  fuse_reply_none(req);
}

void OpGetAttr(fuse_req_t req, fuse_ino_t node, fuse_file_info*) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().GetAttr(
        node, MakeCaller(req),
        Answer<NodeAttr>(context, req, "getattr", [](FuseContext&, fuse_req_t r, NodeAttr&& attr) {
          fuse_reply_attr(r, &attr.attr, Seconds(attr.ttl));
        }));
  });
}

void OpReadLink(fuse_req_t req, fuse_ino_t node) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().ReadLink(
        node, MakeCaller(req),
        Answer<std::string>(context, req, "readlink", [](FuseContext&, fuse_req_t r, std::string&& target) {
          fuse_reply_readlink(r, target.c_str());
        }));
  });
}

/// The protocol of both xattr calls: size 0 asks for the length, too small is ERANGE.
Filesystem::Reply<std::string> AnswerXattr(FuseContext& context, fuse_req_t req, size_t size,
                                           const char* what) {
  return Answer<std::string>(context, req, what, [size](FuseContext&, fuse_req_t r, std::string&& value) {
    if (size == 0) {
      fuse_reply_xattr(r, value.size());
    } else if (value.size() > size) {
      fuse_reply_err(r, ERANGE);
    } else {
      fuse_reply_buf(r, value.data(), value.size());
    }
  });
}

void OpGetXattr(fuse_req_t req, fuse_ino_t node, const char* name, size_t size) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().GetXattr(node, name, MakeCaller(req), AnswerXattr(context, req, size, "getxattr"));
  });
}

void OpListXattr(fuse_req_t req, fuse_ino_t node, size_t size) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().ListXattr(node, MakeCaller(req), AnswerXattr(context, req, size, "listxattr"));
  });
}

void OpStatFs(fuse_req_t req, fuse_ino_t) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().StatFs(
        MakeCaller(req), Answer<struct statvfs>(context, req, "statfs",
                                                [](FuseContext&, fuse_req_t r, struct statvfs&& stats) {
                                                  fuse_reply_statfs(r, &stats);
                                                }));
  });
}

// --- files ---

int ReplyOpen(fuse_req_t req, const OpenedFile& opened) {
#if !STOKER_LIBFUSE_PASSTHROUGH
  if (opened.backing_id > 0) {
    const abi::OpenOut out{opened.handle, abi::kOpenPassthrough | abi::kOpenNoFlush, opened.backing_id};
    return fuse_reply_buf(req, reinterpret_cast<const char*>(&out), sizeof out);
  }
#endif
  fuse_file_info info{};
  info.fh = opened.handle;
  info.noflush = 1;
#if STOKER_LIBFUSE_PASSTHROUGH
  info.backing_id = opened.backing_id;
  info.keep_cache = opened.backing_id > 0 ? 0 : 1;
#else
  info.keep_cache = 1;  // a node is one version: what the kernel has of it is right
#endif
  return fuse_reply_open(req, &info);
}

void OpOpen(fuse_req_t req, fuse_ino_t node, fuse_file_info* info) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().Open(
        node, info->flags, MakeCaller(req),
        Answer<OpenedFile>(context, req, "open", [](FuseContext& c, fuse_req_t r, OpenedFile&& opened) {
          // Not delivered: no RELEASE will follow.
          if (ReplyOpen(r, opened) != 0) c.filesystem().Release(opened.handle);
        }));
  });
}

void OpRelease(fuse_req_t req, fuse_ino_t, fuse_file_info* info) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().Release(info->fh);
    fuse_reply_err(req, 0);
    context.End();
  });
}

/// One per thread that answers reads: bytes wait in the pipe until all of them are known to be there, because
/// after the reply has begun a short cache file could only become a short answer, which the kernel fills with
/// zeros.
class StagingPipe {
 public:
  /// Moves [offset, offset+size) of `fd` into the pipe. False: not all of it is there, or it cannot be
  /// spliced.
  bool Fill(int fd, uint64_t offset, size_t size) {
    if (!Usable()) return false;
    auto at = static_cast<off_t>(offset);
    for (size_t left = size; left > 0;) {
      const ssize_t moved = ::splice(fd, &at, write_end_.get(), nullptr, left, SPLICE_F_NONBLOCK);
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) {
        Reset();
        return false;
      }
      left -= static_cast<size_t>(moved);
    }
    return true;
  }
  int read_end() const { return read_end_.get(); }
  /// Throws away what is in it.
  void Reset() {
    read_end_.Reset();
    write_end_.Reset();
  }

 private:
  bool Usable() {
    if (read_end_.valid()) return true;
    if (refused_) return false;
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return false;
    read_end_ = Fd(ends[0]);
    write_end_ = Fd(ends[1]);
    if (::fcntl(read_end_.get(), F_SETPIPE_SZ, kPipeBytes) < static_cast<int>(kPipeBytes)) {
      refused_ = true;  // the user's pipe limit: copying is the way left
      Reset();
      return false;
    }
    return true;
  }

  Fd read_end_;
  Fd write_end_;
  bool refused_ = false;
};

/// Reads the whole range; false when the file does not have it.
bool ReadFully(int fd, uint64_t offset, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = ::pread(fd, to, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<uint64_t>(got);
    size -= static_cast<size_t>(got);
  }
  return true;
}

/// Answers from the cache file. False: it does not have the bytes, and nothing was answered.
bool ReplyFromFile(fuse_req_t req, const ReadReply& reply, int& sent) {
  thread_local StagingPipe pipe;
  thread_local std::vector<char> buffer;
  const size_t size = reply.range.size();
  if (t_serves && size >= kSpliceFromBytes && size <= kMaxRequestBytes &&
      pipe.Fill(reply.file->get(), reply.range.begin, size)) {
    fuse_bufvec bytes{};  // the library's initialiser is not C++
    bytes.count = 1;
    bytes.buf[0].size = size;
    bytes.buf[0].flags = static_cast<fuse_buf_flags>(FUSE_BUF_IS_FD | FUSE_BUF_FD_RETRY);
    bytes.buf[0].fd = pipe.read_end();
    sent = fuse_reply_data(req, &bytes, static_cast<fuse_buf_copy_flags>(0));
    if (sent != 0) pipe.Reset();
    return true;
  }
  if (buffer.size() < size) buffer.resize(size);
  if (!ReadFully(reply.file->get(), reply.range.begin, buffer.data(), size)) return false;
  sent = fuse_reply_buf(req, buffer.data(), size);
  return true;
}

int ReplyPieces(fuse_req_t req, const ReadReply& reply) {
  std::vector<iovec> pieces;
  pieces.reserve(reply.pieces.size());
  for (const std::span<const std::byte> piece : reply.pieces) {
    pieces.push_back({const_cast<std::byte*>(piece.data()), piece.size()});  // iovec has no const; only read
  }
  return fuse_reply_iov(req, pieces.data(), static_cast<int>(pieces.size()));
}

void DeliverRead(FuseContext& context, fuse_req_t req, HandleId handle, const ReadReply& reply) {
  int sent = 0;
  if (reply.file == nullptr) {
    sent = ReplyPieces(req, reply);
  } else if (!ReplyFromFile(req, reply, sent)) {
    context.Begin();  // answered later, from elsewhere
    context.filesystem().ReadSalvage(
        handle, reply.range, MakeCaller(req),
        Answer<ReadReply>(context, req, "read", [](FuseContext& c, fuse_req_t r, ReadReply&& salvaged) {
          if (ReplyPieces(r, salvaged) == 0) {
            c.filesystem().CountDelivered(salvaged);
          }
        }));
    return;
  }
  if (sent == 0) context.filesystem().CountDelivered(reply);
}

void OpRead(fuse_req_t req, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().Read(
        info->fh, static_cast<uint64_t>(offset), size, MakeCaller(req),
        Answer<ReadReply>(context, req, "read",
                          [handle = info->fh](FuseContext& c, fuse_req_t r, ReadReply&& reply) {
                            DeliverRead(c, r, handle, reply);
                          }));
  });
}

void OpSeek(fuse_req_t req, fuse_ino_t, off_t offset, int whence, fuse_file_info* info) noexcept {
  Guarded(req, [&](FuseContext& context) {
    if ((whence != SEEK_DATA && whence != SEEK_HOLE) || offset < 0) {
      fuse_reply_err(req, EINVAL);
      context.End();
      return;
    }
    context.filesystem().Seek(
        info->fh, static_cast<uint64_t>(offset), whence == SEEK_DATA ? SeekTarget::kData : SeekTarget::kHole,
        MakeCaller(req),
        Answer<uint64_t>(context, req, "seek", [](FuseContext&, fuse_req_t r, uint64_t&& found) {
          fuse_reply_lseek(r, static_cast<off_t>(found));
        }));
  });
}

// --- directories ---

void OpOpenDir(fuse_req_t req, fuse_ino_t node, fuse_file_info*) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().OpenDir(
        node, MakeCaller(req),
        Answer<OpenedDir>(context, req, "opendir", [](FuseContext& c, fuse_req_t r, OpenedDir&& opened) {
          fuse_file_info info{};
          info.fh = opened.handle;
          info.cache_readdir = 1;
          info.keep_cache = opened.keep_listing ? 1 : 0;
          if (fuse_reply_open(r, &info) != 0) {
            c.filesystem().ReleaseDir(opened.handle);
          }
        }));
  });
}

void OpReleaseDir(fuse_req_t req, fuse_ino_t, fuse_file_info* info) noexcept {
  Guarded(req, [&](FuseContext& context) {
    context.filesystem().ReleaseDir(info->fh);
    fuse_reply_err(req, 0);
    context.End();
  });
}

/// The reply under construction; shared with a listing that may go on after the request was given up.
struct DirBuffer {
  std::vector<char> bytes;
  size_t used = 0;
};

void List(fuse_req_t req, size_t size, off_t offset, const fuse_file_info* info, bool with_attr) noexcept {
  Guarded(req, [&](FuseContext& context) {
    auto buffer = std::make_shared<DirBuffer>();
    buffer->bytes.resize(size);
    const auto take = [buffer, with_attr](const ListedEntry& entry) {
      const std::string name(entry.name);
      char* const at = buffer->bytes.data() + buffer->used;
      const size_t room = buffer->bytes.size() - buffer->used;
      const auto next = static_cast<off_t>(entry.next);
      fuse_entry_param plus{};  // node 0: the kernel takes the name alone
      if (entry.attr != nullptr) plus = ToEntry(*entry.attr);
      plus.attr.st_ino = entry.ino;
      if (entry.attr == nullptr) plus.attr.st_mode = entry.type;
      // Neither call looks at the request.
      const size_t needed = with_attr ? fuse_add_direntry_plus(nullptr, at, room, name.c_str(), &plus, next)
                                      : fuse_add_direntry(nullptr, at, room, name.c_str(), &plus.attr, next);
      if (needed > room) return false;
      buffer->used += needed;
      return true;
    };
    context.filesystem().ReadDir(
        info->fh, static_cast<uint64_t>(offset), with_attr, take, MakeCaller(req),
        Answer<std::vector<NodeId>>(context, req, "readdir",
                                    [buffer](FuseContext& c, fuse_req_t r, std::vector<NodeId>&& counted) {
                                      if (fuse_reply_buf(r, buffer->bytes.data(), buffer->used) == 0) return;
                                      for (const NodeId node : counted) c.filesystem().Forget(node, 1);
                                    }));
  });
}

void OpReadDir(fuse_req_t req, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) noexcept {
  List(req, size, offset, info, false);
}

void OpReadDirPlus(fuse_req_t req, fuse_ino_t, size_t size, off_t offset, fuse_file_info* info) noexcept {
  List(req, size, offset, info, true);
}

// --- the start ---

void Want(fuse_conn_info* connection, unsigned capability, bool wanted) {
#if STOKER_LIBFUSE_PASSTHROUGH
  if (wanted) {
    fuse_set_feature_flag(connection, capability);
  } else {
    fuse_unset_feature_flag(connection, capability);
  }
#else
  if (wanted) {
    connection->want |= connection->capable & capability;
  } else {
    connection->want &= ~capability;
  }
#endif
}

void OpInit(void* userdata, fuse_conn_info* connection) noexcept {
  auto& context = *static_cast<FuseContext*>(userdata);
  connection->max_write = kMaxRequestBytes;  // libfuse derives max_pages from it, which bounds reads
  connection->max_readahead = 1 * kMiB;      // the kernel takes the smaller of this and the device's
  connection->max_background = context.max_background();
  connection->congestion_threshold = context.max_background() * 3 / 4;
  connection->time_gran = 1;
  for (const unsigned on :
       {FUSE_CAP_ASYNC_READ, FUSE_CAP_READDIRPLUS, FUSE_CAP_READDIRPLUS_AUTO, FUSE_CAP_PARALLEL_DIROPS,
        FUSE_CAP_POSIX_ACL, FUSE_CAP_CACHE_SYMLINKS, FUSE_CAP_SPLICE_WRITE}) {
    Want(connection, on, true);
  }
  // AUTO_INVAL_DATA: a node is one version, its data never goes stale; the listing's age is judged at
  // OPENDIR. WRITEBACK_CACHE excludes passthrough. EXPORT_SUPPORT would need nodes to be found by number
  // after a FORGET.
  for (const unsigned off :
       {FUSE_CAP_AUTO_INVAL_DATA, FUSE_CAP_WRITEBACK_CACHE, FUSE_CAP_ASYNC_DIO, FUSE_CAP_SPLICE_READ,
        FUSE_CAP_SPLICE_MOVE, FUSE_CAP_EXPORT_SUPPORT, FUSE_CAP_IOCTL_DIR}) {
    Want(connection, off, false);
  }
#if STOKER_LIBFUSE_PASSTHROUGH
  if (context.want_passthrough()) {
    context.init().passthrough_offered = fuse_set_feature_flag(connection, FUSE_CAP_PASSTHROUGH);
    connection->max_backing_stack_depth =
        0;  // the wire's value less one: backing files on plain file systems
  }
  context.init().done.store(true, std::memory_order_release);
#endif
}

// --- the way to /dev/fuse ---

#if !STOKER_LIBFUSE_PASSTHROUGH
thread_local uint64_t t_init_unique = 0;  // INIT is read and answered by one thread, before any other request
#endif

ssize_t IoRead(int fd, void* buffer, size_t size, void* userdata) noexcept {
  const ssize_t got = ::read(fd, buffer, size);
#if !STOKER_LIBFUSE_PASSTHROUGH
  InitFacts& init = static_cast<FuseContext*>(userdata)->init();
  if (init.done.load(std::memory_order_relaxed)) return got;
  abi::InHeader header{};
  if (got < static_cast<ssize_t>(sizeof header)) return got;
  std::memcpy(&header, buffer, sizeof header);
  if (header.opcode != abi::kOpInit) return got;
  t_init_unique = header.unique;
  abi::InitIn in{};  // older kernels send less: what is missing stays 0
  std::memcpy(&in, static_cast<char*>(buffer) + sizeof header,
              std::min(sizeof in, static_cast<size_t>(got) - sizeof header));
  init.kernel_minor = in.minor;
  init.passthrough_offered = (in.flags & abi::kInitExt) != 0 && (in.flags2 & abi::kPassthroughHigh) != 0;
#else
  (void)userdata;
#endif
  return got;
}

ssize_t IoWritev(int fd, iovec* pieces, int count, void* userdata) noexcept {
#if !STOKER_LIBFUSE_PASSTHROUGH
  auto& context = *static_cast<FuseContext*>(userdata);
  InitFacts& init = context.init();
  if (!init.done.load(std::memory_order_relaxed) && count == 2 && pieces[1].iov_len == sizeof(abi::InitOut)) {
    abi::OutHeader header{};
    std::memcpy(&header, pieces[0].iov_base, std::min(sizeof header, pieces[0].iov_len));
    if (header.unique == t_init_unique && header.error == 0) {
      abi::InitOut out{};
      std::memcpy(&out, pieces[1].iov_base, sizeof out);
      out.flags |= abi::kParallelDirops;
      if (context.want_passthrough() && init.passthrough_offered) {
        out.flags |= abi::kInitExt;
        out.flags2 |= abi::kPassthroughHigh;
        out.max_stack_depth = 1;  // backing files on plain file systems, not on stacked ones
      }
      std::memcpy(pieces[1].iov_base, &out, sizeof out);  // libfuse's own buffer
      init.done.store(true, std::memory_order_release);
    }
  }
#else
  (void)userdata;
#endif
  return ::writev(fd, pieces, count);
}

ssize_t IoSpliceReceive(int in, off_t* in_offset, int out, off_t* out_offset, size_t size, unsigned flags,
                        void*) noexcept {
  return ::splice(in, in_offset, out, out_offset, size, flags);
}

ssize_t IoSpliceSend(int in, off_t* in_offset, int out, off_t* out_offset, size_t size, unsigned flags,
                     void*) noexcept {
  return ::splice(in, in_offset, out, out_offset, size, flags);
}

}  // namespace

void BeServingThread() {
  t_serves = true;
}

void FuseContext::Begin() {
  open_requests_.fetch_add(1, std::memory_order_relaxed);
}

// Nothing of this object is touched after the count: it may be gone then.
void FuseContext::End() {
  open_requests_.fetch_sub(1, std::memory_order_release);
}

bool FuseContext::Drain(std::chrono::nanoseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (open_requests_.load(std::memory_order_acquire) != 0) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

const fuse_lowlevel_ops& FuseOps() {
  static const fuse_lowlevel_ops ops = [] {
    fuse_lowlevel_ops made{};
    made.init = OpInit;
    made.lookup = OpLookup;
    made.forget = OpForget;
    made.forget_multi = OpForgetMulti;
    made.getattr = OpGetAttr;
    made.readlink = OpReadLink;
    made.open = OpOpen;
    made.read = OpRead;
    made.release = OpRelease;
    made.opendir = OpOpenDir;
    made.readdir = OpReadDir;
    made.readdirplus = OpReadDirPlus;
    made.releasedir = OpReleaseDir;
    made.statfs = OpStatFs;
    made.getxattr = OpGetXattr;
    made.listxattr = OpListXattr;
    made.lseek = OpSeek;
    return made;
  }();
  return ops;
}

const fuse_custom_io& FuseIo() {
  static const fuse_custom_io io{IoWritev, IoRead, IoSpliceReceive, IoSpliceSend};
  return io;
}

}  // namespace stoker
