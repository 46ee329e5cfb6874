"""Counts, with strace, what each round's loop asks of the file system: opens, their order, bytes, read calls.

Exits 77 where ptrace is not allowed. Every run checks that stoker-bench's own counts say the same.
"""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.join(os.environ["STOKER_BIN"], "stoker-bench")
KIB = 1024


class Trace:
    """Opens and reads of the sample files in one run, thread by thread. Files that are opened without being read
    (the look at the page cache before and after) are left out."""

    def __init__(self, path):
        self.opens = []  # file names, in the order of their first reads
        self.reads = collections.defaultdict(list)  # file name: (offset, asked, got), in order
        started = {}
        names = {}  # descriptor: file name
        with open(path) as lines:
            for line in lines:
                thread, rest = line.split(maxsplit=1)
                if rest.rstrip().endswith("<unfinished ...>"):
                    started[thread] = rest[: rest.index("<unfinished")].rstrip()
                    closing = re.match(r"close\((\d+)", rest)
                    if closing:  # from here on the number may be another file's
                        names.pop(closing.group(1), None)
                        started[thread] = ""
                    continue
                if rest.startswith("<... "):
                    rest = started.pop(thread, "") + rest[rest.index("resumed>") + len("resumed>"):]
                self.call(rest, names)

    def call(self, text, names):
        opened = re.match(r'openat\(AT_FDCWD, "([^"]*)", [^)]*\) += (\d+)', text)
        if opened and "/train/" in opened.group(1):
            name = os.path.basename(opened.group(1))
            names[opened.group(2)] = [name, False]
            return
        closed = re.match(r"close\((\d+)\)", text)
        if closed:
            names.pop(closed.group(1), None)
            return
        read = re.match(r"pread64\((\d+),.*, (\d+), (\d+)\) += (\d+)", text)
        if read and read.group(1) in names:
            descriptor, asked, offset, got = read.groups()
            name, was_read = names[descriptor]
            if not was_read:
                self.opens.append(name)
                names[descriptor][1] = True
            self.reads[name].append((int(offset), int(asked), int(got)))

    def bytes(self):
        return sum(got for calls in self.reads.values() for _, _, got in calls)

    def calls(self):
        return sum(len(calls) for calls in self.reads.values())


