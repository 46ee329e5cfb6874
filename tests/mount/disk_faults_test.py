#!/usr/bin/python3
"""A daemon whose cache disk goes wrong, while files are cold, half cached or hot, at start, in mid-run and at unmount.

When calls on the cache disk's objects fail, are cut short or slow, readers get the UFS's bytes, nothing hangs, and when
the disk is well again the cache works again by itself. Reads go through the daemon here (fuse.passthrough: off): in passthrough the kernel reads the cache
disk for the application, and what the disk answers is what it gets.
"""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import fault_disk
import harness
import trees
from trees import KIB, MIB, data, write

SIZES = [0, 1, 5000, 300_000, 2 * MIB + 7, 64 * KIB]
COUNT = 12
SETTINGS = {"prefetch.part_length": "256KiB", "fuse.passthrough": "off", "prefetch.threads": 4}


class OnFaultDisk(unittest.TestCase):
    """A place whose cache directory is on the test disk."""

    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        self.place.expect_log("cache disk|index|the cache file of .* lacks bytes|cache directory|checksum|damaged")
        self.disk = fault_disk.FaultDisk(self.place, "cache")
        self.contents = {}
        for number in range(COUNT):
            name = f"file_{number:02}"
            self.contents[name] = data(name, SIZES[number % len(SIZES)])
            write(f"{self.place.ufs}/{name}", self.contents[name])

    def mount(self, settings=None):
        self.place.mount_with({**SETTINGS, **(settings or {})})

    def check(self):
        """Every file, from the UFS or from the cache disk: what the kernel had of them in memory is dropped first."""
        for name, content in self.contents.items():
            with open(f"{self.place.mnt}/{name}", "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                got = file.readall()
            self.assertEqual(got == content, True, f"{name}: {trees.first_difference(content, got)}")

    def half(self):
        """Some parts of each file become cached, some do not."""
        for name, content in self.contents.items():
            with open(f"{self.place.mnt}/{name}", "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
                self.assertEqual(os.pread(file.fileno(), 1000, len(content) // 2), content[len(content) // 2 :][:1000])

    def make(self, state):
        if state == "hot":
            self.assertEqual(self.place.try_warm(".").returncode, 0)
        elif state == "half":
            self.half()

    def check_recovered(self):
        """The rule is gone: everything becomes cached, and stays so over an unmount."""
        def warm():
            result = self.place.try_warm(".")
            self.last = result.stdout + result.stderr
            return result.returncode == 0
        try:
            harness.wait_until(warm, "caching resumes", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.last}\n{self.place.read_log()}") from None
        self.check()
        self.place.umount()
        self.mount()
        self.assertEqual(self.place.try_warm(".").returncode, 0)
        self.check()
        self.assertEqual(self.place.metric("ufs_bytes"), 0, "what was cached before the unmount is cached")
        self.place.umount()

    def run_case(self, state, rule, settings=None):
        """Reads and warms while the rule is on; then it is lifted."""
        self.mount(settings)
        self.make(state)
        self.disk.forget()
        with self.disk.fault(rule) as fault:
            self.check()
            self.place.try_warm(".")
            self.check()
        self.assertGreater(fault.fired(), 0, "the case tests something")
        self.assertEqual(self.place.metric("read_errors"), 0)
        self.check_recovered()


class DiskFaults(OnFaultDisk):
    """The disk goes wrong under readers; the cases are in the table below."""


def case(state, rule, settings=None):
    return lambda self: self.run_case(state, rule, settings)


OBJECT, INDEX = "glob=objects/*", "glob=index/*"
for _name, _function in {
        "cold_writes_fail": case("cold", f"op=write {OBJECT} do=eio"),
        "cold_some_writes_fail": case("cold", f"op=write {OBJECT} do=eio p=0.4 seed=3"),
        "cold_writes_find_no_space": case("cold", f"op=write {OBJECT} do=enospc"),
        "cold_writes_are_short": case("cold", f"op=write {OBJECT} do=short p=0.5 seed=4"),
        "cold_writes_are_torn": case("cold", f"op=write {OBJECT} do=torn p=0.5 seed=5"),
        "cold_writes_are_slow": case("cold", f"op=write {OBJECT} do=slow ms=30"),
        "cold_no_object_can_be_made": case("cold", f"op=create,mkdir {OBJECT} do=eio"),
        "cold_the_disk_is_read_only": case("cold", f"op=modify {OBJECT} do=erofs"),
        "cold_syncs_fail": case("cold", f"op=fsync {OBJECT} do=eio"),
        "half_reads_fail": case("half", f"op=read {OBJECT} do=eio"),
        "hot_reads_fail": case("hot", f"op=read {OBJECT} do=eio"),
        "hot_some_reads_fail": case("hot", f"op=read {OBJECT} do=eio p=0.3 seed=7"),
        "hot_reads_are_slow": case("hot", f"op=read {OBJECT} do=slow ms=30"),
}.items():
    setattr(DiskFaults, f"test_{_name}", _function)


class Moments(OnFaultDisk):
    """Not while files are read, but around that."""

    def test_a_whole_life_without_faults(self):
        self.mount()
        self.check()
        self.half()
        self.check_recovered()

    def test_start_with_a_broken_index(self):
        self.mount()
        self.make("hot")
        self.place.umount()
        self.disk.forget()
        with self.disk.fault(f"op=all {INDEX} do=eio") as fault:
            result = self.place.mount(check=None)
            self.assertEqual(result.returncode, harness.FAILED, result.stderr)
            self.assertRegex(result.stderr, "index|Input/output error")
        self.assertGreater(fault.fired(), 0)
        self.assertFalse(harness.is_mounted(self.place.mnt))
        self.mount()
        self.check()
        self.assertEqual(self.place.metric("ufs_bytes"), 0)
        self.place.umount()

    def test_unmount_while_nothing_can_be_written(self):
        self.mount()
        self.make("half")
        with self.disk.fault("op=modify,fsync do=eio") as fault:
            self.place.umount()
        self.assertGreater(fault.fired(), 0)
        self.assertFalse(harness.is_mounted(self.place.mnt))
        self.mount()
        self.check()
        self.check_recovered()

    def test_eviction_while_nothing_can_be_removed(self):
        self.mount({"cache.size": "3MiB", "cache.policy": "lru"})
        self.check()
        with self.disk.fault(f"op=unlink {OBJECT} do=eio") as fault:
            self.check()
            self.check()
        self.assertGreater(fault.fired(), 0)
        self.check()
        self.place.umount()
        self.mount()
        self.check_recovered()


if __name__ == "__main__":
    trees.main()
