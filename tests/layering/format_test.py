#!/usr/bin/python3
"""Every C++ file is formatted as .clang-format says (clang-format of Debian 12, version 14)."""
import os
import shutil
import subprocess
import sys

ROOT = os.environ.get("STOKER_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
tool = shutil.which("clang-format-14") or shutil.which("clang-format")
if tool is None:
    print("clang-format is not installed: skipped")
    sys.exit(77)
files = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard", "*.h", "*.cc"],
                       capture_output=True, text=True, check=True).stdout.split()
files = [f for f in files if os.path.exists(os.path.join(ROOT, f))]
assert len(files) > 20, "found no sources"
result = subprocess.run([tool, "--dry-run", "-Werror", *files], cwd=ROOT, capture_output=True, text=True)
print(f"{len(files)} files")
if result.returncode != 0:
    print(result.stderr)
    print("remedy: clang-format -i " + " ".join(sorted({line.split(":")[0] for line in result.stderr.splitlines()
                                                       if "code should be clang-formatted" in line})))
sys.exit(1 if result.returncode else 0)