class Loops(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="stoker-loops-", dir=os.environ.get("STOKER_TEST_TMP"))
        self.addCleanup(shutil.rmtree, self.dir)

    def bench(self, *arguments):
        done = subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def trace(self, edition, workload, params, ranks, *flags):
        """Makes the dataset, runs on it, returns the trace and the dataset's file sizes by name."""
        data = os.path.join(self.dir, "data")
        results = os.path.join(self.dir, "results")
        common = ["--mlperf", edition, "--workload", workload, "--data-dir", data]
        for param in params:
            common += ["--param", param]
        self.bench("datagen", *common)
        log = os.path.join(self.dir, "strace")
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", log, "-s", "0", "-e", "trace=openat,pread64,close", "-e", "signal=none",
             BENCH, "run", *common, "--num-accelerators", str(ranks), "--param", "train.computation_time=0.001",
             "--results-dir", results, "--results-layout", "flat", *flags],
            capture_output=True, text=True, timeout=120)
        self.assertIn(done.returncode, (0, 3), done.stdout + done.stderr)
        trace = Trace(log)
        with open(os.path.join(results, "summary.json")) as file:
            own = json.load(file)["stoker"]
        self.assertEqual(own["read_errors"], 0)
        self.assertEqual(own["true_bytes"], trace.bytes())
        self.assertEqual(own["read_call_latency_us"]["count"], trace.calls())
        with open(os.path.join(results, "R_output.json" if os.path.exists(os.path.join(results, "R_output.json"))
                               else "0_output.json")) as file:
            self.output = json.load(file)
        sizes = {}
        for folder, _, names in os.walk(data):
            for name in names:
                sizes[name] = os.path.getsize(os.path.join(folder, name))
        return trace, sizes

    def unet3d(self, edition, ranks=2, files=28, epochs=2, *flags):
        batch = 4 if edition == "v0.5" else 7
        return self.trace(edition, "unet3d",
                          [f"dataset.num_files_train={files}", "dataset.record_length_bytes=700000",
                           "dataset.record_length_bytes_stdev=300000", f"train.epochs={epochs}",
                           f"reader.batch_size={batch}"], ranks, *flags)

    def epochs(self, trace, files):
        return [trace.opens[i:i + files] for i in range(0, len(trace.opens), files)]

    def test_unet3d_reads_every_file_once_an_epoch(self):
        for edition in ("v0.5", "v1.0", "v2.0", "v3.0"):
            with self.subTest(edition):
                shutil.rmtree(self.dir)
                os.makedirs(self.dir)
                trace, sizes = self.unet3d(edition, ranks=2, files=56)
                self.assertEqual(len(sizes), 56)
                first, second = self.epochs(trace, 56)
                self.assertEqual(sorted(first), sorted(sizes))
                self.assertEqual(sorted(second), sorted(sizes))
                for name, calls in trace.reads.items():
                    each = calls[: len(calls) // 2]
                    self.assertEqual(len(calls), 2 * len(each), name)
                    if edition == "v3.0":  # front to back, every byte once
                        self.assertEqual(sum(got for _, _, got in each), sizes[name])
                        self.assertEqual([offset for offset, _, _ in each], [i * 1024 * KIB for i in range(len(each))])
                    else:
                        self.npz(each, sizes[name], both=edition == "v0.5")

    def npz(self, calls, size, both):
        """The calls of numpy.load: start, three small ones at the end, start, then 4096 and 258 048 in turn."""
        self.assertEqual(calls[0][:2], (0, 4096))
        self.assertEqual([asked for _, asked, _ in calls[1:4]], [22, 42, 124])
        self.assertTrue(all(offset + asked > size - 200 for offset, asked, _ in calls[1:4]))
        self.assertEqual(calls[4][:2], (0, 4096))
        at = 4096
        body = calls[5:-1] if both else calls[5:]
        for i, (offset, asked, got) in enumerate(body):
            self.assertEqual(offset, at)
            if i % 2 == 0:
                self.assertEqual(asked, min(4096, size - offset))
            else:
                self.assertLessEqual(asked, 258048)
            at += got
        if both:  # y.npy lies behind
            self.assertGreater(calls[-1][0], size - 1000)

    def test_v2_order_is_the_same_each_epoch_and_v3_moves_files_between_ranks(self):
        # One thread: the opens come in the order in which samples are asked for.
        trace, sizes = self.unet3d("v2.0", 1, 28, 3, "--param", "reader.read_threads=1")
        epochs = self.epochs(trace, 28)
        self.assertEqual(epochs, [sorted(sizes)] * 3)
        shutil.rmtree(os.path.join(self.dir, "results"))
        trace, sizes = self.unet3d("v3.0", 1, 28, 3, "--param", "reader.read_threads=1")
        epochs = self.epochs(trace, 28)
        for epoch in epochs:
            self.assertEqual(sorted(epoch), sorted(sizes))
        self.assertEqual(len({tuple(epoch) for epoch in epochs}), 3)

    def tfrecord(self, edition, ranks, files, per_file, *flags):
        return self.trace(edition, "resnet50" if edition != "v0.5" else "bert",
                          [f"dataset.num_files_train={files}", f"dataset.num_samples_per_file={per_file}",
                           "dataset.record_length_bytes=20000", "train.epochs=2", "reader.batch_size=10",
                           "reader.read_threads=2"], ranks, *flags)

    def test_tensorflow_shares_out_the_files_and_reads_them_in_256_KiB(self):
        trace, sizes = self.tfrecord("v2.0", 2, 8, 50)
        opened = collections.Counter(trace.opens)
        self.assertEqual(opened, {name: 2 for name in sizes})  # one rank's each, once a pass, two passes
        for name, calls in trace.reads.items():
            per_pass = -(-sizes[name] // (256 * KIB))
            data = [call for call in calls if call[2] > 0]
            self.assertEqual(len(data), 2 * per_pass)
            self.assertEqual([offset for offset, _, _ in data[:per_pass]],
                             [i * 256 * KIB for i in range(per_pass)])
            self.assertTrue(all(asked == 256 * KIB for _, asked, _ in calls))
            self.assertLessEqual(len(calls), 2 * (per_pass + 1))
        self.assertEqual(trace.bytes(), 2 * sum(sizes.values()))

    def test_in_v05_every_rank_reads_all(self):
        trace, sizes = self.tfrecord("v0.5", 2, 4, 50)
        self.assertEqual(collections.Counter(trace.opens), {name: 2 * 2 for name in sizes})
        self.assertEqual(trace.bytes(), 2 * 2 * sum(sizes.values()))

    def test_jpeg_is_read_whole_and_parquet_in_parts(self):
        trace, sizes = self.trace("v3.0", "retinanet",
                                  ["dataset.num_files_train=48", "dataset.record_length_bytes=20000",
                                   "train.epochs=1"], 2)
        self.assertEqual(sorted(trace.opens), sorted(sizes))
        self.assertEqual(trace.bytes(), sum(sizes.values()))
        self.assertEqual(trace.calls(), 48)
        shutil.rmtree(self.dir)
        os.makedirs(self.dir)
        trace, sizes = self.trace("v3.0", "dlrm",
                                  ["dataset.num_files_train=1", "dataset.num_samples_per_file=12288",
                                   "reader.batch_size=6144", "reader.read_threads=2"], 1)
        # Two threads, a row group each; about a quarter of the bytes is in columns that are read.
        self.assertEqual(len(trace.opens), 2)
        size = next(iter(sizes.values()))
        calls = next(iter(trace.reads.values()))
        footers = [call for call in calls if call[0] + call[1] == size]
        self.assertEqual(len(footers), 2)
        data = trace.bytes() - sum(got for _, _, got in footers)
        self.assertLess(data, 0.3 * size)
        self.assertGreater(data, 0.1 * size)
        ranges = sorted(call[:2] for call in calls if call not in footers)
        for (offset, asked), (following, _) in zip(ranges, ranges[1:]):
            self.assertGreater(following, offset + asked)  # apart, or it would have been one call


if __name__ == "__main__":
    probe = subprocess.run(["strace", "-f", "-o", "/dev/null", "true"], capture_output=True, text=True) \
        if shutil.which("strace") else None
    if probe is None or probe.returncode != 0:
        print("loops_test: strace is missing or may not trace: skipped")
        sys.exit(77)
    unittest.main()
