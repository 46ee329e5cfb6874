#include "fuse/filesystem.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <unordered_map>
#include <utility>

#include "cache/base/cancel.h"
#include "cache/base/check.h"
#include "cache/base/gate.h"
#include "cache/base/log.h"
#include "fuse/dir_handle.h"

namespace stoker {

namespace {

constexpr auto kShutdownWait = std::chrono::seconds(1);  // for work that no longer has anybody waiting for it
constexpr size_t kMaxNotices = 65536;  // a lost notice costs a stale name until its TTL ends

Status EndedStatus() {
  return {Code::kUnavailable, "the mount is being ended", ENOTCONN};
}
Status StaleStatus() {
  return {Code::kStale, "the path holds something else now"};
}

/// A pool whose stop is bounded: a thread that does not come back is left behind with the pool.
class BoundedPool {
 public:
  BoundedPool(const std::string& name, size_t threads, size_t max_queued)
      : pool_(std::make_unique<WorkerPool>(name, threads, max_queued)), gate_(std::make_shared<Gate>()) {}
  bool Submit(std::function<void()> task) {
    auto pass = std::make_shared<Gate::Pass>(gate_->Enter());
    if (!*pass) return false;
    return pool_->Submit([gate = gate_, pass = std::move(pass), task = std::move(task)] { task(); });
  }
  /// False when something is still running.
  bool Stop(std::chrono::nanoseconds timeout) {
    gate_->Close();
    pool_->Stop();
    return gate_->Wait(timeout);
  }
  void Abandon() { IgnoreLeak(pool_.release()); }

 private:
  static void IgnoreLeak(WorkerPool*) {}  // its thread still uses it
  std::unique_ptr<WorkerPool> pool_;
  std::shared_ptr<Gate> gate_;
};

/// What the store is told to tell. The store may be inside a call to it at the moment when its filesystem
/// goes, so it is never freed (one per mount, a few bytes); Detach() waits for such a call.
class StoreEar final : public StoreListener {
 public:
  static StoreEar& Make(StoreListener& target) {
    static Mutex mu;
    static std::vector<std::unique_ptr<StoreEar>>& all = *new std::vector<std::unique_ptr<StoreEar>>;
    MutexLock lock(mu);
    all.emplace_back(new StoreEar(target));
    return *all.back();
  }
  void OnComplete(const ObjectId& id) override {
    if (StoreListener* const target = Enter()) {
      target->OnComplete(id);
      Leave();
    }
  }
  void OnGone(const ObjectId& id) override {
    if (StoreListener* const target = Enter()) {
      target->OnGone(id);
      Leave();
    }
  }
  void Detach() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    target_ = nullptr;
    while (inside_ > 0) left_.Wait(mu_);  // calls are quick by contract
  }

 private:
  explicit StoreEar(StoreListener& target) : target_(&target) {}
  StoreListener* Enter() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (target_ != nullptr) ++inside_;
    return target_;
  }
  void Leave() EXCLUDES(mu_) {
    MutexLock lock(mu_);
    if (--inside_ == 0) left_.NotifyAll();
  }
  Mutex mu_;
  CondVar left_;
  StoreListener* target_ GUARDED_BY(mu_);
  int inside_ GUARDED_BY(mu_) = 0;
};

}  // namespace

class Filesystem::Impl final : public StoreListener, public std::enable_shared_from_this<Impl> {
 public:
  Impl(const FilesystemOptions& options, Ufs& ufs, ObjectStore& store, FetchEngine& engine, Metrics& metrics,
       Clock& clock)
      : options_(options),
        ufs_(ufs),
        store_(store),
        engine_(engine),
        metrics_(metrics),
        clock_(clock),
        nodes_(options.metadata_ttl, metrics, options.rules),
        backings_(options.max_backing_ids, metrics),
        read_path_(store, engine, options.read_ahead, metrics),
        pool_(std::make_unique<BoundedPool>("stoker-meta", options.metadata_threads, options.metadata_queue)),
        notices_(std::make_unique<BoundedPool>("stoker-notify", 1, kMaxNotices)),
        errands_(std::make_unique<BoundedPool>("stoker-errand", 1, kMaxNotices)) {}

  // --- StoreListener: quick, never calls the store ---
  void OnComplete(const ObjectId& id) override {
    if (!passthrough_active_.load(std::memory_order_acquire)) return;
    Notify(nodes_.Retire(id, true));
  }
  void OnGone(const ObjectId& id) override {
    if (std::shared_ptr<BackingId> backing = backings_.Remove(id)) {
      // Closed from there (an ioctl), or by its last open.
      errands_->Submit([backing = std::move(backing)]() mutable { backing.reset(); });
    }
    Notify(nodes_.Retire(id, false));
  }

