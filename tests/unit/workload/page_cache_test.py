"""What each way of reading leaves in the kernel's page cache, by mincore from outside: buffered reads without page-cache
control leave the files there, given-back and direct ones leave nothing. And what a run says about it.

Skipped (77) where no folder lies on a file system that fills the page cache and gives it back (tmpfs does not).
"""
import ctypes
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.join(os.environ["STOKER_BIN"], "stoker-bench")
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]

# Format: workload, record bytes, samples in a file, files, whether direct reads exist.
FORMATS = {
    "npz": ("unet3d", "v3.0", 1000000, 1, 28, True),
    "jpeg": ("retinanet", "v3.0", 400000, 1, 48, True),
    "tfrecord": ("resnet50", "v2.0", 20000, 50, 16, False),
    "parquet": ("flux", "v3.0", None, 24, 4, False),
}


def resident_share(paths):
    pages = present = 0
    for path in paths:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            # Mapping privately and writable gives ctypes its address; nothing is written, nothing read in.
            with mmap.mmap(file.fileno(), size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE) as mapping:
                vector = (ctypes.c_ubyte * ((size + 4095) // 4096))()
                start = (ctypes.c_char * size).from_buffer(mapping)
                if LIBC.mincore(ctypes.addressof(start), size, vector) != 0:
                    raise OSError(ctypes.get_errno(), "mincore")
                del start
                pages += len(vector)
                present += sum(flag & 1 for flag in vector)
    return present / pages


def give_back(paths):
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class PageCache(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="stoker-page-cache-", dir=FOLDER)
        self.addCleanup(shutil.rmtree, self.dir)

    def dataset(self, name):
        workload, edition, record, samples, files, _ = FORMATS[name]
        params = [f"dataset.num_files_train={files}", f"dataset.num_samples_per_file={samples}"]
        if record is not None:
            params += [f"dataset.record_length_bytes={record}", "dataset.record_length_bytes_stdev=0"]
        self.flags = ["--workload", workload, "--mlperf", edition, "--data-dir", os.path.join(self.dir, "data")]
        for param in params:
            self.flags += ["--param", param]
        done = subprocess.run([BENCH, "datagen", *self.flags], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        paths = [os.path.join(where, name) for where, _, names in os.walk(os.path.join(self.dir, "data")) for name in names]
        self.assertEqual(len(paths), files)
        return paths

    def run_bench(self, *flags):
        results = os.path.join(self.dir, "results")
        shutil.rmtree(results, ignore_errors=True)
        done = subprocess.run([BENCH, "run", *self.flags, "--results-dir", results, "--results-layout", "flat", "--param",
                               "reader.batch_size=2", "--param", "train.computation_time=0.001", "--param", "train.epochs=2",
                               "--param", "metric.au=0", *flags], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        with open(os.path.join(results, "summary.json"), encoding="utf-8") as file:
            return json.load(file)["stoker"], done.stderr

    def test_what_each_shape_leaves(self):
        cases = 0
        for name, (*_, direct) in FORMATS.items():
            paths = self.dataset(name)
            shapes = {"npz": ["whole", "npz"], "jpeg": ["whole"]}.get(name, [None])
            for shape in shapes + (["odirect"] if direct else []):
                for control in ("none", "fadvise"):
                    with self.subTest(name, shape=shape, control=control):
                        cases += 1
                        give_back(paths)
                        before = resident_share(paths)
                        self.assertLess(before, 0.02, "the test could not empty the page cache")
                        own, _ = self.run_bench("--cache-control", control, *(["--read-shape", shape] if shape else []))
                        after = resident_share(paths)
                        if shape == "odirect" or control == "fadvise":
                            self.assertLess(after, 0.05)
                        else:
                            self.assertGreater(after, 0.5)
                        self.assertLess(own["cache_state"]["page_cache_share_before"], 0.02)
                        self.assertLess(abs(own["cache_state"]["page_cache_share_after"] - after), 0.3, own["cache_state"])
            shutil.rmtree(os.path.join(self.dir, "data"))
        self.assertEqual(cases, 14)

    def test_a_dataset_in_memory_is_said(self):
        paths = self.dataset("npz")
        for path in paths:
            with open(path, "rb") as file:
                file.read()
        self.assertGreater(resident_share(paths), 0.5)
        own, err = self.run_bench("--cache-control", "fadvise")
        self.assertGreater(own["cache_state"]["page_cache_share_before"], 0.5)
        self.assertRegex(err, r"WARNING: \d+ % of the dataset \(by a sample\) is in the page cache: the first epoch starts hot\n")
        self.assertRegex(err, r"WARNING: the dataset \(.*\) fits in this host's memory \(.*\): .*the rules ask for 5 times the "
                              r"memory \(stoker-bench datasize\)\n")


def usable():
    """A folder whose files' pages come and go as they do on a disk, or nothing. Tried, since names of file systems tell less."""
    for folder in (os.environ.get("STOKER_TEST_TMP"), tempfile.gettempdir(), "/var/tmp"):
        if not folder or not os.path.isdir(folder):
            continue
        with tempfile.NamedTemporaryFile(prefix="stoker-page-cache-", dir=folder) as file:
            file.write(b"x" * (1 << 20))
            file.flush()
            give_back([file.name])
            if resident_share([file.name]) > 0:
                continue
            with open(file.name, "rb") as again:
                again.read()
            if resident_share([file.name]) == 1:
                return folder
    return None


if __name__ == "__main__":
    FOLDER = usable()
    if FOLDER is None:
        print("no folder with pages that come and go: skipped")
        sys.exit(77)
    result = unittest.main(exit=False, verbosity=1).result
    sys.exit(0 if result.wasSuccessful() else 1)
