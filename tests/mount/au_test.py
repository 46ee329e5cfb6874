#!/usr/bin/python3
"""A tiny unet3d-shaped dataset: `stoker-bench run` meets its threshold from the raw folder and from a warm mount.

The demand is far below what any disk gives, so the figures say that the whole chain works, not how fast it is.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees

WORKLOAD = ["--workload", "unet3d", "--accelerator", "h100"]
FILES = ["--param", "dataset.num_files_train=64", "--param", "dataset.record_length_bytes=262144", "--param",
         "dataset.record_length_bytes_stdev=60000"]
THRESHOLD = 90.0  # unet3d's


def bench(*arguments):
    return subprocess.run([os.path.join(e2e.BIN, "stoker-bench"), *arguments], capture_output=True, text=True, timeout=120)


class Au(unittest.TestCase):
    def test_raw_and_warm_mount(self):
        place = e2e.Place()
        self.addCleanup(place.finish)
        made = bench("datagen", *WORKLOAD, "--data-dir", place.ufs, *FILES)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        place.mount_with()
        warm = place.try_warm(".")
        self.assertEqual(warm.returncode, 0, warm.stdout + warm.stderr)
        trees.compare_trees(self, place.ufs, place.mnt)
        fetched = place.metric("ufs_bytes")
        for label, directory in (("raw", place.ufs), ("mount", place.mnt)):
            results = os.path.join(place.dir, "results", label)
            run = bench("run", *WORKLOAD, "--num-accelerators", "2", "--data-dir", directory, "--results-dir", results, *FILES, "--param", "train.epochs=1", "--param",
                        "train.computation_time=0.15")
            self.assertEqual(run.returncode, 0, f"{label}: {run.stdout}{run.stderr}")
            found = [os.path.join(folder, "summary.json") for folder, _, files in os.walk(results) if "summary.json" in files]
            self.assertEqual(len(found), 1, f"{label}: one summary per run, its folders are the edition's")
            self.assertIn(os.path.dirname(found[0]), run.stdout, "the run says where its summary lies")
            with open(found[0]) as file:
                summary = json.load(file)
            self.assertGreaterEqual(summary["metric"]["train_au_mean_percentage"], THRESHOLD, label)
            print(f"{label}: AU {summary['metric']['train_au_mean_percentage']:.2f} %")
        self.assertEqual(place.metric("ufs_bytes"), fetched, "a warm mount is not fetched again")


if __name__ == "__main__":
    trees.main()
