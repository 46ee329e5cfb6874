"""Drives `stoker-bench capacity`, and what is looked at before a run, as a user does."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.join(os.environ["STOKER_BIN"], "stoker-bench")

# A measurement takes about half a second; the threshold is one that a loaded machine meets.
NULL = ["--null", "--steps", "10", "--param", "train.computation_time=0.02", "--param", "metric.au=0.3", "--param",
        "dataset.num_files_train=2000", "--param", "reader.batch_size=1"]
SMALL = ["--param", "dataset.record_length_bytes=100000", "--param", "dataset.record_length_bytes_stdev=0", "--param",
         "dataset.num_files_train=60", "--param", "reader.batch_size=1"]


def bench(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=120)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="stoker-capacity-", dir=os.environ.get("STOKER_TEST_TMP"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.data = os.path.join(self.dir, "data")
        self.results = os.path.join(self.dir, "results")


class Prerun(Case):
    def run_bench(self, *arguments):
        return bench("run", "--data-dir", self.data, "--results-dir", self.results, "--results-layout", "flat", *SMALL,
                     "--param", "train.epochs=1", "--param", "train.computation_time=0.02", "--param", "metric.au=0.2",
                     *arguments)

    def test_probe_and_self_test_before_a_run(self):
        self.assertEqual(bench("datagen", "--data-dir", self.data, *SMALL).returncode, 0)
        done = self.run_bench("--probe", "on", "--self-test")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        required = next(i for i, line in enumerate(lines) if line.startswith("Required: 4.8 MiB/s at AU 100 %, 1.0 MiB/s at "
                                                                             "the threshold of 20 %"))
        available = next(i for i, line in enumerate(lines) if line.startswith("Available: "))
        epoch = next(i for i, line in enumerate(lines) if line.startswith("epoch 1 of 1"))
        self.assertLess(required, available)
        self.assertLess(available, epoch)
        self.assertRegex(lines[available], r"a probe of 5\.\d MiB in 60 files by 4 threads in \d+\.\d s, its pages given "
                                           r"back$")
        with open(os.path.join(self.results, "summary.json")) as file:
            summary = json.load(file)["stoker"]
        train = os.path.join(self.data, "unet3d", "train")
        self.assertEqual(summary["probe"]["bytes"], sum(os.path.getsize(os.path.join(train, name))
                                                        for name in os.listdir(train)))
        self.assertEqual(summary["probe"]["errors"], 0)
        self.assertRegex(done.stdout, r"(?m)^Self-test: without reading AU \d+\.\d\d % in 150 steps$")
        self.assertLessEqual(summary["self_test_au_percent"], 100)
        self.assertEqual("without reading AU is" in done.stderr, summary["self_test_au_percent"] < 99.5)
        self.assertEqual(summary["files_read"], 60, "the probe's reads are not the run's")

    def test_without_being_asked_nothing_is_read_before_the_run(self):
        self.assertEqual(bench("datagen", "--data-dir", self.data, *SMALL).returncode, 0)
        done = self.run_bench()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Required: ", done.stdout)
        self.assertNotIn("Available: ", done.stdout)
        with open(os.path.join(self.results, "summary.json")) as file:
            summary = json.load(file)["stoker"]
        self.assertNotIn("probe", summary)
        self.assertNotIn("self_test_au_percent", summary)

    def test_datasize_probes_a_folder(self):
        size = ("datasize", "--host-memory-in-gb", "32", "--num-accelerators", "2")
        done = bench(*size)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Required: 12082.3 MiB/s at AU 100 %, 10874.1 MiB/s at the threshold of 90 %", done.stdout)
        self.assertIn("91.2 Gb/s of file bytes at the threshold, 101 Gb/s at AU 100 %", done.stdout)
        self.assertIn("Read buffers of run: at most 8.0 MiB", done.stdout)
        os.mkdir(self.data)
        with open(os.path.join(self.data, "file"), "wb") as file:
            file.write(os.urandom(3_000_000))
        done = bench(*size, "--probe", self.data)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"Available: .* a probe of 2\.9 MiB in 1 file by 1 thread in ")
        done = bench(*size, "--probe", os.path.join(self.dir, "missing"))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^stoker-bench: --probe: .*missing: No such file or directory; give a folder with "
                                      r"files on the storage\n$")

    def test_wrong_probe(self):
        done = self.run_bench("--probe", "yes")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, 'stoker-bench: --probe: "yes" is not one of off, on\n')


class Capacity(Case):
    def found(self):
        with open(os.path.join(self.results, "capacity.json")) as file:
            return json.load(file)["results"]

    def test_two_workloads_in_one_table(self):
        done = bench("capacity", *NULL, "--workload", "unet3d,cosmoflow", "--max", "3", "--results-dir", self.results)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^workload +accelerator +threshold +fed ")
        self.assertRegex(done.stdout, r"(?m)^unet3d +b200 +30 % +3 ")
        self.assertRegex(done.stdout, r"(?m)^cosmoflow +\w+ +30 % +3 ")
        self.assertRegex(done.stdout, r"unet3d: With 95 % confidence 3 x b200 are fed \(3 passed \d of \d measurements\); "
                                      r"more were not tried: --max 3")
        found = self.found()
        self.assertEqual([one["workload"] for one in found], ["unet3d", "cosmoflow"])
        for one in found:
            self.assertEqual((one["fed"], one["starved"], one["finished"], one["limit"]), (3, None, True, "none"))
            self.assertGreaterEqual(len(one["measurements"]), 4, "1, 2, 3 and two that confirm")
            for measured in one["measurements"]:
                shares = [measured[name] for name in ("compute_share", "load_wait_share", "barrier_wait_share",
                                                      "overhead_share")]
                self.assertAlmostEqual(sum(shares), 1, 6)
                self.assertAlmostEqual(100 * measured["compute_share"], measured["au_percent"], 6)

    def test_storage_that_feeds_nobody(self):
        self.assertEqual(bench("datagen", "--data-dir", self.data, *SMALL).returncode, 0)
        done = bench("capacity", "--data-dir", self.data, *SMALL, "--results-dir", self.results, "--param",
                     "train.computation_time=0.000001", "--param", "metric.au=0.99")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("unet3d: With 95 % confidence not even one b200 is fed: AU ", done.stdout)
        self.assertRegex(done.stdout, r"unet3d: limited by (storage|client CPU|barrier): ")
        one = self.found()[0]
        self.assertEqual((one["fed"], one["starved"]), (0, 1))
        self.assertEqual(one["points"][0]["verdict"], "starved")
        self.assertGreaterEqual(len(one["points"][0]["confirmed_au_percent"]), 2)

    def test_ctrl_c_keeps_what_was_found(self):
        process = subprocess.Popen([BENCH, "capacity", *NULL, "--max", "100", "--results-dir", self.results],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("unet3d: 2 accelerators"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 4, out + err)
        self.assertIn("Not finished (interrupted). Nothing was proved; most likely ", out)
        one = self.found()[0]
        self.assertFalse(one["finished"])
        self.assertEqual(one["ended_early"], "interrupted")
        self.assertGreaterEqual(len(one["measurements"]), 2)

    def refused(self, message, *arguments):
        done = bench("capacity", *arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "stoker-bench: " + message + "\n")

    def test_bad_input(self):
        results = ("--results-dir", self.results)
        self.refused('--steps: "9" is not a whole number from 10 to 10000000', "--null", *results, "--steps", "9")
        self.refused('--max: "0" is not a whole number from 1 to 100000', *NULL, *results, "--max", "0")
        self.refused('--repeats: "1" is not a whole number from 2 to 1000', *NULL, *results, "--repeats", "1")
        self.refused('--confidence: "1" is not from 0.5 to 0.9999', *NULL, *results, "--confidence", "1")
        self.refused('--confidence: "0.4" is not from 0.5 to 0.9999', *NULL, *results, "--confidence", "0.4")
        self.refused('--workload: "unet3d,unet3d" has "unet3d" twice; give different names with commas between, e.g. '
                     'unet3d,resnet50', *NULL, *results, "--workload", "unet3d,unet3d")
        self.refused('--workload: "unet3d," has an empty name; give different names with commas between, e.g. '
                     'unet3d,resnet50', *NULL, *results, "--workload", "unet3d,")
        self.refused("--data-dir is missing: the folder of the dataset", *results)
        self.refused("--results-dir is missing: the folder that receives capacity.json", *NULL)
        self.refused("metric.au: the capacity for unet3d needs a threshold above 0; any number of accelerators has AU 0",
                     *NULL, *results, "--param", "metric.au=0")
        # The second workload's dataset is looked for before the first is measured.
        self.assertEqual(bench("datagen", "--data-dir", self.data, *SMALL).returncode, 0)
        done = bench("capacity", "--data-dir", self.data, *SMALL, *results, "--workload", "unet3d,cosmoflow")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "^stoker-bench: cosmoflow: no dataset: the folder " + re.escape(self.data))
        self.assertEqual(done.stdout, "")
        self.assertFalse(os.path.exists(self.results))

    def test_a_search_is_not_overwritten(self):
        os.mkdir(self.results)
        with open(os.path.join(self.results, "capacity.json"), "w") as file:
            file.write("{}")
        self.refused(f"{self.results} already holds a search (capacity.json); give another --results-dir", *NULL,
                     "--results-dir", self.results)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)
