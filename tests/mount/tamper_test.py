#!/usr/bin/python3
"""Somebody else is at work in the cache directory: readers get the right bytes, nothing hangs, caching resumes.

Each file has a size of its own, by which its object file is found.

Not here: content changed in place, size and blocks as before (only checksums can tell that, and hits do not compute them);
and a file cut or grown that the daemon has open or has given to the kernel for passthrough: it is looked at when opened.
"""
import os
import re
import shutil
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import harness
import trees
from trees import KIB, MIB, data, read, write

SIZES = [1, 5000, 300 * KIB, MIB]
SETTINGS = {"prefetch.part_length": "256KiB"}
# What the log says of what is done here.
LOGGED = r"cache disk|the cache file of|by somebody else|is damaged and dropped|error daemon: .*(belongs to|in use by|symbolic link)"


def copied(path):
    """The same bytes in another file."""
    shutil.copyfile(path, path + ".copy")
    os.rename(path + ".copy", path)


def linked(path):
    os.rename(path, path + ".moved")
    os.symlink(path + ".moved", path)


def instead(make):
    def spoil(path):
        os.unlink(path)
        make(path)
    return spoil


def folder(path):
    os.mkdir(path)
    write(f"{path}/something", b"in the way")


def emptied(path):
    size = os.stat(path).st_size
    os.truncate(path, 0)
    os.truncate(path, size)


SPOILS = {
    "left alone": lambda path: None,
    "deleted": os.unlink,
    "cut": lambda path: os.truncate(path, os.stat(path).st_size // 2),
    "cut to nothing": lambda path: os.truncate(path, 0),
    "grown": lambda path: os.truncate(path, os.stat(path).st_size + 5000),
    "copied": copied,
    "linked": linked,
    "a directory": instead(folder),
    "a fifo": instead(os.mkfifo),
    "a device": instead(lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5))),  # /dev/zero
    "linked to itself": instead(lambda path: os.symlink(path, path)),
    "emptied": emptied,  # seen by its blocks when it is opened by name
}
IN_PLACE = ("cut", "cut to nothing", "grown", "emptied")


class Tampered(unittest.TestCase):
    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        self.place.expect_log(LOGGED)
        self.contents, self.spoil_of = {}, {}
        for kind, spoil in enumerate(SPOILS):
            for number, size in enumerate(SIZES):
                name = f"{spoil.replace(' ', '_')}_{number}"
                self.contents[name] = data(name, size + kind)
                self.spoil_of[name] = spoil
                write(f"{self.place.ufs}/{name}", self.contents[name])

    def mount(self, settings=None):
        self.place.mount_with({**SETTINGS, **(settings or {})})

    def compare(self, name, got):
        content = self.contents[name]
        self.assertEqual(got == content, True, f"{name}: {trees.first_difference(content, got)}")

    def read_all(self, file):
        """All bytes and the end, not from the kernel's memory."""
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        got = b""
        while piece := os.pread(file, MIB, len(got)):
            got += piece
        return got

    def check(self):
        for name in self.contents:
            file = os.open(f"{self.place.mnt}/{name}", os.O_RDONLY)
            try:
                self.compare(name, self.read_all(file))
            finally:
                os.close(file)

    def warm(self):
        result = self.place.try_warm(".")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr + self.place.read_log())

    def objects(self):
        """{name: its object file}"""
        by_size = {len(content): name for name, content in self.contents.items()}
        found = {}
        for root, _, files in os.walk(f"{self.place.cache}/objects"):
            for file in files:
                path = os.path.join(root, file)
                found[by_size[os.lstat(path).st_size]] = path
        self.assertEqual(sorted(found), sorted(self.contents))
        return found

    def spoil(self):
        for name, path in self.objects().items():
            SPOILS[self.spoil_of[name]](path)

    def check_cached(self, settings=None):
        """Mounted anew, everything is in the cache."""
        self.mount(settings)
        self.check()
        self.assertEqual(self.place.metric("ufs_bytes"), 0)
        self.place.umount()

    def check_resumes(self, settings=None):
        """Everything can be cached, in this run and in others, and then is."""
        self.check()
        # What could not be stored stays in memory for some seconds, and is not tried again meanwhile.
        harness.wait_until(lambda: self.place.try_warm(".").returncode == 0, "caching resumes", 60)
        self.check()
        self.assertEqual(self.place.metric("read_errors"), 0)
        self.place.umount()
        self.check_next_run(settings)

    def check_next_run(self, settings=None):
        self.mount(settings)
        self.check()  # finds what was still open when it was spoiled
        self.place.umount()
        self.mount(settings)
        self.warm()
        self.place.umount()
        self.check_cached(settings)


