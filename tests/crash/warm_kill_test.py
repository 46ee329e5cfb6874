#!/usr/bin/python3
"""kill -9 of the daemon during warm, again and again, at seeded moments.

After each new mount: the dead mount was cleared, nothing that the index held before the kill is missing, bytes equal the
UFS, and what was there is not fetched again. When the dataset is whole, part of it is rewritten, so that later
rounds have something to lose. Rounds: 50, or --rounds N.
"""
import os
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "mount"))
import e2e
import harness
import trees
from trees import KIB, MIB, data, read, rng, write


def rounds_wanted():
    if "--rounds" in sys.argv:
        at = sys.argv.index("--rounds")
        value = int(sys.argv[at + 1])
        del sys.argv[at : at + 2]
        return value
    return int(os.environ.get("STOKER_CRASH_ROUNDS", "50"))


ROUNDS = rounds_wanted()
PART = 64 * KIB
THREADS = 4
# Parts that the threads had in hand at the kill: read from the UFS, and not yet in the index.
LOST_PER_KILL = THREADS * PART
FILES = 400
LONGEST_RUN = 0.25  # seconds between the start of the warm job and the kill, at most


class WarmKill(unittest.TestCase):
    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        self.place.expect_log("cleared a dead mount")
        self.random = rng("kill")
        self.versions = {}
        self.bytes_made = 0
        for number in range(FILES):
            os.makedirs(f"{self.place.ufs}/{number % 8}", exist_ok=True)
            self.rewrite(f"{number % 8}/{number}", 1)

    def rewrite(self, name, version):
        # Sizes: many small files, some of many parts; whole pages, so that allocated blocks are bytes.
        number = int(name.split("/")[1])
        pages = 1 + number % 12 if number % 5 else 64 * (1 + number % 11) + 3
        self.versions[name] = version
        write(f"{self.place.ufs}/{name}", data(f"{name} {version}", pages * 4096))
        self.bytes_made += pages * 4096

    def mount(self):
        self.place.mount_with({"prefetch.part_length": "64KiB", "prefetch.threads": THREADS, "metadata.ttl": "100ms"})

    def check(self, names):
        for name in names:
            got, expected = read(f"{self.place.mnt}/{name}"), read(f"{self.place.ufs}/{name}")
            self.assertEqual(got == expected, True, f"{name}: {trees.first_difference(expected, got)}")

    def run_and_kill(self, moment):
        """Warms and kills; returns (bytes fetched, bytes kept) before the kill. Two answers of the daemon, the kept bytes from
        the later one: within one answer the numbers are not of one instant, and on a busy machine megabytes lie between."""
        warm = subprocess.Popen([e2e.STOKER, "warm", self.place.mnt], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        start = time.monotonic()
        status = self.place.poll()
        while True:
            fetched = status["metrics"]["ufs_bytes"]
            status = self.place.poll()
            if time.monotonic() >= start + moment or warm.poll() is not None:
                break
        os.kill(status["pid"], signal.SIGKILL)
        harness.wait_until(lambda: not harness.is_alive(status["pid"]), "the killed daemon is gone")
        try:
            output, _ = warm.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            warm.kill()
            warm.communicate()
            self.fail("`stoker warm` hung after its daemon was killed")
        return warm.returncode, output, (fetched, status["cache"]["used_bytes"])

    def test_warm_killed(self):
        fetched_total, kept_rounds, whole_rounds, cut_rounds = 0, 0, 0, 0
        used_before = 0
        for turn in range(ROUNDS):
            self.mount()
            used = self.place.poll()["cache"]["used_bytes"]
            self.assertGreaterEqual(used + LOST_PER_KILL, used_before, f"round {turn}: what the index held before the kill is still there")
            if used > 0:
                kept_rounds += 1
            self.check(self.random.sample(sorted(self.versions), 8))
            code, output, (fetched, used_before) = self.run_and_kill(self.random.uniform(0.01, LONGEST_RUN))
            # What was fetched has become new bytes in the cache, but for what the threads had in hand.
            self.assertLessEqual(fetched, used_before - used + LOST_PER_KILL, f"round {turn}: bytes were fetched that were there already")
            fetched_total += fetched
            if code == 0:  # whole: a new version of a third of the files gives the next rounds work
                whole_rounds += 1
                for name in self.random.sample(sorted(self.versions), FILES // 3):
                    self.rewrite(name, self.versions[name] + 1)
                used_before = 0  # old versions may be dropped now
            else:
                cut_rounds += 1
        self.mount()
        result = self.place.try_warm(".")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        fetched_total += self.place.metric("ufs_bytes")
        bound = self.bytes_made + ROUNDS * LOST_PER_KILL
        print(f"\n{ROUNDS} rounds: {cut_rounds} cut short, {whole_rounds} ran whole, {kept_rounds} began with something cached; "
              f"fetched {fetched_total / MIB:.1f} MiB of {self.bytes_made / MIB:.1f} MiB (bound {bound / MIB:.1f} MiB)")
        self.assertLessEqual(fetched_total, bound, "parts that were in the index are not fetched again")
        self.assertGreater(cut_rounds, ROUNDS // 4, "most kills should fall into a running job")
        self.check(sorted(self.versions))
        trees.compare_trees(self, self.place.ufs, self.place.mnt)
        self.assertEqual(self.place.metric("cache_damaged_parts"), 0)


if __name__ == "__main__":
    trees.main()
