"""Private places, daemons and commands for tests that use the built programs through a real mount.

    with harness.Place() as place:
        place.write("a/b.bin", b"bytes")          # into the UFS
        place.mount("-o", "prefetch.threads=8")   # fails with the program's words
        place.stoker("warm", place.mnt)

Whatever a test leaves behind (daemons, live and dead mounts, files) is gone after the `with`. The daemons' logs are scanned
at the end: warnings and errors that the test did not announce with `place.expect_log(regex)` fail it.
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.environ.get("STOKER_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("STOKER_BIN") or os.path.join(ROOT, ".build/release/bin")
STOKER = os.path.join(BIN, "stoker")
# Sanitized builds are several times slower; a bound says "not for ever", it does not measure.
PATIENCE = 4 if os.environ.get("STOKER_SANITIZE") else 1
if "thread" in os.environ.get("STOKER_SANITIZE", ""):
    os.environ.setdefault("TSAN_OPTIONS", f"suppressions={ROOT}/tests/support/tsan.supp")

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def main():
    """Runs the calling file's tests; exit status 77 where nothing can be mounted."""
    if os.geteuid() != 0:
        print("skipped: mounting needs root")
        sys.exit(77)
    if not os.path.exists("/dev/fuse"):
        print("skipped: there is no /dev/fuse")
        sys.exit(77)
    unittest.main(verbosity=2)


def mounts():
    """(mount point, type, source) of every mount; later ones cover earlier ones at the same place."""
    def unescape(text):
        return re.sub(r"\\(\d{3})", lambda match: chr(int(match[1], 8)), text)
    out = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        for line in table:
            left, right = line.rstrip("\n").split(" - ", 1)
            out.append((unescape(left.split(" ")[4]), right.split(" ")[0], unescape(right.split(" ")[1])))
    return out


def is_mounted(path):
    return any(mount[0] == path for mount in mounts())


def wait_until(condition, what, timeout=20):
    """Polls until condition() is true and returns what it returned."""
    deadline = time.monotonic() + timeout * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout * PATIENCE} s")
        time.sleep(0.01)


