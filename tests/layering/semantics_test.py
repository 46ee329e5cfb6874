#!/usr/bin/python3
"""docs/semantics.md promises nothing without a test: every row names one, and every test that it names exists."""
import os
import re
import sys
import unittest

ROOT = os.environ.get("STOKER_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FILE = re.compile(r"[\w/]+\.(?:py|cc)$")


def exists(source, name):
    """A test, or a suite, of that name in the text of a Python or GoogleTest file."""
    return re.search(rf"\bdef {name}\(|^class {name}\b|\bTEST(?:_[FP])?\(\s*\w+,\s*{name}\)|\bTEST(?:_[FP])?\(\s*{name},", source, re.M)


def problems(page, read):
    """What is wrong with the page; read(path) gives a test file's text or None."""
    out = []
    for number, line in enumerate(page.splitlines(), 1):
        if not line.startswith("|") or line.startswith("|---") or "Shown by" in line:
            continue
        cells = line.strip().strip("|").rsplit("|", 1)
        words = re.findall(r"`([^`]+)`", cells[-1])
        source, tests = None, 0
        for word in words:
            if FILE.match(word):
                source = read(word)
                if source is None:
                    out.append(f"line {number}: there is no tests/{word}")
            elif source is not None:
                tests += 1
                if not exists(source, word):
                    out.append(f"line {number}: there is no test {word}")
        if tests == 0:
            out.append(f"line {number}: names no test")
    return out


class Semantics(unittest.TestCase):
    def test_every_line_names_a_test_that_exists(self):
        def read(path):
            path = os.path.join(ROOT, "tests", path)
            if not os.path.exists(path):
                return None
            with open(path, encoding="utf-8") as file:
                return file.read()
        with open(os.path.join(ROOT, "docs/semantics.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertGreater(page.count("|---"), 3)
        self.assertEqual(problems(page, read), [])

    def test_what_is_missing_is_found(self):
        files = {"a.py": "def test_one(self):", "b.cc": "TEST_F(Suite, Two) {\nTEST_P(Suite, Three) {"}
        table = "| Reliance | Shown by |\n|---|---|\n"
        self.assertEqual(problems(table + "| x | `a.py` `test_one`; `b.cc` `Two`, `Three`, `Suite` |", files.get), [])
        for row in ("| x | `a.py` `test_on` |", "| x | `c.py` `test_one` |", "| x | `a.py` |", "| x | |", "| x | `b.cc` `Tw` |"):
            self.assertEqual(len(problems(table + row, files.get)) > 0, True, row)


if __name__ == "__main__":
    unittest.main()
