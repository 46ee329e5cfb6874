#include "fuse/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fuse/config.h"
#include "fuse/mount_check.h"
#include "fuse/status_page.h"
#include "fuse/warm_display.h"
#include "tests/support/temp_dir.h"

namespace stoker {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TempDir;

struct Outcome {
  int exit_status = 0;
  std::string out;
  std::string err;
};

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"ufs", "mnt", "ufs/inner"}) std::filesystem::create_directory(dir_ / name);
  }
  Outcome Run(std::vector<std::string> arguments) {
    std::vector<const char*> argv{"stoker"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    CliHooks hooks;
    hooks.run_daemon = [this](const DaemonRequest& request, const ReadyCallback& ready) {
      request_ = request;
      ready(daemon_status_);
      return daemon_status_.ok() ? 0 : 1;
    };
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    Outcome outcome;
    outcome.exit_status = RunCli(static_cast<int>(argv.size()), argv.data(), hooks);
    outcome.out = ::testing::internal::GetCapturedStdout();
    outcome.err = ::testing::internal::GetCapturedStderr();
    return outcome;
  }
  /// A foreground mount of ufs at mnt with a good cache directory, unless the arguments say otherwise.
  Outcome Mount(const std::string& ufs, const std::string& mountpoint, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"mount", ufs, mountpoint, "--foreground"};
    bool has_cache = false;
    for (const std::string& argument : more) has_cache |= argument.find("cache") != std::string::npos;
    if (!has_cache) more.push_back("--cache-dir=" + (dir_ / "cache"));
    arguments.insert(arguments.end(), more.begin(), more.end());
    return Run(arguments);
  }
  void ExpectRefused(const Outcome& outcome, const std::string& message, int exit_status = kExitBadInput) {
    EXPECT_EQ(outcome.err, "stoker: " + message + "\n");
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.exit_status, exit_status);
    EXPECT_FALSE(request_.has_value()) << "the daemon must not have been started";
  }
  bool HasFuse() { return ::access("/dev/fuse", R_OK | W_OK) == 0; }

  TempDir dir_;
  std::optional<DaemonRequest> request_;
  Status daemon_status_;
};

TEST_F(CliTest, HelpForEveryVerbHasExamples) {
  for (const auto& verb : std::vector<std::vector<std::string>>{
           {}, {"mount"}, {"umount"}, {"warm"}, {"jobs"}, {"status"}, {"config", "show"}}) {
    std::vector<std::string> arguments = verb;
    arguments.push_back("--help");
    const Outcome help = Run(arguments);
    EXPECT_EQ(help.exit_status, kExitOk);
    EXPECT_THAT(help.out, HasSubstr("Examples:\n"));
    EXPECT_EQ(help.err, "");
  }
  EXPECT_EQ(Run({"version"}).out, std::string("stoker ") + STOKER_VERSION + "\n");
  EXPECT_EQ(Run({"--version"}).out, std::string("stoker ") + STOKER_VERSION + "\n");
}

TEST_F(CliTest, WrongCommandLines) {
  EXPECT_EQ(Run({}).exit_status, kExitBadInput);
  EXPECT_THAT(Run({}).err, AllOf(StartsWith("stoker: "), HasSubstr("see `stoker --help`")));
  EXPECT_EQ(Run({"mount", "/x"}).exit_status, kExitBadInput);
  EXPECT_THAT(Run({"mount", "/x"}).err,
              AllOf(HasSubstr("MOUNTPOINT"), HasSubstr("see `stoker mount --help`")));
  EXPECT_EQ(Run({"mount", "/x", "/y", "--nonsense"}).exit_status, kExitBadInput);
  EXPECT_THAT(Run({"mount", "/x", "/y", "--nonsense"}).err, HasSubstr("--nonsense"));
  EXPECT_EQ(Run({"warm"}).exit_status, kExitBadInput);
  EXPECT_EQ(Run({"fly"}).exit_status, kExitBadInput);
  EXPECT_EQ(Run({"fly"}).err, "stoker: unknown command fly: see `stoker --help`\n");
  EXPECT_EQ(Run({"stats"}).err, "stoker: unknown command stats: did you mean status?\n");
  EXPECT_EQ(Run({"config", "shwo"}).err, "stoker: unknown command shwo: did you mean show?\n");
  EXPECT_EQ(Run({"status", "--jso"}).err, "stoker: unknown flag --jso: did you mean --json?\n");
  EXPECT_EQ(Run({"umount", "/a", "/b"}).err,
            "stoker: unexpected argument '/b': see `stoker umount --help`\n");
}

