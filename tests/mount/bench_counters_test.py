#!/usr/bin/python3
"""`stoker-bench run` on a mount reports what the daemon counted: bytes from the UFS, from the cache, opens passed through.

The daemon's own counters, asked before and after, are the oracle.
"""
import json
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees

FILES = 16
DATA = ["--workload", "unet3d", "--accelerator", "h100", "--param", f"dataset.num_files_train={FILES}", "--param",
        "dataset.record_length_bytes=1000000", "--param", "dataset.record_length_bytes_stdev=100000"]
COUNTERS = {"bytes_from_cache": "read_bytes_cache", "bytes_delivered": "read_bytes_delivered", "bytes_from_ufs": "ufs_bytes",
            "opens": "opens", "passthrough_opens": "opens_passthrough", "read_hits": "read_hits",
            "read_misses": "read_misses"}


class Counters(unittest.TestCase):
    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        self.bench("datagen", "--data-dir", self.place.ufs)
        self.results = 0

    def bench(self, verb, *arguments, **options):
        done = subprocess.run([os.path.join(e2e.BIN, "stoker-bench"), verb, *DATA, *arguments], capture_output=True, text=True,
                              timeout=120, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def run_on(self, folder, **options):
        self.results += 1
        results = os.path.join(self.place.dir, f"results{self.results}")
        done = self.bench("run", "--data-dir", folder, "--results-dir", results, "--results-layout", "flat", "--param",
                          "train.epochs=1", "--param", "train.computation_time=0.01", "--param", "reader.batch_size=2",
                          "--param", "metric.au=0", **options)
        with open(os.path.join(results, "summary.json")) as file:
            return done, json.load(file)["stoker"]

    def test_the_summary_has_what_the_daemon_counted(self):
        # Small files would be fetched inside open and passed through; here the daemon serves what it fetches.
        self.place.mount_with({"fuse.open_fetch": "0"})
        for state in ("cold", "warm"):
            before = self.place.poll()["metrics"]
            done, summary = self.run_on(self.place.mnt)
            after = self.place.poll()["metrics"]
            daemon = summary["cache_state"]["daemon"]
            for name, metric in COUNTERS.items():
                # The page cache's sample opens files as well, outside the counted time.
                limit = after[metric] - before[metric]
                self.assertLessEqual(daemon[name], limit, f"{state}: {name}")
                if "opens" not in name:
                    self.assertEqual(daemon[name], limit, f"{state}: {name}")
            self.assertEqual(daemon["opens"], FILES, state)
            self.assertIn("Cache: ", done.stdout)
            if state == "cold":
                self.assertGreater(daemon["bytes_from_ufs"], 0.9 * summary["true_bytes"])
                self.assertLess(daemon["share_without_ufs"], 0.1)
            else:
                self.assertEqual(daemon["bytes_from_ufs"], 0)
                self.assertEqual(daemon["share_without_ufs"], 1)
                if self.place.poll()["passthrough"]["active"]:
                    self.assertEqual(daemon["passthrough_opens"], FILES)
                    self.assertIn(f"{FILES} of {FILES} opens were passed through, whose reads the daemon does not see",
                                  done.stdout)

    def test_a_daemon_that_hangs_is_a_note(self):
        """A `stoker` beside the generator that never answers: the run is as valid as without it."""
        self.place.mount_with()
        folder = self.place.path("bin")
        os.mkdir(folder)
        bench = os.path.join(folder, "stoker-bench")
        shutil.copy(os.path.join(e2e.BIN, "stoker-bench"), bench)
        fake = os.path.join(folder, "stoker")
        with open(fake, "w") as file:
            file.write("#!/bin/sh\nsleep 1000\n")
        os.chmod(fake, 0o755)
        results = self.place.path("results")
        done = subprocess.run([bench, "run", *DATA, "--data-dir", self.place.mnt, "--results-dir", results,
                               "--results-layout", "flat", "--param", "train.epochs=1", "--param",
                               "train.computation_time=0.01", "--param", "reader.batch_size=2", "--param", "metric.au=0"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"Cache: the daemon's counters are not known: {fake} did not end within 2s", done.stdout)
        with open(os.path.join(results, "summary.json")) as file:
            cache = json.load(file)["stoker"]["cache_state"]
        self.assertNotIn("daemon", cache)
        self.assertEqual(cache["daemon_note"], f"{fake} did not end within 2s")

    def test_outside_a_mount_nobody_is_asked(self):
        done, summary = self.run_on(self.place.ufs)
        self.assertNotIn("Cache:", done.stdout)
        self.assertNotIn("daemon", summary["cache_state"])
        self.assertNotIn("daemon_note", summary["cache_state"])


if __name__ == "__main__":
    trees.main()
