#!/usr/bin/python3
"""Drives stoker-bench report and compare as a user does: runs, reports on them, a page that a browser can show."""
import csv
import html.parser
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH = os.path.join(os.environ["STOKER_BIN"], "stoker-bench")
SMALL = ["--param", "dataset.record_length_bytes=200000", "--param", "dataset.record_length_bytes_stdev=90000",
         "--param", "dataset.num_files_train=28"]
QUICK = ["--param", "train.epochs=2", "--param", "train.computation_time=0.05", "--num-accelerators", "2"]
VOID = {"meta", "link", "br", "img", "input", "hr", "path", "rect"}


def bench(*arguments, **options):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=120, **options)


class Page(html.parser.HTMLParser):
    """Checks that elements are closed in order, and gathers what could fetch or run something."""

    def __init__(self, text):
        super().__init__()
        self.open, self.faults, self.tags, self.text = [], [], set(), []
        self.feed(text)
        self.close()
        if self.open:
            self.faults.append(f"never closed: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            if name.startswith("on") or (name in ("src", "href", "action") and value != "data:,"):
                self.faults.append(f"{tag} has {name}={value}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.text.append(data)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="stoker-report-", dir=os.environ.get("STOKER_TEST_TMP"))
        cls.data = os.path.join(cls.dir, "data")
        for name in ("data", "copy"):
            made = bench("datagen", "--data-dir", os.path.join(cls.dir, name), *SMALL)
            assert made.returncode == 0, made.stderr
        cls.runs = os.path.join(cls.dir, "runs")
        for i in range(6):
            done = bench("run", "--data-dir", cls.data, "--results-dir", os.path.join(cls.runs, f"run-{i + 1}"),
                         "--results-layout", "flat", *SMALL, *QUICK, "--seed", str(i))
            assert done.returncode in (0, 3), done.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def report(self, *arguments):
        return bench("report", *arguments)


class Report(Case):
    def test_figures_are_those_of_the_runs(self):
        done = self.report(self.runs, "--json", self.path("full.json"), "--output-dir", self.path("out"))
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)  # far too small for any division
        for part in ("INVALID", "dataset size, all runs: 28 files, but at least 7000 are needed",
                     "train.epochs=2 may be changed in neither division of v3.0", "run-1 (warm-up)"):
            self.assertIn(part, done.stdout)
        with open(self.path("full.json")) as file:
            group = json.load(file)[0]
        summaries = []
        for i in range(6):
            with open(os.path.join(self.runs, f"run-{i + 1}", "summary.json")) as file:
                summaries.append(json.load(file)["metric"])
        counted = [s["train_throughput_mean_samples_per_second"] for s in summaries[1:]]
        mean = sum(counted) / 5
        self.assertAlmostEqual(group["samples_mean_per_second"], mean, places=6)
        self.assertAlmostEqual(group["samples_stdev_per_second"],
                               (sum((x - mean) ** 2 for x in counted) / 5) ** 0.5, places=6)
        with open(self.path("out", "results.json")) as file:
            self.assertEqual([r["metrics"] for r in json.load(file)], summaries)
        with open(self.path("out", "results.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 6)
        self.assertEqual(float(rows[2]["metrics.train_au_mean_percentage"]), summaries[2]["train_au_mean_percentage"])

    def test_another_rounds_rules(self):
        done = self.report(self.runs, "--mlperf", "v1.0")
        self.assertEqual(done.returncode, 3)
        self.assertIn("6 runs, but v1.0 calls for 5 runs", done.stdout)
        self.assertIn('"b200" is not one of', done.stdout)

    def test_the_page_stands_alone(self):
        one = self.path("one.html")
        several = self.path("several.html")
        self.report(os.path.join(self.runs, "run-1"), "--html", one)
        self.report(self.runs, "--html", several, "--title", "<i>Six</i> runs")
        for path in (one, several):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            page = Page(text)
            self.assertEqual(page.faults, [])
            self.assertNotIn("script", page.tags)
            words = " ".join(page.text)
            for part in ("AU per epoch", "Read throughput over time", "Read-call latency over time",
                         "AU per accelerator", "Parameters in force", "Figures as a table", "MiB/s", "INVALID"):
                self.assertIn(part, words)
            self.assertLess(len(text), 1 << 20)
        self.assertIn("<i>Six</i> runs", words)
        self.assertIn("Runs side by side", words)

    def test_a_browser_shows_it(self):
        browser = shutil.which("chromium")
        if browser is None:
            self.skipTest("no chromium")
        page = self.path("browser.html")
        self.report(self.runs, "--html", page)
        done = subprocess.run([browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
                               "--user-data-dir=" + self.path("profile"), "--dump-dom", "file://" + page],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual([line for line in done.stderr.splitlines() if "CONSOLE" in line], [])
        self.assertIn("Run by run", done.stdout)

    def test_wrong_usage(self):
        empty = self.path("empty")
        os.makedirs(empty)
        for arguments, message in (([], "name at least one folder"), ([empty], "holds no run"),
                                   ([self.path("none")], "is not a folder"),
                                   ([self.runs, "--mlperf", "v9"], '"v9" is not one of v0.5')):
            done = self.report(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(message, done.stderr)
        os.makedirs(self.path("bad", "run-1"))
        with open(self.path("bad", "run-1", "summary.json"), "w") as file:
            file.write('{"metric": [')
        done = self.report(self.path("bad"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("summary.json is not a summary of a training run", done.stderr)
        done = self.report(self.runs, "--html", os.path.join(self.runs, "run-1", "summary.json", "page.html"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("--html", done.stderr)


class Compare(Case):
    def compare(self, *arguments, copy=None):
        return bench("compare", "--dir", "raw=" + self.data, "--dir", "copy=" + (copy or self.path("copy")), *SMALL,
                     *QUICK, *arguments)

    def test_one_table_and_its_turns(self):
        marks = self.path("marks")
        done = self.compare("--rounds", "2", "--before", f"copy=echo $STOKER_BENCH_ROUND >> {marks}", "--json",
                            self.path("compare.json"), "--results-dir", self.path("kept"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Median (lowest-highest) over rounds", done.stdout)
        with open(marks) as file:
            self.assertEqual(file.read(), "1\n2\n")
        with open(self.path("compare.json")) as file:
            contenders = json.load(file)["contenders"]
        self.assertEqual([c["name"] for c in contenders], ["raw", "copy"])
        self.assertEqual([r["position"] for r in contenders[0]["rounds"]], [1, 2])
        self.assertEqual([r["position"] for r in contenders[1]["rounds"]], [2, 1])
        # The same files in the same order: the same bytes, whoever reads them.
        self.assertEqual(contenders[0]["true_bytes"], contenders[1]["true_bytes"])
        self.assertGreater(contenders[0]["true_bytes"], 0)
        report = self.report(self.path("kept", "raw"), self.path("kept", "copy"), "--html", self.path("kept.html"))
        self.assertEqual(report.returncode, 3, report.stderr)
        with open(self.path("kept.html"), encoding="utf-8") as file:
            self.assertEqual(Page(file.read()).faults, [])

    def test_wrong_usage(self):
        for arguments, message in ((["--rounds", "0"], "--rounds"), (["--before", "cpy=true"], 'did you mean "copy"'),
                                   (["--before", "copy"], "is not NAME=COMMAND"),
                                   (["--dir", "raw=/x"], "given twice"), (["--dir", "../x=/x"], "is not NAME=FOLDER"),
                                   (["--param", "dataset.data_folder=/x"], "same folder"), (["--null"], "--null")):
            done = self.compare(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertIn(message, done.stderr)
        kept = self.path("taken")
        os.makedirs(os.path.join(kept, "copy", "round-2"))
        with open(os.path.join(kept, "copy", "round-2", "summary.json"), "w"):
            pass
        for arguments, message in ((["--results-dir", kept], "already holds a run"),
                                   (["--json", os.path.join(kept, "copy", "round-2", "summary.json", "x")], "--json"),
                                   (["--json", kept], "is a folder"), (["--results-dir", "/dev/null/x"], "--results-dir")):
            done = self.compare("--rounds", "2", *arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertIn(message, done.stderr)
            self.assertNotIn("round 1 of 2", done.stdout)
        done = self.compare(copy=self.path("nothing"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("copy: ", done.stderr)
        done = bench("compare", "--dir", "raw=" + self.data)
        self.assertIn("from 2 to 16", done.stderr)

    def test_a_hook_that_fails(self):
        done = self.compare("--rounds", "1", "--before", "copy=exit 3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("left with status 3", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