TEST_F(CliTest, ConfigCommandsPrintTheList) {
  EXPECT_EQ(Run({"config", "default"}).out, RenderDefaultYaml());
  EXPECT_EQ(Run({"config", "docs"}).out, RenderConfigMarkdown());
  const Outcome show = Run({"config", "show", "-o", "prefetch.threads=3", "-o",
                            "log.level=debug,fuse.threads=2", "--passthrough=off"});
  EXPECT_EQ(show.exit_status, kExitOk);
  EXPECT_THAT(show.out, HasSubstr("  threads: 3                          # option -o\n"));
  EXPECT_THAT(show.out, HasSubstr("  passthrough: off                    # option --passthrough\n"));
  EXPECT_THAT(show.out, HasSubstr("  level: debug                        # option -o\n"));
  const Outcome bad = Run({"config", "show", "--prefetch-threads", "0"});
  EXPECT_EQ(bad.exit_status, kExitBadInput);
  EXPECT_EQ(bad.err,
            "stoker: option --prefetch-threads: prefetch.threads: '0' is too small: use a whole number from "
            "1 to 1024\n");
}

TEST_F(CliTest, MountHandsTheDaemonResolvedPaths) {
  if (!HasFuse()) GTEST_SKIP() << "no /dev/fuse";
  std::filesystem::create_symlink("mnt", dir_ / "link");
  const Outcome outcome = Mount("file://" + (dir_ / "ufs/../ufs"), dir_ / "link/",
                                {"--passthrough=off", "-o", "prefetch.threads=7"});
  EXPECT_EQ(outcome.exit_status, kExitOk) << outcome.err;
  ASSERT_TRUE(request_.has_value());
  EXPECT_EQ(request_->ufs, dir_ / "ufs");
  EXPECT_EQ(request_->mountpoint, dir_ / "mnt");
  EXPECT_EQ(request_->settings.cache_dirs, std::vector<std::string>{dir_ / "cache"});
  EXPECT_EQ(request_->settings.prefetch_threads, 7u);
  EXPECT_EQ(request_->settings.fuse_passthrough, "off");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "cache")) << "checks touch nothing";
}

TEST_F(CliTest, TheDaemonsReasonIsTheCommandsReason) {
  if (!HasFuse()) GTEST_SKIP() << "no /dev/fuse";
  daemon_status_ = Status(Code::kBusy, "the cache is in use by pid 7");
  const Outcome front = Mount(dir_ / "ufs", dir_ / "mnt");
  EXPECT_EQ(front.exit_status, kExitFailed);
  EXPECT_EQ(front.err, "stoker: the cache is in use by pid 7\n");
  const Outcome back =
      Run({"mount", dir_ / "ufs", dir_ / "mnt", "--cache-dir", dir_ / "cache", "--log-file", dir_ / "log"});
  EXPECT_EQ(back.exit_status, kExitFailed);
  EXPECT_EQ(back.err, "stoker: the cache is in use by pid 7\n");
}

