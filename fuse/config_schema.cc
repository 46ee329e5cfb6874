#include "fuse/config_schema.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "cache/base/metrics.h"
#include "cache/base/units.h"

namespace stoker {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kDayNs = 86'400 * kSecondNs;
constexpr size_t kMaxCacheDirs = 64;
constexpr std::string_view kSizeUnit = "bytes with unit (4MiB, 1GB)";
constexpr std::string_view kDurationUnit = "time with unit (250ms, 60s, 5m)";
constexpr std::string_view kShareUnit = "bytes with unit, or % of the disk";

const std::array<ConfigKey, 26> kKeys{{
    {.name = "cache.dirs",
     .type = ConfigType::kPaths,
     .field = &Settings::cache_dirs,
     .default_text = "[/var/cache/stoker]",
     .unit = "list of absolute paths, one for each disk",
     .flag = "--cache-dir",
     .meaning =
         "Where cached bytes live: a directory on each of the node's own fast disks. Made when missing, and "
         "used by one daemon at a time. A file is cached on exactly one of them (docs/cache_dirs.md).",
     .reason = "the place the file system standard names for caches"},
    {.name = "cache.size",
     .type = ConfigType::kSize,
     .field = &Settings::cache_size,
     .default_text = "90%",
     .unit = kShareUnit,
     .flag = "--cache-size",
     .meaning =
         "Most that cached objects may take on that disk, in allocated blocks. Beyond it, unused objects are "
         "evicted. Each of several cache directories may take as much, or that share of its own disk.",
     .reason = "a disk bought for caching should be used; the rest keeps the file system quick"},
    {.name = "cache.min_free",
     .type = ConfigType::kSize,
     .field = &Settings::cache_min_free,
     .default_text = "5%",
     .unit = kShareUnit,
     .meaning = "Free space of the disk that caching never touches, whoever else fills it.",
     .reason = "other programs on the disk must not run out of space because of a cache"},
    {.name = "cache.policy",
     .type = ConfigType::kChoice,
     .field = &Settings::cache_policy,
     .default_text = "auto",
     .unit = "auto, retain, lru or s3fifo",
     .choices = "auto|retain|lru|s3fifo",
     .flag = "--cache-policy",
     .meaning =
         "What happens when the cache is full. retain: what is there stays, what is new is read past the "
         "cache, and warm jobs stop; lru: what was used longest ago goes; s3fifo: what was used once goes "
         "first, what came back stays; auto: whichever of the three does best on what is being read, and "
         "warm jobs get their room.",
     .reason = "training reads a dataset in a new order each time: one that does not fit needs retain, one "
               "that does "
               "is followed best by lru, and which it is shows only while it is read"},

    {.name = "prefetch.enable",
     .type = ConfigType::kBool,
     .field = &Settings::prefetch_enable,
     .default_text = "true",
     .unit = "true or false",
     .meaning = "Fetch ahead of readers. Off: only what is asked for is fetched; warm jobs still work.",
     .reason = "sequential readers of slow storage are the case this program is for"},
    {.name = "prefetch.threads",
     .type = ConfigType::kCount,
     .field = &Settings::prefetch_threads,
     .default_text = "64",
     .unit = "threads",
     .min = 1,
     .max = 1024,
     .flag = "--prefetch-threads",
     .meaning = "Threads that move bytes from the UFS, shared by demand reads, read-ahead and warm jobs.",
     .reason = "20 ms of latency times 64 parts of 4 MiB in flight is over 10 GiB/s; raise it to 256 for "
               "object stores "
               "far away"},
    {.name = "prefetch.part_length",
     .type = ConfigType::kBytes,
     .field = &Settings::prefetch_part_length,
     .default_text = "4MiB",
     .unit = kSizeUnit,
     .min = kPageBytes,
     .max = kGiB,
     .multiple_of = kPageBytes,
     .flag = "--prefetch-part-length",
     .meaning = "Unit of fetch, residency and checksum, for objects made from now on.",
     .reason = "large enough to hide a request's latency, small enough not to drag in what nobody reads"},
    {.name = "prefetch.max_parts",
     .type = ConfigType::kCount,
     .field = &Settings::prefetch_max_parts,
     .default_text = "4",
     .unit = "parts",
     .min = 1,
     .max = 1024,
     .flag = "--prefetch-max-parts",
     .meaning = "Most parts that one open file may have ahead of its reader.",
     .reason = "16 MiB ahead keeps one reader fed; many readers share the budget"},
    {.name = "prefetch.budget",
     .type = ConfigType::kBytes,
     .field = &Settings::prefetch_budget,
     .default_text = "1GiB",
     .unit = kSizeUnit,
     .min = kPageBytes,
     .max = 1024 * kGiB,
     .flag = "--prefetch-budget",
     .meaning = "Bytes in flight from the UFS for the whole process, whatever threads and parts multiply to.",
     .reason =
         "256 parts of 4 MiB: more than the default threads can use, little beside a training node's memory"},
    {.name = "prefetch.deadline",
     .type = ConfigType::kDuration,
     .field = &Settings::prefetch_deadline,
     .default_text = "60s",
     .unit = kDurationUnit,
     .min = kSecondNs / 10,
     .max = kDayNs,
     .meaning = "A reader that waited this long for the UFS gets an error.",
     .reason = "longer than a fail-over of common shared storage takes"},
    {.name = "prefetch.io",
     .type = ConfigType::kChoice,
     .field = &Settings::prefetch_io,
     .default_text = "auto",
     .unit = "auto, io_uring or pread",
     .choices = "auto|io_uring|pread",
     .meaning = "How threads read and write files. auto: io_uring, or pread where the kernel refuses it; "
                "io_uring: the "
                "mount fails where it is refused.",
     .reason = "containers often forbid io_uring, and the daemon should work there too"},

    {.name = "metadata.ttl",
     .type = ConfigType::kDuration,
     .field = &Settings::metadata_ttl,
     .default_text = "60s",
     .unit = kDurationUnit,
     .max = 3650 * kDayNs,
     .meaning = "How long attributes, names and listings are believed. A change in the UFS shows at the "
                "latest then.",
     .reason = "training data rarely changes; a minute bounds the surprise"},
    {.name = "metadata.negative_ttl",
     .type = ConfigType::kDuration,
     .field = &Settings::metadata_negative_ttl,
     .default_text = "5s",
     .unit = kDurationUnit,
     .max = 3650 * kDayNs,
     .meaning = "How long the absence of a name is believed.",
     .reason = "import paths probe many missing names, and new files should show soon"},
    {.name = "metadata.threads",
     .type = ConfigType::kCount,
     .field = &Settings::metadata_threads,
     .default_text = "16",
     .unit = "threads",
     .min = 1,
     .max = 1024,
     .meaning = "Threads for stat, list, readlink and xattr calls to the UFS.",
     .reason = "enough to overlap the round trips of a parallel file system"},
    {.name = "metadata.rules",
     .type = ConfigType::kRules,
     .field = &Settings::metadata_rules,
     .default_text = "[]",
     .unit = "list of {path: GLOB, class: immutable|revalidate|skip, ttl: TIME}, at most 256",
     .meaning =
         "What holds for files and directories whose path fits; the first rule that fits counts. "
         "immutable: believed for ever; revalidate: believed for ttl (metadata.ttl when there is none); "
         "skip: never cached, reads go to the UFS. See docs/path_rules.md for globs.",
     .reason = "one rule fits all until a dataset is known better"},

    {.name = "fuse.passthrough",
     .type = ConfigType::kChoice,
     .field = &Settings::fuse_passthrough,
     .default_text = "auto",
     .unit = "auto, on or off",
     .choices = "auto|on|off",
     .flag = "--passthrough",
     .meaning = "Let the kernel read whole cached files itself. auto: where it can be had; on: the mount "
                "fails where it "
                "cannot; off: the daemon serves every read.",
     .reason = "cached files then read at the speed of the cache disk"},
    {.name = "fuse.allow_other",
     .type = ConfigType::kBool,
     .field = &Settings::fuse_allow_other,
     .default_text = "true",
     .unit = "true or false",
     .meaning = "Users other than the one who mounted may use the mount; the kernel checks permissions.",
     .reason = "the daemon runs as root, training jobs do not"},
    {.name = "fuse.max_background",
     .type = ConfigType::kCount,
     .field = &Settings::fuse_max_background,
     .default_text = "512",
     .unit = "requests",
     .min = 1,
     .max = 65535,
     .meaning = "Requests the kernel may have waiting in the background, reads of all files together.",
     .reason = "far above the readers of one node, so that one that waits does not stop the others"},
    {.name = "fuse.open_fetch",
     .type = ConfigType::kBytes,
     .field = &Settings::fuse_open_fetch,
     .default_text = "4MiB",
     .unit = kSizeUnit,
     .max = kGiB,
     .meaning = "Files up to this size are fetched inside open, so that they open in passthrough. 0: none.",
     .reason = "one part: the first read would have waited for it anyway"},
    {.name = "fuse.read_ahead",
     .type = ConfigType::kBytes,
     .field = &Settings::fuse_read_ahead,
     .default_text = "1MiB",
     .unit = kSizeUnit,
     .max = kGiB,
     .meaning = "The kernel's own read-ahead for files that the daemon serves.",
     .reason = "two of the kernel's largest requests, so that one is always under way"},
    {.name = "fuse.threads",
     .type = ConfigType::kAutoOrCount,
     .field = &Settings::fuse_threads,
     .default_text = "auto",
     .unit = "auto, or threads",
     .min = 1,
     .max = 1024,
     .meaning = "Threads that take requests from the kernel. They never wait for the UFS.",
     .reason = "the FUSE library's own choice follows the load"},
    {.name = "fuse.stop_grace",
     .type = ConfigType::kDuration,
     .field = &Settings::fuse_stop_grace,
     .default_text = "5s",
     .unit = kDurationUnit,
     .min = kSecondNs / 10,
     .max = 600 * kSecondNs,
     .meaning = "How long a stop waits for a busy mount before it detaches it.",
     .reason = "supervisors kill after ten seconds or more"},

    {.name = "control.socket",
     .type = ConfigType::kText,
     .field = &Settings::control_socket,
     .default_text = "\"\"",
     .unit = "absolute path, or empty",
     .flag = "--control-socket",
     .meaning = "The daemon's unix socket. Empty: derived from the mount point, in /run/stoker (for other "
                "users than "
                "root in $XDG_RUNTIME_DIR/stoker).",
     .reason = "commands find it from the mount point, nobody has to name it"},
    {.name = "control.http",
     .type = ConfigType::kText,
     .field = &Settings::control_http,
     .default_text = "\"\"",
     .unit = "loopback ADDRESS:PORT, or empty",
     .flag = "--control-http",
     .meaning = "Also serve GET /metrics and GET /status (nothing else) on this TCP address. Empty: no TCP.",
     .reason = "a port is opened only for who asks for it"},

    {.name = "log.level",
     .type = ConfigType::kChoice,
     .field = &Settings::log_level,
     .default_text = "info",
     .unit = "debug, info, warn or error",
     .choices = "debug|info|warn|error",
     .flag = "--log-level",
     .meaning = "Least important lines that are written.",
     .reason = "says what happened, not what was done for each request"},
    {.name = "log.file",
     .type = ConfigType::kText,
     .field = &Settings::log_file,
     .default_text = "\"\"",
     .unit = "absolute path, or empty",
     .flag = "--log-file",
     .meaning = "Where log lines go. Empty: stderr with --foreground, else /var/log/stoker/NAME.log, NAME "
                "made from the "
                "mount point (for other users than root in $XDG_STATE_HOME/stoker).",
     .reason = "a supervisor collects stderr; a background daemon has none"},
}};

constexpr std::array<ReservedKey, 9> kReserved{{
    {"write.mode", "off", "the mount is read-only"},
    {"cache.ttl", "never", "cached objects do not expire"},
    {"prefetch.rate", "unlimited", "fetching has no rate limit"},
    {"fuse.open", "", "open modes are not selectable"},
    {"fuse.transport", "dev", "requests come through /dev/fuse"},
    {"s3.endpoint", "", "there is no S3 driver"},
    {"s3.region", "", "there is no S3 driver"},
    {"s3.path_style", "", "there is no S3 driver"},
    {"cache.admission", "", "everything that is fetched is kept while there is room"},
}};

constexpr std::string_view kNoCacheMeaning =
    "the cache here is set by cache.dirs, cache.size and cache.min_free";
constexpr std::string_view kNoEviction = "cache.policy has no further settings";
constexpr std::string_view kNoWorker =
    "there are no workers here: the cache is the node's own, set by cache.*";
constexpr std::string_view kNoS3 = "there is no S3 driver in this version";
constexpr std::string_view kNoMountKey = "the UFS and the mount point are arguments of `stoker mount`";
constexpr std::string_view kNoMetaKey = "set metadata.ttl and metadata.negative_ttl instead";

constexpr std::array<AlluxioKey, 84> kAlluxio{{
    {"alluxio.user.position.reader.streaming.async.prefetch.enable", "prefetch.enable", ""},
    {"alluxio.user.position.reader.streaming.async.prefetch.thread", "prefetch.threads", ""},
    {"alluxio.user.position.reader.streaming.async.prefetch.part.length", "prefetch.part_length", ""},
    {"alluxio.user.position.reader.streaming.async.prefetch.max.part.number", "prefetch.max_parts", ""},
    {"alluxio.user.position.reader.streaming.async.prefetch.file.length.threshold", "",
     "files up to fuse.open_fetch are fetched whole when they are opened"},
    {"alluxio.user.position.reader.preload.data.enabled", "", "use `stoker warm` to bring whole files in"},
    {"alluxio.user.position.reader.preload.data.file.size.threshold.min", "",
     "use `stoker warm` to bring whole files in"},
    {"alluxio.user.position.reader.preload.data.file.size.threshold.max", "",
     "use `stoker warm` to bring whole files in"},
    {"alluxio.user.position.reader.streaming.multiplier", "", "the window grows and shrinks by itself"},
    {"alluxio.user.position.reader.streaming.prefetch.max.size", "",
     "set prefetch.max_parts and prefetch.part_length instead"},
    {"alluxio.fuse.mount.point", "", kNoMountKey},
    {"alluxio.fuse.mount.alluxio.path", "", kNoMountKey},
    {"alluxio.fuse.mount.options", "", "set fuse.* and metadata.* instead"},
    {"alluxio.fuse.fs.name", "", "the mount is named after its UFS"},
    {"alluxio.fuse.umount.timeout", "", "set fuse.stop_grace instead"},
    {"alluxio.fuse.cached.paths.max", "", "names are kept until the kernel forgets them"},
    {"alluxio.fuse.logging.threshold", "", "slow calls are not logged"},
    {"alluxio.fuse.debug.enabled", "", "set log.level instead"},
    {"alluxio.fuse.auth.policy.class", "", "the kernel checks the UFS's own owners and modes"},
    {"alluxio.fuse.user.group.translation.enabled", "", "owners are shown as the UFS has them"},
    {"alluxio.fuse.special.command.enabled", "",
     "commands go through `stoker`, not through names in the mount"},
    {"alluxio.fuse.enable.read.dir.plus", "", "readdirplus is always on"},
    {"alluxio.fuse.enable.read.dir.plus.batch.size", "", "the kernel's buffer sets the batch"},
    {"alluxio.fuse.read.dir.plus.batch.size", "", "the kernel's buffer sets the batch"},
    {"alluxio.fuse.enforce.direct.io.read", "", "programs choose O_DIRECT themselves"},
    {"alluxio.fuse.request.hard.timeout", "", "set prefetch.deadline instead"},
    {"alluxio.fuse.max.reader.concurrency", "", "set fuse.max_background instead"},
    {"alluxio.user.client.cache.enabled", "", "the cache is always on"},
    {"alluxio.user.client.cache.dirs", "", "set cache.dirs instead"},
    {"alluxio.user.client.cache.size", "", "set cache.size instead"},
    {"alluxio.user.client.cache.page.size", "", "set prefetch.part_length instead"},
    {"alluxio.user.client.cache.store.type", "", kNoCacheMeaning},
    {"alluxio.user.client.cache.local.store.file.buckets", "", kNoCacheMeaning},
    {"alluxio.user.client.cache.evictor.type", "", "set cache.policy instead"},
    {"alluxio.user.client.cache.eviction.retries", "", kNoEviction},
    {"alluxio.user.client.cache.async.eviction.enabled", "", kNoEviction},
    {"alluxio.user.client.cache.async.eviction.high.water.mark", "", kNoEviction},
    {"alluxio.user.client.cache.async.eviction.low.water.mark", "", kNoEviction},
    {"alluxio.user.client.cache.async.eviction.check.interval", "", kNoEviction},
    {"alluxio.user.client.cache.ttl.enabled", "", "cached objects do not expire"},
    {"alluxio.user.client.cache.ttl.check.interval.seconds", "", "cached objects do not expire"},
    {"alluxio.user.client.cache.ttl.threshold.seconds", "", "cached objects do not expire"},
    {"alluxio.user.client.cache.quota.enabled", "", "there are no quotas"},
    {"alluxio.user.client.cache.async.write.enabled", "", kNoCacheMeaning},
    {"alluxio.user.client.cache.async.write.threads", "", kNoCacheMeaning},
    {"alluxio.user.client.cache.async.restore.enabled", "",
     "the cache's index is ready at once after a restart"},
    {"alluxio.user.client.cache.fallback.enabled", "",
     "reads always go on from the UFS when the cache fails"},
    {"alluxio.user.client.cache.timeout.duration", "", "set prefetch.deadline instead"},
    {"alluxio.user.client.cache.timeout.threads", "", kNoCacheMeaning},
    {"alluxio.user.client.cache.filter.enabled", "", "there are no rules per path"},
    {"alluxio.user.client.cache.filter.config.file", "", "there are no rules per path"},
    {"alluxio.worker.page.store.type", "", kNoWorker},
    {"alluxio.worker.page.store.dirs", "", kNoWorker},
    {"alluxio.worker.page.store.sizes", "", kNoWorker},
    {"alluxio.worker.page.store.page.size", "", kNoWorker},
    {"alluxio.worker.page.store.reserved.size", "", kNoWorker},
    {"alluxio.worker.page.store.evictor.type", "", kNoWorker},
    {"alluxio.worker.page.store.eviction.retries", "", kNoWorker},
    {"alluxio.worker.page.store.pinned.file.capacity.limit.ratio", "", kNoWorker},
    {"alluxio.worker.page.store.async.eviction.enabled", "", kNoWorker},
    {"alluxio.worker.page.store.async.eviction.high.water.mark", "", kNoWorker},
    {"alluxio.worker.page.store.async.eviction.low.water.mark", "", kNoWorker},
    {"alluxio.worker.page.store.async.eviction.check.interval", "", kNoWorker},
    {"alluxio.worker.page.store.parallel.restore.enabled", "", kNoWorker},
    {"alluxio.worker.page.store.async.restore.enabled", "", kNoWorker},
    {"alluxio.worker.page.store.split.file.into.multiple.directories", "", kNoWorker},
    {"alluxio.user.metadata.cache.max.size", "", "names are kept until the kernel forgets them"},
    {"alluxio.user.metadata.cache.expiration.time", "", kNoMetaKey},
    {"alluxio.user.metadata.cache.disable.absent.status.cache", "", kNoMetaKey},
    {"alluxio.user.file.metadata.sync.interval", "", kNoMetaKey},
    {"alluxio.user.file.metadata.load.type", "", kNoMetaKey},
    {"alluxio.underfs.s3.endpoint", "", kNoS3},
    {"alluxio.underfs.s3.region", "", kNoS3},
    {"alluxio.underfs.s3.disable.dns.buckets", "", kNoS3},
    {"alluxio.underfs.s3.connections.max", "", kNoS3},
    {"alluxio.underfs.s3.socket.timeout", "", kNoS3},
    {"alluxio.underfs.s3.request.timeout", "", kNoS3},
    {"alluxio.underfs.s3.max.error.retry", "", kNoS3},
    {"alluxio.underfs.s3.multipart.upload.partition.size", "", kNoS3},
    {"s3a.accessKeyId", "", kNoS3},
    {"s3a.secretKey", "", kNoS3},
    {"alluxio.underfs.listing.length", "", "listings are read in batches of their own size"},
    {"alluxio.worker.data.ufs.read.rate.limit.mb", "", "fetching has no rate limit"},
    {"alluxio.underfs.logging.threshold", "", "slow calls are not logged"},
}};

std::string Lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string Quoted(std::string_view text) {
  return "'" + std::string(text) + "'";
}

std::vector<std::string> SplitChoices(std::string_view choices) {
  std::vector<std::string> out;
  while (!choices.empty()) {
    const size_t bar = choices.find('|');
    out.emplace_back(choices.substr(0, bar));
    choices = bar == std::string_view::npos ? std::string_view() : choices.substr(bar + 1);
  }
  return out;
}

std::string OneOf(const std::vector<std::string>& items) {
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out += i + 1 == items.size() ? " or " : ", ";
    out += items[i];
  }
  return out;
}