  // --- waiting ---
  /// Makes `reply` run once, whoever comes first: the result, an interrupt or the end. `undo` gets a result
  /// that came too late. Null when the filesystem has ended (and `reply` has been told).
  template <typename T>
  struct Pending {
    WaitId id = 0;
    std::function<void(Result<T>)> done;
    explicit operator bool() const { return id != 0; }
  };
  template <typename T>
  Pending<T> Wait(const Caller& caller, Reply<T> reply, std::function<void(const T&)> undo = nullptr) {
    auto shared = std::make_shared<Reply<T>>(std::move(reply));
    const WaitId id = waits_.Add([shared](const Status& why) { (*shared)(why); }, caller.on_wait);
    if (id == 0) return {};
    return {id, [self = shared_from_this(), id, shared, undo = std::move(undo)](Result<T> result) {
              if (self->waits_.Take(id)) {
                (*shared)(std::move(result));
              } else if (result.ok() && undo) {
                undo(result.value());
              }
            }};
  }

  /// Runs `work` on the metadata pool and answers with what it returns.
  template <typename T>
  void OnPool(const Caller& caller, Reply<T> reply, std::function<Result<T>()> work,
              std::function<void(const T&)> undo = nullptr) {
    Pending<T> pending = Wait<T>(caller, std::move(reply), std::move(undo));
    if (pending) SubmitWork<T>(pending, std::move(work));
  }
  template <typename T>
  void SubmitWork(const Pending<T>& pending, std::function<Result<T>()> work) {
    metrics_.meta_queued.Add();
    const bool taken = pool_->Submit(
        [self = shared_from_this(), id = pending.id, done = pending.done, work = std::move(work)] {
          self->metrics_.meta_queued.Sub();
          if (self->waits_.Waiting(id)) done(work());
        });
    if (!taken) {
      metrics_.meta_queued.Sub();
      pending.done(Status(Code::kBusy, "too many requests wait for the UFS (metadata.threads)"));
    }
  }

  void Interrupt(WaitId id) { waits_.Fail(id, Status(Code::kCancelled, "interrupted")); }
  bool Waiting(WaitId id) const { return waits_.Waiting(id); }

  // --- telling the kernel ---
  void Notify(NodeName name) {
    KernelSide* const kernel = kernel_.load(std::memory_order_acquire);
    if (kernel == nullptr) return;
    if (!notices_->Submit([kernel, name = std::move(name)] { kernel->InvalidateEntry(name); })) {
      LogDebug("fuse", "a notice to the kernel was dropped: too many wait");
    }
  }
  void Notify(std::optional<NodeName> name) {
    if (name) Notify(std::move(*name));
  }
  void Notify(std::vector<NodeName> names) {
    for (NodeName& name : names) Notify(std::move(name));
  }

  // --- versions ---
  Nanos Now() const { return clock_.Now(); }
  /// The version is no longer in the UFS: what the cache has of it is of no use.
  void Supersede(const std::optional<FileVersion>& version) {
    if (version && version->size > 0) store_.Invalidate(MakeObjectId(*version));
  }
  /// A fetch found out that the node's version is past. Any thread, never waits.
  void FoundPast(NodeId node) {
    std::optional<FileVersion> version = nodes_.Version(node);
    Notify(nodes_.MarkPast(node));
    // Bounded by the pool's queue; when that is full, eviction finds the bytes in time.
    pool_->Submit([self = shared_from_this(), version = std::move(version)] { self->Supersede(version); });
  }

  /// Asks the UFS about a node's path. Ok: it is still the same, and fresh now. On the pool only.
  Status Revalidate(NodeId node) {
    ASSIGN_OR_RETURN(const std::string path, nodes_.Path(node));
    const Nanos asked = Now();
    Result<UfsAttr> attr = ufs_.Stat(path);
    if (attr.ok()) {
      InodeTable::Refreshed refreshed = nodes_.Refresh(node, *attr, asked);
      Notify(std::move(refreshed.forget));
      Supersede(refreshed.superseded);
      return refreshed.same ? Status::Ok() : StaleStatus();
    }
    if (attr.status().code() != Code::kNotFound) return attr.status();
    InodeTable::Refreshed refreshed = nodes_.RefreshMissing(node, asked);
    Notify(std::move(refreshed.forget));
    return refreshed.same ? Status::Ok() : attr.status();
  }

  // --- names and attributes ---
  void Lookup(NodeId parent, const std::string& name, const Caller& caller, Reply<NodeAttr> reply) {
    if (std::optional<NodeAttr> fresh = nodes_.LookupFresh(parent, name, Now())) return reply(*fresh);
    OnPool<NodeAttr>(
        caller, std::move(reply), [this, parent, name] { return LookupNow(parent, name); },
        [this](const NodeAttr& entry) {
          if (entry.node != 0) nodes_.Forget(entry.node, 1);
        });
  }