TEST_F(CliTest, BadMounts) {
  const std::string ufs = dir_ / "ufs";
  const std::string mnt = dir_ / "mnt";
  std::ofstream(dir_ / "file") << "x";
  std::filesystem::create_directory(dir_ / "full");
  std::ofstream(dir_ / "full/thing") << "x";

  ExpectRefused(Mount(dir_ / "none", mnt),
                "UFS '" + (dir_ / "none") +
                    "' does not exist; create it, mount the storage it lives on, or correct "
                    "the path");
  EXPECT_THAT(Mount(dir_ / "file", mnt).err, HasSubstr("is not a directory"));
  EXPECT_THAT(Mount("s3://bucket", mnt).err, HasSubstr("unknown scheme 's3'"));
  ExpectRefused(Mount(ufs, dir_ / "none"), "mount point '" + (dir_ / "none") +
                                               "' does not exist: create it with `mkdir -p " +
                                               (dir_ / "none") + "`");
  ExpectRefused(Mount(ufs, dir_ / "none/x"), "mount point '" + (dir_ / "none/x") +
                                                 "' does not exist: create it with `mkdir -p " +
                                                 (dir_ / "none/x") + "`");
  ExpectRefused(Mount(ufs, dir_ / "file"),
                "mount point '" + (dir_ / "file") + "' is not a directory: choose an empty directory");
  ExpectRefused(
      Mount(ufs, dir_ / "full"),
      "mount point '" + (dir_ / "full") + "' is not empty (it holds 'thing'): choose an empty directory");
  EXPECT_THAT(Mount(ufs, "/proc").err, AllOf(HasSubstr("mount point '/proc' is a mount already (proc of "),
                                             EndsWith("): unmount it or choose another directory\n")));
  ExpectRefused(Mount(ufs, mnt, {"--cache-dir=" + ufs + "/c/d"}),
                "cache directory '" + ufs + "/c/d' lies inside the UFS '" + ufs +
                    "': set cache.dirs to a place outside of it");
  ExpectRefused(Mount(ufs, mnt, {"--cache-dir=" + mnt + "/c"}),
                "cache directory '" + mnt + "/c' lies inside the mount point '" + mnt +
                    "': set cache.dirs to a place outside of it");
  ExpectRefused(Mount(ufs, mnt, {"--cache-dir=" + dir_.path()}),
                "UFS '" + ufs + "' lies inside the cache directory '" + dir_.path() +
                    "': set cache.dirs to a place of its own");
  std::filesystem::create_directories(dir_ / "cache/m");
  ExpectRefused(Mount(ufs, dir_ / "cache/m"), "mount point '" + (dir_ / "cache/m") +
                                                  "' lies inside the cache directory '" + (dir_ / "cache") +
                                                  "': set cache.dirs to a place of its own");
  ExpectRefused(Mount(ufs, ufs + "/inner"), "mount point '" + ufs + "/inner' lies inside the UFS '" + ufs +
                                                "', it would show itself: choose one outside of it");
  ExpectRefused(Mount(ufs, mnt, {"--cache-dir=" + (dir_ / "file")}),
                "cache directory '" + (dir_ / "file") + "': '" + (dir_ / "file") +
                    "' is not a directory: set cache.dirs to another place");
  EXPECT_EQ(Mount(ufs, mnt, {"--cache-size=1MiB"}).err,
            "stoker: option --cache-size: cache.size: 1MiB is smaller than one part (prefetch.part_length is "
            "4MiB): raise "
            "it to at least 4MiB\n");
  EXPECT_FALSE(request_.has_value());
}

TEST_F(CliTest, NamesThatHideOneDirectoryAreSeenThrough) {
  std::filesystem::create_symlink(dir_ / "ufs", dir_ / "alias");
  EXPECT_THAT(Mount(dir_ / "ufs", dir_ / "mnt", {"--cache-dir=" + (dir_ / "alias/deep/cache")}).err,
              HasSubstr("lies inside the UFS"));
  if (::geteuid() != 0) GTEST_SKIP() << "bind mounts need root";
  std::filesystem::create_directory(dir_ / "bind");
  ASSERT_EQ(::mount((dir_ / "ufs").c_str(), (dir_ / "bind").c_str(), nullptr, MS_BIND, nullptr), 0);
  const Outcome outcome = Mount(dir_ / "ufs", dir_ / "mnt", {"--cache-dir=" + (dir_ / "bind/cache")});
  ASSERT_EQ(::umount2((dir_ / "bind").c_str(), MNT_DETACH), 0);
  EXPECT_THAT(outcome.err, HasSubstr("lies inside the UFS"));
  EXPECT_FALSE(request_.has_value());
}

TEST_F(CliTest, UnwritableCacheDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "a read-only mount needs root";
  std::filesystem::create_directory(dir_ / "ro");
  ASSERT_EQ(::mount("none", (dir_ / "ro").c_str(), "tmpfs", MS_RDONLY, nullptr), 0);
  const Outcome outcome = Mount(dir_ / "ufs", dir_ / "mnt", {"--cache-dir=" + (dir_ / "ro/cache")});
  ASSERT_EQ(::umount2((dir_ / "ro").c_str(), MNT_DETACH), 0);
  ExpectRefused(
      outcome,
      "cache directory '" + (dir_ / "ro/cache") +
          "' is not writable: Read-only file system: set cache.dirs to a place on a writable local disk");
}

