"""Wrong values of every flag of every verb of stoker-bench: refused before any work, with the thing, the value, and what
to do. The flags are read from each verb's own --help: one that is added later fails here until it has a line below.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.join(os.environ["STOKER_BIN"], "stoker-bench")

ROUND = [("v9", r'FLAG: "v9" is not one of v0\.5, v1\.0, v2\.0, v3\.0')]
COUNT = [(bad, rf'FLAG: "{bad}" is not a whole number from 1 to \d+') for bad in ("0", "-2", "1.5", "many", "1e3")]
FROM_0 = [(bad, rf'FLAG: "{bad}" is not a whole number from 0 to \d+') for bad in ("-1", "0.5", "x")]
NAMES = r"bert, cosmoflow, dlrm, flux, resnet50, retinanet, unet3d"
SIZE = [("x", r'FLAG: "x" is not a size: a number of bytes, or with k, m, g or t \(binary\), e\.g\. 1m')]
TIME = [("0", r'FLAG: "0" is not from 1s to \dd'), ("ten", r"FLAG: 'ten' is not a duration: write a number and a unit, e\.g\. 30s")]
MPI = [("lam", r'FLAG: "lam" is not one of auto, off, mpich, openmpi')]
NEW_FILE = [("DIR/file/out", r".*DIR/file.*Not a directory.*")]
OUT_FILE = [("DIR/file/out", r"FLAG: DIR/file/out: Not a directory; give a file that can be written")]
NO_VALUE = [("=3", r'FLAG: takes no value, but was given "3"; write FLAG alone, or leave it out')]
NAMED = r"NAME being letters, digits, - _ and \."
NO_DATASET = r"(\w+: )?no dataset: the folder DIR/none/unet3d does not exist; make the dataset with: stoker-bench datagen .*"

# Flag: wrong values, each with the message that it must bring. DIR stands for the test's folder.
COMMON = {
    "--mlperf": ROUND, "--datasize-formula": ROUND, "--file-layout": ROUND, "--loop": ROUND, "--metric": ROUND,
    "--workload": [("unet", rf'FLAG: "unet" is not one of {NAMES}; did you mean "unet3d"\?')],
    "--accelerator": [("tpu", r'--accelerator: "tpu" is not one of .*b200.*')],
    "--param": [("nonsense", r'FLAG: "nonsense" is not of the form key=value'),
                ("train.epochs=x", r'FLAG: train\.epochs: "x" is not a whole number from 1 to \d+'),
                ("train.epoch=3", r'FLAG: unknown key "train\.epoch"; did you mean "train\.epochs"\?')],
    "--profiles-dir": [("DIR/none", r"FLAG: DIR/none is not a folder; give the folder of WORKLOAD\.yaml files")],
    "--num-accelerators": COUNT, "--num-client-hosts": COUNT, "--num-parallel": COUNT,
    "--host-memory-in-gb": [(bad, rf'--host-memory-in-gb: "{bad}" is not a number above 0 up to 1000000')
                            for bad in ("0", "-1", "much", "1e30")],
    "--seed": FROM_0, "--mpi": MPI,
    "--results-layout": [("v1", r'FLAG: "v1" is not one of flat, v2\.0, v3\.0.*')],
    "--org": [("a/b", r'--org, --system: "a/b" is not the name of a folder')],
    "--system": [("..", r'--org, --system: "\.\." is not the name of a folder')],
    "--order": [("v4", r'FLAG: "v4" is not one of v1, v2, v3; did you mean "v1"\?')],
    "--read-shape": [("hole", r'FLAG: "hole" is not one of npz, whole, odirect; did you mean "whole"\?')],
    "--read-piece": [("5000B", r'FLAG: "5000B" is not a multiple of 4KiB from 4KiB to 1GiB'),
                     ("1", r"FLAG: '1' is not a size: the unit is missing, e\.g\. 1MiB")],
    "--cache-control": [("drop", r'FLAG: "drop" is not one of none, fadvise')],
    "--step-timeout": TIME, "--before-timeout": TIME, "--time-limit": TIME,
    "--probe": [("maybe", r'FLAG: "maybe" is not one of off, on')],
    "--null": NO_VALUE, "--self-test": NO_VALUE, "--json": NEW_FILE, "--html": OUT_FILE,
    "--data-dir": [("DIR/none", NO_DATASET)],
    "--results-dir": [("DIR/file/r", r".*cannot write .*to DIR/file/r.*: Not a directory; give a .*")],
}
IOR_COUNT = [(bad, rf'\w+: FLAG: "{bad}" is not a whole number from 1 to \d+') for bad in ("0", "-2", "1.5", "many")]
IOR_FROM_0 = [(bad, rf'\w+: FLAG: "{bad}" is not a whole number from 0 to \d+') for bad in ("-1", "x")]
IOR = {
    "-a": [("MPIIO", r'\w+: FLAG: "MPIIO" is not POSIX, the only interface here')],
    "-i": IOR_COUNT, "--mpi": [("lam", r"\w+: " + MPI[0][1])], "--json": [("DIR/none/x", r"\w+: FLAG: folder DIR/none: No such file or directory")],
    "-N": IOR_COUNT, "--tasks": IOR_COUNT,
}
for flag in ("-b", "-t", "-w", "-e"):
    IOR[flag] = [("x", r"\w+: " + SIZE[0][1])]
OWN = {
    "profiles": {"--json": NO_VALUE, "--param": [("a", r"FLAG needs the name of a profile: stoker-bench profiles NAME .*")],
                 "NAME": [("unet", rf'profiles: "unet" is not one of {NAMES}; did you mean "unet3d"\?')]},
    "datasize": {"--probe": [("DIR/none", r"FLAG: .*DIR/none.*")]},
    "datagen": {"--data-dir": [("DIR/file/d", r".*DIR/file/d.*Not a directory.*")]},
    "report": {"--results-dir": [("DIR/none", r"DIR/none is not a folder; give the results folder of one or more runs")],
               "DIR": [("DIR/none", r"DIR/none is not a folder; give the results folder of one or more runs")],
               "--title": [("", r"FLAG: the value is empty; give one, or leave the flag out")],
               "--json": OUT_FILE,
               "--output-dir": [("DIR/file/o", r"FLAG: DIR/file/o\S*: Not a directory; give a folder that can be written")]},
    "compare": {"--dir": [("a", rf'FLAG: "a" is not NAME=FOLDER, {NAMED}'), ("a b=c", rf'FLAG: .* is not NAME=FOLDER, {NAMED}'),
                          ("c=DIR/none", NO_DATASET)],
                "--rounds": COUNT,
                "--before": [("a", rf'FLAG: "a" is not NAME=COMMAND, {NAMED}'),
                             ("c=true", r'FLAG: name: "c" is not one of a, b.*')]},
    "capacity": {"--max": COUNT, "--repeats": [(bad, rf'FLAG: "{bad}" is not a whole number from 2 to \d+')
                                               for bad in ("1", "x")],
                 "--confidence": [("2", r'FLAG: "2" is not from 0\.5 to 0\.9999'), ("x", r'FLAG: "x" is not .*')],
                 "--steps": [(bad, rf'FLAG: "{bad}" is not a whole number from 10 to \d+') for bad in ("0", "9.5")],
                 "--workload": [("unet3d,rsnet50", rf'FLAG: "rsnet50" is not one of {NAMES}; did you mean "resnet50"\?')]},
    "io": {"-s": IOR_COUNT, "-Q": IOR_FROM_0, "-D": IOR_FROM_0, "-d": IOR_FROM_0, "-T": IOR_FROM_0, "-A": IOR_FROM_0,
           "-G": IOR_COUNT, "-X": [("x", r'io: FLAG: "x" is not a whole number from -\d+ to \d+')],
           "-N": IOR_COUNT, "--tasks": [(value, text.replace("FLAG", "(-N|--tasks)")) for value, text in IOR_COUNT],
           "-o": [("DIR/none/x", r"io: FLAG: folder DIR/none \(make it first\): No such file or directory")],
           "-O": [("x", r'io: FLAG: "x" is not KEY=VALUE'), ("stripes=4", r"io: FLAG: unknown directive stripes.*"),
                  ("lustreStripeCount=x", r"io: .*lustreStripeCount.*\"x\" .*")]},
    "mdtest": {"-n": IOR_COUNT, "-I": IOR_COUNT, "-b": IOR_COUNT, "-z": IOR_FROM_0, "-N": IOR_FROM_0, "-W": IOR_FROM_0,
               "-p": IOR_FROM_0, "--random-seed": IOR_COUNT,
               "-d": [("DIR/file/d", r"mdtest: .*DIR/file/d: Not a directory.*")]},
}
# What a command line of each verb needs; the flag under test takes its own place.
DATASET = {"--param": "dataset.num_files_train=126"}
BASE = {
    "profiles": {}, "datasize": {"--host-memory-in-gb": "32"},
    "datagen": {"--data-dir": "DIR/new", "--param": "dataset.num_files_train=1"},
    "run": {"--data-dir": "DIR/data", "--results-dir": "DIR/results", **DATASET},
    "capacity": {"--data-dir": "DIR/data", "--results-dir": "DIR/results", **DATASET},
    "report": {"--results-dir": "DIR/run"}, "compare": {**DATASET},
    "io": {"-o": "DIR/io", "-b": "1m", "-t": "1m"}, "mdtest": {"-n": "1", "-d": "DIR/md"},
}


def bench(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=60)


def flags_of(verb):
    """Each flag or positional of --help, with its other spellings, and whether it takes a value."""
    for line in bench(verb, "--help").stdout.splitlines():
        found = re.match(r" +((?:--?[\w.-]+)(?:, ?--?[\w.-]+)*|NAME|DIR)(?: ([A-Z]+)\S*)?(?: \.\.\.)?(?:  |$)", line)
        if not found or found.group(1).startswith("-h,"):
            continue
        names = [re.sub("^--posix", "--posix", name.strip()) for name in found.group(1).split(",")]
        yield names, found.group(2) is not None


class Flags(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="stoker-flags-", dir=os.environ.get("STOKER_TEST_TMP"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        small = ["--param", "dataset.num_files_train=126", "--param", "dataset.record_length_bytes=2000", "--param",
                 "dataset.record_length_bytes_stdev=0"]
        for arguments in (["datagen", "--data-dir", cls.dir + "/data", *small],
                          ["run", "--null", "--results-dir", cls.dir + "/run", "--results-layout", "flat", *small,
                           "--param", "train.epochs=1", "--param", "train.computation_time=0.001"]):
            done = bench(*arguments)
            assert done.returncode in (0, 3), done.stderr
        with open(cls.dir + "/file", "w", encoding="utf-8"):
            pass

    def case(self, verb, names, flag, value, message):
        with self.subTest(verb=verb, flag=flag, value=value):
            put = lambda text: text.replace("DIR", self.dir)
            words = [verb]
            for name, usual in BASE[verb].items():
                if name not in names and not (flag == "DIR" and name == "--results-dir"):
                    words += [name, put(usual)]
            if verb == "compare":
                words += ["--dir", "a=" + self.dir + "/data"]
                words += ["--dir", "b=" + self.dir + "/data"]
            if flag in ("NAME", "DIR"):
                words.append(put(value))
            elif message.startswith("FLAG: takes no value"):
                words.append(flag + value)
            else:
                words += [flag, put(value)]
            before = sorted(os.listdir(self.dir))
            done = bench(*words)
            # A report is printed before it is written: what cannot be written then is no wrong usage any more.
            status = 1 if verb == "report" and flag in ("--html", "--json", "--output-dir") and value else 2
            self.assertEqual(done.returncode, status, " ".join(words) + "\n" + done.stdout + done.stderr)
            wanted = message.replace("FLAG", re.escape(flag)).replace("DIR", re.escape(self.dir))
            self.assertRegex(done.stderr, rf"\Astoker-bench: {wanted}\n\Z")
            self.assertEqual(sorted(os.listdir(self.dir)), before, "a refused command left something behind")

    def verb(self, verb):
        known = {**COMMON, **(IOR if verb in ("io", "mdtest") else {}), **OWN.get(verb, {})}
        seen = 0
        for names, takes_value in flags_of(verb):
            for name in names:
                with self.subTest(verb=verb, flag=name):
                    seen += 1
                    if name.startswith("-") and not takes_value and verb in ("io", "mdtest"):
                        joined = name + ("=3" if name.startswith("--") else "%")
                        done = bench(verb, *[w.replace("DIR", self.dir) for p in BASE[verb].items() for w in p], joined)
                        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                        self.assertRegex(done.stderr, rf"\Astoker-bench: {verb}: .*; see stoker-bench {verb} --help\n\Z")
                        continue
                    # A second spelling of a flag brings the messages of the first.
                    wrong = known.get(name) or known.get(names[0])
                    self.assertIsNotNone(wrong, f"{verb} {name} has no line in this test: add wrong values for it")
                    for value, message in wrong:
                        self.case(verb, names, name, value, message)
                    if takes_value and name.startswith("-") and verb not in ("io", "mdtest"):
                        self.case(verb, names, name, "", r"(FLAG|--[\w-]+): the value is empty; give one, or leave the flag out")
        return seen

    def test_profiles(self):
        self.assertGreaterEqual(self.verb("profiles"), 6)

    def test_datasize(self):
        self.assertGreaterEqual(self.verb("datasize"), 11)

    def test_datagen(self):
        self.assertGreaterEqual(self.verb("datagen"), 10)

    def test_run(self):
        self.assertGreaterEqual(self.verb("run"), 25)

    def test_report(self):
        self.assertGreaterEqual(self.verb("report"), 8)

    def test_compare(self):
        self.assertGreaterEqual(self.verb("compare"), 22)

    def test_capacity(self):
        self.assertGreaterEqual(self.verb("capacity"), 23)

    def test_io(self):
        self.assertGreaterEqual(self.verb("io"), 35)

    def test_mdtest(self):
        self.assertGreaterEqual(self.verb("mdtest"), 28)

    def test_verbs_of_one_process_under_a_launcher(self):
        for verb, words in (("capacity", ["--data-dir", self.dir + "/data", "--results-dir", self.dir + "/c"]),
                            ("compare", ["--dir", f"a={self.dir}/data", "--dir", f"b={self.dir}/data"])):
            done = subprocess.run([BENCH, verb, *words], capture_output=True, text=True, timeout=60,
                                  env=dict(os.environ, PMI_RANK="1", PMI_SIZE="4"))
            self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
            self.assertRegex(done.stderr, rf"\Astoker-bench: .*{verb} does not share its work.*\n\Z")

    def test_every_verb_is_here(self):
        verbs = re.findall(r"^  (\w+)  ", bench("--help").stdout, re.M)
        self.assertEqual(sorted(verbs), sorted(BASE))


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)
