"""What the benchmark scripts share: running programs, the state of the page cache, files to read, and the contenders'
mounts."""
import json
import os
import random
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BIN = os.environ.get("STOKER_BIN") or os.path.join(ROOT, ".build", "release", "bin")
MIB = 1 << 20


def run(*command, **kwargs):
    result = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if result.returncode != 0:
        raise SystemExit(f"compare: {' '.join(command)} failed ({result.returncode}):\n{result.stdout}{result.stderr}")
    return result.stdout


def bench(*args):
    return json.loads(run(os.path.join(BIN, "read_bench"), *[str(a) for a in args]))


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3\n")


def touch_memory(size):
    """Memory that the host has taken back is dear to fill again; make it present before what is timed."""
    available = next(int(l.split()[1]) * 1024 for l in open("/proc/meminfo") if l.startswith("MemAvailable"))
    bench("touch", max(4096, min(size, int(available * 0.6))))


def is_mounted(path):
    """The table writes spaces and the like as octal numbers."""
    unescaped = lambda text: re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
    return any(unescaped(line.split()[4]) == path for line in open("/proc/self/mountinfo", encoding="utf-8"))


def write_file(path, size, seed):
    generator = random.Random(seed)
    block = generator.randbytes(min(size, 4 * MIB))
    with open(path, "wb") as file:
        left, number = size, 0
        while left > 0:
            piece = block[: min(left, len(block))]
            file.write(number.to_bytes(8, "little") + piece[8:] if len(piece) > 8 else piece)
            left -= len(piece)
            number += 1


class Stoker:
    def __init__(self, base, ufs, name, passthrough, label="", options=()):
        self.name = name
        self.ufs = ufs
        self.options = options
        self.passthrough = passthrough
        self.path = os.path.join(base, f"mnt-{name}{label}")
        self.cache = os.path.join(base, f"cache-{name}{label}")
        self.log = os.path.join(base, f"{name}{label}.log")

    def start(self):
        os.makedirs(self.path, exist_ok=True)
        run(os.path.join(BIN, "stoker"), "mount", self.ufs, self.path, f"--passthrough={self.passthrough}",
            "-o", f"cache.dirs={self.cache}", "-o", f"log.file={self.log}", "-o", "cache.size=80%", *self.options)
        active = self.status()["passthrough"]["active"]
        if active != (self.passthrough == "on"):
            raise SystemExit(f"compare: {self.name}: passthrough is {active}: {self.status()['passthrough']['reason']}")

    def warm(self):
        run(os.path.join(BIN, "stoker"), "warm", self.path)

    def status(self):
        return json.loads(run(os.path.join(BIN, "stoker"), "status", "--json", self.path))

    def fetched(self):
        return self.status()["reads"]["bytes_ufs"]

    def stop(self):
        if is_mounted(self.path):
            try:
                run(os.path.join(BIN, "stoker"), "umount", self.path)
            except SystemExit as error:
                with open(self.log, encoding="utf-8", errors="replace") as log:
                    raise SystemExit(f"{error}\nthe daemon's log ends:\n{''.join(log.readlines()[-20:])}") from None

    def forget(self):
        self.stop()
        shutil.rmtree(self.cache, ignore_errors=True)