TEST_F(CliTest, SeveralCacheDirectories) {
  const auto mount = [this](const std::string& dirs) {
    const std::string config = dir_ / "dirs.yaml";
    std::ofstream(config) << "cache: {dirs: [" << dirs << "], size: 64MiB}\n";
    return Run({"mount", "--foreground", "--config=" + config, dir_ / "ufs", dir_ / "mnt"});
  };
  const std::string one = dir_ / "one";
  const std::string two = dir_ / "two";
  ExpectRefused(mount(one + ", " + one), "cache directory '" + one + "' is the same as '" + one +
                                             "': name each disk once in cache.dirs");
  ExpectRefused(mount(one + ", " + one + "/in"), "cache directory '" + one + "/in' lies inside '" + one +
                                                     "': name each disk once in cache.dirs");
  std::filesystem::create_directory(one);
  std::filesystem::create_symlink(one, dir_ / "alias");
  ExpectRefused(mount((dir_ / "alias") + ", " + one), "cache directory '" + (dir_ / "alias") +
                                                          "' is the same as '" + one +
                                                          "': name each disk once in cache.dirs");
  ExpectRefused(mount(one + ", " + (dir_ / "ufs/in")), "cache directory '" + (dir_ / "ufs/in") +
                                                           "' lies inside the UFS '" + (dir_ / "ufs") +
                                                           "': set cache.dirs to a place outside of it");
  if (!HasFuse()) GTEST_SKIP() << "no /dev/fuse";
  mount(one + ", " + two);
  ASSERT_TRUE(request_.has_value());
  EXPECT_EQ(request_->settings.cache_dirs, (std::vector<std::string>{one, two}));
}

TEST_F(CliTest, CommandsOnWhatIsNoMount) {
  const std::string mnt = dir_ / "mnt";
  const Outcome umount = Run({"umount", mnt});
  EXPECT_EQ(umount.exit_status, kExitBadInput);
  EXPECT_EQ(umount.err, "stoker: '" + mnt + "' is not a mount point\n");
  EXPECT_EQ(Run({"umount", "/proc"}).err,
            "stoker: '/proc' is a mount of type proc, not one of stoker's: use `umount /proc`\n");
  EXPECT_EQ(Run({"umount", mnt, "--timeout", "5"}).err,
            "stoker: option --timeout: '5' is not a duration: the unit is missing, e.g. 5s\n");
  const std::string not_inside = "is not inside a stoker mount: `stoker status` lists the mounts there are\n";
  EXPECT_THAT(Run({"status", mnt}).err, EndsWith(not_inside));
  EXPECT_EQ(Run({"status", mnt}).exit_status, kExitBadInput);
  EXPECT_THAT(Run({"warm", mnt}).err, EndsWith(not_inside));
  EXPECT_EQ(Run({"warm", mnt}).exit_status, kExitBadInput);
  EXPECT_EQ(Run({"warm", dir_ / "none"}).err,
            "stoker: '" + (dir_ / "none") + "': No such file or directory\n");
  EXPECT_THAT(Run({"warm", "/proc/version"}).err, HasSubstr("but in a mount of type proc at /proc: "));
}

WarmProgress SomeProgress() {
  WarmProgress p;
  p.walk_finished = true;
  p.files_total = 10;
  p.files_done = 4;
  p.bytes_total = 1000 * kMiB;
  p.bytes_done = 400 * kMiB;
  p.bytes_fetched = 300 * kMiB;
  p.seconds = 3;
  p.bytes_per_second = 100.0 * kMiB;
  p.eta_seconds = 6;
  return p;
}

TEST(WarmDisplayTest, BarFitsEveryWidth) {
  WarmProgress p = SomeProgress();
  EXPECT_EQ(WarmBar(p, 100),
            "[============>                  ]  40 %  4/10 files  400.0 MiB of 1000.0 MiB  100.0 MiB/s  "
            "ETA 0:06");
  for (size_t columns = 1; columns < 300; ++columns) {
    p.files_failed = columns % 2;
    EXPECT_LE(WarmBar(p, columns).size(), std::max<size_t>(1, columns - 1)) << columns;
  }
  p.walk_finished = false;
  EXPECT_THAT(WarmBar(p, 120), HasSubstr("looking  4/10+ files"));
}

