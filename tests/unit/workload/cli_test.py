"""Drives stoker-bench as a user does: what it writes, prints, and leaves with."""
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

try:
    import numpy
except ImportError:
    numpy = None

BENCH = os.path.join(os.environ["STOKER_BIN"], "stoker-bench")
SANITIZED = bool(os.environ.get("STOKER_SANITIZE"))
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))

# Small files, a short sleep: whole runs take about a second.
SMALL = ["--param", "dataset.record_length_bytes=200000", "--param", "dataset.record_length_bytes_stdev=90000"]
FILES = ["--param", "dataset.num_files_train=28"]
QUICK = ["--param", "train.epochs=1", "--param", "train.computation_time=0.1"]


def bench(*arguments, **options):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=120, **options)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="stoker-bench-", dir=os.environ.get("STOKER_TEST_TMP"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.data = os.path.join(self.dir, "data")
        self.results = os.path.join(self.dir, "results")

    def generate(self, *arguments, data=None):
        done = bench("datagen", "--data-dir", data or self.data, *SMALL, *FILES, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def run_bench(self, *arguments):
        return bench("run", "--data-dir", self.data, "--results-dir", self.results, "--results-layout", "flat", *SMALL,
                     *FILES, *QUICK, *arguments)

    def summary(self):
        with open(os.path.join(self.results, "summary.json")) as file:
            return json.load(file)

    def train(self, data=None):
        return os.path.join(data or self.data, "unet3d", "train")

    def contents(self, folder):
        out = {}
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                out[name] = file.read()
        return out


class Datasize(Case):
    def test_the_published_example(self):
        done = bench("datasize", "--mlperf", "v0.5", "--workload", "unet3d", "--num-accelerators", "4",
                     "--host-memory-in-gb", "32")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1600 files, 218 GB", done.stdout)
        self.assertIn("11 minutes", done.stdout)
        self.assertIn("--param dataset.num_files_train=1600", done.stdout)


class Profiles(Case):
    def listed(self, *arguments):
        done = bench("profiles", "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_demand_of_the_public_table(self):
        rows = {(p["workload"], p["edition"], p["accelerator"]): p for p in self.listed()}
        self.assertGreaterEqual(len(rows), 30)
        for key, samples, mb, mib in ((("unet3d", "v0.5", "v100"), 2.940, 431.1, 411.1),
                                      (("bert", "v0.5", "v100"), 49.59, 0.124, 0.118),
                                      (("unet3d", "v3.0", "b200"), 43.21, 6334.6, 6041.1),
                                      (("resnet50", "v1.0", "h100"), 1785.7, 204.8, 195.3),
                                      (("cosmoflow", "v2.0", "a100"), 181.5, 513.3, 489.6),
                                      (("retinanet", "v3.0", "mi355"), 504.7, 163.0, 155.5),
                                      (("flux", "v3.0", "b200"), 35.6, 77.0, 73.4),
                                      (("dlrm", "v3.0", "b200"), 43.7e6, 33249, 31708)):
            row = rows[key]
            for value, wanted in ((row["samples_per_second"], samples), (row["demand_MB_per_second"], mb),
                                  (row["demand_MiB_per_second"], mib)):
                self.assertLess(abs(value / wanted - 1), 0.005, key)
        self.assertEqual({(p["workload"], p["accelerator"]) for p in rows.values()
                          if p["edition"] == "v3.0" and p["division"] == "closed"},
                         {("unet3d", "b200"), ("retinanet", "b200"), ("retinanet", "mi355")})
        self.assertLess(abs(rows["dlrm", "v3.0", "b200"]["read_MiB_per_second"] / (31708 * 160 / 761) - 1), 0.005)

    def test_the_list_for_people(self):
        done = bench("profiles")
        self.assertRegex(done.stdout, r"unet3d +v3\.0 +b200 +closed +npz +7200 +1 +7 +43\.21 +6334\.6 +6041\.1 +90\n")
        self.assertEqual({p["edition"] for p in self.listed("--mlperf", "v1.0")}, {"v1.0"})
        self.assertEqual({p["workload"] for p in self.listed("--accelerator", "mi355")}, {"retinanet", "flux", "dlrm"})

    def test_one_of_their_own(self):
        folder = os.path.join(self.dir, "mine")
        os.mkdir(folder)
        with open(os.path.join(folder, "ours.yaml"), "w") as file:
            file.write("dataset: {format: jpeg, num_files_train: 4, record_length_bytes: 1000000}\n"
                       "reader: {batch_size: 2}\n"
                       "editions: {v3.0: {default_accelerator: x9, accelerators: {x9: {train: "
                       "{computation_time: 0.5}}}}}\n")
        one = self.listed("ours", "--profiles-dir", folder)
        self.assertEqual((one["accelerator"], one["demand_MB_per_second"], one["division"]), ("x9", 4.0, "whatif"))
        one = self.listed("ours", "--profiles-dir", folder, "--param", "reader.batch_size=4")
        self.assertEqual((one["demand_MB_per_second"], one["params"]["reader.batch_size"]), (8.0, "4"))
        shown = bench("profiles", "ours", "--profiles-dir", folder)
        self.assertIn("demand of one accelerator: 4.00 samples/s, 4.0 MB/s", shown.stdout)
        self.assertIn("\ndataset.format=jpeg\n", shown.stdout)
        # A round's newest stands in when none is named; bert is in v0.5 only.
        self.assertEqual(self.listed("bert")["edition"], "v0.5")

    def test_mistakes(self):
        for arguments, message in (
                (["unet"], 'profiles: "unet" is not one of bert, cosmoflow'),
                (["unet3d", "--accelerator", "mi355"], '--accelerator: "mi355" is not one of a100, b200, h100, v100'),
                (["--accelerator", "tpu"], '--accelerator: "tpu" is not one of'),
                (["--mlperf", "v9"], '--mlperf: "v9" is not one of v0.5'),
                (["--param", "train.epochs=1"], "--param needs the name of a profile"),
                (["unet3d", "--param", "train.epoch=1"], 'did you mean "train.epochs"'),
                (["--profiles-dir", self.dir], None)):
            done = bench("profiles", *arguments)
            if message is None:
                self.assertEqual(done.returncode, 0)
                continue
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(message, done.stderr)


class Datagen(Case):
    def test_numpy_and_zipfile_read_the_files(self):
        for edition, folder in (("v0.5", "train"), ("v3.0", "unet3d/train")):
            data = os.path.join(self.dir, edition)
            self.generate("--mlperf", edition, "--num-parallel", "3", data=data)
            names = sorted(os.listdir(os.path.join(data, folder)))
            self.assertEqual(len(names), 28)
            self.assertIn("img_3_of_28.npz" if edition == "v0.5" else "img_03_of_28.npz", names)
            for name in names:
                path = os.path.join(data, folder, name)
                with zipfile.ZipFile(path) as archive:
                    self.assertIsNone(archive.testzip())
                    self.assertEqual(archive.namelist(), ["x.npy", "y.npy"])
                    self.assertTrue(all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist()))
                if numpy is None:
                    continue
                with numpy.load(path) as arrays:
                    x, y = arrays["x"], arrays["y"]
                self.assertEqual(x.dtype, numpy.dtype("<f8" if edition == "v0.5" else "uint8"))
                self.assertEqual((x.ndim, x.shape[2]), (3, 1))
                self.assertEqual((y.dtype, y.tolist()), (numpy.dtype("<i8"), [0]))

    @unittest.skipIf(numpy is None, "no numpy")
    def test_a_file_is_laid_out_as_numpy_does(self):
        self.generate()
        path = os.path.join(self.train(), "img_05_of_28.npz")
        with numpy.load(path) as arrays:
            x, y = arrays["x"], arrays["y"]
        again = os.path.join(self.dir, "again.npz")
        numpy.savez(again, x=x, y=y)
        self.assertEqual(os.path.getsize(path), os.path.getsize(again))
        with zipfile.ZipFile(path) as ours, zipfile.ZipFile(again) as theirs:
            for a, b in zip(ours.infolist(), theirs.infolist(), strict=True):
                for field in ("filename", "date_time", "CRC", "file_size", "header_offset", "extra", "external_attr"):
                    self.assertEqual(getattr(a, field), getattr(b, field), field)
                self.assertEqual(ours.read(a), theirs.read(b))

    def test_number_of_writers_changes_nothing(self):
        self.generate("--num-parallel", "1", data=self.data + "1")
        self.generate("--num-parallel", "7", data=self.data + "7")
        self.assertEqual(self.contents(self.train(self.data + "1")), self.contents(self.train(self.data + "7")))

    def test_goes_on_after_kill(self):
        big = ["--param", "dataset.record_length_bytes=20000000", "--param", "dataset.record_length_bytes_stdev=9000000",
               "--param", "dataset.num_files_train=12"]
        command = [BENCH, "datagen", "--data-dir", self.data, *big]
        rng = random.Random(SEED)
        whole = set()
        for _ in range(3):
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            # Killed once it has begun to write: anywhere between its first byte and its end.
            while child.poll() is None and not os.path.isdir(self.train()):
                pass
            time.sleep(rng.random() * 0.1)
            child.send_signal(signal.SIGKILL)
            child.wait()
            present = {n for n in os.listdir(self.train()) if not n.startswith(".")}
            self.assertLessEqual(whole, present, "a finished file went away")
            for name in present:
                with zipfile.ZipFile(os.path.join(self.train(), name)) as archive:
                    self.assertIsNone(archive.testzip(), "a file has its name before it is whole")
            whole = present
        done = bench(*command[1:])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"({12 - len(whole)} written, {len(whole)} already there)", done.stdout)
        self.assertEqual(len(os.listdir(self.train())), 12, "nothing but the files may be left")

    def test_a_second_call_writes_nothing(self):
        self.generate()
        before = {n: os.stat(os.path.join(self.train(), n)).st_mtime_ns for n in os.listdir(self.train())}
        self.assertIn("(0 written, 28 already there)", self.generate().stdout)
        after = {n: os.stat(os.path.join(self.train(), n)).st_mtime_ns for n in os.listdir(self.train())}
        self.assertEqual(before, after)

    def test_progress_in_a_pipe_is_lines(self):
        done = self.generate()
        self.assertNotIn("\r", done.stdout)
        self.assertRegex(done.stdout, r"datagen: 100 %, 28/28 files, .* took 0:0")

    def test_disk_too_small(self):
        done = bench("datagen", "--data-dir", self.data, "--param", "dataset.record_length_bytes=1000000000000000",
                     "--param", "dataset.record_length_bytes_stdev=0", "--param", "dataset.num_files_train=3")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"^stoker-bench: \S+/unet3d/train has .* free, the 3 missing files need .*; free "
                                      r"some space or make fewer files \(--param dataset.num_files_train\)\n$")

    def test_a_write_that_fails_on_the_way(self):
        # A file-size limit of the process ends a write early, after the free space was found to be enough.
        done = subprocess.run(["sh", "-c", 'trap "" XFSZ; ulimit -f 100; exec "$@"', "sh", BENCH, "datagen",
                               "--data-dir", self.data, *SMALL, "--param", "dataset.num_files_train=4"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"File too large \(\d of 4 files written; run the same command again")
        self.assertFalse([name for name in os.listdir(self.train()) if name.endswith(".part")])

    def test_ctrl_c_leaves_whole_files_only(self):
        process = subprocess.Popen([BENCH, "datagen", "--data-dir", self.data, "--param",
                                    "dataset.record_length_bytes=3000000", "--param",
                                    "dataset.record_length_bytes_stdev=0", "--param", "dataset.num_files_train=2000"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not (os.path.isdir(self.train()) and os.listdir(self.train())):
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn("run the same command again to write what is missing", err)
        for name in os.listdir(self.train()):
            self.assertTrue(name.endswith(".npz") and not name.startswith("."), name)
            with zipfile.ZipFile(os.path.join(self.train(), name)) as archive:
                self.assertIsNone(archive.testzip())

    def test_progress_on_a_terminal_is_a_bar(self):
        primary, secondary = os.openpty()
        done = subprocess.run([BENCH, "datagen", "--data-dir", self.data, *SMALL, *FILES], stdout=secondary, timeout=60)
        os.close(secondary)
        out = os.read(primary, 1 << 16).decode()
        os.close(primary)
        self.assertEqual(done.returncode, 0)
        self.assertIn("[########################] datagen: 100 %, 28/28 files", out)
        self.assertIn("\r", out)

class Run(Case):
    def test_fed_accelerators_pass(self):
        self.generate()
        done = self.run_bench("--param", "metric.au=0.5")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"AU \d+\.\d % \(threshold 50 %\): PASS\nsummary: " +
                         re.escape(os.path.join(self.results, "summary.json")))
        self.assertIn("[METRIC] train_au_meet_expectation: success", done.stdout)
        self.assertIn("Demand at 100 % AU: 13.4 MiB/s per accelerator", done.stdout)
        self.assertIn("fits in this host's memory", done.stderr)
        summary = self.summary()
        self.assertEqual(summary["metric"]["train_au_meet_expectation"], "success")
        self.assertEqual(summary["stoker"]["status"], "complete")
        self.assertEqual(summary["stoker"]["files_read"], 28)
        sizes = [os.path.getsize(os.path.join(self.train(), n)) for n in os.listdir(self.train())]
        self.assertEqual(summary["stoker"]["true_bytes"], sum(sizes))
        self.assertEqual(summary["stoker"]["read_file_latency_us"]["count"], 28)

    def test_every_edition_order_and_shape_reads_the_data(self):
        for edition in ("v0.5", "v1.0", "v2.0", "v3.0"):
            self.data = os.path.join(self.dir, edition)
            self.results = os.path.join(self.dir, edition + "-results")
            self.generate("--mlperf", edition)
            done = self.run_bench("--mlperf", edition, "--num-accelerators", "2", "--param", "reader.batch_size=2",
                                  "--param", "train.computation_time=0.01", "--param", "metric.au=0")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(self.summary()["stoker"]["files_read"], 28)
            self.assertEqual(self.summary()["stoker"]["mlperf"], edition)

    def test_starved_accelerators_fail_with_their_own_status(self):
        self.generate()
        done = self.run_bench("--param", "train.computation_time=0.000001")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("(threshold 90 %): FAIL", done.stdout)
        self.assertEqual(self.summary()["metric"]["train_au_meet_expectation"], "fail")

    @unittest.skipIf(SANITIZED, "a bound on time")
    def test_null_storage_shows_a_harness_that_costs_nothing(self):
        # One second of compute per step: 5 ms of scheduling noise per step, on all of 8 threads, would still pass.
        done = bench("run", "--null", "--num-accelerators", "8", "--results-dir", self.results, "--results-layout",
                     "flat", "--param", "dataset.num_files_train=336", "--param", "train.epochs=1", "--param",
                     "train.computation_time=1")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        summary = self.summary()
        self.assertEqual(summary["stoker"]["steps_per_epoch"], 6)
        self.assertGreaterEqual(summary["metric"]["train_au_mean_percentage"], 99.5)
        self.assertLessEqual(summary["metric"]["train_au_mean_percentage"], 100)

    def interrupted(self, stop):
        process = subprocess.Popen([BENCH, "run", "--null", "--results-dir", self.results, "--results-layout", "flat",
                                    "--param", "dataset.num_files_train=21", "--param", "train.epochs=100000",
                                    "--param", "train.computation_time=0.01"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("epoch 2 of"):
                break
        process.send_signal(stop)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 4, out + err)
        self.assertIn("Interrupted: the results are partial", out)
        self.assertRegex(out, r"AU \d+\.\d % \(threshold 90 %\): PARTIAL")
        summary = self.summary()
        self.assertEqual(summary["stoker"]["status"], "interrupted")
        self.assertTrue(summary["stoker"]["partial"])
        self.assertGreaterEqual(summary["stoker"]["epochs_complete"], 2)
        self.assertEqual(summary["metric"]["train_au_meet_expectation"], "fail")

    def test_ctrl_c_writes_partial_results(self):
        self.interrupted(signal.SIGINT)

    def test_sigterm_writes_partial_results(self):
        self.interrupted(signal.SIGTERM)

    def test_a_file_that_vanished_makes_the_run_invalid(self):
        self.generate()
        gone = os.path.join(self.train(), "img_26_of_28.npz")
        process = subprocess.Popen([BENCH, "run", "--data-dir", self.data, "--results-dir", self.results,
                                    "--results-layout", "flat", *SMALL, *FILES, "--param", "train.epochs=3", "--param",
                                    "train.computation_time=0.05"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stdout:
            if line.startswith("epoch 1 of"):
                os.unlink(gone)
                break
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, out + err)
        self.assertRegex(err, r"run invalid: [12] files? could not be read; the first: " + re.escape(gone) +
                         ": open: No such file or directory\n")
        self.assertIn("INVALID", out)
        summary = self.summary()
        self.assertFalse(summary["stoker"]["valid"])
        self.assertIn(summary["stoker"]["read_errors"], (1, 2))

    def test_few_steps_have_defined_results(self):
        for files, accelerators, text, au in (
                (6, 1, "6 samples do not make one batch of 7 on each of 1 accelerators: 0 steps, AU is 0", 0),
                (7, 1, "1 step an epoch, all outside the AU window: AU is 0 by definition", 0),
                (14, 1, "2 steps an epoch: AU rests on one step only", None)):
            results = os.path.join(self.dir, str(files))
            done = bench("run", "--null", "--results-dir", results, "--results-layout", "flat", *QUICK, "--param",
                         f"dataset.num_files_train={files}", "--num-accelerators", str(accelerators))
            self.assertIn("WARNING: " + text, done.stderr)
            with open(os.path.join(results, "summary.json")) as file:
                summary = json.load(file)
            self.assertEqual(done.returncode, 3 if au == 0 else 0)
            if au == 0:
                self.assertEqual(summary["metric"]["train_au_mean_percentage"], 0)
            else:
                self.assertGreater(summary["metric"]["train_au_mean_percentage"], 50)

    def test_results_layouts(self):
        for edition, pattern in (("v1.0", r"^results/summary\.json$"),
                                 ("v2.0", r"^results/training/unet3d/run/\d{8}_\d{6}/summary\.json$"),
                                 ("v3.0", r"^results/whatif/acme/results/box/training/unet3d/run/\d{8}_\d{6}/"
                                          r"summary\.json$")):
            shutil.rmtree(self.results, ignore_errors=True)
            done = bench("run", "--null", "--mlperf", edition, "--results-dir", self.results, "--org", "acme", "--system",
                         "box", *QUICK, "--param", "dataset.num_files_train=21")
            path = re.search(r"^summary: (.*)$", done.stdout, re.M).group(1)
            self.assertTrue(os.path.exists(path))
            self.assertRegex(os.path.relpath(path, self.dir), pattern)


class BadInput(Case):
    def refused(self, message, *arguments):
        done = bench(*arguments)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stderr, "stoker-bench: " + message + "\n")

    def run_arguments(self, *arguments):
        return ("run", "--data-dir", self.data, "--results-dir", self.results, *FILES, *arguments)

    def test_no_dataset(self):
        self.refused(f"no dataset: the folder {self.data}/unet3d does not exist; make the dataset with: stoker-bench "
                     f"datagen --mlperf v3.0 --workload unet3d --data-dir {self.data} --param "
                     "dataset.num_files_train=28", *self.run_arguments())

    def test_incomplete_dataset(self):
        self.generate()
        gone = os.path.join(self.train(), "img_09_of_28.npz")
        os.unlink(gone)
        self.refused(f"the dataset is not complete: {gone} is missing; make it with: stoker-bench datagen --mlperf v3.0 "
                     f"--workload unet3d --data-dir {self.data} --param dataset.num_files_train=28",
                     *self.run_arguments())

    def test_too_few_files(self):
        self.generate()
        self.refused(f"the dataset in {self.data}/unet3d has 28 files, 7200 are needed; use --param "
                     "dataset.num_files_train=28, or make more with: stoker-bench datagen --mlperf v3.0 --workload "
                     f"unet3d --data-dir {self.data} --param dataset.num_files_train=7200",
                     "run", "--data-dir", self.data, "--results-dir", self.results)

    def test_more_accelerators_than_samples(self):
        self.refused("--num-accelerators: 29 accelerators, but only 28 samples; use at most 28 accelerators, or a larger "
                     "dataset (--param dataset.num_files_train)", *self.run_arguments("--num-accelerators", "29"))

    def test_memory_the_host_does_not_have(self):
        for arguments in (("dataset.num_files_train=4294967295",),
                          ("dataset.num_files_train=4294967295", "dataset.num_samples_per_file=1000",
                           "dataset.record_length=1000", "dataset.record_length_stdev=0", "train.epochs=1000000")):
            params = [word for argument in arguments for word in ("--param", argument)]
            done = bench("run", "--null", "--results-dir", self.results, "--param", "reader.batch_size=1", *params)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("stoker-bench: the run may need ", done.stderr)
            self.assertFalse(os.path.exists(self.results))

    def test_the_command_of_a_message_can_be_typed(self):
        self.data = os.path.join(self.dir, "it's here")
        done = bench(*self.run_arguments())
        command = shlex.split(done.stderr.strip().split("make the dataset with: stoker-bench ")[1])
        self.assertEqual(bench(*command, "--num-parallel", "0").returncode, 2)
        self.assertEqual(command[command.index("--data-dir") + 1], self.data)

    def test_results_folder_cannot_be_written(self):
        blocker = os.path.join(self.dir, "blocker")
        with open(blocker, "w"):
            pass
        self.refused(f"cannot write results to {blocker}/r: Not a directory; give a writable --results-dir",
                     "run", "--null", "--results-layout", "flat", "--results-dir", blocker + "/r")

    def test_results_folder_holds_a_run(self):
        arguments = ("run", "--null", "--results-layout", "flat", "--results-dir", self.results, *QUICK, "--param",
                     "dataset.num_files_train=21")
        self.assertEqual(bench(*arguments).returncode, 0)
        self.refused(f"{self.results} already holds a run (summary.json); give another --results-dir", *arguments)

    def test_runs_that_begin_in_the_same_second(self):
        arguments = ("run", "--null", "--results-dir", self.results, *QUICK, "--param", "dataset.num_files_train=21",
                     "--param", "train.computation_time=0.01")
        runs = [subprocess.Popen([BENCH, *arguments], stdout=subprocess.PIPE, text=True) for _ in range(3)]
        summaries = {run.communicate(timeout=120)[0].splitlines()[-1] for run in runs}
        self.assertEqual([run.returncode for run in runs], [0, 0, 0])
        self.assertEqual(len(summaries), 3, summaries)

    def test_wrong_names_and_numbers(self):
        self.refused('--accelerator: "v100" is not one of a100, b200, h100; did you mean "a100"? (unet3d under v3.0); it '
                     "is under --mlperf v0.5", *self.run_arguments("--accelerator", "v100"))
        self.refused('--workload: "unet" is not one of bert, cosmoflow, dlrm, flux, resnet50, retinanet, unet3d; did '
                     'you mean "unet3d"?',
                     *self.run_arguments("--workload", "unet"))
        self.refused('--num-accelerators: "0" is not a whole number from 1 to 100000',
                     *self.run_arguments("--num-accelerators", "0"))
        self.refused('--param: unknown key "reader.read_thread"; did you mean "reader.read_threads"?',
                     *self.run_arguments("--param", "reader.read_thread=4"))
        self.refused("run: unknown flag --acelerator; did you mean --accelerator?",
                     *self.run_arguments("--acelerator", "h100"))


if __name__ == "__main__":
    print(f"TEST_SEED={SEED}")
    result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)
