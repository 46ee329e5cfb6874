#!/usr/bin/python3
"""`stoker evict` and `stoker verify` through a real mount: what goes, what stays, what is said, and right bytes after."""
import json
import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import harness
import trees
from trees import KIB, MIB, data, read, write

ODD = os.fsdecode(b"odd\xff\xfename")


class EvictVerify(unittest.TestCase):
    def setUp(self):
        self.place = e2e.Place()
        self.addCleanup(self.place.finish)
        self.contents = {f"set/{i}": data(f"set/{i}", 100 * KIB + i) for i in range(10)}
        self.contents["settled"] = data("settled", MIB)  # begins as "set" does
        self.contents["deep/er/file"] = data("deep", 300 * KIB)
        self.contents[ODD] = data("odd", 64 * KIB)
        for name, content in self.contents.items():
            os.makedirs(os.path.dirname(os.path.join(self.place.ufs, name)), exist_ok=True)
            write(os.path.join(self.place.ufs, name), content)
        os.symlink("set", os.path.join(self.place.ufs, "link"))
        self.mount()
        self.place.warm()

    def mount(self):
        self.place.mount_with({"prefetch.part_length": "64KiB"})

    def at(self, name):
        return os.path.join(self.place.mnt, name)

    def run_json(self, verb, *arguments, check=0):
        return json.loads(self.place.stoker(verb, "--json", *arguments, check=check).stdout)

    def objects(self):
        return self.place.poll()["cache"]["objects"]

    def fetched(self):
        return self.place.metric("ufs_bytes")

    def expect_all_right(self):
        for name, content in self.contents.items():
            self.assertEqual(read(self.at(name)) == content, True, name)

    def test_evict_takes_what_it_is_told(self):
        total = len(self.contents)
        self.assertEqual(self.objects(), total)
        went = self.run_json("evict", self.at("set"))
        self.assertEqual((went["state"], went["objects"]), ("done", 10))
        self.assertGreaterEqual(went["bytes"], 10 * 100 * KIB)
        self.assertEqual(self.objects(), total - 10)
        before = self.fetched()
        self.assertEqual(read(self.at("settled")), self.contents["settled"])
        self.assertEqual(self.fetched(), before, "a name that only begins like it stays")
        self.assertEqual(read(self.at("set/3")), self.contents["set/3"])
        self.assertGreater(self.fetched(), before, "what is evicted is fetched again")

        self.place.warm()
        self.assertEqual(self.run_json("evict", self.at("link"))["objects"], 10, "through a symlink")
        self.assertEqual(self.run_json("evict", self.at("deep/er/../er/file"))["objects"], 1)
        self.assertEqual(self.run_json("evict", self.at(ODD))["objects"], 1)
        self.assertEqual(self.run_json("evict", self.at("settled"), self.at("settled"))["objects"], 1)
        self.assertEqual(self.objects(), 0)
        self.expect_all_right()
        self.assertRegex(self.place.stoker("evict", "--all", self.place.mnt, check=0).stdout,
                         rf"^evict: {total} files, .* freed\n$")
        usage = self.place.poll()["cache"]
        self.assertEqual((usage["used_bytes"], usage["objects"]), (0, 0))
        self.assertEqual(trees.allocated(os.path.join(self.place.cache, "objects")), 0)
        self.expect_all_right()

    def test_paths_that_are_gone_and_paths_elsewhere(self):
        os.unlink(os.path.join(self.place.ufs, "deep/er/file"))
        os.rmdir(os.path.join(self.place.ufs, "deep/er"))
        self.assertEqual(self.run_json("evict", self.at("deep/er/file/"))["objects"], 1)
        self.assertEqual(self.place.stoker("evict", self.at("never"), check=0).stdout, "evict: 0 files, 0 B freed\n")
        for arguments, words in (
                ([self.place.ufs], "in the UFS itself: name it below its mount point"),
                (["/usr/none"], "is not inside a stoker mount"),
                ([self.at("never/../set")], "'..' stands behind something that does not exist"),
                ([""], "a PATH is empty"),
                (["--all", self.at("set")], "--all takes the mount point alone"),
                ([self.at("set"), "/"], "is not inside a stoker mount")):
            for verb in ("evict", "verify"):
                if verb == "verify" and "--all" in arguments:
                    continue
                result = self.place.stoker(verb, *arguments, check=2)
                self.assertIn(words, result.stderr.replace("'..':", "'..'"), (verb, arguments))
        for rate in ("0", "-1", "fast", "1MB/min", "/s"):
            self.assertIn("--rate", self.place.stoker("verify", f"--rate={rate}", self.place.mnt, check=2).stderr)
        self.assertEqual(self.objects(), len(self.contents) - 1)

    def test_open_files_are_kept_and_named(self):
        with open(self.at("set/3"), "rb") as held:
            result = self.place.stoker("evict", self.at("set"), check=0)
            self.assertIn("9 files", result.stdout)
            self.assertIn("1 file is open and kept", result.stdout)
            self.assertEqual(result.stderr, "stoker: kept: set/3: is open or being fetched\n")
            self.assertEqual(held.read(), self.contents["set/3"])
        harness.wait_until(lambda: self.run_json("evict", self.at("set/3"))["objects"] == 1, "it goes once it is closed")
        self.expect_all_right()

    def test_evicted_stays_evicted_through_a_kill(self):
        self.assertEqual(self.run_json("evict", self.at("set"))["objects"], 10)
        self.place.kill_daemon()
        self.place.expect_log(r"cleared a dead mount")
        self.mount()
        self.assertEqual(self.objects(), len(self.contents) - 10)
        self.expect_all_right()

    def object_holding(self, content):
        for directory, _, names in os.walk(os.path.join(self.place.cache, "objects")):
            for name in names:
                if read(os.path.join(directory, name)) == content:
                    return os.path.join(directory, name)
        raise AssertionError("no object holds that content")

    def test_verify_finds_and_heals(self):
        good = self.run_json("verify", self.place.mnt)
        self.assertEqual((good["objects"], good["damaged_parts"]), (len(self.contents), 0))
        self.assertEqual(good["bytes"], sum(map(len, self.contents.values())))
        self.place.expect_log(r"part 0 of .* is damaged and dropped")
        for name in ("set/7", ODD):
            content = self.contents[name]
            with open(self.object_holding(content), "r+b") as file:
                file.seek(50 * KIB)
                byte = file.read(1)
                file.seek(50 * KIB)
                file.write(bytes([byte[0] ^ 1]))
        result = self.place.stoker("verify", self.place.mnt, check=1)
        self.assertIn("2 damaged parts", result.stdout)
        self.assertIn("stoker: damaged: set/7: part 0 was damaged and is dropped\n", result.stderr)
        self.assertEqual(self.place.metric("cache_damaged_parts"), 2)
        before = self.fetched()
        self.expect_all_right()
        self.assertGreater(self.fetched(), before)
        healed = self.run_json("verify", self.place.mnt)
        self.assertEqual((healed["objects"], healed["damaged_parts"]), (len(self.contents), 0))

    def test_interrupt_stops_and_says_what_remains(self):
        for verb, arguments in (("verify", ["--rate", "1KB/s"]),):
            child = self.place.spawn(verb, *arguments, self.place.mnt)
            first = child.stdout.readline()  # its handler is set by now
            self.assertRegex(first, rf"^{verb}: ")
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, 130, out + err)
            self.assertRegex(out, rf"(?m)^{verb}: cancelled: .* of {len(self.contents)} cached files looked at$")
        # A running verify keeps nobody waiting at the end.
        child = self.place.spawn("verify", "--rate", "1KB/s", self.place.mnt)
        child.stdout.readline()
        self.place.umount()
        child.communicate(timeout=60)
        self.assertIn(child.returncode, (2, 130))


if __name__ == "__main__":
    trees.main()