TEST(WarmDisplayTest, HundredPercentMeansDone) {
  WarmProgress p = SomeProgress();
  p.bytes_done = p.bytes_total;
  EXPECT_THAT(WarmLine(p), HasSubstr(" 99 %"));
  p.state = WarmProgress::State::kDone;
  EXPECT_THAT(WarmLine(p), HasSubstr("100 %"));
  WarmProgress empty;
  empty.walk_finished = true;
  EXPECT_EQ(WarmFraction(empty), 0);
  empty.state = WarmProgress::State::kDone;
  EXPECT_EQ(WarmFraction(empty), 1);
}

TEST(WarmDisplayTest, Summaries) {
  WarmProgress p = SomeProgress();
  p.state = WarmProgress::State::kFailed;
  p.files_failed = 6;
  EXPECT_EQ(WarmSummary(p),
            "warm: not all is cached: 4 of 10 files, 400.0 MiB of 1000.0 MiB, 6 failed; 300.0 MiB fetched in "
            "0:03 (100.0 "
            "MiB/s)");
  p.state = WarmProgress::State::kDone;
  p.files_done = 1;
  p.files_skipped = 1;
  EXPECT_EQ(WarmSummary(p),
            "warm: all is cached: 1 file, 400.0 MiB; 300.0 MiB fetched in 0:03 (100.0 MiB/s); 1 entry "
            "skipped, not a "
            "regular file or of class skip");
}

TEST(WarmDisplayTest, Clocks) {
  EXPECT_EQ(FormatClock(-1), "--:--");
  EXPECT_EQ(FormatClock(0), "0:00");
  EXPECT_EQ(FormatClock(62.4), "1:02");
  EXPECT_EQ(FormatClock(3600 + 62), "1:01:02");
  EXPECT_EQ(FormatClock(1e300), "99:59:59");
}

TEST(StatusPageTest, SaysWhatItDoesNotSee) {
  DaemonStatus s;
  s.mountpoint = "/mnt/x";
  s.ufs = "/data";
  s.version = "1.0";
  s.pid = 5;
  s.uptime_seconds = 3725;
  s.passthrough = {true, "the kernel reads whole cached files itself"};
  s.cache.used_bytes = kGiB;
  s.cache.limit_bytes = 3 * kGiB;
  s.fetch.io = "io_uring";
  const std::string page = StatusPage(s);
  EXPECT_THAT(page, HasSubstr("/mnt/x shows /data\n"));
  EXPECT_THAT(page, HasSubstr("up 1 h 2 min\n"));
  EXPECT_THAT(page, HasSubstr("1.0 GiB of 3.0 GiB (33 %)"));
  EXPECT_THAT(page, HasSubstr("their reads are not seen here"));
  EXPECT_THAT(page, HasSubstr("errors        none\n"));
  s.metrics = {{"read_errors", 2}, {"cache_no_space", 1}};
  EXPECT_THAT(StatusPage(s), HasSubstr("errors        2 failed reads, 1 parts without room\n"));
  const std::string table = StatusTable({s, s});
  EXPECT_THAT(table, StartsWith("MOUNT POINT  PID  PASSTHROUGH  CACHE                      UFS\n"));
}

TEST(MountCheckTest, PathsThatDoNotExistYet) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "a");
  std::filesystem::create_symlink("a", dir / "s");
  EXPECT_EQ(*ResolveFuturePath(dir / "s/b/c"), dir / "a/b/c");
  EXPECT_EQ(*ResolveFuturePath(dir / "a//"), dir / "a");
  EXPECT_FALSE(ResolveFuturePath(dir / "a/b/../c").ok());
  EXPECT_TRUE(*LiesWithin(dir / "a/b/c", dir / "a"));
  EXPECT_TRUE(*LiesWithin(dir / "a", dir / "a"));
  EXPECT_FALSE(*LiesWithin(dir / "ab", dir / "a"));
  EXPECT_FALSE(*LiesWithin(dir / "a", dir / "a/b"));
  EXPECT_GT(*DiskBytes(dir / "a/b/c"), 0u);
}

}  // namespace
}  // namespace stoker
