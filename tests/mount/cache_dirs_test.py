#!/usr/bin/python3
"""Several cache directories under one mount: each file on one of them; a disk that is lost costs only its own."""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness
from harness import BAD_INPUT, OK, Place

FILES = 40
SIZE = 100_000


class CacheDirs(unittest.TestCase):
    def setUp(self):
        self.place = Place()
        self.addCleanup(self.place.finish)
        self.names = self.place.fill(FILES, SIZE)
        self.disks = []

    def disk(self, name):
        """A file system of its own, gone with the test. Returns the cache directory on it."""
        at = self.place.path(name)
        os.mkdir(at)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m", "none", at], check=True)
        # Before the place's own end, which looks for a daemon first.
        self.addCleanup(subprocess.run, ["umount", "-l", at], check=False)
        self.addCleanup(self.unmount)
        return at + "/cache"

    def unmount(self):
        if harness.is_mounted(self.place.mnt):
            self.place.umount()

    def mount(self, *dirs, check=OK):
        config = self.place.path("c.yaml")
        with open(config, "w") as file:
            file.write(f"cache:\n  dirs: [{', '.join(dirs)}]\n  size: 128MiB\n")
        return self.place.stoker("mount", self.place.ufs, self.place.mnt, "--config", config, "--log-file",
                                 self.place.log, check=check)

    def dirs(self):
        return {one["dir"]: one for one in self.place.status()["cache"]["dirs"]}

    def objects(self):
        return {name: one["objects"] for name, one in self.dirs().items()}

    def check_bytes(self):
        for name in self.names:
            with open(f"{self.place.ufs}/{name}", "rb") as ufs, open(f"{self.place.mnt}/{name}", "rb") as mount:
                self.assertEqual(mount.read(), ufs.read(), name)

    def test_each_file_on_one_directory_and_shown(self):
        a, b = self.disk("a"), self.disk("b")
        self.mount(a, b)
        self.place.warm()
        self.check_bytes()
        objects = self.objects()
        self.assertEqual(set(objects), {a, b})
        self.assertTrue(all(objects.values()), objects)
        self.assertEqual(sum(objects.values()), FILES)
        page = self.place.stoker("status", self.place.mnt, check=OK).stdout
        for one in (a, b):
            self.assertIn(f"{one}: ", page)
            self.assertEqual(self.dirs()[one]["state"], "normal")
        _, metrics = harness.ask(self.place.socket(), "GET", "/metrics")
        self.assertIn(f'stoker_cache_dir_objects{{dir="{a}"}} {objects[a]}\n', metrics)
        self.place.umount()
        self.mount(b, a)
        self.assertEqual(self.objects(), objects)
        self.check_bytes()
        self.assertEqual(self.place.status()["reads"]["bytes_ufs"], 0)

    def test_a_disk_that_became_read_only_and_its_return(self):
        a, b = self.disk("a"), self.disk("b")
        self.place.expect_log(r"is down and is left alone")
        self.mount(a, b)
        self.place.warm()
        before = self.objects()
        self.place.umount()
        subprocess.run(["mount", "-o", "remount,ro", os.path.dirname(b)], check=True)
        self.mount(a, b)
        self.assertEqual((self.dirs()[a]["state"], self.dirs()[b]["state"]), ("normal", "down"))
        self.assertIn("Read-only", self.dirs()[b]["reason"])
        self.assertIn(f"{b}: DOWN", self.place.stoker("status", self.place.mnt, check=OK).stdout)
        self.assertEqual(self.objects()[a], before[a])
        self.check_bytes()
        self.place.warm()
        self.assertEqual(self.objects()[a], FILES)
        self.place.umount()
        subprocess.run(["mount", "-o", "remount,rw", os.path.dirname(b)], check=True)
        self.mount(a, b)
        harness.wait_until(lambda: self.objects() == before, "each object is on one directory again", 60)
        self.check_bytes()
        self.assertEqual(self.place.status()["reads"]["bytes_ufs"], 0)

    def test_adding_and_removing_a_directory(self):
        a, b, c = self.disk("a"), self.disk("b"), self.disk("c")
        self.mount(a, b)
        self.place.warm()
        before = self.objects()
        self.place.umount()
        self.mount(a, b, c)
        self.check_bytes()
        self.place.warm()
        harness.wait_until(lambda: sum(self.objects().values()) == FILES, "each object is on one directory", 60)
        after = self.objects()
        self.assertLessEqual(after[a], before[a])
        self.assertLessEqual(after[b], before[b])
        self.assertEqual(self.place.status()["reads"]["bytes_ufs"], after[c] * SIZE)
        self.place.umount()
        self.mount(a, b)
        self.assertEqual(self.objects(), {a: after[a], b: after[b]})
        self.check_bytes()

    def test_a_directory_emptied_under_the_daemon(self):
        a, b = self.disk("a"), self.disk("b")
        self.place.expect_log(r"warning (store|fuse):")
        self.mount(a, b)
        self.place.warm()
        shutil.rmtree(b)
        self.check_bytes()
        self.assertEqual(self.dirs()[a]["objects"], self.objects()[a])

    def test_mistakes_in_the_list(self):
        a = self.disk("a")
        alias = self.place.path("alias")
        os.symlink(os.path.dirname(a), alias)
        for dirs, text in (((a, a), "is the same as"), ((a, a + "/in"), "lies inside"),
                           ((a, alias + "/cache"), "is the same as")):
            result = self.mount(*dirs, check=BAD_INPUT)
            self.assertIn(text, result.stderr)
            self.assertIn("name each disk once in cache.dirs", result.stderr)


if __name__ == "__main__":
    harness.main()
