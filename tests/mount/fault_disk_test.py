#!/usr/bin/python3
"""The test disk itself: without rules it is a disk, and each rule does what it says."""
import errno
import fcntl
import mmap
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import fault_disk
import harness
import trees
from trees import KIB, MIB, data, errno_of, read, write


class FaultDiskTest(unittest.TestCase):
    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)

    def disk(self, **more):
        return fault_disk.FaultDisk(self.place, "disk", **more)

    def test_without_rules_it_is_a_disk(self):
        disk = self.disk()
        content = data("plain", MIB + 5)
        os.makedirs(disk.path + "/a/b")
        write(disk.path + "/a/b/file", content)
        self.assertEqual(read(disk.path + "/a/b/file") == content, True)
        self.assertEqual(read(disk.backing + "/a/b/file") == content, True)
        os.rename(disk.path + "/a/b/file", disk.path + "/a/moved")
        self.assertEqual(os.listdir(disk.path + "/a/b"), [])
        with open(disk.path + "/a/moved", "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with open(disk.path + "/a/moved", "rb") as other:
                self.assertEqual(errno_of(fcntl.flock, other, fcntl.LOCK_SH | fcntl.LOCK_NB), errno.EAGAIN)
            with mmap.mmap(file.fileno(), 0) as mapped:
                mapped[0:5] = b"mmap!"
                mapped.flush()
            os.unlink(disk.path + "/a/moved")
            self.assertEqual(os.fstat(file.fileno()).st_size, len(content), "a file without a name is a file")
            self.assertEqual(os.pread(file.fileno(), 8, 0), b"mmap!" + content[5:8])
            os.ftruncate(file.fileno(), 10)
            self.assertEqual(os.fstat(file.fileno()).st_size, 10)

    def test_errors_by_operation_name_and_call(self):
        disk = self.disk()
        for name in ("a.sst", "b.log"):
            write(f"{disk.path}/{name}", b"x" * 100)
        for word, number in (("eio", errno.EIO), ("enospc", errno.ENOSPC), ("erofs", errno.EROFS)):
            with disk.fault(f"op=modify glob=*.sst do={word}") as rule:
                self.assertEqual(errno_of(write, disk.path + "/a.sst", b"y"), number)
                write(disk.path + "/b.log", b"z" * 100)
            self.assertGreater(rule.fired(), 0)
        with disk.fault("op=unlink do=eio nth=2 count=1"):
            os.unlink(disk.path + "/a.sst")
            self.assertEqual(errno_of(os.unlink, disk.path + "/b.log"), errno.EIO)
            os.unlink(disk.path + "/b.log")
        with self.assertRaisesRegex(AssertionError, "no operation 'wrte'"):
            disk.fault("op=wrte do=eio")

    def test_probability_follows_the_seed(self):
        disk = self.disk()
        write(disk.path + "/file", b"x")

        def outcomes(seed):
            with disk.fault(f"op=open glob=file do=eio p=0.5 seed={seed}"):
                return [errno_of(read, disk.path + "/file") for _ in range(64)]
        first = outcomes(1)
        self.assertEqual(first, outcomes(1))
        self.assertNotEqual(first, outcomes(2))
        self.assertEqual(set(first), {0, errno.EIO})

    def test_short_torn_lost_and_flipped(self):
        disk = self.disk()
        at = disk.path + "/file"
        content = data("wrong", 64 * KIB)
        write(at, content)
        file = os.open(at, os.O_RDWR)
        self.addCleanup(os.close, file)
        with disk.fault("op=write do=short"):
            self.assertEqual(os.pwrite(file, content[:4 * KIB], 0), 2 * KIB)
        with disk.fault("op=write do=torn"):
            self.assertEqual(errno_of(os.pwrite, file, b"T" * 4 * KIB, 8 * KIB), errno.EIO)
        self.assertEqual(read(disk.backing + "/file")[8 * KIB : 12 * KIB], b"T" * 2 * KIB + content[10 * KIB : 12 * KIB])
        with disk.fault("op=write do=lose"):
            self.assertEqual(os.pwrite(file, b"L" * 4 * KIB, 16 * KIB), 4 * KIB)
        self.assertEqual(read(disk.backing + "/file")[16 * KIB : 20 * KIB], content[16 * KIB : 20 * KIB])
        write(at, content)
        disk.forget()
        with disk.fault("op=read do=flip count=1") as rule:
            got = read(at)
        self.assertEqual(rule.fired(), 1)
        wrong = [(a ^ b) for a, b in zip(got, content) if a != b]
        self.assertEqual([bin(bits).count("1") for bits in wrong], [1])
        disk.forget()
        self.assertEqual(read(at) == content, True)
        disk.forget()
        with disk.fault("op=read do=short count=1"):
            self.assertLess(len(os.pread(file, 64 * KIB, 0)), 64 * KIB)

    def test_hung_until_told(self):
        disk = self.disk()
        write(disk.path + "/file", b"x")
        got = []
        rule = disk.fault("op=open glob=file do=hang")
        reader = threading.Thread(target=lambda: got.append(read(disk.path + "/file")))
        reader.start()
        harness.wait_until(lambda: rule.waiting() == 1, "the reader hangs")
        self.assertEqual(got, [])
        rule.lift()
        reader.join(60)
        self.assertEqual(got, [b"x"])

    def test_what_hangs_is_released_at_the_end(self):
        disk = self.disk()
        write(disk.path + "/file", b"x")
        rule = disk.fault("op=open glob=file do=hang")
        reader = threading.Thread(target=errno_of, args=(read, disk.path + "/file"))
        reader.start()
        harness.wait_until(lambda: rule.waiting() == 1, "the reader hangs")
        disk.close()
        reader.join(60)
        self.assertFalse(reader.is_alive())
        self.assertFalse(harness.is_mounted(disk.path))

    def test_power_loss(self):
        disk = self.disk(power_loss=True)
        synced = data("synced", 256 * KIB)
        outcomes = set()
        for seed in range(12):
            file = os.open(f"{disk.path}/file", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            os.pwrite(file, synced, 0)
            os.fsync(file)
            for page in range(16):
                os.pwrite(file, data(f"{seed} {page}", 4 * KIB), page * 8 * KIB)
            os.pwrite(file, b"tail", 300 * KIB)
            os.close(file)
            self.assertRegex(disk.power_loss(seed), r"^\d+ landed, \d+ vanished, \d+ garbled$")
            got = read(f"{disk.backing}/file")
            self.assertIn(len(got), (256 * KIB, 300 * KIB + 4))
            for page in range(32):
                part, old = got[page * 8 * KIB :][: 4 * KIB], synced[page * 8 * KIB :][: 4 * KIB]
                new = data(f"{seed} {page}", 4 * KIB) if page < 16 else old
                outcomes.add("vanished" if part == old else "landed" if part == new else "garbled")
                if page >= 16:
                    self.assertEqual(part == old, True, "what was synced stays")
            self.assertEqual(got[4 * KIB : 8 * KIB] == synced[4 * KIB : 8 * KIB], True)
        self.assertEqual(outcomes, {"vanished", "landed", "garbled"})


if __name__ == "__main__":
    trees.main()
