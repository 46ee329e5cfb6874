"""`./run` as a newcomer types it, twice, in its smallest form; and every shell script of the tree can be read by its shell.

The first call makes the dataset, the second finds it. Both leave nothing mounted; --clean leaves nothing at all.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["STOKER_SOURCE"]
BIN = os.environ["STOKER_BIN"]


def scripts():
    """Files of the tree whose first line names a shell."""
    for where, folders, names in os.walk(SOURCE):
        folders[:] = [name for name in folders if not name.startswith((".build", ".git", ".run"))]
        for name in names:
            path = os.path.join(where, name)
            if not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                first = file.readline(64)
            if first.startswith(b"#!") and (b"bash" in first or first.rstrip().endswith(b"/sh")):
                yield path, "bash" if b"bash" in first else "sh"


class Scripts(unittest.TestCase):
    def test_each_can_be_read_by_its_shell(self):
        found = list(scripts())
        self.assertIn(os.path.join(SOURCE, "run"), [path for path, _ in found])
        self.assertIn(os.path.join(SOURCE, "test"), [path for path, _ in found])
        for path, shell in found:
            done = subprocess.run([shell, "-n", path], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stderr), (0, ""), path)


class Run(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            self.skipTest("needs root and /dev/fuse")
        self.dir = tempfile.mkdtemp(prefix="stoker-run-", dir=os.environ.get("STOKER_TEST_TMP"))
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.addCleanup(self.unmount)
        # A tree of links, whose build step finds everything built: the test is not about the build.
        self.tree = os.path.join(self.dir, "tree")
        os.makedirs(os.path.join(self.tree, ".ci"))
        os.makedirs(os.path.join(self.tree, ".build", "release"))
        shutil.copy(os.path.join(SOURCE, "run"), self.tree)
        with open(os.path.join(self.tree, ".ci", "build"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexit 0\n")
        os.chmod(file.name, 0o755)
        os.symlink(BIN, os.path.join(self.tree, ".build", "release", "bin"))
        os.symlink(os.path.join(SOURCE, "conf"), os.path.join(self.tree, "conf"))
        self.place = os.path.join(self.dir, "place")

    def mounted(self):
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            return [line for line in file if line.split()[4].startswith(self.dir)]

    def unmount(self):
        if self.mounted():
            subprocess.run(["umount", "-l", os.path.join(self.place, "mnt")], check=False)

    def call(self, *flags):
        return subprocess.run([os.path.join(self.tree, "run"), "--no-install", "--dir", self.place, *flags],
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)

    def test_twice_then_clean(self):
        small = ("--files", "28", "--record", "64KiB", "--accelerators", "1", "--epochs", "1")
        for written in (28, 0):
            done = self.call(*small)
            # 3: AU under the threshold, which is the machine's affair.
            self.assertIn(done.returncode, (0, 3), done.stdout + done.stderr)
            self.assertIn(f"({written} written, {28 - written} already there)", done.stdout)
            self.assertIn("[METRIC] Training Accelerator Utilization", done.stdout)
            self.assertIn("== unmount", done.stdout)
            self.assertEqual(self.mounted(), [])
            self.assertEqual(os.path.exists(os.path.join(self.place, "mnt")), False)
        self.assertEqual(len(os.listdir(os.path.join(self.place, "results"))), 2)
        done = self.call("--clean")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(os.path.exists(self.place))

    def test_mistakes(self):
        for flags, message in ((("--files", "0"), "run: --files is '0': give a whole number of at least 1"),
                               (("--record", "2"), "run: --record is '2': give a size with a unit, e.g. 2MiB"),
                               (("--ufs", "/none"), "run: --ufs is '/none': there is no such folder"),
                               (("--fils",), "run: unknown option '--fils'; ./run --help lists them"),
                               (("--epochs",), "run: --epochs needs a value; ./run --help")):
            done = self.call(*flags)
            self.assertEqual((done.returncode, done.stderr), (2, message + "\n"))
            self.assertFalse(os.path.exists(self.place))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)
