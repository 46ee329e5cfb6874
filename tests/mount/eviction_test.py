#!/usr/bin/python3
"""A cache smaller than the dataset: right bytes for every reader, never more space than allowed, open files stay."""
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees
from trees import MIB, data, read, write

LIMIT = 64 * MIB
FILES = 40
TURNS = 3 if "long" in trees.flags() else 2


def size_of(number):
    return 6 * MIB + number * 20_011


class Eviction(unittest.TestCase):
    options = {}

    @classmethod
    def setUpClass(cls):
        cls.contents = {f"file_{n}": data(f"evict {n}", size_of(n)) for n in range(FILES)}

    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        os.mkdir(f"{self.place.ufs}/set")
        for name, content in self.contents.items():
            write(f"{self.place.ufs}/set/{name}", content)
        self.assertGreater(sum(map(len, self.contents.values())), 3.5 * LIMIT)
        self.place.mount_with({"cache.size": "64MiB", "cache.min_free": "0", "prefetch.part_length": "1MiB",
                               "cache.policy": "lru", **self.options})
        self.highest, self.watching, self.over = 0, threading.Event(), []
        self.watcher = threading.Thread(target=self.watch)

    def start_watching(self):
        self.watcher.start()
        self.addCleanup(self.stop_watching)

    def watch(self):
        while not self.watching.wait(0.02):
            before = self.place.poll()
            used, allocated = before["cache"]["used_bytes"], trees.allocated(os.path.join(self.place.cache, "objects"))
            # A walk that sees one object go and another come in its place has seen more than there ever was.
            if self.place.metric("cache_evicted_objects") != before["metrics"]["cache_evicted_objects"]:
                allocated = 0
            self.highest = max(self.highest, used, allocated)
            if used > LIMIT or allocated > LIMIT:
                self.over.append((used, allocated))

    def stop_watching(self):
        self.watching.set()
        if self.watcher.is_alive():
            self.watcher.join()

    def at(self, name):
        return os.path.join(self.place.mnt, "set", name)

    def test_cyclic_readers(self):
        self.start_watching()
        wrong = []

        def reader(number):
            names = list(self.contents)
            names = names[number * 7 % FILES :] + names[: number * 7 % FILES]
            for _ in range(TURNS):
                for name in names:
                    if read(self.at(name)) != self.contents[name]:
                        wrong.append((number, name))

        threads = [threading.Thread(target=reader, args=(n,)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.stop_watching()
        self.assertEqual(wrong, [])
        self.assertEqual(self.over[:5], [], f"{len(self.over)} times over the limit of {LIMIT}")
        self.assertGreater(self.highest, LIMIT // 2, "the cache is used")
        self.assertGreater(self.place.metric("cache_evicted_objects"), 0)
        self.assertEqual(self.place.metric("read_errors"), 0)

    def test_open_files_stay(self):
        held, expected = os.open(self.at("file_3"), os.O_RDONLY), self.contents["file_3"]
        self.addCleanup(os.close, held)
        self.assertEqual(os.pread(held, len(expected), 0) == expected, True)
        result = self.place.try_warm("set/file_3")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.start_watching()
        for name, content in self.contents.items():
            if name != "file_3":
                self.assertEqual(read(self.at(name)) == content, True, name)
        self.stop_watching()
        self.assertEqual(self.over[:5], [])
        self.assertGreater(self.place.metric("cache_evicted_objects"), 0)
        fetched = self.place.metric("ufs_bytes")
        os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)
        self.assertEqual(os.pread(held, len(expected), 0) == expected, True)
        self.assertEqual(read(self.at("file_3")) == expected, True)
        self.assertEqual(self.place.metric("ufs_bytes"), fetched, "an open file is not evicted, so nothing is fetched for it again")

    def test_a_file_larger_than_the_cache(self):
        expected = data("large", LIMIT + LIMIT // 2 + 12345)
        write(f"{self.place.ufs}/large", expected)
        self.start_watching()
        for turn in range(2):
            got = read(f"{self.place.mnt}/large")
            self.assertEqual(got == expected, True, f"turn {turn}: {trees.first_difference(expected, got)}")
        with open(f"{self.place.mnt}/large", "rb", buffering=0) as file:
            random = trees.rng("large")
            for _ in range(100):
                at = random.randrange(len(expected))
                self.assertEqual(os.pread(file.fileno(), 10_000, at), expected[at : at + 10_000])
        self.stop_watching()
        self.assertEqual(self.over[:5], [])

    def test_warming_too_much(self):
        self.start_watching()
        result = self.place.try_warm("set")
        self.stop_watching()
        output = result.stdout + result.stderr
        self.assertEqual(result.returncode, 1, output)
        self.assertRegex(output, r"(?i)no room|no space|does not fit|cache\.size|full")
        self.assertIn("file_", output, "the message names what is not cached")
        self.assertEqual(self.over[:5], [])
        usage = self.place.poll()["cache"]
        self.assertGreater(usage["used_bytes"], LIMIT // 2, "what fits is brought in and kept")
        for name, content in self.contents.items():
            self.assertEqual(read(self.at(name)) == content, True, name)


class Policy(unittest.TestCase):
    """A dataset of twice the cache, read in a new order each epoch, and what comes after it. The kernel's page cache and
    the bytes that the daemon keeps in memory for a while are both kept from answering."""

    FILES, SIZE, EPOCHS = 512, 256 * 1024, 5

    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        self.names = [f"sample_{n:03}" for n in range(self.FILES)]
        for name in self.names:
            write(f"{self.place.ufs}/{name}", data(name, self.SIZE))

    def mount(self, policy):
        self.place.forget_cache()
        self.place.mount_with({"cache.size": f"{self.FILES * self.SIZE // 2}B", "cache.policy": policy,
                               "prefetch.part_length": f"{self.SIZE}B", "prefetch.budget": "2MiB"})

    def epoch(self, names, order):
        """Reads all in a new order; the share of the bytes that came from the UFS."""
        names = list(names)
        order.shuffle(names)
        before = self.place.metric("ufs_bytes")
        for name in names:
            with open(f"{self.place.mnt}/{name}", "rb", buffering=0) as file:
                got = file.read()
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            self.assertEqual(got == data(name, self.SIZE), True, name)
        return (self.place.metric("ufs_bytes") - before) / (len(names) * self.SIZE)

    def test_reshuffled_epochs(self):
        fetched = {}
        for policy in ("auto", "lru"):
            self.mount(policy)
            order = trees.rng("epochs")
            self.assertAlmostEqual(self.epoch(self.names, order), 1.0, msg="the first time each byte is fetched once")
            fetched[policy] = sum(self.epoch(self.names, order) for _ in range(1, self.EPOCHS)) / (self.EPOCHS - 1)
            told = self.place.poll()["cache"]["policy"]
            self.assertEqual((told["configured"], told["deciding"]), (policy, {"auto": "retain"}.get(policy, policy)))
            if policy == "auto":
                self.assertRegex(told["reason"], r"retain would have hit \d+ %, lru would have hit \d+ %")
                self.assertIn("policy        auto, now retain", self.place.stoker("status", self.place.mnt, check=0).stdout)
                self.assertGreater(self.place.metric("cache_refused"), 0)
            else:
                self.assertGreater(self.place.metric("cache_evicted_lru"), 0)
        self.assertLessEqual(fetched["auto"], 0.52)
        self.assertGreaterEqual(fetched["lru"], 0.75, "0.85 is what the arithmetic says")

    def test_another_dataset(self):
        """What comes next fits, and is in the cache soon, although the cache is full of something that was useful."""
        self.mount("auto")
        order = trees.rng("sets")
        for _ in range(3):
            self.epoch(self.names, order)
        small = [f"next_{n:03}" for n in range(self.FILES // 3)]
        for name in small:
            write(f"{self.place.ufs}/{name}", data(name, self.SIZE))
        shares = [self.epoch(small, order) for _ in range(3)]
        self.assertLessEqual(shares[-1], 0.05, shares)

    def test_what_is_warmed_is_taken_in(self):
        half = self.names[: self.FILES // 2 - 16]
        there = self.names[self.FILES // 2 : -16]  # fill the cache nearly
        for policy in ("auto", "retain"):
            self.mount(policy)
            for name in there:
                read(f"{self.place.mnt}/{name}")
            result = self.place.try_warm(*half)
            if policy == "auto":
                self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
                self.assertEqual(self.epoch(half, trees.rng("warm")), 0)
            else:
                self.assertEqual(result.returncode, 1)
                self.assertIn("it keeps what it has (cache.policy: retain); set cache.policy: auto", result.stderr)
                self.assertEqual(self.epoch(there, trees.rng("warm")), 0, "what was there is there")


class EvictionPassthroughOff(Eviction):
    options = {"fuse.passthrough": "off"}
    test_warming_too_much = None  # does not depend on how files are read


if __name__ == "__main__":
    trees.main()