def is_alive(pid):
    """True while a thread of the process runs: until then it has files open and locks held. (A zombie has ended.)"""
    def ended(thread):
        try:
            with open(f"/proc/{pid}/task/{thread}/stat") as stat:
                return stat.read().rpartition(")")[2].split()[0] in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return True
    try:
        return not all(ended(thread) for thread in os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return False


class UnixHttp(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout=30):
        super().__init__("stoker", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, target, body=None):
    """One request on a control socket: (HTTP status, text)."""
    connection = UnixHttp(path)
    try:
        connection.request(method, target, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8", "replace")
    finally:
        connection.close()


class Place:
    """A temporary directory with a UFS, a cache and a mount point in it, and the daemons started on them."""

    def __init__(self):
        self.dir = os.path.realpath(tempfile.mkdtemp(prefix="stoker-mount-", dir=os.environ.get("STOKER_TEST_TMP")))
        os.chmod(self.dir, 0o755)  # other users are let in, as on a real machine
        self.ufs = self.path("ufs")
        self.mnt = self.path("mnt")
        self.cache = self.path("cache")
        self.log = self.path("log")
        os.mkdir(self.ufs)
        os.mkdir(self.mnt)
        self._children = []
        self._frozen = []
        self._expected_log = []
        self._mountpoints = [self.mnt]  # taken away in this order
        self._logs = [self.log]
        self._on_close = []
        self._releases = []

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is None:
            self.finish()
        else:
            print(f"--- log of the daemons ---\n{self.close()}--- end of log ---", file=sys.stderr)

    def finish(self):
        """close(), then fails on what the logs should not hold. For addCleanup, where `with` does not fit."""
        surprises = [line for line in self.close().splitlines()
                     if (re.search(r" (warning|error|critical) ", line) or
                         re.search(r"ERROR: |WARNING: ThreadSanitizer|runtime error:", line))
                     and not any(re.search(regex, line) for regex in self._expected_log)]
        if surprises:
            raise AssertionError(f"unexpected in the log ({len(surprises)} lines):\n" + "\n".join(surprises[:20]))

    def close(self):
        """Ends daemons, takes mounts away, removes the files. Returns the logs."""
        for pid in self._frozen:
            if is_alive(pid):
                os.kill(pid, signal.SIGCONT)
        for release in self._releases:
            release()
        for child in self._children:
            if child.poll() is None:
                child.terminate()
        for mountpoint in self._mountpoints:
            if is_mounted(mountpoint):
                subprocess.run([STOKER, "umount", mountpoint], capture_output=True, timeout=120, check=False)
            for _ in range(16):
                if not is_mounted(mountpoint):
                    break
                subprocess.run(["umount", "-l", mountpoint], capture_output=True, check=False)
        for child in self._children:
            try:
                child.wait(60)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()
        for undo in reversed(self._on_close):
            undo()
        text = ""
        for log in self._logs:
            if os.path.exists(log):
                with open(log, encoding="utf-8", errors="replace") as file:
                    text += file.read()
        shutil.rmtree(self.dir, ignore_errors=True)
        return text

    def on_close(self, undo, release=None):
        """release() is called before the daemons are ended, undo() after it, before the files are removed."""
        self._on_close.append(undo)
        if release is not None:
            self._releases.append(release)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, content, base=None):
        """A file in the UFS, with the directories it needs. Returns its path."""
        path = os.path.join(base or self.ufs, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def fill(self, count, size, prefix="f"):
        """`count` files of `size` random bytes in the UFS; returns the names."""
        names = [f"{prefix}{i:05}" for i in range(count)]
        for name in names:
            self.write(name, os.urandom(size))
        return names

    def expect_log(self, regex):
        """Log lines that match are part of the test."""
        self._expected_log.append(regex)

    def read_log(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    # -- commands

    def stoker(self, *arguments, check=None, timeout=120, wrap=(), **more):
        """Runs the program. `check`: the exit status it must have. `wrap`: a command line put in front."""
        result = subprocess.run([*wrap, STOKER, *arguments], capture_output=True, text=True, errors="surrogateescape",
                                timeout=timeout * PATIENCE, check=False, **more)
        if check is not None and result.returncode != check:
            raise AssertionError(f"stoker {' '.join(map(os.fsdecode, arguments))}: status {result.returncode} instead of "
                                 f"{check}\n{result.stdout}{result.stderr}")
        return result

    def spawn(self, *arguments, wrap=(), **more):
        """Starts the program and returns the Popen; it is ended with the place."""
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        child = subprocess.Popen([*wrap, STOKER, *arguments], text=True, **more)
        self._children.append(child)
        return child

    def mount_arguments(self, *options, ufs=None, mnt=None, cache=None, log=None):
        mnt = mnt or self.mnt
        if mnt not in self._mountpoints:
            self._mountpoints.append(mnt)
        log = log or self.log
        if log not in self._logs:
            self._logs.append(log)
        return ["mount", ufs or self.ufs, mnt, "--cache-dir", cache or self.cache, "--log-file", log, *options]

    def mount(self, *options, check=OK, wrap=(), **places):
        """Mounts in the background. `places`: ufs, mnt, cache, log."""
        return self.stoker(*self.mount_arguments(*options, **places), check=check, wrap=wrap)

    def mount_foreground(self, *options, wrap=(), **places):
        """Mounts in the foreground and waits until the mount answers. Returns the Popen."""
        child = self.spawn(*self.mount_arguments("--foreground", *options, **places), wrap=wrap)
        mnt = places.get("mnt") or self.mnt

        def answers():
            if child.poll() is not None:
                raise AssertionError(f"the daemon ended with {child.returncode}: {child.stderr.read()}")
            return is_mounted(mnt) and self.stoker("status", mnt).returncode == OK
        wait_until(answers, "the mount answers", 60)
        return child

    def umount(self, mnt=None, check=OK):
        return self.stoker("umount", mnt or self.mnt, check=check)

    def status(self, mnt=None):
        return json.loads(self.stoker("status", "--json", mnt or self.mnt, check=OK).stdout)

    def metrics(self, mnt=None):
        return self.status(mnt)["metrics"]

    def socket(self, mnt=None):
        """The control socket, as named from the mount point."""
        name = re.sub(r"[^A-Za-z0-9_./]", lambda match: f"\\x{ord(match[0]):02x}", (mnt or self.mnt)[1:])
        return f"/run/stoker/{name.replace('/', '-')}.sock"

    def kill_daemon(self, mnt=None, signum=signal.SIGKILL):
        """Sends the signal to the daemon and waits for its end. The mount is dead after SIGKILL. Returns its pid."""
        pid = self.status(mnt)["pid"]
        os.kill(pid, signum)
        wait_until(lambda: not is_alive(pid), f"daemon {pid} ends")
        return pid

    def warm(self, *paths, check=OK):
        return self.stoker("warm", *(paths or [self.mnt]), check=check)


class Storage:
    """Storage that can freeze: a second mount of the place's UFS that plays the UFS of another daemon. While it is frozen,
    whatever the other daemon asks of it waits in the kernel, as with a server that does not answer."""

    def __init__(self, place):
        self.path = place.path("storage")
        os.mkdir(self.path)
        place.mount("--passthrough=off", "-o", "prefetch.enable=false,fuse.open_fetch=0", mnt=self.path,
                    cache=place.path("storage-cache"), log=place.path("storage-log"))
        self.pid = place.status(self.path)["pid"]
        place._frozen.append(self.pid)

    def freeze(self):
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self):
        self.freeze()

    def __exit__(self, *unused):
        self.thaw()
