#!/usr/bin/python3
"""Trouble that must not become the application's: no io_uring, a cache directory deleted, full, or read errors in the UFS."""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees
from trees import KIB, MIB, data, read, write


class Faults(unittest.TestCase):
    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        self.contents = {}
        for number in range(24):
            name = f"dir_{number % 3}/file_{number}"
            os.makedirs(os.path.join(self.place.ufs, os.path.dirname(name)), exist_ok=True)
            self.contents[name] = data(name, [0, 1, 5000, 300_000, 2 * MIB + 7, 5 * MIB + 123][number % 6])
            write(os.path.join(self.place.ufs, name), self.contents[name])

    def check(self, names=None):
        for name in names or self.contents:
            got = read(os.path.join(self.place.mnt, name))
            self.assertEqual(got == self.contents[name], True, f"{name}: {trees.first_difference(self.contents[name], got)}")

    def test_without_io_uring(self):
        self.place.mount_with(env={"STOKER_DISABLE_IO_URING": "1"})
        trees.compare_trees(self, self.place.ufs, self.place.mnt)
        result = self.place.try_warm(".")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        status = self.place.poll()
        self.assertIn("pread", str(status["prefetch"]))
        self.assertIn("pread", self.place.stoker("status", self.place.mnt).stdout)
        self.check()

    def test_with_io_uring_when_the_kernel_has_it(self):
        self.place.mount_with()
        trees.compare_trees(self, self.place.ufs, self.place.mnt)
        self.assertRegex(str(self.place.poll()["prefetch"]), "io_uring|pread")

    def test_cache_directory_deleted(self):
        self.place.expect_log("cache disk|index")
        names = sorted(self.contents)
        self.place.mount_with({"prefetch.part_length": "1MiB"})
        self.check(names[::2])
        held = os.open(os.path.join(self.place.mnt, names[0]), os.O_RDONLY)
        self.addCleanup(os.close, held)
        shutil.rmtree(self.place.cache)
        self.check()  # some never fetched, some whose cache files are gone
        self.check()
        self.assertEqual(os.pread(held, 10 * MIB, 0) == self.contents[names[0]], True)
        self.place.umount()

    def test_cache_disk_full(self):
        self.place.expect_log("No space left|cache disk|index")
        os.makedirs(self.place.cache, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m,mode=700", "stoker-test", self.place.cache], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.place.cache], check=False)
        self.place.mount_with({"cache.size": "1GiB", "cache.min_free": "0", "prefetch.part_length": "1MiB"})
        for _ in range(2):
            self.check()
        result = self.place.try_warm(".")
        self.assertEqual(result.returncode, 1, "24 MiB are not cached on 16 MiB: " + result.stdout + result.stderr)
        self.check()
        self.assertEqual(self.place.metric("read_errors"), 0)
        self.place.umount()

    def test_mounting_on_a_full_cache_disk(self):
        self.place.expect_log("No space left|the cache disk is full")
        os.makedirs(self.place.cache, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=700", "stoker-test", self.place.cache], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.place.cache], check=False)
        small = {"cache.size": "16MiB", "prefetch.part_length": "1MiB", "cache.min_free": "0"}
        self.place.mount_with(small)  # the place is a cache before somebody fills its disk
        self.place.umount()
        filler = os.path.join(self.place.cache, "filler")
        with open(filler, "wb", buffering=0) as file:
            try:
                while file.write(bytes(4 * KIB)):
                    pass
            except OSError:
                pass  # full, as wanted
        options = ["-o", f"cache.dirs={self.place.cache}", "-o", "cache.size=16MiB", "-o", "prefetch.part_length=1MiB",
                   "-o", "cache.min_free=0"]
        result = self.place.stoker("mount", self.place.ufs, self.place.mnt, *options)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertRegex(result.stderr, "No space left|the cache disk is full")
        os.unlink(filler)
        self.place.mount_with(small)
        self.check()
        self.place.umount()

    def test_cache_disk_filled_by_somebody_else(self):
        self.place.expect_log("No space left|cache disk|index")
        os.makedirs(self.place.cache, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m,mode=700", "stoker-test", self.place.cache], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.place.cache], check=False)
        self.place.mount_with({"cache.size": "40MiB", "cache.min_free": "0", "prefetch.part_length": "1MiB"})
        names = sorted(self.contents)
        self.check(names[::3])
        with open(os.path.join(self.place.cache, "filler"), "wb") as filler:
            try:
                while filler.write(bytes(256 * KIB)):
                    filler.flush()
            except OSError:
                pass  # full, as wanted
        for _ in range(2):
            self.check()
        os.unlink(os.path.join(self.place.cache, "filler"))
        self.check()
        self.place.umount()

    def test_ufs_read_error(self):
        self.place.expect_log("bad")
        # A file of 4096 bytes whose reads fail: an attribute of the loopback interface, which has no speed.
        source, bad = "/sys/class/net/lo/speed", os.path.join(self.place.ufs, "bad")
        if not os.path.exists(source) or trees.errno_of(read, source) == 0 or os.lstat(source).st_size == 0:
            self.skipTest(f"{source} does not fail on this machine")
        write(bad, b"")
        if subprocess.run(["mount", "--bind", source, bad], capture_output=True).returncode != 0:
            self.skipTest("bind mounts are not allowed here")
        self.addCleanup(subprocess.run, ["umount", "-l", bad], check=False)
        self.place.mount_with()
        for _ in range(2):
            self.assertNotEqual(trees.errno_of(read, os.path.join(self.place.mnt, "bad")), 0, "a read error of the UFS is an error, not zeros")
        self.check()
        result = self.place.try_warm(".")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("bad", result.stdout + result.stderr)
        status = self.place.poll()
        self.assertGreater(self.place.metric("ufs_errors"), 0, status)
        self.check()

    def test_cache_file_deleted_while_unmounted(self):
        """One cache file deleted behind the daemon's back: its readers get the UFS's bytes, everyone else is unaffected."""
        self.place.expect_log("cache disk: .*No such file")
        self.place.mount_with({"fuse.passthrough": "off"})
        self.assertEqual(self.place.try_warm(".").returncode, 0)
        self.place.umount()
        objects = [os.path.join(folder, name) for folder, _, files in os.walk(os.path.join(self.place.cache, "objects")) for name in files]
        largest = max(objects, key=os.path.getsize)
        os.unlink(largest)
        self.place.mount_with()
        self.check()
        self.check()


if __name__ == "__main__":
    trees.main()
