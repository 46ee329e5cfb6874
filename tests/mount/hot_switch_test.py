#!/usr/bin/python3
"""From daemon-served to passthrough while files are in use, and what readers see when the UFS changes under them."""
import errno
import mmap
import os
import struct
import subprocess
import sys
import threading
import time
import unittest

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import harness
import trees
from trees import KIB, MIB, data, read, write

PART = 1 * MIB
TTL = 0.2  # seconds; metadata.ttl and metadata.negative_ttl of these mounts
OPTIONS = {"prefetch.part_length": "1MiB", "metadata.ttl": "200ms", "metadata.negative_ttl": "200ms"}


def after_ttl():
    """The time to live is real time that the kernel counts, so it is waited out; a late wake-up only makes it longer."""
    time.sleep(TTL * 1.25)


def versioned(version, size):
    """Bytes of which every aligned 16 tell their own version and place, so that any mixture shows."""
    words = numpy.empty((-(-size // 16), 2), numpy.uint64)
    words[:, 0] = version
    words[:, 1] = numpy.arange(len(words))
    return words.tobytes()[:size]


def versions_in(content, at):
    """The set of versions that 16-byte aligned `content`, read at `at`, is made of; fails on bytes from another place."""
    words = numpy.frombuffer(content[: len(content) // 16 * 16], numpy.uint64).reshape(-1, 2)
    places = numpy.arange(at // 16, at // 16 + len(words))
    assert (words[:, 1] == places).all(), f"bytes of another place at {at}"
    return set(int(v) for v in numpy.unique(words[:, 0]))


class Base(unittest.TestCase):
    settings = OPTIONS  # of all mounts of a file of tests
    options = {}  # of one class

    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)

    def mount(self, **options):
        self.place.mount_with({**self.settings, **self.options, **options})
        self.passthrough = self.place.poll()["passthrough"]["active"]

    def ufs(self, name):
        return os.path.join(self.place.ufs, name)

    def at(self, name):
        return os.path.join(self.place.mnt, name)

    def opens(self):
        return self.place.poll()["passthrough_opens"]

    def open(self, name):
        """A descriptor on the mount, closed at the end of the test."""
        fd = os.open(self.at(name), os.O_RDONLY)
        self.addCleanup(os.close, fd)
        return fd


class Switch(Base):
    def test_warming_a_file_that_is_open(self):
        expected = write(self.ufs("file"), data("file", 24 * MIB + 5)) and read(self.ufs("file"))
        self.mount(**{"prefetch.enable": "false"})
        cold = self.open("file")
        mapped_fd = os.open(self.at("file"), os.O_RDONLY)
        shared = mmap.mmap(mapped_fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
        os.close(mapped_fd)
        self.assertEqual(os.pread(cold, 1000, 5 * MIB), expected[5 * MIB : 5 * MIB + 1000])
        self.assertEqual(shared[7 * MIB : 7 * MIB + 100], expected[7 * MIB : 7 * MIB + 100])
        number = os.fstat(cold).st_ino
        self.assertEqual(self.opens(), 0, "a large file that is not resident is opened through the daemon")

        wrong, stop = [], threading.Event()

        def reader(label):
            random = trees.rng(label)
            while not stop.is_set():
                at = random.randrange(len(expected))
                if os.pread(cold, 50_000, at) != expected[at : at + 50_000] or shared[at : at + 50_000] != expected[at : at + 50_000]:
                    wrong.append(at)

        readers = [threading.Thread(target=reader, args=(f"switch {n}",)) for n in range(3)]
        for thread in readers:
            thread.start()
        result = self.place.try_warm("file")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        if self.passthrough:
            # The kernel is told to forget the old name from a thread of its own, so this may take a moment, not more.
            deadline = time.monotonic() + 10
            while self.opens() == 0 and time.monotonic() < deadline:
                self.assertEqual(read(self.at("file")) == expected, True)
            self.assertGreater(self.opens(), 0, "new opens of a warm file are passthrough although old ones live")
        hot = self.open("file")
        self.assertEqual(os.fstat(hot).st_ino, number, "the switch does not change the inode number")
        stop.set()
        for thread in readers:
            thread.join()
        self.assertEqual(wrong, [])
        for fd in (cold, hot):
            self.assertEqual(os.pread(fd, len(expected) + 1, 0) == expected, True)
        self.assertEqual(shared[:] == expected, True, "a map made before the switch lives over it")
        with mmap.mmap(hot, 0, mmap.MAP_SHARED, mmap.PROT_READ) as view:
            self.assertEqual(view[:] == expected, True)
        shared.close()
        self.assertLessEqual(self.place.metric("ufs_bytes"), len(expected), "nothing was fetched twice")

    def test_hits_and_misses(self):
        size = 16 * MIB
        expected = data("counted", size)
        write(self.ufs("file"), expected)
        self.mount(**{"fuse.passthrough": "off", "prefetch.enable": "false"})
        self.assertEqual(read(self.at("file")) == expected, True)
        first = self.place.poll()["reads"]
        self.assertGreater(first["misses"], 0)
        self.assertEqual(first["bytes_ufs"], size)
        self.assertGreaterEqual(first["bytes_delivered"], size)
        # Readers are answered as the bytes come; the last part is committed a moment later.
        harness.wait_until(lambda: self.place.metric("cache_complete_objects") == 1, "the whole file is resident")
        first = self.place.poll()["reads"]
        fd = self.open("file")
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        self.assertEqual(os.pread(fd, size, 0) == expected, True)
        second = self.place.poll()["reads"]
        self.assertEqual(second["misses"], first["misses"], "all of it was resident")
        self.assertGreater(second["hits"], first["hits"])
        self.assertGreater(second["bytes_cache"], first["bytes_cache"])
        self.assertEqual(second["bytes_ufs"], size)

    def test_small_files_open_passthrough_at_once(self):
        names = [f"small_{n}" for n in range(20)]
        for name in names:
            write(self.ufs(name), data(name, 100_000))
        self.mount()
        for name in names:
            self.assertEqual(read(self.at(name)), data(name, 100_000))
        status = self.place.poll()
        self.assertEqual(status["reads"]["bytes_ufs"], 20 * 100_000)
        if self.passthrough:
            self.assertEqual(status["passthrough_opens"], 20)
            self.assertEqual(status["reads"]["hits"] + status["reads"]["misses"], 0, "no read reached the daemon")

    def test_many_opens_at_once(self):
        names = [f"{n}" for n in range(300)]
        for name in names:
            write(self.ufs(name), data(name, 1000 + 37 * int(name)))
        write(self.ufs("big"), data("big", 9 * MIB))
        self.mount()
        wrong = []

        def opener(number):
            random = trees.rng(f"opener {number}")
            held = []
            for name in random.sample(names, len(names)):
                fd = os.open(self.at(name), os.O_RDONLY)
                if os.pread(fd, 100_000, 0) != data(name, 1000 + 37 * int(name)):
                    wrong.append(name)
                held.append(fd)
            if read(self.at("big")) != data("big", 9 * MIB):
                wrong.append("big")
            for fd in held:
                os.close(fd)

        threads = [threading.Thread(target=opener, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(self.place.metric("ufs_bytes"), sum(1000 + 37 * n for n in range(300)) + 9 * MIB)
        harness.wait_until(lambda: self.place.metric("open_handles") == 0, "handles are closed")


class SwitchPassthroughOff(Switch):
    options = {"fuse.passthrough": "off"}


class Change(Base):
    SIZE = 12 * MIB + 160  # a multiple of 16

    def change_in_place(self, name, content):
        with open(self.ufs(name), "r+b") as file:
            file.write(content)
            file.truncate()

    def check_change(self, change, warm, new_size=None):
        """`change` turns version 1 into version 2 under readers; returns the old descriptor for more questions."""
        write(self.ufs("file"), versioned(1, self.SIZE))
        self.mount()
        if warm:
            self.assertEqual(self.place.try_warm("file").returncode, 0)
        old = self.open("file")
        self.assertEqual(versions_in(os.pread(old, 64 * KIB, 3 * MIB), 3 * MIB), {1})
        change()
        after_ttl()

        expected = read(self.ufs("file"))
        self.assertEqual(os.lstat(self.at("file")).st_size, len(expected), "the size is the new version's")
        got = read(self.at("file"))
        self.assertEqual(got == expected, True, f"a new open after the ttl sees the new version: {trees.first_difference(expected, got)}")
        new = self.open("file")
        with mmap.mmap(new, 0, mmap.MAP_SHARED, mmap.PROT_READ) as view:
            self.assertEqual(view[:] == expected, True)

        # The old descriptor: version 1 wherever it answers, ESTALE where the bytes were never fetched; a read that meets
        # such a place half-way ends short there, as with any error, and never says that the file ends.
        seen, stale = set(), 0
        for start in range(0, self.SIZE, 256 * KIB):
            at, end = start, min(start + 256 * KIB, self.SIZE)
            while at < end:
                try:
                    piece = os.pread(old, end - at, at)
                except OSError as error:
                    self.assertEqual(errno.errorcode[error.errno], "ESTALE")
                    stale += 1
                    break
                self.assertGreater(len(piece), 0, f"an old version keeps its size, but ends at {at}")
                self.assertEqual(len(piece) % 16, 0)
                seen |= versions_in(piece, at)
                at += len(piece)
        self.assertLessEqual(seen, {1}, "an old descriptor never shows another version")
        if warm:
            self.assertEqual(stale, 0, "a whole object is a snapshot")
            self.assertEqual(seen, {1})

    def test_changed_before_the_first_read(self):
        """Attributes are believed for metadata.ttl, but a file that is not in the cache is not opened as a version that no
        longer exists."""
        write(self.ufs("file"), versioned(1, self.SIZE))
        self.mount(**{"metadata.ttl": "10m"})
        self.assertEqual(os.lstat(self.at("file")).st_size, self.SIZE)
        self.change_in_place("file", versioned(2, self.SIZE))
        self.assertEqual(versions_in(read(self.at("file")), 0), {2}, "the first read of an open that began later")
        write(self.ufs("other"), versioned(1, self.SIZE))
        self.assertEqual(os.lstat(self.at("other")).st_size, self.SIZE)
        os.unlink(self.ufs("other"))
        with self.assertRaises(FileNotFoundError):
            read(self.at("other"))

    def both(self, change):
        for warm in (False, True):
            with self.subTest(warm=warm):
                self.setUp()
                self.check_change(change, warm)
                self.doCleanups()

    def test_rewritten_in_place(self):
        self.both(lambda: self.change_in_place("file", versioned(2, self.SIZE)))

    def test_renamed_over(self):
        def change():
            write(self.ufs("next"), versioned(2, self.SIZE))
            os.rename(self.ufs("next"), self.ufs("file"))

        self.both(change)

    def test_truncated(self):
        self.both(lambda: os.truncate(self.ufs("file"), 5 * MIB + 48))

    def test_grown(self):
        def change():
            with open(self.ufs("file"), "ab") as file:
                file.write(versioned(1, self.SIZE + 4 * MIB)[self.SIZE :])

        self.both(change)

    def test_same_size_and_time(self):
        def change():
            subprocess.run(["touch", "-r", self.ufs("file"), self.ufs("stamp")], check=True)
            self.change_in_place("file", versioned(2, self.SIZE))
            subprocess.run(["touch", "-r", self.ufs("stamp"), self.ufs("file")], check=True)

        self.both(change)

    def test_changed_while_it_is_read(self):
        """Readers and a writer together: every whole read of a file is one version, or an error that says so."""
        size = 6 * MIB
        write(self.ufs("file"), versioned(1, size))
        self.mount(**{"metadata.ttl": "10ms", "metadata.negative_ttl": "10ms"})
        stop, problems, counts = threading.Event(), [], {"whole": 0, "stale": 0}

        def reader():
            while not stop.is_set():
                try:
                    fd = os.open(self.at("file"), os.O_RDONLY)
                except OSError as error:
                    if error.errno not in (errno.ESTALE, errno.ENOENT):
                        problems.append(f"open: {error}")
                    counts["stale"] += 1
                    continue
                try:
                    pieces = [os.pread(fd, 256 * KIB, at) for at in range(0, size, 256 * KIB)]
                    versions = set().union(*(versions_in(piece, number * 256 * KIB) for number, piece in enumerate(pieces)))
                    if len(versions) != 1:
                        problems.append(f"one descriptor showed versions {versions}")
                    if sum(map(len, pieces)) != size:
                        problems.append(f"one descriptor showed {sum(map(len, pieces))} of {size} bytes")
                    counts["whole"] += 1
                except AssertionError as error:
                    problems.append(str(error))
                except OSError as error:
                    if error.errno != errno.ESTALE:
                        problems.append(f"read: {error}")
                    counts["stale"] += 1
                finally:
                    os.close(fd)

        readers = [threading.Thread(target=reader) for _ in range(3)]
        for thread in readers:
            thread.start()
        for version in range(2, 42):
            # Renamed over: a writer that rewrites in place shows mixtures to readers of the UFS itself.
            write(self.ufs("next"), versioned(version, size))
            os.rename(self.ufs("next"), self.ufs("file"))
            time.sleep(0.03)  # lets readers meet both old and new versions; nothing depends on how many
        stop.set()
        for thread in readers:
            thread.join()
        self.assertEqual(problems[:5], [], f"{len(problems)} problems, {counts}")
        self.assertGreater(counts["whole"], 0, counts)

    def test_deleted(self):
        write(self.ufs("file"), versioned(1, self.SIZE))
        write(self.ufs("unused"), b"unused")
        self.mount()
        self.assertEqual(self.place.try_warm("file").returncode, 0)
        old = self.open("file")
        os.lstat(self.at("unused"))
        os.unlink(self.ufs("file"))
        os.unlink(self.ufs("unused"))
        after_ttl()
        for name in ("file", "unused"):
            self.assertEqual(trees.errno_of(os.open, self.at(name), os.O_RDONLY), errno.ENOENT)
            self.assertFalse(os.path.lexists(self.at(name)))
        self.assertNotIn("file", os.listdir(self.place.mnt))
        self.assertEqual(os.pread(old, self.SIZE, 0) == versioned(1, self.SIZE), True, "what was whole stays readable where it is open")

    def test_new_names(self):
        self.mount()
        self.assertFalse(os.path.exists(self.at("file")))
        self.assertFalse(os.path.exists(self.at("dir/file")))
        self.assertEqual(os.listdir(self.place.mnt), [])
        write(self.ufs("file"), b"new")
        os.mkdir(self.ufs("dir"))
        write(self.ufs("dir/file"), b"below")
        after_ttl()
        self.assertEqual(read(self.at("file")), b"new")
        self.assertEqual(read(self.at("dir/file")), b"below")
        self.assertEqual(sorted(os.listdir(self.place.mnt)), ["dir", "file"])

    def test_listings_follow(self):
        os.mkdir(self.ufs("dir"))
        write(self.ufs("dir/a"), b"a")
        self.mount()
        self.assertEqual(os.listdir(self.at("dir")), ["a"])
        write(self.ufs("dir/b"), b"b")
        os.rename(self.ufs("dir/a"), self.ufs("dir/c"))
        after_ttl()
        self.assertEqual(sorted(os.listdir(self.at("dir"))), ["b", "c"])
        self.assertEqual(trees.errno_of(os.lstat, self.at("dir/a")), errno.ENOENT)

    def test_type_and_attributes_follow(self):
        write(self.ufs("a"), b"file")
        write(self.ufs("b"), b"file")
        os.symlink("a", self.ufs("link"))
        self.mount()
        self.assertEqual(read(self.at("a")), b"file")
        os.lstat(self.at("b"))
        self.assertEqual(os.readlink(self.at("link")), "a")
        os.unlink(self.ufs("a"))
        os.mkdir(self.ufs("a"))
        write(self.ufs("a/inside"), b"inside")
        os.chmod(self.ufs("b"), 0o640)
        os.chown(self.ufs("b"), 7, 8)
        os.unlink(self.ufs("link"))
        os.symlink("b", self.ufs("link"))
        after_ttl()
        self.assertEqual(read(self.at("a/inside")), b"inside")
        self.assertEqual(os.readlink(self.at("link")), "b")
        self.assertEqual(trees.facts(self.at("b")), trees.facts(self.ufs("b")))
        trees.compare_trees(self, self.place.ufs, self.place.mnt)


class ChangePassthroughOff(Change):
    options = {"fuse.passthrough": "off"}


if __name__ == "__main__":
    trees.main()
