#!/usr/bin/python3
"""Real programs read from the mount, cold and warm: git, python3, numpy, sqlite3, tar, rsync, fio, an executable."""
import os
import shutil
import sqlite3
import subprocess
import sys
import unittest

import numpy

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees
from trees import MIB

ROWS = 20_000


def run(*command, **kwargs):
    """Runs to success; what it printed is in the failure."""
    result = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def git(*arguments, **kwargs):
    environment = dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_SYSTEM="/dev/null", GIT_CONFIG_COUNT="3",
                       GIT_CONFIG_KEY_0="user.name", GIT_CONFIG_VALUE_0="Test", GIT_CONFIG_KEY_1="user.email", GIT_CONFIG_VALUE_1="test@example.org",
                       GIT_CONFIG_KEY_2="safe.directory", GIT_CONFIG_VALUE_2="*")
    return run("git", *arguments, env=environment, **kwargs)


def verify_job(directory, *options):
    return run("fio", "--name=verify", f"--directory={directory}", "--filename=pattern", "--size=24m", "--bs=64k", "--ioengine=psync", "--verify=crc32c",
               "--verify_fatal=1", "--verify_state_save=0", "--fallocate=none", "--thread", *options)


def verify_read(directory, *options):
    """Reads the whole pattern and checks each block's own checksum; opens for reading only."""
    return verify_job(directory, "--rw=read", "--readonly", "--do_verify=1", "--invalidate=0", *options)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = e2e.Place()
        cls.addClassCleanup(cls.place.finish)
        ufs, aside = cls.place.ufs, os.path.join(cls.place.dir, "made")
        os.mkdir(aside)

        # A repository with packs and loose objects.
        work = os.path.join(aside, "work")
        git("init", "-q", "-b", "main", work)
        for commit in range(5):
            for number in range(60):
                trees.write(f"{work}/file_{number}", trees.data(f"git {commit % 3} {number}", 3000 + 97 * number))
            os.makedirs(f"{work}/nested/deeper", exist_ok=True)
            trees.write(f"{work}/nested/deeper/commit", str(commit).encode())
            git("-C", work, "add", "-A")
            git("-C", work, "commit", "-q", "-m", f"commit {commit}")
            if commit == 2:
                git("-C", work, "gc", "-q")
        git("clone", "-q", "--bare", work, f"{ufs}/repository.git")
        cls.head = git("-C", work, "rev-parse", "HEAD").strip()

        # A package tree to import.
        package = f"{ufs}/lib/parcel"
        for level in ("", "/inner", "/inner/core"):
            os.makedirs(package + level)
            trees.write(f"{package}{level}/__init__.py", b"from . import values\n")
            trees.write(f"{package}{level}/values.py", b"NUMBERS = " + repr(list(range(2000))).encode() + b"\n")
        for number in range(40):
            trees.write(f"{package}/module_{number}.py", f"VALUE = {number}\n".encode())
        run(sys.executable, "-m", "compileall", "-q", f"{ufs}/lib", "--invalidation-mode", "checked-hash")

        # Arrays.
        cls.array = numpy.frombuffer(trees.data("array", 9 * MIB), numpy.uint16).reshape(-1, 1024)
        numpy.save(f"{ufs}/array.npy", cls.array)
        numpy.savez(f"{ufs}/arrays.npz", x=cls.array, y=numpy.arange(10))

        # A database of a few MiB.
        with sqlite3.connect(f"{ufs}/data.db") as database:
            database.execute("PRAGMA page_size = 4096")
            database.execute("CREATE TABLE entries (id INTEGER PRIMARY KEY, label TEXT, body BLOB)")
            database.executemany("INSERT INTO entries VALUES (?, ?, ?)",
                                 ((n, f"label {n % 97}", trees.data("row", 400)[: 100 + n % 300]) for n in range(ROWS)))
            database.execute("CREATE INDEX by_label ON entries (label)")
        database.close()

        # A pattern that fio wrote and can check.
        verify_job(ufs, "--rw=write", "--do_verify=0")

        os.mkdir(f"{ufs}/bin")
        shutil.copy(os.path.realpath(sys.executable), f"{ufs}/bin/python3")
        shutil.copytree("/usr/share/doc/fuse3" if os.path.isdir("/usr/share/doc/fuse3") else "/usr/share/doc/git", f"{ufs}/doc", symlinks=True)

    def in_turns(self, check):
        """`check` on a mount whose cache is empty, again on the same mount, and again with passthrough off."""
        place = self.place
        place.forget_cache()
        place.mount_with()
        with self.subTest("cold"):
            check()
        with self.subTest("warm"):
            fetched = place.metric("ufs_bytes")
            check()
            self.assertLessEqual(place.metric("ufs_bytes"), fetched + 4 * MIB, "the second turn reads from the cache")
        place.umount()
        place.mount_with({"fuse.passthrough": "off"})
        with self.subTest("passthrough off"):
            check()
        place.umount()

    def tearDown(self):
        if e2e.is_mounted(self.place.mnt):
            self.place.umount()

    def aside(self, name):
        """A path outside the mount that does not exist."""
        path = os.path.join(self.place.dir, "made", name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        return path

    def test_git(self):
        def check():
            repository = os.path.join(self.place.mnt, "repository.git")
            clone = self.aside("clone")
            git("clone", "-q", "--no-hardlinks", repository, clone)
            self.assertEqual(git("-C", clone, "rev-parse", "HEAD").strip(), self.head)
            self.assertEqual(git("-C", clone, "status", "--porcelain"), "")
            git("-C", clone, "fsck", "--full", "--strict")
            git("-C", repository, "fsck", "--full", "--strict")
            self.assertEqual(git("-C", repository, "log", "--format=%H", "-1").strip(), self.head)
            git("clone", "-q", f"file://{repository}", self.aside("clone2"))

        self.in_turns(check)

    def test_python_import(self):
        program = ("import sys; sys.path.insert(0, sys.argv[1]); import parcel.inner.core, importlib\n"
                   "assert parcel.inner.core.values.NUMBERS[1999] == 1999 and parcel.__file__.startswith(sys.argv[1])\n"
                   "print(sum(importlib.import_module(f'parcel.module_{n}').VALUE for n in range(40)))")

        def check():
            self.assertEqual(run(sys.executable, "-I", "-c", program, os.path.join(self.place.mnt, "lib")), "780\n")

        self.in_turns(check)

    def test_numpy(self):
        def check():
            mapped = numpy.load(os.path.join(self.place.mnt, "array.npy"), mmap_mode="r")
            self.assertIsInstance(mapped, numpy.memmap)
            for row in trees.rng("rows").sample(range(len(self.array)), 100):
                numpy.testing.assert_array_equal(mapped[row], self.array[row])
            numpy.testing.assert_array_equal(mapped, self.array)
            del mapped
            with numpy.load(os.path.join(self.place.mnt, "arrays.npz"), mmap_mode="r") as archive:
                numpy.testing.assert_array_equal(archive["x"], self.array)
                numpy.testing.assert_array_equal(archive["y"], numpy.arange(10))

        self.in_turns(check)

    def test_sqlite(self):
        def check():
            for size in (1 << 28, 0):
                database = sqlite3.connect(f"file:{self.place.mnt}/data.db?mode=ro", uri=True)
                try:
                    self.assertEqual(database.execute(f"PRAGMA mmap_size = {size}").fetchone()[0], size)
                    self.assertEqual(database.execute("PRAGMA integrity_check").fetchone()[0], "ok")
                    self.assertEqual(database.execute("SELECT count(*), sum(length(body)) FROM entries").fetchone(),
                                     (ROWS, sum(100 + n % 300 for n in range(ROWS))))
                    self.assertEqual(database.execute("SELECT count(*) FROM entries WHERE label = 'label 5'").fetchone()[0], len(range(5, ROWS, 97)))
                    with self.assertRaises(sqlite3.OperationalError):
                        database.execute("INSERT INTO entries VALUES (-1, '', '')")
                finally:
                    database.close()

        self.in_turns(check)

    def test_tar_and_rsync(self):
        def check():
            mnt, ufs = self.place.mnt, self.place.ufs
            unpacked = self.aside("unpacked")
            os.mkdir(unpacked)
            run("sh", "-c", 'tar -C "$1" -cf - . | tar -C "$2" -xpf -', "sh", mnt, unpacked)
            run("diff", "-r", "--no-dereference", ufs, unpacked)
            run("tar", "-C", mnt, "-cf", self.aside("all.tar"), ".")
            run("tar", "-C", mnt, "--compare", "-f", os.path.join(self.place.dir, "made", "all.tar"))
            run("tar", "-C", ufs, "--compare", "-f", os.path.join(self.place.dir, "made", "all.tar"))
            for a, b in ((mnt, ufs), (ufs, mnt)):
                self.assertEqual(run("rsync", "-rlptgoDHAXc", "--dry-run", "--delete", "--itemize-changes", f"{a}/", f"{b}/"), "", f"rsync -c {a} {b}")
            copy = self.aside("copy")
            run("rsync", "-aHAX", f"{mnt}/", copy)
            self.assertEqual(run("rsync", "-aHAXc", "--dry-run", "--delete", "--itemize-changes", f"{ufs}/", f"{copy}/"), "")

        self.in_turns(check)

    def test_fio_verify(self):
        def check():
            verify_read(self.place.mnt)
            verify_read(self.place.mnt, "--ioengine=mmap")
            verify_read(self.place.mnt, "--ioengine=libaio", "--direct=1", "--iodepth=8")

        # The check itself must be able to fail: one flipped byte is found.
        broken = os.path.join(self.place.dir, "made", "broken")
        os.makedirs(broken, exist_ok=True)
        content = bytearray(trees.read(f"{self.place.ufs}/pattern"))
        content[5 * MIB + 777] ^= 1
        trees.write(f"{broken}/pattern", content)
        with self.assertRaises(AssertionError):
            verify_read(broken)
        self.in_turns(check)

    def test_executable(self):
        def check():
            program = os.path.join(self.place.mnt, "bin", "python3")
            self.assertEqual(run(program, "-I", "-c", "import sys; print(sys.executable, sum(range(10)))"), f"{program} 45\n")

        self.in_turns(check)


if __name__ == "__main__":
    trees.main()
