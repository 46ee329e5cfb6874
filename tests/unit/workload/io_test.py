"""Drives stoker-bench io and mdtest as a user does: what they write, print, leave behind and leave with."""
import collections
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BENCH = os.path.join(os.environ["STOKER_BIN"], "stoker-bench")
SANITIZED = bool(os.environ.get("STOKER_SANITIZE"))
MIB = 1 << 20

# The commands of the published Lustre test, its sizes scaled down: processes -> block.
PUBLISHED = "-vv -F -a POSIX -w -r -b {block} -t 1m -i 2 -o {file} -O lustreStripeCount=0"


def run(*arguments, **options):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=100, **options)


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="stoker-io-", dir=os.environ.get("STOKER_TEST_TMP"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.file = os.path.join(self.dir, "IORFile")
        self.json = os.path.join(self.dir, "results.json")

    def ok(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def results(self):
        with open(self.json) as file:
            return json.load(file)

    def left(self):
        return sorted(os.listdir(self.dir))

    def interrupted(self, command, begun, number):
        """Runs the command, sends the signal once begun() says so; the process, what it printed."""
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                deadline = time.monotonic() + 60
                while not begun():
                    self.assertLess(time.monotonic(), deadline)
                    self.assertIsNone(process.poll(), "ended too early")
                    time.sleep(0.01)
                process.send_signal(number)
                out, err = process.communicate(timeout=60)
            finally:
                process.kill()
        return process, out, err


class Io(Case):
    def test_the_published_lines_as_they_stand(self):
        for tasks in (1, 3, 8, 16):
            line = PUBLISHED.format(block="4m", file=self.file).split()
            done = self.ok("io", *line, "-N", str(tasks), "--json", self.json)
            self.assertIn("file-per-process", done.stdout)
            rows = {}
            for row in done.stdout.split("Summary of all tests:")[1].splitlines()[2:4]:
                cells = row.split()
                rows[cells[0]] = cells
            self.assertEqual(sorted(rows), ["read", "write"])
            for cells in rows.values():
                #              #Tasks      tPN         reps fPP  reord off  rand seed segs
                self.assertEqual(cells[13:22], [str(tasks), str(tasks), "2", "1", "0", "1", "0", "0", "1"])
                self.assertEqual(cells[22:], [str(4 * MIB), str(MIB), "%.1f" % (4 * tasks), "POSIX", "0"])
                high, low, mean = (float(cell) for cell in cells[1:4])
                self.assertLessEqual(low, mean)
                self.assertLessEqual(mean, high)
            best = re.search(r"Max Write: ([\d.]+) MiB/sec \(([\d.]+) MB/sec\)", done.stdout)
            self.assertEqual(best.group(1), rows["write"][1])
            self.assertAlmostEqual(float(best.group(2)), float(best.group(1)) * 1.048576, delta=0.02)
            for result in self.results()["Results"]:
                self.assertEqual(result["bytes"], 4 * MIB * tasks)
                self.assertAlmostEqual(result["bwMiB"], 4 * tasks / result["totalTime"], places=3)
            self.assertEqual(len(self.results()["Results"]), 4)
            os.remove(self.json)
            self.assertEqual(self.left(), [])

    def test_files_have_their_names_and_sizes(self):
        self.ok("io", "-w", "-k", "-F", "-b1m", "-t64k", "-s3", "-N2", "-o", self.file)
        self.assertEqual(self.left(), ["IORFile.00000000", "IORFile.00000001"])
        self.assertEqual({os.path.getsize(os.path.join(self.dir, name)) for name in self.left()}, {3 * MIB})
        self.ok("io", "-w", "-k", "-b1m", "-t64k", "-s3", "-N2", "-o", self.file)
        self.assertEqual(os.path.getsize(self.file), 6 * MIB)

    @unittest.skipIf(SANITIZED, "LeakSanitizer cannot work under strace")
    def test_calls_are_those_of_the_options(self):
        """-C: each task opens its neighbour's file. Every call has the transfer's size; a shared file's offsets are
        those of task and segment."""
        trace = os.path.join(self.dir, "trace")

        def calls(*arguments):
            subprocess.run(["strace", "-f", "-qq", "-o", trace, "-e", "trace=openat,pwrite64,pread64,fsync", BENCH, "io",
                            "-o", self.file, *arguments], check=True, capture_output=True, timeout=60)
            with open(trace) as file:
                text = file.read()
            # A call that another thread interrupted in the listing stands in two lines.
            begun = {}
            lines = []
            for line in text.splitlines():
                pid, rest = line.split(None, 1)
                if rest.endswith("<unfinished ...>"):
                    begun[pid] = rest[:-len("<unfinished ...>")].rstrip()
                elif rest.startswith("<... "):
                    lines.append((pid, begun.pop(pid) + re.sub(r"^<\.\.\. \w+ resumed>", "", rest)))
                else:
                    lines.append((pid, rest))
            return lines

        lines = calls("-F", "-C", "-b", "256k", "-t", "64k", "-N", "3", "-e")
        opened = {"O_WRONLY": {}, "O_RDONLY": {}}
        for thread, rest in lines:
            found = re.match(r'openat\(.*IORFile\.(\d{8})", (\w+)', rest)
            if found:
                opened[found.group(2)][int(thread)] = int(found.group(1))
        # A phase's threads are made in the order of the tasks.
        self.assertEqual([opened["O_WRONLY"][thread] for thread in sorted(opened["O_WRONLY"])], [0, 1, 2])
        self.assertEqual([opened["O_RDONLY"][thread] for thread in sorted(opened["O_RDONLY"])], [1, 2, 0])
        self.assertEqual(len([1 for _, rest in lines if rest.startswith("fsync")]), 3)
        wrote = [rest for _, rest in lines if rest.startswith("pwrite64")]
        self.assertEqual(len(wrote), 12)
        for rest in wrote:
            self.assertRegex(rest, r", 65536, \d+\) += 65536")

        offsets = collections.defaultdict(list)
        for pid, rest in calls("-w", "-b", "128k", "-t", "64k", "-s", "2", "-N", "2", "-Y"):
            found = re.match(r"pwrite64\(.*, 65536, (\d+)\) += 65536", rest)
            if found:
                offsets[pid].append(int(found.group(1)) // 65536)
        self.assertEqual(sorted(offsets.values()), [[0, 1, 4, 5], [2, 3, 6, 7]])

    def test_reading_what_another_task_wrote(self):
        """Files that tell whose they are: -R finds each where -C says it is, and nothing else."""
        shared = ["-F", "-k", "-b", "256k", "-t", "64k", "-N", "3", "-o", self.file, "-G", "5"]
        self.ok("io", "-w", *shared)
        for reorder in ([], ["-C"], ["-C", "-Q", "2"], ["-Z", "-X", "3"]):
            self.ok("io", "-R", *reorder, *shared)
        os.replace(self.file + ".00000000", self.file + ".00000002")  # task 2 now has task 0's bytes
        shutil.copy(self.file + ".00000001", self.file + ".00000000")
        done = run("io", "-R", *shared)
        self.assertEqual(done.returncode, 1)
        self.assertIn("incorrect data on read (%d words" % (2 * 256 * 1024 // 4096), done.stderr)

    def test_direct_transfers_and_cold_reads(self):
        for extra in (["--odirect"], ["-B"], ["--posix.odirect"], ["--cold-read"]):
            done = run("io", "-w", "-R", "-b", "1m", "-t", "256k", "-N", "2", "-z", "-o", self.file, *extra)
            if "no direct transfers" in done.stderr:
                self.skipTest("this file system has no direct transfers")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertNotIn("fits in this host's memory", done.stdout)
        self.assertIn("fits in this host's memory",
                      self.ok("io", "-b", "1m", "-t", "256k", "-o", self.file).stdout)

    def test_what_exists_and_what_becomes_of_it(self):
        with open(self.file, "w") as file:
            file.write("old")
        done = self.ok("io", "-w", "-k", "-b", "1m", "-o", self.file)
        self.assertIn("replaced, as IOR does", done.stdout)
        self.assertEqual(os.path.getsize(self.file), MIB)
        done = self.ok("io", "-r", "-k", "-b", "1m", "-o", self.file)
        self.assertEqual(self.left(), ["IORFile"])
        done = self.ok("io", "-r", "-b", "1m", "-o", self.file)
        self.assertIn("removed after the first repetition, as IOR does", done.stdout)
        self.assertEqual(self.left(), [])

    def test_striping_is_left_out_elsewhere_than_on_lustre(self):
        done = self.ok("io", "-w", "-b", "1m", "-o", self.file, "-O", "lustreStripeCount=4,lustreStripeSize=1m")
        self.assertIn("striping is not set", done.stdout)
        self.assertIn("not on Lustre", done.stdout)

    def test_both_tables(self):
        done = self.ok("io", "-w", "-b", "1m", "-o", self.file, "--old-table")
        self.assertRegex(done.stdout, r"Operation +Max \(MiB\)")
        self.assertRegex(done.stdout, r"1048576 +262144 +1048576 +0 POSIX\n")
        self.assertRegex(done.stdout, r"Client CPU: [\d.]+ s, [\d.]+ s per GB moved")

    def test_found_wrong_before_work_is_status_2(self):
        with open(self.json, "w") as file:
            file.write("earlier results")
        cases = [
            (["-t", "1q"], "-t"), (["-b", "3k", "-t", "2k"], "-b"), (["--nothing"], "--nothing"), (["-j", "1"], "-j"),
            (["-o", os.path.join(self.dir, "no/where")], "make it first"), (["-o", self.dir], "plain file"),
            (["-r"], "does not exist"), (["-w", "-b", "4096t", "-t", "1m"], "is free"),
            (["--json", self.json], "never overwritten"), (["--json", os.path.join(self.dir, "no/x")], "--json"),
            (["--json", self.file], "a file of the test itself"),
            (["-F", "-N", "2", "--json", self.file + ".00000001"], "a file of the test itself"),
            (["-N", "4096", "-t", "1g", "-b", "1g", "-D", "1"], "of buffers"),
        ]
        for arguments, text in cases:
            given = arguments if "-o" in arguments else [*arguments, "-o", self.file]
            done = run("io", *given)
            self.assertEqual(done.returncode, 2, (arguments, done.stdout, done.stderr))
            self.assertIn(text, done.stderr, arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertEqual(self.left(), ["results.json"])

    def test_a_write_that_fails_midway(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))

        done = run("io", "-w", "-F", "-N", "2", "-b", "4m", "-t", "256k", "-o", self.file, preexec_fn=limit)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertRegex(done.stderr, r"writing .*IORFile\.0000000\d at 1048576: File too large")
        self.assertEqual(self.left(), [])

    def test_interrupted(self):
        for extra in ([], ["-k"]):
            command = [BENCH, "io", "-w", "-Y", "-v", "-F", "-N", "2", "-b", "64g", "-D", "600", "-t", "64k", "-o", self.file,
                       "--json", self.json, *extra]

            def begun():
                return any(name.startswith("IORFile") and os.path.getsize(os.path.join(self.dir, name)) > 0
                           for name in self.left())

            process, out, err = self.interrupted(command, begun, signal.SIGINT)
            self.assertEqual(process.returncode, 4, err)
            self.assertIn("PARTIAL", err)
            self.assertIn("Summary of all tests", out)
            self.assertEqual(self.results()["status"], "partial")
            os.remove(self.json)
            self.assertEqual(len(self.left()), 2 if extra else 0)


MPIRUNS = {name: path for name, path in
           {"mpich": shutil.which("mpirun.mpich"), "openmpi": shutil.which("mpirun.openmpi")}.items() if path}


@unittest.skipUnless(MPIRUNS, "no mpirun")
@unittest.skipIf(SANITIZED, "the MPI libraries leak")
class Processes(Case):
    """The processes that mpirun starts are the tasks."""

    def mpirun(self, kind, processes, *arguments):
        command = [MPIRUNS[kind], *(["--allow-run-as-root", "--oversubscribe"] if kind == "openmpi" else []), "-np",
                   str(processes), BENCH, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    def test_the_published_line_behind_mpirun(self):
        for kind in MPIRUNS:
            for processes in (1, 3):
                line = PUBLISHED.format(block="4m", file=self.file).split()
                done = self.mpirun(kind, processes, "io", *line, "--json", self.json)
                self.assertEqual(done.returncode, 0, (kind, done.stdout, done.stderr))
                self.assertEqual(done.stdout.count("Summary of all tests"), 1)
                results = self.results()
                self.assertEqual(results["Options"]["numTasks"], processes)
                self.assertEqual([result["bytes"] for result in results["Results"]], [4 * MIB * processes] * 4)
                self.assertEqual(len(results["Results"][0]["taskSeconds"]), processes)
                for result in results["Results"]:
                    # Clocks of different processes are one: a task's own time lies in that of all.
                    self.assertGreaterEqual(result["totalTime"] + 0.001, max(result["taskSeconds"]))
                os.remove(self.json)
                self.assertEqual(self.left(), [])

    def test_threads_in_processes_read_what_others_wrote(self):
        for kind in MPIRUNS:
            for extra in (["-F", "-C"], ["-C"], ["-z"], ["-F", "-z", "-Z"]):
                done = self.mpirun(kind, 2, "io", "-w", "-R", "-W", "-b", "256k", "-t", "32k", "-s", "2", "-N", "4", "-g", "-o",
                                   self.file, *extra)
                self.assertEqual(done.returncode, 0, (kind, extra, done.stdout, done.stderr))
            done = self.mpirun(kind, 2, "io", "-w", "-D", "1", "-O", "stoneWallingWearOut=1", "-Y", "-W", "-F", "-b", "64g", "-t",
                               "64k", "-o", self.file, "--json", self.json)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.results()["Results"][0]["bytes"] % (2 * 65536), 0)
            os.remove(self.json)

    def test_wrong_use_is_said_once(self):
        for kind in MPIRUNS:
            done = self.mpirun(kind, 2, "io", "-N", "3", "-o", self.file)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("do not divide evenly"), 1, done.stderr)
            done = self.mpirun(kind, 2, "io", "-r", "-F", "-o", self.file)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("does not exist"), 1, done.stderr)

    def test_what_one_process_finds_all_leave_with(self):
        """One process finds wrong data; what it found is told by the one that speaks."""
        shared = ["-F", "-k", "-b", "4m", "-t", "64k", "-o", self.file, "-G", "9"]
        for kind in MPIRUNS:
            self.assertEqual(self.mpirun(kind, 2, "io", "-w", *shared).returncode, 0)
            shutil.copy(self.file + ".00000000", self.file + ".00000001")
            done = self.mpirun(kind, 2, "io", "-R", *shared)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stderr.count("wrong data"), 1, done.stderr)

    def test_mdtest(self):
        for kind in MPIRUNS:
            for extra in ([], ["-u"], ["-W", "1", "-F"]):
                done = self.mpirun(kind, 2, "mdtest", "-n", "20", "--tasks", "4", "-N", "1", "-w", "8", "-e", "8", "-X", "-d",
                                   os.path.join(self.dir, "md"), "--json", self.json, *extra)
                self.assertEqual(done.returncode, 0, (kind, done.stdout, done.stderr))
                items = {result["phase"]: result["items"] for result in self.results()["Results"]}
                self.assertEqual(items["File creation"], 80)
                self.assertEqual(items["File removal"], 80)
                os.remove(self.json)
                self.assertEqual(self.left(), [])


class Mdtest(Case):
    def test_every_phase_has_its_row(self):
        done = self.ok("mdtest", "-n", "40", "-b", "3", "-z", "1", "-i", "3", "-w", "100", "-e", "100", "-X", "-u", "-R",
                       "-N", "1", "--tasks", "3", "-d", os.path.join(self.dir, "md"), "--json", self.json)
        self.assertIn("SUMMARY rate: (of 3 iterations)", done.stdout)
        for name in ("Directory creation", "Directory stat", "Directory rename", "Directory removal", "File creation",
                     "File stat", "File read", "File removal", "Tree creation", "Tree removal"):
            row = re.search(r"   %s +: +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)\n" % name, done.stdout)
            self.assertIsNotNone(row, name)
            high, low, mean, _ = (float(cell) for cell in row.groups())
            self.assertTrue(low <= mean <= high, row.group(0))
        items = {result["phase"]: result["items"] for result in self.results()["Results"]}
        self.assertEqual(items["File creation"], 120)
        self.assertEqual(items["Tree creation"], 12)
        self.assertEqual(self.left(), ["results.json"])

    def test_phases_one_by_one_and_what_lies_there(self):
        work = os.path.join(self.dir, "md")
        shape = ["-I", "2", "-b", "2", "-z", "2", "-L", "--tasks", "2", "-d", work]

        def tree():
            out = set()
            for folder, dirs, files in os.walk(work):
                out |= {os.path.relpath(os.path.join(folder, name), work) for name in dirs + files}
            return out

        self.ok("mdtest", "-C", *shape, "-w", "10")
        expected = {"test-dir.0-0"}
        paths = {0: "mdtest_tree.0", 1: "mdtest_tree.0/mdtest_tree.1", 2: "mdtest_tree.0/mdtest_tree.2"}
        for child in range(3, 7):
            paths[child] = paths[(child - 1) // 2] + "/mdtest_tree.%d" % child
        expected |= {"test-dir.0-0/" + path for path in paths.values()}
        for leaf in range(3, 7):
            for kind in ("file", "dir"):
                for task in (0, 1):
                    for number in (leaf * 2, leaf * 2 + 1):
                        expected.add("test-dir.0-0/%s/%s.mdtest.%d.%d" % (paths[leaf], kind, task, number))
        self.assertEqual(tree(), expected)
        self.ok("mdtest", "-T", *shape)
        self.ok("mdtest", "-E", *shape, "-e", "10", "-X")
        self.assertEqual(tree(), expected)
        self.ok("mdtest", "-r", *shape)
        self.assertEqual(tree(), set())

    @unittest.skipIf(SANITIZED, "LeakSanitizer cannot work under strace")
    def test_counted_with_strace(self):
        trace = os.path.join(self.dir, "trace")
        subprocess.run(["strace", "-f", "-c", "-o", trace, "-e", "trace=mkdir,rmdir,unlink,rename,fsync,write", BENCH,
                        "mdtest", "-n", "25", "--tasks", "4", "-w", "8", "-y", "-d", self.dir], check=True,
                       capture_output=True, timeout=60)
        with open(trace) as file:
            counts = {cells[-1]: int(cells[3]) for cells in (line.split() for line in file)
                      if cells and cells[-1] in ("mkdir", "rmdir", "unlink", "rename", "fsync")}
        # 100 items, the tree, the test's folder, and -d, which is there already
        self.assertEqual(counts, {"mkdir": 103, "rmdir": 102, "unlink": 100, "rename": 104, "fsync": 100})

    def test_stonewall_makes_the_same_number_in_every_task(self):
        work = os.path.join(self.dir, "md")
        done = self.ok("mdtest", "-C", "-F", "-n", "10000000", "-W", "1", "--tasks", "2", "-d", work)
        self.assertRegex(done.stdout, r"File create \(stonewall\) +: +NA +NA +[\d.]+ +NA")
        names = collections.Counter(name.split(".")[2] for name in os.listdir(work + "/test-dir.0-0/mdtest_tree.0"))
        self.assertEqual(names["0"], names["1"])

    def test_found_wrong_before_work_is_status_2(self):
        plain = os.path.join(self.dir, "plain")
        with open(plain, "w"):
            pass
        cases = [
            ([], "-n"), (["-n", "x"], "-n"), (["-n", "1", "-d", plain], "not a folder"),
            (["-n", "1", "-d", os.path.join(self.dir, "a/b")], "nothing can be made"), (["-n", "1", "-T"], "is not there"),
            (["-n", "1", "-w", "1g", "--tasks", "4096"], "free"), (["-n", "1", "--bogus"], "--bogus"),
            (["-n", "1", "--json", plain], "never overwritten"), (["-n", "1", "-c"], "-c"),
        ]
        for arguments, text in cases:
            given = arguments if "-d" in arguments else [*arguments, "-d", os.path.join(self.dir, "md")]
            done = run("mdtest", *given)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertIn(text, done.stderr, arguments)
        self.assertEqual(self.left(), ["plain"])

    def test_interrupted(self):
        work = os.path.join(self.dir, "md")
        process, _, err = self.interrupted(
            [BENCH, "mdtest", "-n", "100000000", "-W", "600", "-F", "-d", work],
            lambda: os.path.exists(work + "/test-dir.0-0/mdtest_tree.0/file.mdtest.0.100"), signal.SIGTERM)
        self.assertEqual(process.returncode, 4, err)
        self.assertIn("PARTIAL", err)
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
