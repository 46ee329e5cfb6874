#!/usr/bin/python3
"""A real tree: a copy of part of this machine's /usr (--long: all of it) as UFS, compared with the mount by `diff -r`.

Cold, warm, after kill -9 of the daemon and a new mount (nothing may be fetched again), and with passthrough off.
"""
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees
from trees import MIB

LONG = "long" in trees.flags()
SOURCES = ["/usr"] if LONG else ["/usr/lib/python3*", "/usr/share/doc", "/usr/include"]
MOST_FILES = 10**9 if LONG else 6_000
MOST_BYTES = 10**15 if LONG else 200 * MIB


def copy_part(target):
    """Copies names below SOURCES until a bound is reached; everything as it is: links, times, modes, hard links."""
    listing = subprocess.run("find " + " ".join(SOURCES) + r" -xdev -printf '%s %y %p\0'", shell=True, check=True, capture_output=True).stdout
    chosen, total = [], 0
    entries = sorted((entry.split(b" ", 2) for entry in listing.split(b"\0") if entry), key=lambda entry: entry[2])
    # Evenly spread over the sources, so that the bound does not leave whole kinds of files out.
    step = max(1, -(-len(entries) // MOST_FILES))
    for size, kind, path in entries[::step]:
        if kind == b"f":
            total += int(size)
        if total > MOST_BYTES:
            break
        chosen.append(path)
    subprocess.run(["rsync", "-aHAX", "--no-recursive", "--dirs", "--from0", "--files-from=-", "/", target], input=b"\0".join(chosen), check=True)
    return len(chosen)


class Tree(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = e2e.Place()
        cls.addClassCleanup(cls.place.finish)
        cls.count = copy_part(cls.place.ufs)

    def check(self, turn):
        result = subprocess.run(["diff", "-r", "--no-dereference", self.place.ufs, self.place.mnt], capture_output=True, text=True, errors="replace")
        self.assertEqual((result.returncode, result.stdout[:3000], result.stderr[:3000]), (0, "", ""), f"{turn}: diff -r")
        counts = [subprocess.run(f"find {root} | wc -l", shell=True, check=True, capture_output=True, text=True).stdout.strip()
                  for root in (self.place.ufs, self.place.mnt)]
        self.assertEqual(counts[0], counts[1], f"{turn}: find | wc -l")
        self.assertGreaterEqual(int(counts[0]), self.count)

    def test_tree(self):
        """In one go, because each step starts from the cache that the one before it left."""
        place = self.place
        place.expect_log("cleared a dead mount")
        place.mount_with()
        self.check("cold")
        trees.compare_trees(self, place.ufs, place.mnt, content=False)
        after_cold = place.metric("ufs_bytes")
        size = sum(os.lstat(path).st_size for path in subprocess.run(["find", place.ufs, "-type", "f", "-links", "1", "-print0"], check=True,
                                                                     capture_output=True).stdout.split(b"\0") if path)
        self.assertGreaterEqual(after_cold, size * 0.9)

        self.check("warm")
        self.assertEqual(place.metric("ufs_bytes"), after_cold, "the second pass fetches nothing")

        place.kill_daemon()
        place.mount_with()
        self.check("after kill -9")
        trees.compare_trees(self, place.ufs, place.mnt, content=False)
        self.assertEqual(place.metric("ufs_bytes"), 0, "the cache is still warm after kill -9")
        place.umount()

        place.mount_with({"fuse.passthrough": "off"})
        self.check("passthrough off")
        trees.compare_trees(self, place.ufs, place.mnt, content=False)
        self.assertEqual(place.metric("ufs_bytes"), 0, "the cache is still warm after a clean restart")
        self.assertEqual(place.poll()["passthrough_opens"], 0)
        place.umount()


if __name__ == "__main__":
    trees.main()