Status Invalid(std::string message) {
  return {Code::kInvalidArgument, std::move(message)};
}

Result<uint64_t> ParseCount(std::string_view text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string range = "a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  if (error == std::errc::result_out_of_range) return Invalid(Quoted(text) + " is too large: use " + range);
  if (error != std::errc() || stop != text.data() + text.size()) {
    return Invalid(Quoted(text) + " is not a whole number: use " + range);
  }
  if (value < min) return Invalid(Quoted(text) + " is too small: use " + range);
  if (value > max) return Invalid(Quoted(text) + " is too large: use " + range);
  return value;
}

Result<SizeSpec> ParseSize(std::string_view text) {
  SizeSpec spec;
  if (!text.empty() && text.back() == '%') {
    const std::string_view number = text.substr(0, text.size() - 1);
    const char* end = number.data() + number.size();
    const auto [stop, error] = std::from_chars(number.data(), end, spec.percent, std::chars_format::fixed);
    if (error != std::errc() || stop != end || !(spec.percent >= 0) || spec.percent > 100) {
      return Invalid(Quoted(text) + " is not a share of the disk: use 0% to 100%");
    }
    return spec;
  }
  Result<uint64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) return Invalid(bytes.status().message() + ", or a share of the disk such as 90%");
  spec.bytes = *bytes;
  return spec;
}