class Objects(Tampered):
    def while_mounted(self, settings, held_spoils):
        self.mount(settings)
        self.warm()
        # An object file is looked at when the daemon opens it, not again while it is in use.
        harness.wait_until(lambda: self.place.metric("cache_pinned_objects") == 0, "nothing is in use")
        held = {name: os.open(f"{self.place.mnt}/{name}", os.O_RDONLY)
                for name, spoil in self.spoil_of.items() if spoil in held_spoils}
        try:
            self.spoil()
            for _ in range(2):
                self.check()
                for name, file in held.items():
                    self.compare(name, self.read_all(file))
        finally:
            for file in held.values():
                os.close(file)

    def test_while_mounted(self):
        # In passthrough it is the kernel that reads the object file, so an open file is as long as that is.
        self.while_mounted({}, [spoil for spoil in SPOILS if spoil not in IN_PLACE])
        self.check_resumes()

    def test_while_mounted_without_passthrough(self):
        settings = {"fuse.passthrough": "off"}
        self.while_mounted(settings, [spoil for spoil in SPOILS if spoil != "emptied"])
        self.assertEqual(self.place.metric("read_errors"), 0)
        self.place.umount()
        self.check_next_run(settings)

    def test_while_down(self):
        self.mount()
        self.warm()
        self.place.umount()
        sizes = {name: len(content) for name, content in self.contents.items()}
        self.spoil()
        self.mount()
        self.check()
        untouched = sum(size for name, size in sizes.items() if self.spoil_of[name] == "left alone")
        fetched = self.place.metric("ufs_bytes")
        self.assertEqual(fetched, sum(sizes.values()) - untouched, "what was spoiled is fetched again, and nothing else")
        self.check_resumes()

    def test_folders_of_objects(self):
        """A link planted where a folder of objects was leads nowhere, and is in the way until it is taken away."""
        outside = self.place.path("outside")
        os.mkdir(outside)
        write(f"{outside}/precious", b"precious")
        self.mount({"fuse.passthrough": "off"})
        self.warm()
        self.place.umount()
        objects = f"{self.place.cache}/objects"
        folders = sorted(os.listdir(objects))
        for number, name in enumerate(folders):
            at = f"{objects}/{name}"
            for file in os.listdir(at):
                shutil.copy(f"{at}/{file}", outside)
            shutil.rmtree(at)
            if number % 3 == 0:
                os.symlink(outside, at)
            elif number % 3 == 1:
                write(at, b"")
        before = {name: os.stat(f"{outside}/{name}").st_mtime_ns for name in os.listdir(outside)}
        self.mount()
        self.check()
        self.place.try_warm(".")
        self.check()
        for name in folders:
            if not os.path.isdir(f"{objects}/{name}") or os.path.islink(f"{objects}/{name}"):
                os.unlink(f"{objects}/{name}")
        self.place.umount()
        self.check_next_run()
        self.assertEqual({name: os.stat(f"{outside}/{name}").st_mtime_ns for name in os.listdir(outside)}, before)


class Directory(Tampered):
    def test_removed_while_mounted(self):
        self.mount()
        for name in list(self.contents)[::2]:
            self.compare(name, read(f"{self.place.mnt}/{name}"))
        shutil.rmtree(self.place.cache)
        self.check()
        self.place.try_warm(".")
        self.check()
        self.assertEqual(self.place.metric("read_errors"), 0)
        self.place.umount()
        self.check_next_run()

    def test_moved_away_and_back(self):
        self.mount()
        for name in list(self.contents)[::2]:
            self.compare(name, read(f"{self.place.mnt}/{name}"))
        os.rename(self.place.cache, self.place.path("aside"))
        self.check()
        self.check()
        os.rename(self.place.path("aside"), self.place.cache)
        self.check_resumes()

    def refused(self, regex, status=harness.FAILED):
        result = self.place.mount(check=None)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertRegex(result.stderr, regex)
        self.assertFalse(harness.is_mounted(self.place.mnt))

    def test_start(self):
        """What is wrong with the directory when a daemon starts is put right or refused; the cache is not lost for it."""
        os.mkdir(self.place.cache)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=700", "stoker-test", self.place.cache], check=True)
        self.place.on_close(lambda: subprocess.run(["umount", "-l", self.place.cache], check=False))
        self.mount()
        self.warm()
        self.used_by_another_daemon()
        self.place.umount()
        self.read_only()
        self.modes_and_owner()
        self.links_instead_of_what_is_in_it()
        self.check_cached()

    def used_by_another_daemon(self):
        other = self.place.path("other")
        os.mkdir(other)
        result = self.place.mount(mnt=other, log=self.place.path("other-log"), check=None)
        self.assertEqual(result.returncode, harness.FAILED, result.stdout + result.stderr)
        self.assertIn(f"cache directory {self.place.cache} is in use by stoker pid {self.place.poll()['pid']}: stop it",
                      result.stderr)
        self.assertFalse(harness.is_mounted(other))
        self.check()

    def read_only(self):
        """Not in mid-run: the kernel refuses to make a file system read-only that has files open for writing."""
        subprocess.run(["mount", "-o", "remount,ro", self.place.cache], check=True)
        self.refused(f"{re.escape(self.place.cache)}.*Read-only file system", harness.BAD_INPUT)
        subprocess.run(["mount", "-o", "remount,rw", self.place.cache], check=True)

    def modes_and_owner(self):
        for mode in (0o777, 0o000):
            os.chmod(self.place.cache, mode)
            self.mount()
            self.assertEqual(stat.S_IMODE(os.stat(self.place.cache).st_mode), 0o700, oct(mode))
            self.place.umount()
        os.chown(self.place.cache, 65534, -1)
        self.refused(f"cache directory {re.escape(self.place.cache)} belongs to user 65534, not to user 0: chown it")
        os.chown(self.place.cache, 0, -1)

    def links_instead_of_what_is_in_it(self):
        for name in ("objects", "index", "pending", "lock", "format.json"):
            at, aside = f"{self.place.cache}/{name}", f"{self.place.cache}/{name}.aside"
            os.rename(at, aside)
            before = os.stat(aside).st_mtime_ns
            os.symlink(aside, at)
            self.refused(f"{re.escape(at)}.*symbolic link")
            self.assertEqual(os.stat(aside).st_mtime_ns, before, name)
            os.unlink(at)
            os.rename(aside, at)


if __name__ == "__main__":
    trees.main()
