"""A disk that misbehaves when told to (tests/fault_fs), for a cache directory or a UFS.

    disk = fault_disk.FaultDisk(place, "cache")         # mounted at place.cache, backed by place.path("cache.backing")
    with disk.fault("op=write glob=objects/* do=enospc") as rule:
        ...
        assert rule.fired() > 0
    disk.forget()                                       # what was read before is read from the disk again

The rules are explained in tests/fault_fs/rules.h. The disk is unmounted before the place is removed, whatever happened.
"""
import json
import os
import socket
import subprocess

import harness

FAULT_FS = os.path.join(harness.BIN, "fault_fs")


class Rule:
    """A rule that holds until the end of its `with`, or lift()."""

    def __init__(self, disk, number):
        self.disk, self.number, self.last = disk, number, None

    def _row(self):
        for row in self.disk.report():
            if row["id"] == self.number:
                self.last = row
        return self.last or {"fired": 0, "matched": 0, "waiting": 0}

    def fired(self):
        """How many calls went wrong because of it; after lift(), until then."""
        return self._row()["fired"]

    def waiting(self):
        return self._row()["waiting"]

    def lift(self):
        self._row()
        self.disk.ask(f"remove {self.number}")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.lift()


class FaultDisk:
    """The process and its mount. The place's daemons must have ended, or be able to end, when the place is closed."""

    def __init__(self, place, name, power_loss=False):
        self.path = place.path(name)
        self.backing = place.path(name + ".backing")
        self.socket = place.path(name + ".ctl")
        for folder in (self.path, self.backing):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        self._log = place.path(name + ".disk-log")
        with open(self._log, "wb") as log:
            self._child = subprocess.Popen([FAULT_FS, self.backing, self.path, self.socket,
                                            *(["--power-loss"] if power_loss else [])], stdout=log, stderr=log)
        place.on_close(self.close, release=self._release)

        self._device = None

        def answers():
            if self._child.poll() is not None:
                with open(self._log, encoding="utf-8", errors="replace") as log:
                    raise AssertionError(f"fault_fs ended with {self._child.returncode}: {log.read()}")
            try:
                return harness.is_mounted(self.path) and self.ask("ping") == "pong"
            except OSError:
                return False
        harness.wait_until(answers, "the test disk answers", 60)
        self._device = os.stat(self.path).st_dev

    def ask(self, command):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(60)
            client.connect(self.socket)
            client.sendall(command.encode() + b"\n")
            with client.makefile("r") as answers:
                answer = answers.readline().rstrip("\n")
        if answer.startswith("error:") or not answer:
            raise AssertionError(f"{command}: {answer}")
        return answer

    def report(self):
        return json.loads(self.ask("report"))

    def fault(self, rule):
        return Rule(self, int(self.ask(f"add {rule}")))

    def lift_all(self):
        self.ask("remove 0")

    def power_loss(self, seed):
        """What became of the writes that were not synced. Kill whoever writes first."""
        return self.ask(f"powerloss {seed}")

    def forget(self):
        """Drops what the kernel has in memory of the files here. No rule should be on: the files are opened."""
        for folder, _, names in os.walk(self.path):
            for name in names:
                try:
                    file = os.open(os.path.join(folder, name), os.O_RDONLY)
                except FileNotFoundError:
                    continue  # a live cache removes files
                try:
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(file)

    def _release(self):
        """Daemons that end must not wait for a disk that hangs."""
        try:
            self.lift_all()
        except (OSError, AssertionError):
            self._abort()

    def _abort(self):
        """Ends the connection in the kernel: whoever waits for the disk gets an error. The last resort."""
        if self._device is None:
            return
        try:
            with open(f"/sys/fs/fuse/connections/{os.minor(self._device)}/abort", "w", encoding="ascii") as file:
                file.write("1")
        except OSError:
            pass

    def close(self):
        """Releases what hangs, unmounts, and ends the process."""
        if self._child.poll() is None:
            self._child.terminate()
            try:
                self._child.wait(30 * harness.PATIENCE)
            except subprocess.TimeoutExpired:
                self._abort()
                self._child.kill()
                self._child.wait()
        for _ in range(16):
            if not harness.is_mounted(self.path):
                break
            subprocess.run(["umount", "-l", self.path], capture_output=True, check=False)
