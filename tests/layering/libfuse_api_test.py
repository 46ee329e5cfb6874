#!/usr/bin/python3
"""The passthrough path for libfuse 3.17 and later compiles, though Debian 12 packages 3.14.

The installed headers are copied and given what 3.17 added (version, feature flags, backing ids). That proves the names and
types we use, not behaviour: on such a system the mount tests do that.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.environ.get("STOKER_SOURCE") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
flags = subprocess.run(["pkg-config", "--cflags-only-I", "fuse3"], capture_output=True, text=True, check=True).stdout
source = next(f[2:] for f in flags.split() if f.startswith("-I"))
version = subprocess.run(["pkg-config", "--modversion", "fuse3"], capture_output=True, text=True, check=True).stdout
if tuple(int(n) for n in version.split(".")[:2]) >= (3, 17):
    print("the installed libfuse is new enough: the build itself is the test")
    sys.exit(0)


def patch(text, pattern, replacement):
    new, count = re.subn(pattern, replacement, text, count=1, flags=re.S)
    assert count == 1, f"the header does not hold {pattern}"
    return new


with tempfile.TemporaryDirectory() as folder:
    include = os.path.join(folder, "fuse3")
    shutil.copytree(source, include)
    path = os.path.join(include, "fuse_common.h")
    text = open(path, encoding="utf-8").read()
    text = patch(text, r"#define FUSE_MINOR_VERSION \d+", "#define FUSE_MINOR_VERSION 17\n#define FUSE_CAP_PASSTHROUGH (1ULL << 29)")
    text = patch(text, r"(struct fuse_file_info \{.*?)\n\};", r"\1\n\tint32_t backing_id;\n};")
    text = patch(text, r"(struct fuse_conn_info \{.*?)\n\};",
                 r"\1\n\tuint32_t max_backing_stack_depth;\n\tuint64_t capable_ext;\n\tuint64_t want_ext;\n};\n"
                 r"bool fuse_set_feature_flag(struct fuse_conn_info *conn, uint64_t flag);\n"
                 r"void fuse_unset_feature_flag(struct fuse_conn_info *conn, uint64_t flag);")
    text = patch(text, r"#include <stdint.h>", "#include <stdint.h>\n#include <stdbool.h>")
    open(path, "w", encoding="utf-8").write(text)
    failed = False
    for name in ("fuse/fuse_ops.cc", "fuse/session.cc", "fuse/passthrough.cc"):
        result = subprocess.run(
            ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_FILE_OFFSET_BITS=64", "-D_GNU_SOURCE",
             "-I", ROOT, "-isystem", include, os.path.join(ROOT, name)], capture_output=True, text=True)
        print(f"{name}: {'compiles' if result.returncode == 0 else 'does not compile'} with libfuse 3.17's names")
        if result.returncode != 0:
            failed = True
            print(result.stderr)
sys.exit(1 if failed else 0)
