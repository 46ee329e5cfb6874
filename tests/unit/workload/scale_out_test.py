"""stoker-bench under real launchers: one run over several processes, set-up faults, the end in good order.

Hosts are one machine under several names (STOKER_HOSTNAME). Skipped (77) where no MPI is installed.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = os.environ["STOKER_BIN"]
BENCH = os.path.join(BIN, "stoker-bench")
MODULES = os.path.join(os.path.dirname(BIN), "lib", "stoker")
LIMIT = 60  # seconds a command may take; each takes one or two

SMALL = ["--param", "dataset.record_length_bytes=20000", "--param", "dataset.record_length_bytes_stdev=0",
         "--param", "dataset.num_files_train=48", "--param", "reader.batch_size=1"]
QUICK = ["--param", "train.epochs=2", "--param", "train.computation_time=0.01"]
OLD = ["--mlperf", "v0.5", "--param", "dataset.record_length=20000", "--param", "dataset.record_length_stdev=0",
       "--param", "dataset.num_files_train=48", "--param", "reader.batch_size=1"]


class Launcher:
    def __init__(self, name, module, program, flags, host):
        self.name, self.module, self.program, self.flags, self.host = name, module, program, flags, host

    def there(self):
        return shutil.which(self.program) and os.path.exists(os.path.join(MODULES, self.module))

    def command(self, *groups):
        """groups: (host name, processes, [arguments])."""
        out = [self.program, *self.flags]
        for i, (host, processes, arguments) in enumerate(groups):
            out += ([":"] if i else []) + self.host(host) + ["-n", str(processes), BENCH, *arguments]
        return out


LAUNCHERS = [launcher for launcher in (
    Launcher("MPICH", "stoker_mpi_mpich.so", "mpiexec.mpich", [], lambda h: ["-env", "STOKER_HOSTNAME", h]),
    Launcher("Open MPI", "stoker_mpi_openmpi.so", "mpirun.openmpi",
             ["--allow-run-as-root", "--oversubscribe"],
             lambda h: ["-x", "STOKER_HOSTNAME=" + h])) if launcher.there()]

# The MPI libraries keep what they allocated; that is not ours to report.
ENVIRONMENT = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", ""))


def start(command):
    """In a session of its own, so that all of it can be ended."""
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True, env=ENVIRONMENT)


def kill(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.stderr.close()
    process.wait()


def run(command):
    process = start(command)
    try:
        out, err = process.communicate(timeout=LIMIT)
    finally:
        kill(process)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="stoker-bench-", dir=os.environ.get("STOKER_TEST_TMP"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.data = os.path.join(self.dir, "data")
        self.results = os.path.join(self.dir, "results")

    def generate(self, *arguments):
        done = run([BENCH, "datagen", "--data-dir", self.data, *(arguments or SMALL)])
        self.assertEqual(done.returncode, 0, done.stderr)

    def arguments(self, accelerators, *more, data=None):
        return ["run", "--num-accelerators", str(accelerators), "--data-dir", data or self.data, "--results-dir",
                self.results, "--results-layout", "flat", *SMALL, *QUICK, *more]

    def summary(self, folder=None):
        with open(os.path.join(folder or self.results, "summary.json")) as file:
            return json.load(file)

    def every(self):
        for launcher in LAUNCHERS:
            shutil.rmtree(self.results, ignore_errors=True)
            yield launcher

    def refused(self, launcher, sentence, *groups):
        done = run(launcher.command(*groups))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, sentence)
        self.assertFalse(os.path.exists(os.path.join(self.results, "summary.json")))
        return done


class OneRun(Case):
    def test_one_result_of_all_processes(self):
        self.generate()
        for launcher in self.every():
            arguments = self.arguments(8)
            done = run(launcher.command(("a", 2, arguments), ("b", 2, arguments)))
            self.assertIn(done.returncode, (0, 3), done.stderr)
            summary = self.summary()
            self.assertEqual(summary["num_accelerators"], 8)
            self.assertEqual(summary["num_hosts"], 2)
            self.assertEqual(summary["hostname"], "a")
            self.assertEqual(len(summary["host_memory_GB"]), 2)
            self.assertEqual(summary["stoker"]["status"], "complete")
            self.assertEqual(summary["stoker"]["steps_per_epoch"], 6)
            self.assertEqual(summary["stoker"]["files_read"], 96)
            self.assertEqual([(h["hostname"], h["processes"], h["accelerators"]) for h in summary["stoker"]["hosts"]],
                             [("a", 2, 4), ("b", 2, 4)])
            self.assertTrue(summary["stoker"]["message_library"].startswith(launcher.name))
            self.assertEqual(done.stdout.count("summary: "), 1)  # one speaks
            au, throughput = [], 0
            for rank in range(8):
                with open(os.path.join(self.results, f"{rank}_output.json")) as file:
                    epoch = json.load(file)["1"]
                self.assertEqual(len(epoch["proc"]["block1"]), 6)
                au.append(epoch["au"]["block1"])
                throughput += epoch["throughput"]["block1"]
            self.assertAlmostEqual(summary["metric"]["train_au_percentage"][0], sum(au) / 8)
            self.assertAlmostEqual(summary["metric"]["train_throughput_samples_per_second"][0], throughput)

    def test_the_ranks_of_all_processes_read_every_file_once(self):
        self.generate()
        folder = os.path.join(self.data, "unet3d", "train")
        total = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
        for launcher in self.every():
            done = run(launcher.command(("a", 3, self.arguments(6, "--order", "v3"))))
            self.assertIn(done.returncode, (0, 3), done.stderr)
            self.assertEqual(self.summary()["stoker"]["true_bytes"], 2 * total)

    def test_a_read_error_on_one_host_is_named(self):
        self.generate()
        other = os.path.join(self.dir, "other")
        shutil.copytree(self.data, other)
        for name in os.listdir(os.path.join(other, "unet3d", "train")):
            path = os.path.join(other, "unet3d", "train", name)
            with open(path, "r+b") as file:  # as long as before, but no npz
                file.write(bytes(os.path.getsize(path)))
        for launcher in self.every():
            shape = ["--read-shape", "npz"]
            done = run(launcher.command(("a", 1, self.arguments(2, *shape)),
                                        ("b", 1, self.arguments(2, *shape, data=other))))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, r"process 1 on host b \(rank 1\): .*img_")
            self.assertEqual(self.summary()["stoker"]["status"], "failed")


class Datagen(Case):
    def files(self, folder):
        out = {}
        for base, _, names in os.walk(folder):
            for name in names:
                with open(os.path.join(base, name), "rb") as file:
                    out[os.path.relpath(os.path.join(base, name), folder)] = file.read()
        return out

    def test_processes_share_the_files_and_write_the_same(self):
        self.generate()
        for launcher in self.every():
            shared = os.path.join(self.dir, launcher.module)
            done = run(launcher.command(("a", 3, ["datagen", "--data-dir", shared, *SMALL])))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("48 files", done.stdout)
            self.assertIn("(48 written, 0 already there)", done.stdout)
            self.assertEqual(self.files(shared), self.files(self.data))

    def test_folders_that_are_not_shared_are_noticed(self):
        launcher = LAUNCHERS[0]
        one, two = os.path.join(self.dir, "one"), os.path.join(self.dir, "two")
        self.refused(launcher, "is not shared", ("a", 1, ["datagen", "--data-dir", one, *SMALL]),
                     ("b", 1, ["datagen", "--data-dir", two, *SMALL]))

    def test_the_error_of_one_process_ends_all(self):
        launcher = LAUNCHERS[0]
        self.refused(launcher, "process 1 on host b.*: cannot make the folder /proc/",
                     ("a", 1, ["datagen", "--data-dir", self.data, *SMALL]),
                     ("b", 1, ["datagen", "--data-dir", "/proc/none", *SMALL]))


class IndependentHosts(Case):
    def test_v05_hosts_are_runs_of_their_own(self):
        self.generate(*OLD)
        for launcher in self.every():
            arguments = ["run", "--num-accelerators", "4", "--data-dir", self.data, "--results-dir", self.results, *OLD,
                         *QUICK]
            for number in (1, 2):
                done = run(launcher.command(("a", 1, arguments), ("b", 1, arguments)))
                self.assertIn(done.returncode, (0, 3), done.stderr)
                self.assertIn("all 2 hosts: ", done.stdout)
                for host, name in ((1, "a"), (2, "b")):
                    summary = self.summary(os.path.join(self.results, f"run-{number}", f"host-{host}"))
                    self.assertEqual(summary["hostname"], name)
                    self.assertEqual(summary["num_accelerators"], 2)  # of 4: the total
                    self.assertEqual(summary["stoker"]["files_read"], 96)  # its own epochs, all of the data


class Faults(Case):
    def test_are_found_before_the_run_and_named(self):
        self.generate()
        for launcher in self.every():
            good = self.arguments(2)
            missing = os.path.join(self.dir, "missing")
            self.refused(launcher, r"process 1 on host b: no dataset: the folder .*missing",
                         ("a", 1, good), ("b", 1, self.arguments(2, data=missing)))
            self.refused(launcher, r'train.epochs is "3" on process 1 on host b, but "2" on process 0 on host a',
                         ("a", 1, good), ("b", 1, self.arguments(2, "--param", "train.epochs=3")))
            self.refused(launcher, r"7 \(the total\) over 3 processes is not even; use 6 or 9",
                         ("a", 3, self.arguments(7)))
            self.refused(launcher, r"host a has 2, host b has 1", ("a", 2, self.arguments(3)),
                         ("b", 1, self.arguments(3)))

    def test_results_folder_of_process_zero(self):
        self.generate()
        for launcher in self.every():
            with open(self.results, "w"):
                pass
            self.refused(launcher, r"process 0 on host a: cannot write results to ", ("a", 2, self.arguments(2)))
            os.unlink(self.results)

    def test_datasets_that_differ(self):
        self.generate()
        other = os.path.join(self.dir, "other")
        shutil.copytree(self.data, other)
        first = os.path.join(other, "unet3d", "train", "img_00_of_48.npz")
        with open(first, "ab") as file:
            file.write(b"x")
        launcher = LAUNCHERS[0]
        self.refused(launcher, "process 1 on host b finds another dataset", ("a", 1, self.arguments(2)),
                     ("b", 1, self.arguments(2, data=other)))

    def test_a_module_that_is_not_there(self):
        # A copy of the program without modules beside it, as installed on a host that was forgotten.
        folder = os.path.join(self.dir, "alone", "bin")
        os.makedirs(folder)
        shutil.copy(BENCH, folder)
        for launcher in self.every():
            command = launcher.command(("a", 2, self.arguments(2)))
            command[command.index(BENCH)] = os.path.join(folder, "stoker-bench")
            done = run(command)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, launcher.module + " is not there")
            self.assertRegex(done.stderr, "install Debian's lib(mpich|openmpi)-dev")
            self.assertFalse(os.path.exists(self.results))

    def test_verbs_that_many_would_repeat_are_refused(self):
        launcher = LAUNCHERS[0]
        self.refused(launcher, "datasize does not share its work", ("a", 2, ["datasize", "--host-memory-in-gb", "1"]))

    def test_mpi_off_is_a_run_each(self):
        self.generate()
        launcher = LAUNCHERS[0]
        groups = []
        for name in ("one", "two"):
            arguments = self.arguments(2, "--mpi", "off")
            arguments[arguments.index(self.results)] = os.path.join(self.dir, name)
            groups.append(("a", 1, arguments))
        done = run(launcher.command(*groups))
        self.assertIn(done.returncode, (0, 3), done.stderr)
        for name in ("one", "two"):
            self.assertEqual(self.summary(os.path.join(self.dir, name))["num_accelerators"], 2)


class Ends(Case):
    def begin(self, launcher, *more):
        self.generate()
        arguments = self.arguments(4, "--param", "train.epochs=100000", *more)
        command = launcher.command(("a", 1, arguments), ("b", 1, arguments))
        if launcher.name == "Open MPI":  # between SIGTERM and SIGKILL; a busy machine may need more than the usual 1 s
            command[1:1] = ["--mca", "odls_base_sigkill_timeout", "4"]
        process = start(command)
        self.addCleanup(kill, process)
        for line in process.stdout:
            if line.startswith("epoch 2"):
                return process
        self.fail(process.stderr.read())

    def of_rank(self, process, rank):
        """The pid of a rank among what `process` has started."""
        for pid in os.listdir("/proc"):
            try:
                with open(f"/proc/{pid}/environ") as file:
                    environment = file.read().split("\0")
                with open(f"/proc/{pid}/cmdline") as file:
                    arguments = file.read().split("\0")
            except (OSError, ValueError):
                continue
            if arguments[0] == BENCH and self.results in arguments and (
                    f"PMI_RANK={rank}" in environment or f"OMPI_COMM_WORLD_RANK={rank}" in environment):
                return int(pid)
        return self.fail("no such process")

    def test_ctrl_c_leaves_partial_results(self):
        for launcher in self.every():
            process = self.begin(launcher)
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=LIMIT)  # the exit status after Ctrl-C is the launcher's own affair
            summary = self.summary()
            self.assertEqual(summary["stoker"]["status"], "interrupted")
            self.assertTrue(summary["stoker"]["partial"])
            self.assertGreaterEqual(len(summary["metric"]["train_au_percentage"]), 2)

    def test_the_end_of_one_process_is_the_end_of_all(self):
        for launcher in self.every():
            process = self.begin(launcher)
            os.kill(self.of_rank(process, 1), signal.SIGTERM)
            _, err = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 4, err)
            self.assertEqual(self.summary()["stoker"]["status"], "interrupted")

    def test_a_process_that_stands_still_is_named(self):
        launcher = LAUNCHERS[0]
        process = self.begin(launcher, "--step-timeout", "2s")
        still = self.of_rank(process, 1)
        os.kill(still, signal.SIGSTOP)
        try:
            # The leader waits some time for the other's part of the results.
            _, err = process.communicate(timeout=LIMIT + 40)
        finally:
            try:
                os.kill(still, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, r"step barrier: process 1 on host b \(ranks 2-3\) did not come within 2s")
        self.assertEqual(self.summary()["stoker"]["status"], "failed")


if __name__ == "__main__":
    if not LAUNCHERS or "thread" in os.environ.get("STOKER_SANITIZE", ""):
        print("skipped: no MPI launcher with a module of this build (or thread sanitizer, which MPI does not suit)")
        sys.exit(77)
    print("launchers:", ", ".join(re.sub(r"\s+", " ", launcher.name) for launcher in LAUNCHERS))
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[1:]])
