#!/usr/bin/python3
"""More data than the cache holds, eight readers at once: right bytes, and little fetched that nobody gets.

Bytes fetched over bytes delivered stay at or below 1.3, also when the fetch memory holds two parts only, so that what cannot
be stored cannot wait there either.
"""
import os
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees
from trees import MIB, data, write

READERS = 8
BLOCK = 128 * 1024


class Streaming(unittest.TestCase):
    def stream(self, jobs, options):
        """jobs: (name, content, begin, end) a reader. Returns fetched / delivered; delivered by the daemon, as the kernel
        gives what it has read already to others who read the same file."""
        place = e2e.Place()
        self.addCleanup(place.finish)
        for name, content in {name: content for name, content, _, _ in jobs}.items():
            write(f"{place.ufs}/{name}", content)
        place.mount_with({"cache.size": "24MiB", "cache.min_free": "0", "prefetch.part_length": "4MiB", **options})
        wrong, ready = [], threading.Barrier(len(jobs))

        def reader(name, content, begin, end):
            fd = os.open(f"{place.mnt}/{name}", os.O_RDONLY)
            try:
                ready.wait(60)
                while begin < end:
                    got = os.pread(fd, min(BLOCK, end - begin), begin)
                    if not got or got != content[begin : begin + len(got)]:
                        wrong.append((name, begin, len(got)))
                        return
                    begin += len(got)
            finally:
                os.close(fd)

        threads = [threading.Thread(target=reader, args=job) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(place.metric("read_errors"), 0)
        self.assertLessEqual(place.poll()["cache"]["used_bytes"], 24 * MIB)
        return place.metric("ufs_bytes") / place.metric("read_bytes_delivered")

    def shapes(self):
        large = data("large", READERS * 20 * MIB)
        yield "one file, eight places", [("large", large, n * 20 * MIB, (n + 1) * 20 * MIB) for n in range(READERS)]
        yield "eight files", [(f"f{n}", large[n * 1000 : n * 1000 + 20 * MIB], 0, 20 * MIB) for n in range(READERS)]
        yield "one file, all from its start", [("large", large[: 48 * MIB], 0, 48 * MIB)] * READERS

    def test_readers_do_not_fetch_what_nobody_gets(self):
        for options in ({}, {"prefetch.budget": "8MiB"}, {"prefetch.budget": "8MiB", "cache.policy": "lru"}):
            for name, jobs in self.shapes():
                with self.subTest(name, **options):
                    ratio = self.stream(jobs, options)
                    print(f"{name}, {options or 'defaults'}: fetched / delivered {ratio:.3f}", flush=True)
                    self.assertLessEqual(ratio, 1.3)


if __name__ == "__main__":
    trees.main()