std::string FormatPercent(double percent) {
  char text[32];
  std::snprintf(text, sizeof text, "%g%%", percent);
  return text;
}

/// YAML's plain scalars cannot hold everything that a path can.
std::string YamlText(const std::string& text) {
  const bool plain = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '/' || c == '.' || c == '_' || c == '-' || c == '+' || c == '%';
  });
  if (plain && text != "~" && text.front() != '-' && text.front() != '%') return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// Breaks text into lines of at most `width`, at spaces.
std::vector<std::string> Wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text = space == std::string_view::npos ? std::string_view() : text.substr(space + 1);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

std::string LimitsText(const ConfigKey& key) {
  switch (key.type) {
    case ConfigType::kCount:
    case ConfigType::kAutoOrCount:
      return std::to_string(key.min) + " to " + std::to_string(key.max);
    case ConfigType::kBytes: {
      std::string out = FormatBytesExact(key.min) + " to " + FormatBytesExact(key.max);
      if (key.multiple_of > 1) out += ", a multiple of " + FormatBytesExact(key.multiple_of);
      return out;
    }
    case ConfigType::kDuration:
      return FormatDuration(std::chrono::nanoseconds(key.min)) + " to " +
             FormatDuration(std::chrono::nanoseconds(key.max));
    default:
      return "";
  }
}

}  // namespace

