#!/usr/bin/python3
"""The shape of the tree: one-way arrows between rooms, third-party headers where they belong, nothing forgotten.

Each check is also run against a small wrong example, so that a check which cannot fail is noticed.
"""
import os
import re
import subprocess
import sys
import unittest

ROOT = os.environ.get("STOKER_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Room -> rooms it may include (besides itself).
ARROWS = {
    "cache/base": set(),
    "cache/io": {"cache/base"},
    "cache/store": {"cache/io", "cache/base"},
    "cache/ufs": {"cache/base"},
    "prefetch": {"cache/store", "cache/ufs", "cache/io", "cache/base"},
    "fuse": {"prefetch", "cache/store", "cache/ufs", "cache/io", "cache/base"},
    "workload/base": {"cache/base"},
    "workload/comm": {"workload/base", "cache/base"},
    "workload/data": {"workload/base", "cache/base"},
    "workload/train": {"workload/data", "workload/comm", "workload/base", "cache/base"},
    "workload/report": {"workload/train", "workload/data", "workload/comm", "workload/base", "cache/base"},
    "workload/run": {"workload/report", "workload/train", "workload/data", "workload/comm", "workload/base", "cache/base"},
    "workload/io": {"workload/comm", "workload/base", "cache/base"},
    "workload/cli": {"workload/run", "workload/io", "workload/report", "workload/train", "workload/data", "workload/comm", "workload/base",
                     "cache/base"},
}

# Third-party header -> the only places that may include it.
LIBRARIES = {
    r"fuse3?/|fuse_lowlevel|fuse\.h|fuse_common": ["fuse/fuse_ops", "fuse/session", "fuse/passthrough"],
    r"liburing": ["cache/io/ring_queue"],
    r"rocksdb/": ["cache/store/index"],
    r"spdlog/": ["cache/base/log"],
    r"yaml-cpp/": ["fuse/config", "workload/base/profile"],
    r"microhttpd": ["fuse/control_server"],
    r"curl/": ["fuse/control_client"],
    r"prometheus/": ["cache/base/metrics"],
    r"isa-l": ["workload/data/crc32c"],
    r"xxhash": ["cache/base/checksum"],
    r"mpi\.h": ["workload/comm/mpi_module"],
}

TOP_LEVEL = {"CMakeLists.txt", "fuse", "cache", "prefetch", "workload", "conf", "tests", "docker", "README.md", "docs",
             "run", "test"}


def tracked():
    out = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    if out.returncode == 0 and out.stdout:
        return [f for f in out.stdout.splitlines() if os.path.exists(os.path.join(ROOT, f))]
    files = []  # an unpacked archive without git
    for folder, dirs, names in os.walk(ROOT):
        dirs[:] = [d for d in dirs if not d.startswith(".")]
        files += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names]
    return files


def room_of(path):
    for room in sorted(ARROWS, key=len, reverse=True):
        if path.startswith(room + "/"):
            return room
    return None


def include_faults(path, text):
    faults = []
    room = room_of(path)
    for quoted, angled in re.findall(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', text, re.M):
        target = quoted or angled
        if quoted and room is not None:
            other = room_of(target)
            if target.startswith("tests/"):
                faults.append(f"{path}: nothing outside tests/ may include {target}")
            elif other is None:
                faults.append(f'{path}: "{target}" is not a path from the root')
            elif other != room and other not in ARROWS[room]:
                faults.append(f"{path}: {room} must not use {other} ({target})")
        for pattern, places in LIBRARIES.items():
            if room is not None and angled and re.match(pattern, angled):
                if not any(path.startswith(place) for place in places):
                    faults.append(f"{path}: <{angled}> belongs in {', '.join(places)} only")
    return faults


def cmake_texts(files):
    texts = {}
    for path in files:
        if os.path.basename(path) == "CMakeLists.txt":
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                texts[os.path.dirname(path)] = file.read()
    return texts


class Layering(unittest.TestCase):
    def setUp(self):
        self.files = tracked()
        self.sources = [f for f in self.files if f.endswith((".h", ".cc"))]
        self.assertGreater(len(self.sources), 20)

    def read(self, path):
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()

    def test_arrows_point_one_way(self):
        faults = []
        for path in self.sources:
            faults += include_faults(path, self.read(path))
        self.assertEqual(faults, [])

    def test_the_check_would_notice(self):
        self.assertTrue(include_faults("cache/store/x.cc", '#include "cache/ufs/ufs.h"\n'))
        self.assertTrue(include_faults("cache/ufs/x.cc", '#include "cache/store/object_store.h"\n'))
        self.assertTrue(include_faults("workload/base/x.cc", '#include "fuse/config.h"\n'))
        self.assertTrue(include_faults("cache/io/x.cc", '#include "prefetch/warmer.h"\n'))
        self.assertTrue(include_faults("prefetch/x.cc", "#include <rocksdb/db.h>\n"))
        self.assertTrue(include_faults("fuse/x.cc", '#include "tests/support/seed.h"\n'))
        self.assertFalse(include_faults("fuse/x.cc", '#include "cache/base/fd.h"\n#include <vector>\n'))

    def test_top_level_is_the_agreed_one(self):
        top = {f.split("/")[0] for f in self.files}
        self.assertEqual({t for t in top if not t.startswith(".")}, TOP_LEVEL & top)
        for name in ("CMakeLists.txt", "README.md", "run", "test"):
            self.assertIn(name, top)

    def test_every_source_is_in_a_target(self):
        texts = cmake_texts(self.files)
        missing = []
        for path in self.sources:
            if not path.endswith(".cc") or path.startswith("tests/support/test_main"):
                continue
            folder, name = os.path.split(path)
            mentioned = any(name in text and (d == folder or path in text or folder.startswith(d) or "support" in folder)
                            for d, text in texts.items())
            if not mentioned:
                missing.append(path)
        self.assertEqual(missing, [])

    def test_every_python_test_is_run(self):
        texts = "\n".join(cmake_texts(self.files).values())
        missing = [f for f in self.files if f.startswith("tests/") and f.endswith("_test.py")
                   and os.path.basename(f) not in texts]
        self.assertEqual(missing, [])

    def test_headers_are_guarded(self):
        self.assertEqual([f for f in self.sources if f.endswith(".h") and "#pragma once" not in self.read(f)], [])

    def test_nothing_of_one_machine_is_kept(self):
        home = "/".join(["", "work", ""])
        found = []
        for path in self.files:
            try:
                text = self.read(path)
            except UnicodeDecodeError:
                continue
            if re.search(r"(^|[^A-Za-z_}])" + re.escape(home) + r"(main|shared|wt)", text):
                found.append(path)
        self.assertEqual(found, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
