"""What the scenarios share: a place on the cache disk, datasets, runs of stoker-bench, mounts, one table and its JSON.

A scenario replays a published test at a size that fits a small machine and says beside its own figures what was
published. Nothing here judges: rates depend on the machine, the table is what is shown.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bench"))
from benchlib import BIN, MIB, Stoker, bench, drop_caches, is_mounted, run  # noqa: E402,F401

BENCH = os.path.join(BIN, "stoker-bench")


class Scenario:
    """Arguments, the folder that everything lies in, and its removal. Use as a context manager."""

    def __init__(self, doc, add_arguments=None):
        parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--dir", help="a folder on the cache disk (default: a temporary one in /var/tmp)")
        parser.add_argument("--json", help="write the table there as JSON; - prints it")
        parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, no figure")
        if add_arguments:
            add_arguments(parser)
        self.args = parser.parse_args()
        self.name = os.path.basename(sys.argv[0])
        if os.geteuid() != 0:
            raise SystemExit(f"{self.name}: root is needed, for mounting with passthrough and for dropping the page cache")
        if not os.path.exists("/dev/fuse"):
            print(f"{self.name}: /dev/fuse is missing: skipped")
            sys.exit(77)
        self.rows = []
        self.mounts = []

    def __enter__(self):
        def interrupted(*_):
            raise SystemExit(f"{self.name}: interrupted")
        signal.signal(signal.SIGTERM, interrupted)
        self.base = tempfile.mkdtemp(prefix="stoker-scenario-", dir=self.args.dir or "/var/tmp")
        return self

    def __exit__(self, *_):
        for mount in self.mounts:
            try:
                mount.stop()
            except (SystemExit, OSError) as error:
                print(f"{self.name}: {error}", file=sys.stderr)
        shutil.rmtree(self.base, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.base, *parts)

    def mount(self, ufs, label, *options):
        """A Stoker mount of `ufs` with passthrough and an empty cache of its own."""
        mount = Stoker(self.base, ufs, "stoker", "on", f"-{label}", options)
        self.mounts.append(mount)
        mount.start()
        return mount

    def disk_rate(self, folder, threads=4):
        """Bytes per second at which the files of a folder come from the disk, page cache dropped; the median of three."""
        rates = []
        for _ in range(3):
            drop_caches()
            result = bench("files", folder, threads)
            rates.append(result["bytes"] / result["seconds"])
        return sorted(rates)[1]

    def row(self, **columns):
        self.rows.append(columns)
        print("  " + ", ".join(f"{name} {shown(value)}" for name, value in columns.items()), flush=True)

    def table(self, title):
        """All rows with one width a column; at the end."""
        names = []
        for row in self.rows:
            names += [name for name in row if name not in names]
        cells = [names] + [[shown(row.get(name, "")) for name in names] for row in self.rows]
        widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
        print(f"\n{title}")
        for line in cells:
            print("  ".join(cell.rjust(width) if i else cell.ljust(width)
                            for i, (cell, width) in enumerate(zip(line, widths))).rstrip())
        if self.args.json == "-":
            print(json.dumps({"title": title, "rows": self.rows}))
        elif self.args.json:
            with open(self.args.json, "w", encoding="utf-8") as file:
                json.dump({"title": title, "rows": self.rows}, file, indent=1)


def shown(value):
    if isinstance(value, float):
        return f"{value:.1f}" if abs(value) >= 100 else f"{value:.2f}"
    return str(value)


def datagen(data, *flags):
    run(BENCH, "datagen", "--data-dir", data, *flags)


def train(data, results, *flags, launcher=()):
    """One run; returns its summary. AU under the threshold is an answer, not an error."""
    command = [*launcher, BENCH, "run", "--data-dir", data, "--results-layout", "flat", "--results-dir", results, *flags]
    return finish(command, results)


def finish_status(command):
    """Runs it to its end; AU under the threshold (3) is an answer."""
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(command)}\nfailed ({out.returncode}):\n{out.stdout}{out.stderr}")
    return out.stdout


def finish(command, results):
    finish_status(command)
    with open(os.path.join(results, "summary.json"), encoding="utf-8") as file:
        return json.load(file)


def figures(summary):
    """The columns that every training scenario shows."""
    metric, own = summary["metric"], summary["stoker"]
    return {"AU %": metric["train_au_mean_percentage"], "samples/s": metric["train_throughput_mean_samples_per_second"],
            "MiB/s": metric["train_io_mean_MB_per_second"], "true MB/s": own["true_MB_per_second"],
            "CPU s/GB": own["cpu_seconds_per_GB"],
            "verdict": "pass" if metric["train_au_meet_expectation"] == "success" else "fail"}