uint64_t SizeSpec::Of(uint64_t disk_bytes) const {
  if (percent < 0) return bytes;
  return static_cast<uint64_t>(static_cast<double>(disk_bytes) * percent / 100.0);
}

std::span<const ConfigKey> ConfigKeys() {
  return kKeys;
}

const ConfigKey* FindConfigKey(std::string_view name) {
  for (const ConfigKey& key : kKeys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

Status SetValue(const ConfigKey& key, std::string_view text, Settings& settings) {
  switch (key.type) {
    case ConfigType::kBool: {
      if (text != "true" && text != "false") return Invalid(Quoted(text) + " is not true or false");
      settings.*std::get<bool Settings::*>(key.field) = text == "true";
      return Status::Ok();
    }
    case ConfigType::kAutoOrCount:
      if (text == "auto") {
        settings.*std::get<uint64_t Settings::*>(key.field) = 0;
        return Status::Ok();
      }
      [[fallthrough]];
    case ConfigType::kCount: {
      Result<uint64_t> value = ParseCount(text, key.min, key.max);
      if (!value.ok()) {
        if (key.type == ConfigType::kCount) return value.status();
        return Invalid(value.status().message() + ", or auto");
      }
      settings.*std::get<uint64_t Settings::*>(key.field) = *value;
      return Status::Ok();
    }
    case ConfigType::kBytes: {
      ASSIGN_OR_RETURN(const uint64_t value, ParseBytes(text));
      if (value % key.multiple_of != 0) {
        return Invalid(Quoted(text) + " is not a multiple of " + FormatBytesExact(key.multiple_of) +
                       ": use " + FormatBytesExact(std::max(key.min, AlignUp(value, key.multiple_of))));
      }
      if (value < key.min) {
        return Invalid(Quoted(text) + " is too small: use at least " + FormatBytesExact(key.min));
      }
      if (value > key.max) {
        return Invalid(Quoted(text) + " is too large: use at most " + FormatBytesExact(key.max));
      }
      settings.*std::get<uint64_t Settings::*>(key.field) = value;
      return Status::Ok();
    }
    case ConfigType::kSize: {
      ASSIGN_OR_RETURN(settings.*std::get<SizeSpec Settings::*>(key.field), ParseSize(text));
      return Status::Ok();
    }
    case ConfigType::kDuration: {
      ASSIGN_OR_RETURN(const std::chrono::nanoseconds value, ParseDuration(text));
      if (static_cast<uint64_t>(value.count()) < key.min) {
        return Invalid(Quoted(text) + " is too short: use at least " +
                       FormatDuration(std::chrono::nanoseconds(key.min)));
      }
      if (static_cast<uint64_t>(value.count()) > key.max) {
        return Invalid(Quoted(text) + " is too long: use at most " +
                       FormatDuration(std::chrono::nanoseconds(key.max)));
      }
      settings.*std::get<std::chrono::nanoseconds Settings::*>(key.field) = value;
      return Status::Ok();
    }
    case ConfigType::kText:
      settings.*std::get<std::string Settings::*>(key.field) = std::string(text);
      return Status::Ok();
    case ConfigType::kChoice: {
      const std::vector<std::string> choices = SplitChoices(key.choices);
      if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
        return Invalid(Quoted(text) + " is not one of its values: use " + OneOf(choices));
      }
      settings.*std::get<std::string Settings::*>(key.field) = std::string(text);
      return Status::Ok();
    }
    case ConfigType::kPaths:
      return SetList(key, {std::string(text)}, settings);
    case ConfigType::kRules:
      if (text != "[]") {
        return Invalid(Quoted(text) +
                       " is not a list of rules: write them into a configuration file (--config), or []");
      }
      (settings.*std::get<std::vector<PathRule> Settings::*>(key.field)).clear();
      return Status::Ok();
  }
  return {Code::kInternal, "unknown type of " + std::string(key.name)};
}

Status SetList(const ConfigKey& key, std::vector<std::string> items, Settings& settings) {
  if (key.type != ConfigType::kPaths) {
    return Invalid("a list is not a value for it: write one value (" + std::string(key.unit) + ")");
  }
  if (items.empty()) return Invalid("the list is empty: name one directory");
  if (items.size() > kMaxCacheDirs) {
    return Invalid(std::to_string(items.size()) + " directories are more than the " +
                   std::to_string(kMaxCacheDirs) + " that can be used: name fewer");
  }
  for (const std::string& path : items) {
    if (path.empty() || path.front() != '/') {
      return Invalid(Quoted(path) + " is not an absolute path: begin it with /");
    }
    if (path.find('\0') != std::string::npos) return Invalid("a path cannot hold a NUL byte");
  }
  settings.*std::get<std::vector<std::string> Settings::*>(key.field) = std::move(items);
  return Status::Ok();
}

std::string GetValue(const ConfigKey& key, const Settings& settings) {
  switch (key.type) {
    case ConfigType::kBool:
      return settings.*std::get<bool Settings::*>(key.field) ? "true" : "false";
    case ConfigType::kCount:
      return std::to_string(settings.*std::get<uint64_t Settings::*>(key.field));
    case ConfigType::kAutoOrCount: {
      const uint64_t value = settings.*std::get<uint64_t Settings::*>(key.field);
      return value == 0 ? "auto" : std::to_string(value);
    }
    case ConfigType::kBytes:
      return FormatBytesExact(settings.*std::get<uint64_t Settings::*>(key.field));
    case ConfigType::kSize: {
      const SizeSpec& spec = settings.*std::get<SizeSpec Settings::*>(key.field);
      return spec.percent >= 0 ? FormatPercent(spec.percent) : FormatBytesExact(spec.bytes);
    }
    case ConfigType::kDuration:
      return FormatDuration(settings.*std::get<std::chrono::nanoseconds Settings::*>(key.field));
    case ConfigType::kText:
    case ConfigType::kChoice:
      return YamlText(settings.*std::get<std::string Settings::*>(key.field));
    case ConfigType::kPaths: {
      std::string out = "[";
      for (const std::string& path : settings.*std::get<std::vector<std::string> Settings::*>(key.field)) {
        if (out.size() > 1) out += ", ";
        out += YamlText(path);
      }
      return out + "]";
    }
    case ConfigType::kRules: {
      std::string out = "[";
      for (const PathRule& rule : settings.*std::get<std::vector<PathRule> Settings::*>(key.field)) {
        if (out.size() > 1) out += ", ";
        out += "{path: " + YamlText(rule.glob) + ", class: " + std::string(PathClassName(rule.path_class));
        if (rule.ttl) out += ", ttl: " + FormatDuration(*rule.ttl);
        out += "}";
      }
      return out + "]";
    }
  }
  return "";
}

Settings DefaultSettings() {
  Settings settings;
  for (const ConfigKey& key : kKeys) {
    std::string_view text = key.default_text;
    if (text == "\"\"") text = "";
    if (key.type == ConfigType::kPaths) text = text.substr(1, text.size() - 2);
    const Status status = SetValue(key, text, settings);
    STOKER_CHECK(status.ok());
  }
  return settings;
}

const ReservedKey* FindReservedKey(std::string_view name) {
  for (const ReservedKey& key : kReserved) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::span<const AlluxioKey> AlluxioKeys() {
  return kAlluxio;
}

const AlluxioKey* FindAlluxioKey(std::string_view name) {
  for (const AlluxioKey& key : kAlluxio) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

bool LooksLikeAlluxio(std::string_view name) {
  for (const std::string_view prefix : {"alluxio.", "s3a.", "fs.s3a.", "aws."}) {
    if (name.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

Result<std::string> TranslateAlluxioValue(const AlluxioKey& key, std::string_view value) {
  const ConfigKey* native = FindConfigKey(key.native);
  STOKER_CHECK(native != nullptr);
  if (native->type == ConfigType::kBool) return Lower(value);
  if (native->type != ConfigType::kBytes) return std::string(value);
  double number = 0;
  const char* end = value.data() + value.size();
  const auto [stop, error] = std::from_chars(value.data(), end, number, std::chars_format::fixed);
  const std::string suffix = Lower(std::string_view(stop, static_cast<size_t>(end - stop)));
  constexpr std::string_view kPowers = "kmgtp";
  double factor = 1;
  const size_t power = suffix.empty() ? std::string_view::npos : kPowers.find(suffix.front());
  const bool known = suffix.empty() || suffix == "b" ||
                     (power != std::string_view::npos &&
                      (suffix.size() == 1 || suffix.substr(1) == "b" || suffix.substr(1) == "ib"));
  if (error != std::errc() || !known || !(number >= 0)) {
    return Invalid(Quoted(value) +
                   " is not a size: write a number with B, KB, MB, GB or TB (binary, as in Alluxio)");
  }
  if (power != std::string_view::npos) factor = std::pow(1024.0, static_cast<double>(power + 1));
  const double bytes = number * factor;
  if (bytes >= 9.0e18 || bytes != std::floor(bytes)) {
    return Invalid(Quoted(value) + " does not come to a whole number of bytes within the limits");
  }
  return FormatBytesExact(static_cast<uint64_t>(bytes));
}

std::string RenderDefaultYaml() {
  std::string out =
      "# Stoker's settings: every key with its default. Copy what you change to /etc/stoker.yaml, or name "
      "your file\n"
      "# with --config. Options on the command line win over both; `stoker config show` tells what is in "
      "force, and\n"
      "# why. Sizes: KiB, MiB, GiB, TiB are binary, KB, MB, GB, TB decimal. Times: ms, s, m, h, d.\n";
  std::string_view section;
  for (const ConfigKey& key : kKeys) {
    const size_t dot = key.name.find('.');
    if (key.name.substr(0, dot) != section) {
      section = key.name.substr(0, dot);
      out += "\n" + std::string(section) + ":\n";
    }
    for (const std::string& line : Wrap(key.meaning, 100)) out += "  # " + line + "\n";
    std::string unit = "Value: " + std::string(key.unit);
    if (const std::string limits = LimitsText(key); !limits.empty()) unit += "; " + limits;
    for (const std::string& line : Wrap(unit + ".", 100)) out += "  # " + line + "\n";
    for (const std::string& line : Wrap("Why: " + std::string(key.reason) + ".", 100))
      out += "  # " + line + "\n";
    out += "  " + std::string(key.name.substr(dot + 1)) + ": " + std::string(key.default_text) + "\n";
  }
  return out;
}

std::string RenderMetricsPage() {
  return "# Metrics\n\n"
         "Printed by `stoker config metrics` from the list that the program counts with. `GET /metrics` on "
         "the control\n"
         "socket ([control.md](control.md)) gives them as Prometheus text, `stoker status --json` under "
         "`metrics`.\n"
         "Counters begin at zero with the daemon; gauges return to zero when it is idle, unless they say "
         "otherwise.\n\n" +
         RenderMetricsMarkdown();
}

std::string RenderConfigMarkdown() {
  std::string out =
      "# Configuration\n\n"
      "Printed by `stoker config docs` from the list that the program parses with.\n\n"
      "Where values come from, later ones win: the built-in defaults, `/etc/stoker.yaml` when it exists, the "
      "file of\n"
      "`--config`, the file of `--alluxio-properties`, `-o key=value` and flags. `stoker config show` prints "
      "what is in\n"
      "force and where each value came from. Unknown keys are refused. Sizes: `KiB MiB GiB TiB` are binary,\n"
      "`KB MB GB TB` decimal; sizes and times need their unit.\n\n"
      "| Key | Default | Value | Flag | Meaning | Why this default |\n|---|---|---|---|---|---|\n";
  for (const ConfigKey& key : kKeys) {
    std::string unit(key.unit);
    if (const std::string limits = LimitsText(key); !limits.empty()) unit += "; " + limits;
    const std::string flag = key.flag.empty() ? "" : "`" + std::string(key.flag) + "`";
    out += "| `" + std::string(key.name) + "` | `" + std::string(key.default_text) + "` | " + unit + " | " +
           flag + " | " + std::string(key.meaning) + " | " + std::string(key.reason) + " |\n";
  }
  out +=
      "\n## Keys that later versions will have\n\n"
      "They are refused, except with the value that holds anyway.\n\n| Key | Accepted value | Because "
      "|\n|---|---|---|\n";
  for (const ReservedKey& key : kReserved) {
    const std::string value = key.only_value.empty() ? "none" : "`" + std::string(key.only_value) + "`";
    out += "| `" + std::string(key.name) + "` | " + value + " | " + std::string(key.why) + " |\n";
  }
  out +=
      "\n## Alluxio's names\n\n"
      "Accepted in YAML (flat), with `-o`, and from an `alluxio-site.properties` given with "
      "`--alluxio-properties`.\n"
      "Sizes in these keys are read as Alluxio reads them: `4MB` is 4 MiB, and a number without a unit is "
      "bytes.\n\n"
      "| Alluxio's key | Sets |\n|---|---|\n";
  for (const AlluxioKey& key : kAlluxio) {
    if (!key.native.empty())
      out += "| `" + std::string(key.name) + "` | `" + std::string(key.native) + "` |\n";
  }
  out +=
      "\nThese are known and refused by name, as they have no meaning here:\n\n| Alluxio's key | Here "
      "|\n|---|---|\n";
  for (const AlluxioKey& key : kAlluxio) {
    if (key.native.empty()) out += "| `" + std::string(key.name) + "` | " + std::string(key.why) + " |\n";
  }
  return out;
}

}  // namespace stoker
