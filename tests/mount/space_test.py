#!/usr/bin/python3
"""A cache on a small disk that another program fills: no read fails for it, and caching resumes when it is over."""
import os
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees
from harness import wait_until
from trees import MIB, data, write

FILES = 30


class OtherProgram:
    """Takes whatever the disk has left, again and again, until it is stopped and its file removed."""

    def __init__(self, path):
        self.path = path
        self.full, self.stopping = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.fill)
        self.thread.start()

    def fill(self):
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            while not self.stopping.is_set():
                try:
                    os.write(fd, b"x" * (64 << 10 if not self.full.is_set() else 4096))
                except OSError:
                    self.full.set()
                    self.stopping.wait(0.002)
        finally:
            os.close(fd)

    def stop(self):
        self.stopping.set()
        self.thread.join()
        if os.path.exists(self.path):
            os.unlink(self.path)


class FullDisk(unittest.TestCase):
    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        self.disk = self.place.path("disk")
        os.mkdir(self.disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", self.disk], check=True)
        self.place.on_close(lambda: subprocess.run(["umount", "-l", self.disk], check=False))
        self.place.cache = f"{self.disk}/cache"
        self.contents = {f"f{n:02}": data(f"full {n}", MIB + n * 1111) for n in range(FILES)}
        for name, content in self.contents.items():
            write(f"{self.place.ufs}/{name}", content)

    def read(self, name):
        """Past the kernel's page cache."""
        with open(f"{self.place.mnt}/{name}", "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return file.readall()

    def pass_over_all(self):
        """Bytes fetched from the UFS by one pass over all files."""
        before = self.place.metric("ufs_bytes")
        for name, content in self.contents.items():
            self.assertEqual(self.read(name) == content, True, name)
        return self.place.metric("ufs_bytes") - before

    def test_reads_go_on_while_another_program_fills_the_disk(self):
        for policy in ("lru", "auto"):
            with self.subTest(policy):
                self.place.forget_cache()
                self.place.mount_with({"cache.size": "1GiB", "prefetch.part_length": "256KiB", "cache.policy": policy})
                self.place.expect_log(r"(?i)no space left|cache disk is full")
                self.assertGreater(self.pass_over_all(), 0)
                other = OtherProgram(f"{self.disk}/other")
                self.addCleanup(other.stop)
                self.assertTrue(other.full.wait(60))
                for _ in range(3):
                    self.pass_over_all()
                usage = self.place.poll()
                self.assertEqual(usage["metrics"]["read_errors"], 0)
                self.assertLess(usage["cache"]["used_bytes"], 64 * MIB)
                other.stop()
                wait_until(lambda: self.pass_over_all() == 0, "everything is cached again", 60)
                wait_until(lambda: self.place.poll()["cache"]["used_bytes"] == trees.allocated(f"{self.place.cache}/objects"),
                           "the books agree with the disk", 60)


if __name__ == "__main__":
    trees.main()