  Result<NodeAttr> LookupNow(NodeId parent, const std::string& name) {
    ASSIGN_OR_RETURN(const std::string path, nodes_.ChildPath(parent, name));
    const Nanos asked = Now();
    Result<UfsAttr> attr = ufs_.Stat(path);
    if (!attr.ok()) {
      if (attr.status().code() != Code::kNotFound) return attr.status();
      NodeAttr missing;
      if (!nodes_.ApplyMissing(parent, name, asked)) {
        if (std::optional<NodeAttr> newer = nodes_.LookupFresh(parent, name, Now())) return *newer;
        return missing;  // with a ttl of 0: the kernel asks again
      }
      missing.ttl = std::max(options_.negative_ttl - (Now() - asked), Nanos(0));
      return missing;
    }
    ASSIGN_OR_RETURN(const InodeTable::Applied applied, nodes_.Apply(parent, name, *attr, asked, Now()));
    Supersede(applied.superseded);
    return applied.entry;
  }

  void GetAttr(NodeId node, const Caller& caller, Reply<NodeAttr> reply) {
    const std::optional<InodeTable::Known> known = nodes_.Get(node, Now());
    if (!known) return reply(StaleStatus());
    if (known->past) return reply(Snapshot(*known, StaleStatus()));
    if (known->attr.ttl > Nanos(0)) return reply(known->attr);
    OnPool<NodeAttr>(caller, std::move(reply), [this, node]() -> Result<NodeAttr> {
      const Status valid = Revalidate(node);
      const std::optional<InodeTable::Known> now_known = nodes_.Get(node, Now());
      if (!now_known) return StaleStatus();
      if (valid.ok()) return now_known->attr;
      return Snapshot(*now_known, valid);
    });
  }
  /// Open files keep the attributes of their version, whatever became of the path or of the UFS.
  static Result<NodeAttr> Snapshot(const InodeTable::Known& known, const Status& otherwise) {
    if (known.opens == 0) return otherwise;
    NodeAttr attr = known.attr;
    attr.ttl = Nanos(0);
    return attr;
  }

  /// Path of a node for calls that name things by path; kStale when the path holds something else.
  Result<std::string> LivePath(NodeId node) {
    const std::optional<InodeTable::Known> known = nodes_.Get(node, Now());
    if (!known || known->past) return StaleStatus();
    return nodes_.Path(node);
  }

  void ReadLink(NodeId node, const Caller& caller, Reply<std::string> reply) {
    OnPool<std::string>(caller, std::move(reply), [this, node]() -> Result<std::string> {
      ASSIGN_OR_RETURN(const std::string path, LivePath(node));
      return ufs_.ReadLink(path);
    });
  }

  void GetXattr(NodeId node, const std::string& name, const Caller& caller, Reply<std::string> reply) {
    OnPool<std::string>(caller, std::move(reply), [this, node, name]() -> Result<std::string> {
      ASSIGN_OR_RETURN(const std::string path, LivePath(node));
      return ufs_.GetXattr(path, name);
    });
  }

  void ListXattr(NodeId node, const Caller& caller, Reply<std::string> reply) {
    OnPool<std::string>(caller, std::move(reply), [this, node, uid = caller.uid]() -> Result<std::string> {
      ASSIGN_OR_RETURN(const std::string path, LivePath(node));
      ASSIGN_OR_RETURN(const std::vector<std::string> names, ufs_.ListXattr(path));
      std::string list;
      for (const std::string& name : names) {
        // A local file system hides these names from ordinary users; the daemon sees them because it is root.
        if (uid != 0 && name.compare(0, 8, "trusted.") == 0) continue;
        list.append(name).push_back('\0');
      }
      return list;
    });
  }

  void StatFs(const Caller& caller, Reply<struct statvfs> reply) {
    OnPool<struct statvfs>(caller, std::move(reply), [this] { return ufs_.StatFs(); });
  }

