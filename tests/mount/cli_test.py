#!/usr/bin/python3
"""The command line against real mounts: mount, umount, status, warm, jobs, config."""
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness
from harness import BAD_INPUT, FAILED, INTERRUPTED, OK, Place, Storage

MIB = 1 << 20


class Mounting(unittest.TestCase):
    def test_from_mount_to_umount(self):
        with Place() as place:
            content = os.urandom(3 * MIB + 17)
            place.write("dir/file", content)
            result = place.mount()
            # It answers the moment the command returns.
            with open(place.mnt + "/dir/file", "rb") as file:
                self.assertEqual(file.read(), content)
            status = place.status()
            pid = status["pid"]
            self.assertEqual(result.stdout, f"mounted {place.ufs} at {place.mnt} (pid {pid}, log {place.log})\n")
            self.assertEqual(result.stderr, "")
            self.assertEqual((status["ufs"], status["mountpoint"]), (place.ufs, place.mnt))
            self.assertEqual(status["cache"]["dir"], place.cache)
            self.assertIsInstance(status["passthrough"]["active"], bool)
            self.assertNotEqual(status["passthrough"]["reason"], "")
            self.assertEqual(status["reads"]["bytes_ufs"], len(content))
            self.assertEqual(os.getsid(pid), pid, "a session of its own")
            self.assertEqual(os.readlink(f"/proc/{pid}/fd/0"), "/dev/null")
            self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
            with open(f"/proc/{pid}/limits") as limits:
                soft, hard = re.search(r"Max open files\s+(\d+)\s+(\d+)", limits.read()).groups()
            self.assertEqual(soft, hard)
            page = place.stoker("status", place.mnt, check=OK).stdout
            self.assertIn(f"{place.mnt} shows {place.ufs}\n", page)
            self.assertIn("and their reads are not seen here", page)
            self.assertEqual(place.stoker("status", place.mnt + "/dir", check=OK).stdout.splitlines()[0],
                             page.splitlines()[0], "any path inside will do")
            result = place.umount()
            self.assertEqual(result.stdout + result.stderr, "")
            self.assertFalse(harness.is_alive(pid))
            self.assertFalse(harness.is_mounted(place.mnt))
            self.assertFalse(os.path.exists(place.socket()))
            log = place.read_log()
            self.assertRegex(log, r"info daemon: mounted .* passthrough ")
            self.assertTrue(log.endswith("info daemon: ended\n"), log)

    def test_passthrough_off_is_obeyed_and_said(self):
        with Place() as place:
            place.mount("--passthrough=off")
            status = place.status()
            self.assertFalse(status["passthrough"]["active"])
            self.assertIn("off", status["passthrough"]["reason"])

    def test_config_file_flags_and_origins(self):
        with Place() as place:
            config = place.path("c.yaml")
            with open(config, "w") as file:
                file.write(f"cache:\n  dirs: [{place.cache}]\n  size: 64MiB\nprefetch: {{threads: 5}}\n")
            show = place.stoker("config", "show", "--config", config, "-o", "prefetch.budget=64MiB", check=OK).stdout
            self.assertRegex(show, rf"threads: 5 +# {re.escape(config)}:4\n")
            self.assertRegex(show, r"budget: 64MiB +# option -o\n")
            self.assertRegex(show, r"max_parts: 4 +# (default|/etc/stoker.yaml:\d+)\n")
            as_json = json.loads(place.stoker("config", "show", "--config", config, "--json", check=OK).stdout)
            self.assertEqual(as_json["prefetch.threads"]["value"], 5)
            self.assertEqual(as_json["cache.size"]["source"], f"{config}:3")
            place.stoker("mount", place.ufs, place.mnt, "--config", config, "--log-file", place.log, check=OK)
            self.assertEqual(place.status()["cache"]["limit_bytes"], 64 * MIB)
            place.umount()
            properties = place.path("alluxio-site.properties")
            with open(properties, "w") as file:
                file.write("alluxio.user.position.reader.streaming.async.prefetch.part.length=8MB\n")
            show = place.stoker("config", "show", "--alluxio-properties", properties, check=OK).stdout
            self.assertRegex(show, rf"part_length: 8MiB +# {re.escape(properties)}:1, as alluxio\.user\.\S+part\.length\n")

    def test_cache_survives_umount_and_kill(self):
        with Place() as place:
            place.expect_log("cleared a dead mount")
            place.fill(4, MIB)
            place.mount()
            place.warm()
            place.umount()
            place.mount()
            self.assertEqual(place.status()["cache"]["complete_objects"], 4)
            place.kill_daemon()
            place.mount()
            self.assertEqual(place.status()["cache"]["complete_objects"], 4)
            place.warm()
            self.assertEqual(place.status()["reads"]["bytes_ufs"], 0)

    def test_foreground_logs_to_stderr_and_ends_on_signals(self):
        for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(signal=signum), Place() as place:
                child = place.spawn("mount", place.ufs, place.mnt, "--cache-dir", place.cache, "--foreground")
                harness.wait_until(lambda: place.stoker("status", place.mnt).returncode == OK, "ready")
                child.send_signal(signum)
                _, err = child.communicate(timeout=30)
                self.assertEqual(child.returncode, OK)
                self.assertIn("info daemon: mounted", err)
                self.assertIn(f"stopping: signal {int(signum)}", err)
                self.assertTrue(err.endswith("info daemon: ended\n"), err)
                self.assertFalse(harness.is_mounted(place.mnt))

    def test_started_without_standard_streams(self):
        with Place() as place:
            place.mount(wrap=("sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-'))
            self.assertTrue(harness.is_mounted(place.mnt))
            place.umount()

    def test_unmounted_from_outside(self):
        with Place() as place:
            child = place.mount_foreground()
            subprocess.run(["umount", place.mnt], check=True)
            self.assertEqual(child.wait(30), OK)
            self.assertFalse(os.path.exists(place.socket()))

    def test_two_mounts_side_by_side(self):
        with Place() as place:
            other = place.path("other dir")
            os.mkdir(other)
            place.mount()
            place.mount(mnt=other, cache=place.path("cache2"), log=place.path("log2"))
            everything = json.loads(place.stoker("status", "--json", check=OK).stdout)["mounts"]
            mine = [m["mountpoint"] for m in everything if m["mountpoint"].startswith(place.dir)]
            self.assertEqual(mine, sorted([place.mnt, other]))
            table = place.stoker("status", check=OK).stdout
            self.assertIn(place.mnt, table)
            self.assertIn(other, table)
            result = place.stoker("warm", place.mnt, other, check=BAD_INPUT)
            self.assertEqual(result.stderr, f"stoker: the paths lie in two mounts, {place.mnt} and {other}: warm one mount "
                                            "at a time\n")

    def test_control_socket_elsewhere_and_tcp(self):
        with Place() as place:
            mine = place.path("my.sock")
            with harness.socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            place.mount("--control-socket", mine, "-o", f"control.http=127.0.0.1:{port}")
            self.assertEqual(os.readlink(place.socket()), mine)
            self.assertEqual(os.stat(mine).st_mode & 0o777, 0o600)
            code, text = harness.ask(mine, "GET", "/metrics")
            self.assertEqual(code, 200)
            self.assertIn("# TYPE stoker_read_hits_total counter\n", text)
            self.assertEqual(place.status()["mountpoint"], place.mnt, "found from the mount point")
            tcp = harness.http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            tcp.request("GET", "/metrics")
            self.assertEqual(tcp.getresponse().status, 200)
            tcp.close()
            tcp.request("POST", "/stop")
            self.assertEqual(tcp.getresponse().status, 404)
            tcp.close()
            place.umount()
            self.assertFalse(os.path.lexists(place.socket()))
            self.assertFalse(os.path.lexists(mine))


class BadInput(unittest.TestCase):
    def refused(self, place, message, *options, status=BAD_INPUT, wrap=(), **places):
        result = place.mount(*options, check=status, wrap=wrap, **places)
        self.assertEqual(result.stderr, f"stoker: {message}\n")
        self.assertEqual(result.stdout, "")

    def test_places_that_cannot_be(self):
        with Place() as place:
            none, file, full = place.path("none"), place.path("file"), place.path("full")
            open(file, "w").close()
            os.mkdir(full)
            open(full + "/thing", "w").close()
            self.refused(place, f"UFS '{none}' does not exist; create it, mount the storage it lives on, or correct the path",
                         ufs=none)
            self.refused(place, f"mount point '{full}' is not empty (it holds 'thing'): choose an empty directory", mnt=full)
            self.refused(place, f"mount point '{file}' is not a directory: choose an empty directory", mnt=file)
            self.refused(place, f"mount point '{none}' does not exist: create it with `mkdir -p {none}`", mnt=none)
            self.refused(place, f"cache directory '{place.ufs}/c' lies inside the UFS '{place.ufs}': set cache.dirs to a "
                                "place outside of it", cache=place.ufs + "/c")
            self.refused(place, f"cache directory '{place.mnt}' lies inside the mount point '{place.mnt}': set cache.dirs to "
                                "a place outside of it", cache=place.mnt)
            self.assertEqual(os.listdir(place.ufs), [], "nothing was touched")
            self.assertFalse(harness.is_mounted(place.mnt))

    def test_unwritable_cache_directory(self):
        with Place() as place:
            ro = place.path("ro")
            os.mkdir(ro)
            subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", ro], check=True)
            try:
                self.refused(place, f"cache directory '{ro}/c' is not writable: Read-only file system: set cache.dirs to a "
                                    "place on a writable local disk", cache=ro + "/c")
            finally:
                subprocess.run(["umount", ro], check=True)

    def test_bad_settings(self):
        with Place() as place:
            config = place.path("c.yaml")
            for text, message in (
                    ("prefetch:\n  threds: 3\n", "2: unknown key 'prefetch.threds': did you mean 'prefetch.threads'?"),
                    ("prefetch:\n  part_length: 3\n",
                     "2: prefetch.part_length: '3' is not a size: the unit is missing, e.g. 3MiB"),
                    ("prefetch:\n  part_length: 3KB\n",
                     "2: prefetch.part_length: '3KB' is not a multiple of 4KiB: use 4KiB"),
                    ("prefetch:\n  threads: 0\n",
                     "2: prefetch.threads: '0' is too small: use a whole number from 1 to 1024"),
                    ("cache:\n  size: 1MiB\n",
                     "2: cache.size: 1MiB is smaller than one part (prefetch.part_length is 4MiB): raise it to at least "
                     "4MiB")):
                with open(config, "w") as file:
                    file.write(text)
                self.refused(place, f"{config}:{message}", "--config", config)
            self.refused(place, "option -o: unknown key 'prefetch.thread': did you mean 'prefetch.threads'?",
                         "-o", "prefetch.thread=1")

    def test_mounted_already(self):
        with Place() as place:
            place.expect_log("is in use by stoker pid")
            place.mount()
            pid = place.status()["pid"]
            self.refused(place, f"'{place.mnt}' is already mounted by stoker pid {pid}: `stoker umount {place.mnt}` ends it",
                         cache=place.path("cache2"))
            self.assertTrue(harness.is_alive(pid))
            other = place.path("other")
            os.mkdir(other)
            result = place.mount(mnt=other, check=FAILED)
            self.assertRegex(result.stderr,
                             rf"^stoker: cache directory {re.escape(place.cache)} is in use by stoker pid {pid}\b.*\n$")
            self.assertFalse(harness.is_mounted(other))
            # Somebody else's mount.
            subprocess.run(["mount", "-t", "tmpfs", "mine", other], check=True)
            self.refused(place, f"mount point '{other}' is a mount already (tmpfs of mine): unmount it or choose another "
                                "directory", mnt=other, cache=place.path("cache2"))
            self.assertEqual(place.stoker("umount", other, check=BAD_INPUT).stderr,
                             f"stoker: '{other}' is a mount of type tmpfs, not one of stoker's: use `umount {other}`\n")
            subprocess.run(["umount", other], check=True)

    def test_no_dev_fuse(self):
        with Place() as place:
            # A mount namespace in which the device is hidden, as in a container that was not given it.
            hide = ("unshare", "--mount", "sh", "-c", "mount --bind /dev/null /dev/fuse && exec \"$@\"", "sh")
            self.refused(place, "there is no /dev/fuse: load the module with `modprobe fuse`; for a container add `--device "
                                "/dev/fuse --cap-add SYS_ADMIN`", status=FAILED, wrap=hide)
            self.assertFalse(os.path.exists(place.cache))

    def test_not_permitted_to_mount(self):
        with Place() as place:
            place.expect_log("CAP_SYS_ADMIN")
            result = place.mount(check=FAILED, wrap=("setpriv", "--bounding-set=-sys_admin"))
            self.assertEqual(result.stderr, f"stoker: mounting on {place.mnt}: mounting needs root (CAP_SYS_ADMIN)\n")

    def test_a_log_that_cannot_be(self):
        with Place() as place:
            blocker = place.path("file")
            open(blocker, "w").close()
            result = place.stoker("mount", place.ufs, place.mnt, "--cache-dir", place.cache, "--log-file",
                                  blocker + "/log")
            self.assertNotEqual(result.returncode, OK)
            self.assertRegex(result.stderr, r"^stoker: .*: set log\.file to another place\n$")


class Ending(unittest.TestCase):
    def test_dead_mount_is_told_cleared_and_replaced(self):
        with Place() as place:
            place.expect_log("cleared a dead mount at")
            place.write("file", b"content")
            place.mount()
            place.kill_daemon()
            self.assertTrue(harness.is_mounted(place.mnt))
            result = place.stoker("status", place.mnt, check=FAILED)
            self.assertEqual(result.stderr, f"stoker: '{place.mnt}' is a dead mount, its daemon has died: `stoker umount "
                                            f"{place.mnt}` clears it, `stoker mount` there replaces it\n")
            result = place.stoker("warm", place.mnt, check=FAILED)
            self.assertIn("its daemon has died", result.stderr)
            result = place.mount()
            self.assertEqual(result.stderr, f"stoker: cleared a dead mount at {place.mnt}\n")
            self.assertIn(f"warning daemon: cleared a dead mount at {place.mnt}: its daemon had died", place.read_log())
            with open(place.mnt + "/file", "rb") as file:
                self.assertEqual(file.read(), b"content")
            place.kill_daemon()
            result = place.umount()
            self.assertEqual(result.stderr, f"stoker: {place.mnt}: cleared a dead mount, its daemon had died\n")
            self.assertFalse(harness.is_mounted(place.mnt))
            self.assertFalse(os.path.exists(place.socket()))
            self.assertEqual(place.umount(check=BAD_INPUT).stderr, f"stoker: '{place.mnt}' is not a mount point\n")

    def test_busy_umount_is_bounded(self):
        with Place() as place:
            place.write("file", os.urandom(MIB))
            place.mount("-o", "fuse.stop_grace=1s")
            pid = place.status()["pid"]
            with open(place.mnt + "/file", "rb") as held:
                held.read(1)
                sitter = subprocess.Popen(["sleep", "100"], cwd=place.mnt)
                begin = time.monotonic()
                place.umount()
                took = time.monotonic() - begin
                sitter.kill()
                sitter.wait()
            self.assertLess(took, 15 * harness.PATIENCE)
            self.assertFalse(harness.is_mounted(place.mnt))
            self.assertFalse(harness.is_alive(pid))
            place.mount()  # and the place is free again
            self.assertEqual(os.listdir(place.mnt), ["file"])

    def test_umount_while_a_reader_waits_for_storage_that_hangs(self):
        with Place() as place:
            place.expect_log(".")  # what is left behind is said there, in the words of whoever notices
            place.write("file", os.urandom(MIB))
            storage = Storage(place)
            place.mount("-o", "fuse.stop_grace=1s,fuse.open_fetch=0", ufs=storage.path)
            with open(place.mnt + "/file", "rb") as file, storage:  # an open would wait for the storage as well
                reader = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                file.close()
                harness.wait_until(lambda: place.metrics()["read_waiting"] > 0, "the reader waits")
                begin = time.monotonic()
                place.stoker("umount", place.mnt)
                self.assertLess(time.monotonic() - begin, 40 * harness.PATIENCE)
                self.assertFalse(harness.is_mounted(place.mnt))
                self.assertNotEqual(reader.wait(30), 0, "it was told")

    def test_a_daemon_that_hangs_is_taken_away(self):
        with Place() as place:
            place.write("file", b"x")
            place.mount()
            pid = place.status()["pid"]
            os.kill(pid, signal.SIGSTOP)
            try:
                result = place.umount()
                self.assertIn("its daemon does not answer: aborted", result.stderr)
                self.assertFalse(harness.is_mounted(place.mnt))
            finally:
                os.kill(pid, signal.SIGKILL)
            harness.wait_until(lambda: not harness.is_alive(pid), "the daemon ends")

    def test_a_second_signal_ends_at_once(self):
        with Place() as place:
            place.expect_log("leaving without tidying up: a second signal came")
            place.expect_log("read: Unavailable: the mount is being ended")
            place.write("file", os.urandom(MIB))
            storage = Storage(place)
            child = place.mount_foreground("-o", "fuse.open_fetch=0", ufs=storage.path)
            with open(place.mnt + "/file", "rb") as file, storage:  # an open would wait for the storage as well
                reader = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                file.close()
                harness.wait_until(lambda: place.metrics()["read_waiting"] > 0, "the reader waits")
                child.send_signal(signal.SIGTERM)
                harness.wait_until(lambda: "stopping: signal" in place.read_log(), "the first signal is heard")
                child.send_signal(signal.SIGTERM)
                harness.wait_until(lambda: "a second signal came" in place.read_log(), "the second one too")
                self.assertFalse(harness.is_mounted(place.mnt))
                reader.wait(30)
            self.assertEqual(child.wait(30), FAILED)


class Warming(unittest.TestCase):
    def test_all_is_cached(self):
        with Place() as place:
            place.fill(20, 100_000)
            place.write("sub/deep/large", os.urandom(9 * MIB))
            place.write("empty", b"")
            os.symlink("empty", place.ufs + "/link")
            place.mount()
            result = place.warm()
            self.assertRegex(result.stdout.splitlines()[-1],
                             r"^warm: all is cached: 22 files, 10\.9 MiB; 10\.9 MiB fetched in \d+:\d\d \(.*/s\); 1 entry "
                             r"skipped, not a regular file or of class skip$")
            self.assertEqual(result.stderr, "")
            fetched = place.status()["reads"]["bytes_ufs"]
            self.assertEqual(fetched, 20 * 100_000 + 9 * MIB)
            self.assertRegex(place.warm().stdout.splitlines()[-1], "; 0 B fetched in ")
            self.assertEqual(place.status()["reads"]["bytes_ufs"], fetched, "nothing is fetched twice")
            jobs = place.stoker("jobs", place.mnt, check=OK).stdout
            self.assertEqual(len(re.findall(r"^\d+ done +warm: all is cached: ", jobs, re.M)), 2, jobs)

    def test_where_paths_may_begin(self):
        with Place() as place:
            place.write("a/x", b"1")
            place.write("b c/y", b"22")
            name = b"n\xff\xfe"
            with open(os.fsencode(place.ufs) + b"/" + name, "wb") as file:
                file.write(b"333")
            os.symlink("a", place.ufs + "/to-a")
            os.symlink(place.mnt + "/b c", place.path("outside"))
            place.mount()

            def warmed(*arguments, **more):
                out = place.stoker("warm", *arguments, check=OK, **more).stdout
                return re.search(r"all is cached: (\d+) file", out.splitlines()[-1])[1]
            self.assertEqual(warmed("a", cwd=place.mnt), "1")
            self.assertEqual(warmed("../b c/y", cwd=place.mnt + "/a"), "1")
            self.assertEqual(warmed("--mount", place.mnt, "a", "b c/y", cwd="/"), "2")
            self.assertEqual(warmed(place.mnt + "/to-a"), "1", "a symlink that was named is followed")
            self.assertEqual(warmed(place.path("outside")), "1")
            self.assertEqual(warmed(os.fsencode(place.mnt) + b"/" + name), "1")
            self.assertEqual(place.status()["cache"]["complete_objects"], 3)

            result = place.stoker("warm", place.mnt + "/none", check=BAD_INPUT)
            self.assertEqual(result.stderr, f"stoker: '{place.mnt}/none': No such file or directory\n")
            result = place.stoker("warm", place.ufs + "/a", check=BAD_INPUT)
            self.assertEqual(result.stderr, f"stoker: '{place.ufs}/a' is in the UFS itself: name it below its mount point "
                                            f"{place.mnt}\n")
            result = place.stoker("warm", "/proc/version", check=BAD_INPUT)
            self.assertEqual(result.stderr, "stoker: '/proc/version' is not inside a stoker mount but in a mount of type proc "
                                            "at /proc: `stoker status` lists the mounts there are\n")

    def test_events(self):
        with Place() as place:
            place.fill(3, 50_000)
            place.mount()
            events = [json.loads(line) for line in place.stoker("warm", "--json", place.mnt, check=OK).stdout.splitlines()]
            self.assertEqual(events[0], {"event": "start", "job": events[0]["job"], "mountpoint": place.mnt, "paths": [""]})
            self.assertEqual({e["event"] for e in events[1:-1]}, {"progress"})
            done = events[-1]
            self.assertEqual((done["event"], done["ok"], done["state"], done["files_done"], done["bytes_done"]),
                             ("done", True, "done", 3, 150_000))

    def test_what_cannot_be_read_is_named(self):
        with Place() as place:
            place.expect_log("secret")
            place.write("good", b"x" * 1000)
            secret = place.write("secret", b"y" * 1000)
            os.chown(secret, 65534, 65534)
            os.chmod(secret, 0o600)
            place.mount(wrap=("setpriv", "--bounding-set=-dac_override,-dac_read_search"))
            result = place.warm(check=FAILED)
            self.assertRegex(result.stdout.splitlines()[-1], r"^warm: not all is cached: 1 of 2 files, .*, 1 failed; ")
            self.assertRegex(result.stderr, r"^stoker: not cached: secret: .*Permission denied\n$")
            events = [json.loads(line)
                      for line in place.stoker("warm", "--json", place.mnt, check=FAILED).stdout.splitlines()]
            failures = [e for e in events if e["event"] == "failure"]
            self.assertEqual([f["path"] for f in failures], ["secret"])
            self.assertIn("Permission denied", failures[0]["reason"])
            self.assertEqual((events[-1]["event"], events[-1]["ok"], events[-1]["files_failed"]), ("done", False, 1))

    def test_what_does_not_fit_is_named(self):
        with Place() as place:
            place.fill(40, MIB)
            place.mount("--cache-size=16MiB", "--prefetch-part-length=1MiB")
            result = place.warm(check=FAILED)
            failed = int(re.search(r"(\d+) failed", result.stdout.splitlines()[-1])[1])
            self.assertGreaterEqual(failed, 24)
            lines = result.stderr.splitlines()
            self.assertEqual(len(lines), 21, "bounded")
            self.assertRegex(lines[0], r"^stoker: not cached: f\d+: .+")
            self.assertEqual(lines[-1], f"stoker: and {failed - 20} more")
            self.assertLessEqual(place.status()["cache"]["used_bytes"], 16 * MIB)

    def test_interrupt_cancels_the_job(self):
        with Place() as place:
            place.write("held", os.urandom(MIB))
            storage = Storage(place)
            place.mount(ufs=storage.path)
            with storage:
                child = place.spawn("warm", "--json", place.mnt)
                self.assertEqual(json.loads(child.stdout.readline())["event"], "start")
                self.assertEqual(json.loads(child.stdout.readline())["event"], "progress")
                child.send_signal(signal.SIGINT)
                self.assertEqual(child.stderr.readline(), "stoker: cancelling (interrupt again to leave at once)\n")
                # The daemon has taken the wish once it has answered something that was asked after it: perhaps the end.
                answered = child.stdout.readline()
            out, _ = child.communicate(timeout=60)
            self.assertEqual(child.returncode, INTERRUPTED)
            done = json.loads((answered + out).splitlines()[-1])
            self.assertEqual((done["event"], done["ok"], done["state"]), ("done", False, "cancelled"))
            place.warm()

    def test_a_second_interrupt_leaves_at_once(self):
        with Place() as place:
            place.write("held", os.urandom(MIB))
            storage = Storage(place)
            place.mount(ufs=storage.path)
            pid = place.status()["pid"]
            with storage:
                child = place.spawn("warm", "--json", place.mnt)
                child.stdout.readline()
                child.stdout.readline()
                os.kill(pid, signal.SIGSTOP)  # so that the cancellation is not answered
                child.send_signal(signal.SIGINT)
                harness.wait_until(lambda: child.poll() is not None or child.send_signal(signal.SIGINT), "it leaves", 10)
                self.assertEqual(child.returncode, INTERRUPTED)
                os.kill(pid, signal.SIGCONT)

    def test_detached_jobs_can_be_seen_and_cancelled(self):
        with Place() as place:
            place.write("held", os.urandom(MIB))
            storage = Storage(place)
            place.mount(ufs=storage.path)
            with storage:
                result = place.stoker("warm", "--detach", place.mnt, check=OK)
                job = re.match(rf"job (\d+) is running: `stoker jobs {re.escape(place.mnt)}` follows it\n$", result.stdout)[1]
                self.assertIn(f"{job} running ", place.stoker("jobs", place.mnt, check=OK).stdout)
                self.assertEqual(place.status()["warm_jobs_running"], 1)
                self.assertEqual(place.stoker("jobs", place.mnt, "--cancel", job, check=OK).stdout,
                                 f"job {job} is cancelled\n")
            harness.wait_until(lambda: f"{job} cancelled" in place.stoker("jobs", place.mnt, check=OK).stdout, "cancelled")
            self.assertEqual(place.stoker("jobs", place.mnt, "--cancel", "99").returncode, BAD_INPUT)

    def test_the_daemon_dies_meanwhile(self):
        with Place() as place:
            place.write("held", os.urandom(MIB))
            storage = Storage(place)
            place.mount(ufs=storage.path)
            pid = place.status()["pid"]
            with storage:
                child = place.spawn("warm", place.mnt)
                child.stdout.readline()
                os.kill(pid, signal.SIGKILL)
                _, err = child.communicate(timeout=30)
            harness.wait_until(lambda: not harness.is_alive(pid), "it ends")
            self.assertEqual(child.returncode, FAILED)
            self.assertRegex(err, r"^stoker: warming was not followed to its end: .*daemon.*\n$")

    def test_a_terminal_gets_a_bar(self):
        with Place() as place:
            place.fill(3, 100_000)
            place.mount()
            master, slave = os.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x18\x00\x64\x00\x00\x00\x00\x00")  # 24 rows, 100 columns
            child = place.spawn("warm", place.mnt, stdout=slave)
            os.close(slave)
            text = b""
            while True:
                try:
                    chunk = os.read(master, 4096)
                except OSError:  # EIO: the other end is closed
                    break
                if not chunk:
                    break
                text += chunk
            os.close(master)
            self.assertEqual(child.wait(30), OK)
            bars = re.findall(rb"\r\x1b\[K(\[[^\r]*)", text)
            self.assertGreaterEqual(len(bars), 1, text)
            self.assertTrue(all(len(bar) < 100 for bar in bars), bars)
            self.assertIn(b"warm: all is cached: 3 files", text)


if __name__ == "__main__":
    harness.main()