  // --- files ---
  void Open(NodeId node, int flags, const Caller& caller, Reply<OpenedFile> reply) {
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0) {
      return reply(Status(Code::kPermissionDenied, "the mount is read-only", EROFS));
    }
    const std::optional<InodeTable::Known> known = nodes_.Get(node, Now());
    if (!known || known->past) return reply(StaleStatus());
    const bool fresh = known->attr.ttl > Nanos(0);
    std::shared_ptr<FetchFile> to_fetch;
    if (fresh) {
      if (std::optional<Result<OpenedFile>> opened = TryOpen(node, to_fetch))
        return reply(std::move(*opened));
    }
    Pending<OpenedFile> pending =
        Wait<OpenedFile>(caller, std::move(reply), [this](const OpenedFile& late) { Release(late.handle); });
    if (!pending) return;
    if (fresh) return BringThenOpen(node, std::move(to_fetch), pending);
    metrics_.meta_queued.Add();
    const bool taken = pool_->Submit([self = shared_from_this(), node, pending] {
      self->metrics_.meta_queued.Sub();
      if (!self->waits_.Waiting(pending.id)) return;
      if (Status valid = self->Revalidate(node); !valid.ok()) {
        // Gone: let the kernel look the path up again, which tells it so.
        return pending.done(valid.code() == Code::kNotFound ? StaleStatus() : valid);
      }
      std::shared_ptr<FetchFile> file;
      if (std::optional<Result<OpenedFile>> opened = self->TryOpen(node, file)) {
        return pending.done(std::move(*opened));
      }
      self->BringThenOpen(node, std::move(file), pending);
    });
    if (!taken) {
      metrics_.meta_queued.Sub();
      pending.done(Status(Code::kBusy, "too many requests wait for the UFS (metadata.threads)"));
    }
  }

  /// Opens a node whose version is fresh. Empty when the UFS comes first (`to_fetch`).
  std::optional<Result<OpenedFile>> TryOpen(NodeId node, std::shared_ptr<FetchFile>& to_fetch) {
    Result<std::optional<NodeOpen>> joined = nodes_.JoinOpen(node);
    if (!joined.ok()) return joined.status();
    if (joined->has_value()) return Finish(node, **joined);
    const std::optional<InodeTable::Known> known = nodes_.Get(node, Now());
    Result<std::string> path = nodes_.Path(node);
    if (!known || !path.ok()) return Result<OpenedFile>(StaleStatus());
    if (!S_ISREG(known->attr.attr.st_mode)) {
      return Result<OpenedFile>(Status(Code::kUnsupported, *path + " is not a regular file"));
    }
    const FileVersion version = nodes_.Version(node);
    if (version.size == 0) return Begin(node, NodeOpen{});
    if (known->skip) {
      to_fetch = std::make_shared<FetchFile>(ufs_, *path, version, ObjectRef());
      return std::nullopt;
    }
    Result<ObjectRef> object = store_.Acquire(version, *path);
    if (!object.ok()) {
      LogWarn("fuse", "no place in the cache for " + *path + ": " + object.status().ToString() +
                          "; serving it from the UFS");
      NodeOpen bypass;
      bypass.file = std::make_shared<FetchFile>(ufs_, *path, version, ObjectRef());
      return Begin(node, std::move(bypass));
    }
    auto file =
        std::make_shared<FetchFile>(ufs_, std::move(path).value(), version, std::move(object).value());
    if (!file->object().complete()) {
      to_fetch = std::move(file);
      return std::nullopt;
    }
    return OpenWith(node, std::move(file));
  }

  /// Opens a file that is not whole in the cache. It will be read from the UFS anyway, so that is asked
  /// first: a file that changed within metadata.ttl must not open as a version of which no byte can be had
  /// any more.
  void BringThenOpen(NodeId node, std::shared_ptr<FetchFile> file, const Pending<OpenedFile>& pending) {
    if (passthrough_active_.load(std::memory_order_acquire) && file->object() &&
        file->version().size <= options_.open_fetch_bytes) {
      return FetchThenOpen(node, std::move(file), pending.done);
    }
    SubmitWork<OpenedFile>(pending, [this, node, file = std::move(file)]() -> Result<OpenedFile> {
      if (const Status source = file->Source().status(); source.code() == Code::kStale) {
        FoundPast(node);
        return StaleStatus();
      }
      // Another error is for the reads to find: what is resident can be read without the UFS.
      if (file->object()) return OpenWith(node, file);
      NodeOpen past_the_cache;
      past_the_cache.file = file;
      return Begin(node, std::move(past_the_cache));
    });
  }

  void FetchThenOpen(NodeId node, std::shared_ptr<FetchFile> file,
                     std::function<void(Result<OpenedFile>)> done) {
    struct Parts {
      std::atomic<uint32_t> left;
      std::atomic<bool> stale{false};
      std::function<void()> all_done;
    };
    auto parts = std::make_shared<Parts>();
    const uint32_t count = file->object().part_count();
    parts->left = count + 1;  // one for this loop
    // A part that could not be brought in or stored is not an error here: the file then opens daemon-served,
    // and the reads find out.
    parts->all_done = [self = shared_from_this(), node, file, done = std::move(done), state = parts.get()] {
      if (state->stale.load()) {
        self->FoundPast(node);
        return done(StaleStatus());
      }
      done(self->OpenWith(node, file));
    };
    const auto one_done = [parts](const Status& status, FetchedFor = FetchedFor::kOther) {
      if (status.code() == Code::kStale) parts->stale.store(true);
      if (parts->left.fetch_sub(1) == 1) std::exchange(parts->all_done, nullptr)();
    };
    for (uint32_t part = 0; part < count; ++part) {
      if (file->object().IsResident(PartIndex{part})) {
        one_done(Status::Ok());
        continue;
      }
      if (Status wanted = engine_.Want(file, PartIndex{part}, FetchPriority::kDemand, one_done);
          !wanted.ok()) {
        one_done(wanted);
      }
    }
    one_done(Status::Ok());
  }

  Result<OpenedFile> OpenWith(NodeId node, std::shared_ptr<FetchFile> file) {
    NodeOpen wish;
    wish.object = file->object().id();
    if (passthrough_active_.load(std::memory_order_acquire) && file->object().complete()) {
      Result<std::shared_ptr<BackingId>> backing =
          backings_.Get(*wish.object, device_, [&file] { return file->object().File(); });
      if (backing.ok()) {
        wish.backing = std::move(backing).value();
      } else if (backing.status().code() == Code::kCorruption) {
        // The file was taken away; what comes now may be stored again, in a new object.
        Result<ObjectRef> anew = store_.Acquire(file->version(), file->path());
        if (!anew.ok()) return anew.status();
        file = std::make_shared<FetchFile>(ufs_, file->path(), file->version(), std::move(anew).value());
      } else {
        LogWarn("fuse", file->path() + " opens daemon-served: " + backing.status().ToString());
      }
    }
    wish.file = std::move(file);
    return Begin(node, std::move(wish));
  }

  Result<OpenedFile> Begin(NodeId node, NodeOpen wish) {
    ASSIGN_OR_RETURN(const NodeOpen open, nodes_.BeginOpen(node, std::move(wish)));
    return Finish(node, open);
  }

  /// The open is counted: makes its handle.
  Result<OpenedFile> Finish(NodeId node, const NodeOpen& open) {
    OpenedFile opened;
    auto handle = std::make_shared<FileHandle>(node, open.mode, open.file, metrics_);
    metrics_.opens.Add();
    if (open.mode == ServeMode::kPassthrough) {
      metrics_.opens_passthrough.Add();
      opened.backing_id = open.backing->id();
    } else if (open.object && passthrough_active_.load(std::memory_order_acquire) && handle->cacheable() &&
               open.file->object().complete()) {
      // It became whole between the decision and the count, or before the listener knew the node: later opens
      // of the path should not join this one.
      Notify(nodes_.RetireNode(node));
    }
    MutexLock lock(mu_);
    opened.handle = next_handle_++;
    files_.emplace(opened.handle, std::move(handle));
    return opened;
  }

  void Release(HandleId id) {
    std::shared_ptr<FileHandle> handle;
    {
      MutexLock lock(mu_);
      const auto it = files_.find(id);
      if (it == files_.end()) return;
      handle = std::move(it->second);
      files_.erase(it);
    }
    nodes_.EndOpen(handle->node());
  }

  std::shared_ptr<FileHandle> FindFile(HandleId id) {
    MutexLock lock(mu_);
    const auto it = files_.find(id);
    return it == files_.end() ? nullptr : it->second;
  }

  void Read(HandleId id, uint64_t offset, size_t size, const Caller& caller, Reply<ReadReply> reply) {
    const std::shared_ptr<FileHandle> handle = FindFile(id);
    if (handle == nullptr) return reply(Status(Code::kInvalidArgument, "no such handle", EBADF));
    const ByteRange range = ReadPath::Clip(*handle, offset, size);
    if (std::optional<ReadReply> resident = read_path_.Resident(*handle, range)) {
      return reply(std::move(*resident));
    }
    if (!handle->cacheable()) return ReadOnPool(handle, range, caller, CountErrors(std::move(reply)), false);
    metrics_.read_waiting.Add();
    Pending<ReadReply> pending =
        Wait<ReadReply>(caller, [this, counted = CountErrors(std::move(reply))](Result<ReadReply> result) {
          metrics_.read_waiting.Sub();
          counted(std::move(result));
        });
    if (!pending) return;
    const uint64_t ticket = read_path_.Fetch(
        *handle, range, [self = shared_from_this(), handle, range, pending](Result<ReadReply> result) {
          if (!result.ok() && result.status().code() == Code::kStale) self->FoundPast(handle->node());
          if (!result.ok() && result.status().code() == Code::kCorruption) {
            return self->SubmitWork<ReadReply>(pending, [self, handle, range] {
              return self->read_path_.Salvage(*handle, range, CancelToken());
            });
          }
          pending.done(std::move(result));
        });
    if (ticket != 0) waits_.OnGivenUp(pending.id, [this, ticket] { engine_.CancelRead(ticket); });
  }

  void ReadSalvage(HandleId id, ByteRange range, const Caller& caller, Reply<ReadReply> reply) {
    const std::shared_ptr<FileHandle> handle = FindFile(id);
    if (handle == nullptr || range.empty() || !handle->cacheable()) {
      return reply(Status(Code::kInvalidArgument, "no such handle", EBADF));
    }
    ReadOnPool(handle, range, caller, CountErrors(std::move(reply)), true);
  }

  /// Past the cache, after dropping what it has of the range when that is `damaged`.
  void ReadOnPool(const std::shared_ptr<FileHandle>& handle, ByteRange range, const Caller& caller,
                  Reply<ReadReply> reply, bool damaged) {
    CancelToken cancel;
    metrics_.read_waiting.Add();
    Pending<ReadReply> pending =
        Wait<ReadReply>(caller, [this, reply = std::move(reply)](Result<ReadReply> result) {
          metrics_.read_waiting.Sub();
          reply(std::move(result));
        });
    if (!pending) return;
    waits_.OnGivenUp(pending.id, [cancel]() mutable { cancel.Cancel(); });
    SubmitWork<ReadReply>(pending, [this, handle, range, damaged, cancel] {
      Result<ReadReply> result =
          damaged ? read_path_.Salvage(*handle, range, cancel) : read_path_.Direct(*handle, range, cancel);
      if (!result.ok() && result.status().code() == Code::kStale) FoundPast(handle->node());
      return result;
    });
  }

  Reply<ReadReply> CountErrors(Reply<ReadReply> reply) {
    return [this, reply = std::move(reply)](Result<ReadReply> result) {
      if (!result.ok() && result.status().code() != Code::kCancelled) metrics_.read_errors.Add();
      reply(std::move(result));
    };
  }

  void Seek(HandleId id, uint64_t offset, SeekTarget target, const Caller& caller, Reply<uint64_t> reply) {
    const std::shared_ptr<FileHandle> handle = FindFile(id);
    if (handle == nullptr) return reply(Status(Code::kInvalidArgument, "no such handle", EBADF));
    if (offset >= handle->size()) return reply(Status(Code::kNotFound, "behind the end of the file", ENXIO));
    OnPool<uint64_t>(caller, std::move(reply), [handle, offset, target]() -> Result<uint64_t> {
      const uint64_t size = handle->size();
      Result<std::shared_ptr<UfsFile>> source = handle->file()->Source();
      // The version may be gone from the UFS while its bytes are here: all data, which is always a true
      // answer.
      if (!source.ok()) return target == SeekTarget::kData ? offset : size;
      ASSIGN_OR_RETURN(const uint64_t found, target == SeekTarget::kData ? (*source)->NextData(offset)
                                                                         : (*source)->NextHole(offset));
      if (target == SeekTarget::kData && found >= size) return Status(Code::kNotFound, "no more data", ENXIO);
      return std::min(found, size);
    });
  }

  // --- directories ---
  void OpenDir(NodeId node, const Caller& caller, Reply<OpenedDir> reply) {
    const std::optional<InodeTable::Known> known = nodes_.Get(node, Now());
    if (!known || known->past) return reply(StaleStatus());
    if (known->attr.ttl > Nanos(0)) return reply(FinishDir(node));
    OnPool<OpenedDir>(
        caller, std::move(reply),
        [this, node]() -> Result<OpenedDir> {
          RETURN_IF_ERROR(Revalidate(node));
          return FinishDir(node);
        },
        [this](const OpenedDir& late) { ReleaseDir(late.handle); });
  }

  OpenedDir FinishDir(NodeId node) {
    timespec wall_now{};
    ::clock_gettime(CLOCK_REALTIME, &wall_now);
    OpenedDir opened;
    opened.keep_listing = nodes_.KeepListing(node, wall_now);
    auto handle = std::make_shared<DirHandle>(node, metrics_);
    MutexLock lock(mu_);
    opened.handle = next_handle_++;
    dirs_.emplace(opened.handle, std::move(handle));
    return opened;
  }

  void ReleaseDir(HandleId id) {
    std::shared_ptr<DirHandle> handle;  // closes the listing after the lock
    MutexLock lock(mu_);
    const auto it = dirs_.find(id);
    if (it == dirs_.end()) return;
    handle = std::move(it->second);
    dirs_.erase(it);
    lock.Unlock();
  }

  void ReadDir(HandleId id, uint64_t cookie, bool with_attr, std::function<bool(const ListedEntry&)> take,
               const Caller& caller, Reply<std::vector<NodeId>> reply) {
    std::shared_ptr<DirHandle> dir;
    {
      MutexLock lock(mu_);
      const auto it = dirs_.find(id);
      if (it != dirs_.end()) dir = it->second;
    }
    if (dir == nullptr) return reply(Status(Code::kInvalidArgument, "no such handle", EBADF));
    OnPool<std::vector<NodeId>>(
        caller, std::move(reply),
        [this, dir, cookie, with_attr, take = std::move(take)]() -> Result<std::vector<NodeId>> {
          if (!dir->TryEnter())
            return Status(Code::kBusy, "an earlier listing of this handle has not come back");
          Result<std::vector<NodeId>> counted = ListNow(*dir, cookie, with_attr, take);
          dir->Leave();
          return counted;
        },
        [this](const std::vector<NodeId>& counted) {
          for (const NodeId node : counted) nodes_.Forget(node, 1);
        });
  }

  Result<std::vector<NodeId>> ListNow(DirHandle& dir, uint64_t cookie, bool with_attr,
                                      const std::function<bool(const ListedEntry&)>& take) {
    ASSIGN_OR_RETURN(const std::string path, nodes_.Path(dir.node()));
    const std::optional<InodeTable::Known> self = nodes_.Get(dir.node(), Now());
    if (!self) return StaleStatus();
    uint64_t parent_ino = self->attr.attr.st_ino;
    if (const std::optional<NodeName> name = nodes_.Name(dir.node())) {
      if (const auto parent = nodes_.Get(name->parent, Now())) parent_ino = parent->attr.attr.st_ino;
    }
    std::vector<NodeId> counted;
    bool any = false;
    const Status status =
        dir.Read(ufs_, path, self->attr.attr.st_ino, parent_ino, cookie, [&](const DirHandle::Item& item) {
          ListedEntry entry;
          entry.name = item.name;
          entry.ino = item.ino;
          entry.type = item.type;
          entry.next = item.next;
          std::optional<NodeAttr> attr;
          if (with_attr && !item.dots) attr = EntryAttr(dir, std::string(item.name));
          if (attr) {
            entry.attr = &*attr;
            entry.ino = attr->attr.st_ino;
            entry.type = attr->attr.st_mode & S_IFMT;
          }
          if (!take(entry)) {
            if (attr) nodes_.Forget(attr->node, 1);
            return false;
          }
          any = true;
          if (attr) counted.push_back(attr->node);
          return true;
        });
    // What was listed before an error is given out; the next call meets the error again.
    if (!status.ok() && !any) return status;
    return counted;
  }

  /// Attributes for a listed name, counted as a lookup; none when it has just gone or cannot be asked about
  /// (the name is listed all the same).
  std::optional<NodeAttr> EntryAttr(DirHandle& dir, const std::string& name) {
    if (std::optional<NodeAttr> fresh = nodes_.LookupFresh(dir.node(), name, Now())) return fresh;
    const Nanos asked = Now();
    const Result<UfsAttr> attr = dir.StatEntry(name);
    if (!attr.ok()) return std::nullopt;
    Result<InodeTable::Applied> applied = nodes_.Apply(dir.node(), name, *attr, asked, Now());
    if (!applied.ok()) return std::nullopt;
    Supersede(applied->superseded);
    return applied->entry;
  }

  // --- life ---
  void AttachKernel(KernelSide* kernel, std::shared_ptr<BackingDevice> passthrough) {
    device_ = std::move(passthrough);
    kernel_.store(kernel, std::memory_order_release);
    passthrough_active_.store(device_ != nullptr, std::memory_order_release);
  }

  void Shutdown() {
    passthrough_active_.store(false, std::memory_order_release);
    waits_.Close(EndedStatus());
    const bool notices_ended = notices_->Stop(kShutdownWait);
    kernel_.store(nullptr, std::memory_order_release);
    const bool errands_ended = errands_->Stop(kShutdownWait);
    const bool pool_ended = pool_->Stop(kShutdownWait);
    backings_.Clear();
    if (notices_ended && errands_ended && pool_ended) return;
    if (stuck_.exchange(true)) return;
    LogWarn("fuse", "a thread waits on storage that does not answer; leaving it behind");
  }
  bool stuck() const { return stuck_.load(); }
  void MarkStuck() { stuck_.store(true); }

  void Listen() {
    ear_ = &StoreEar::Make(*this);
    store_.SetListener(ear_);
  }
  /// After Shutdown(). Not in the destructor: the last reference may be a stuck thread's.
  void StopThreads() {
    store_.SetListener(nullptr);
    ear_->Detach();
    // Who was stuck may have come back since.
    const bool all_back =
        pool_->Stop(kShutdownWait) && notices_->Stop(kShutdownWait) && errands_->Stop(kShutdownWait);
    if (!all_back) {  // their gates are closed: whoever comes back takes nothing on any more
      pool_->Abandon();
      notices_->Abandon();
      errands_->Abandon();
      return;
    }
    pool_.reset();
    notices_.reset();
    errands_.reset();
  }

  void Forget(NodeId node, uint64_t lookups) { nodes_.Forget(node, lookups); }
  void CountDelivered(const ReadReply& reply) {
    metrics_.read_bytes_delivered.Add(reply.range.size());
    if (reply.hit) metrics_.read_bytes_cache.Add(reply.range.size());
  }

 private:
  const FilesystemOptions options_;
  Ufs& ufs_;
  ObjectStore& store_;
  FetchEngine& engine_;
  Metrics& metrics_;
  Clock& clock_;
  InodeTable nodes_;
  BackingTable backings_;
  ReadPath read_path_;
  WaitList waits_;
  std::shared_ptr<BackingDevice> device_;  // set before the first request
  std::atomic<bool> passthrough_active_{false};
  std::atomic<KernelSide*> kernel_{nullptr};
  std::atomic<bool> stuck_{false};
  StoreEar* ear_ = nullptr;

  Mutex mu_;
  std::unordered_map<HandleId, std::shared_ptr<FileHandle>> files_ GUARDED_BY(mu_);
  std::unordered_map<HandleId, std::shared_ptr<DirHandle>> dirs_ GUARDED_BY(mu_);
  HandleId next_handle_ GUARDED_BY(mu_) = 1;

  std::unique_ptr<BoundedPool> pool_;     // whatever may wait on the UFS
  std::unique_ptr<BoundedPool> notices_;  // may wait for the kernel, which may wait for us
  std::unique_ptr<BoundedPool> errands_;  // waits for nobody: closing ids
};

Filesystem::Filesystem(const FilesystemOptions& options, Ufs& ufs, ObjectStore& store, FetchEngine& engine,
                       Metrics& metrics, Clock& clock)
    : impl_(std::make_shared<Impl>(options, ufs, store, engine, metrics, clock)) {
  impl_->Listen();
}

Filesystem::~Filesystem() {
  impl_->Shutdown();
  impl_->StopThreads();
}

void Filesystem::AttachKernel(KernelSide* kernel, std::shared_ptr<BackingDevice> passthrough) {
  impl_->AttachKernel(kernel, std::move(passthrough));
}
void Filesystem::Shutdown() {
  impl_->Shutdown();
}
bool Filesystem::stuck() const {
  return impl_->stuck();
}
void Filesystem::MarkStuck() {
  impl_->MarkStuck();
}

void Filesystem::Lookup(NodeId parent, const std::string& name, Caller caller, Reply<NodeAttr> reply) {
  impl_->Lookup(parent, name, caller, std::move(reply));
}
void Filesystem::Forget(NodeId node, uint64_t lookups) {
  impl_->Forget(node, lookups);
}
void Filesystem::GetAttr(NodeId node, Caller caller, Reply<NodeAttr> reply) {
  impl_->GetAttr(node, caller, std::move(reply));
}
void Filesystem::ReadLink(NodeId node, Caller caller, Reply<std::string> reply) {
  impl_->ReadLink(node, caller, std::move(reply));
}
void Filesystem::GetXattr(NodeId node, const std::string& name, Caller caller, Reply<std::string> reply) {
  impl_->GetXattr(node, name, caller, std::move(reply));
}
void Filesystem::ListXattr(NodeId node, Caller caller, Reply<std::string> reply) {
  impl_->ListXattr(node, caller, std::move(reply));
}
void Filesystem::StatFs(Caller caller, Reply<struct statvfs> reply) {
  impl_->StatFs(caller, std::move(reply));
}
void Filesystem::Open(NodeId node, int flags, Caller caller, Reply<OpenedFile> reply) {
  impl_->Open(node, flags, caller, std::move(reply));
}
void Filesystem::Release(HandleId handle) {
  impl_->Release(handle);
}
void Filesystem::Read(HandleId handle, uint64_t offset, size_t size, Caller caller, Reply<ReadReply> reply) {
  impl_->Read(handle, offset, size, caller, std::move(reply));
}
void Filesystem::ReadSalvage(HandleId handle, ByteRange range, Caller caller, Reply<ReadReply> reply) {
  impl_->ReadSalvage(handle, range, caller, std::move(reply));
}
void Filesystem::CountDelivered(const ReadReply& reply) {
  impl_->CountDelivered(reply);
}
void Filesystem::Seek(HandleId handle, uint64_t offset, SeekTarget target, Caller caller,
                      Reply<uint64_t> reply) {
  impl_->Seek(handle, offset, target, caller, std::move(reply));
}
void Filesystem::OpenDir(NodeId node, Caller caller, Reply<OpenedDir> reply) {
  impl_->OpenDir(node, caller, std::move(reply));
}
void Filesystem::ReleaseDir(HandleId handle) {
  impl_->ReleaseDir(handle);
}
void Filesystem::ReadDir(HandleId handle, uint64_t cookie, bool with_attr,
                         std::function<bool(const ListedEntry&)> take, Caller caller,
                         Reply<std::vector<NodeId>> reply) {
  impl_->ReadDir(handle, cookie, with_attr, std::move(take), caller, std::move(reply));
}
void Filesystem::Interrupt(WaitId id) {
  impl_->Interrupt(id);
}
bool Filesystem::Waiting(WaitId id) const {
  return impl_->Waiting(id);
}

}  // namespace stoker
