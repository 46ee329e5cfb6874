#!/usr/bin/python3
"""Files that change in the UFS, in every way we could think of, under descriptors and maps that are open on the mount.

The oracle is always the same: what a reader gets is exactly one version, old or new, or ESTALE; after metadata.ttl a new open
is the new version. All files of a class change together, so that the time to live is waited out once.
"""
import ctypes
import errno
import mmap
import os
import signal
import stat
import sys
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import hot_switch_test
import trees
from hot_switch_test import after_ttl, versioned
from trees import KIB, MIB, PAGE, read, write

PART = 256 * KIB
SIZE = 600 * KIB + 160  # three parts, the last one short
OLD = versioned(1, SIZE)
OPTIONS = {
    **hot_switch_test.OPTIONS,
    "prefetch.part_length": "256KiB",
    "prefetch.enable": "false",  # what was not read is not there
    "fuse.open_fetch": "0",
}
STATES = ("cold", "half", "hot")
SAME_INSTANT = (1_600_000_000_123_456_789, 1_600_000_000_123_456_789)
libc = ctypes.CDLL(None, use_errno=True)


def fresh(path, content=None):
    """Another file in the place of `path`, by rename."""
    write(path + ".next", versioned(2, SIZE) if content is None else content)
    os.rename(path + ".next", path)


def in_place(path, content, at=0):
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(content)


def append(path):
    with open(path, "ab") as file:
        file.write(versioned(1, SIZE + 100_000)[SIZE:])


def rewrite_and_restore_mtime(path):
    before = os.stat(path)
    in_place(path, versioned(2, SIZE))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rename_over_with_same_size_and_mtime(path):
    before = os.stat(path)
    fresh(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def delete_and_recreate(path):
    os.unlink(path)
    write(path, versioned(2, SIZE - 32))


def replace_directory(path):
    directory = os.path.dirname(path)
    os.rename(directory, directory + ".old")
    os.mkdir(directory)
    write(path, versioned(2, SIZE))


def become_directory(path):
    os.unlink(path)
    os.mkdir(path)


def become_symlink(path):
    os.unlink(path)
    os.symlink("elsewhere", path)


def become_fifo(path):
    os.unlink(path)
    os.mkfifo(path)


def punch_hole(path):
    with open(path, "r+b") as file:
        keep_size, punch = 1, 2
        done = libc.fallocate(file.fileno(), keep_size | punch, ctypes.c_int64(PART // 2), ctypes.c_int64(PART))
        if done != 0:  # a file system without holes: zeros are what a reader would see
            file.seek(PART // 2)
            file.write(bytes(PART))


def shrink_and_grow_back(path):
    os.truncate(path, SIZE // 2)
    os.truncate(path, SIZE)


def set_mtime_back(path):
    in_place(path, versioned(2, SIZE))
    os.utime(path, ns=(1, 1))


def swap_names(path):
    """The name and another one change their files."""
    write(path + ".other", versioned(2, SIZE))
    os.rename(path, path + ".held")
    os.rename(path + ".other", path)
    os.rename(path + ".held", path + ".other")


def link_elsewhere(path):
    """The name is another hard link now, to a file that was there all the time."""
    write(path + ".target", versioned(2, SIZE))
    os.link(path + ".target", path + ".link")
    os.rename(path + ".link", path)


def write_by_map(path):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as view:
        view[:] = versioned(2, SIZE)
        view.flush()


CHANGES = {
    "appended": append,
    "truncated": lambda path: os.truncate(path, PART + 48),
    "emptied": lambda path: os.truncate(path, 0),
    "rewritten": lambda path: in_place(path, versioned(2, SIZE)),
    "one_byte": lambda path: in_place(path, b"\xff", SIZE - 5),
    "same_size_and_mtime": rewrite_and_restore_mtime,
    "renamed_over": fresh,
    "renamed_over_same_size_and_mtime": rename_over_with_same_size_and_mtime,
    "deleted": os.unlink,
    "recreated": delete_and_recreate,
    "directory_replaced": replace_directory,
    "became_directory": become_directory,
    "became_symlink": become_symlink,
    "became_fifo": become_fifo,
    "chmod": lambda path: os.chmod(path, 0o640),
    "chown": lambda path: os.chown(path, 7, 8),
    "hole": punch_hole,
    "shrunk_and_grown_back": shrink_and_grow_back,
    "mtime_set_back": set_mtime_back,
    "names_swapped": swap_names,
    "other_hard_link": link_elsewhere,
    "written_by_map": write_by_map,
}


def whole(fd):
    return b"".join(iter(lambda: os.read(fd, 256 * KIB), b""))


def whole_direct(fd, size):
    """The file by O_DIRECT reads into page-aligned memory."""
    out, at = b"", 0
    with mmap.mmap(-1, PART) as buffer:
        while at < size:
            got = os.preadv(fd, [buffer], at)
            if got == 0:
                break
            out += buffer[:got]
            at += got
            if at % PAGE:
                break  # the end of the file
    return out


def in_child(function):
    """Runs function() in a child: "yes", "no", or "lost" when a page of a map could not be had (SIGBUS)."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if function() else 1)
        except BaseException:
            os._exit(2)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return "lost" if os.WTERMSIG(status) == signal.SIGBUS else f"signal {os.WTERMSIG(status)}"
    return {0: "yes", 1: "no"}.get(os.WEXITSTATUS(status), "failed")


class Base(hot_switch_test.Base):
    settings = OPTIONS

    def open(self, name, flags=0):
        fd = os.open(self.at(name), os.O_RDONLY | flags)
        self.addCleanup(os.close, fd)
        return fd


class Changes(Base):
    def prepare(self, state, change):
        """A file in that state, opened by read(), O_DIRECT and a map."""
        name = f"{state}/{change}/file"
        plain, direct = self.open(name), self.open(name, os.O_DIRECT)
        view = mmap.mmap(plain, 0, mmap.MAP_SHARED, mmap.PROT_READ)
        self.addCleanup(view.close)
        return name, plain, direct, view

    def check_old(self, label, hot, plain, direct, view):
        """What was open before: the old bytes wherever it answers. A whole object is a snapshot."""
        for fd in (plain, direct):
            stale = 0
            for at in range(0, SIZE, PART):
                try:
                    piece = whole_direct_at(fd, at) if fd == direct else os.pread(fd, PART, at)
                except OSError as error:
                    self.assertEqual(error.errno, errno.ESTALE, label)
                    stale += 1
                    continue
                self.assertTrue(piece == OLD[at : at + len(piece)], f"{label}: an old descriptor at {at}")
                self.assertGreater(len(piece), 0, f"{label}: an old descriptor ends at {at}")
            if hot:
                self.assertEqual(stale, 0, f"{label}: all of it was in the cache")
            self.assertEqual(os.fstat(fd).st_size, SIZE, f"{label}: size and bytes are of one version")
        answer = in_child(lambda: view[:] == OLD)
        self.assertIn(answer, ("yes",) if hot else ("yes", "lost"), f"{label}: an old map")

    def check_within_ttl(self, label, name, now):
        """A new open before the ttl has passed: old or new as a whole."""
        try:
            fd = os.open(self.at(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return
            got = whole(fd)
            self.assertTrue(got in (OLD, now), f"{label}: a mixture of versions, {len(got)} bytes")
        except OSError as error:
            self.assertEqual(error.errno, errno.ESTALE, label)
        finally:
            os.close(fd)

    def check_new(self, label, name, now):
        """After the ttl: the new version, whichever way it is read."""
        if now is None:
            self.assertEqual(trees.errno_of(os.lstat, self.at(name)), errno.ENOENT, label)
            return
        self.assertEqual(trees.facts(self.at(name)), trees.facts(self.ufs(name)), label)
        if not isinstance(now, bytes):
            return
        fd, direct = self.open(name), self.open(name, os.O_DIRECT)
        self.assertEqual(os.fstat(fd).st_size, len(now), label)
        with_direct = whole_direct(direct, len(now))
        self.assertTrue(with_direct == now, f"{label}: O_DIRECT: {trees.first_difference(now, with_direct)}")
        got = whole(fd)
        self.assertTrue(got == now, f"{label}: {trees.first_difference(now, got)}")
        if now:
            with mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ) as view:
                self.assertTrue(view[:] == now, f"{label}: a map")

    def test_every_change_in_every_state(self):
        for state in STATES:
            for change in CHANGES:
                self.place.write(f"{state}/{change}/file", OLD)
        self.mount()
        before = self.place.metric("ufs_bytes")
        for change in CHANGES:
            fd = self.open(f"half/{change}/file")
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            self.assertTrue(os.pread(fd, PAGE, 0) == OLD[:PAGE])
        fetched = self.place.metric("ufs_bytes") - before
        self.assertTrue(0 < fetched < len(CHANGES) * SIZE / 2, f"half-cached is that: {fetched} bytes")
        self.assertEqual(self.place.try_warm("hot").returncode, 0)
        opened = {}
        passthrough_opens = self.place.poll()["passthrough_opens"]
        for state in STATES:
            for change in CHANGES:
                opened[state, change] = self.prepare(state, change)
        if self.passthrough:
            self.assertGreaterEqual(self.place.poll()["passthrough_opens"] - passthrough_opens, len(CHANGES))
        for change in CHANGES:  # pages of the old version are in the kernel's cache
            self.assertTrue(whole(opened["hot", change][1]) == OLD)

        content = {}
        for (state, change), (name, *_) in opened.items():
            path = self.ufs(name)
            CHANGES[change](path)
            kind = os.lstat(path).st_mode if os.path.lexists(path) else 0
            content[name] = read(path) if stat.S_ISREG(kind) else (kind or None)
            self.check_within_ttl(f"{state} {change}", name, content[name])
        after_ttl()
        for (state, change), (name, plain, direct, view) in opened.items():
            self.check_new(f"{state} {change}", name, content[name])
            self.check_old(f"{state} {change}", state == "hot", plain, direct, view)


class ChangesPassthroughOff(Changes):
    options = {"fuse.passthrough": "off"}


def whole_direct_at(fd, at):
    with mmap.mmap(-1, PART) as buffer:
        got = os.preadv(fd, [buffer], at)
        return buffer[:got]


class Moments(Base):
    def test_what_was_just_written_is_read_at_once(self):
        """A file that a writer has just closed, under a name that nobody asked for before: no error, no old size."""
        self.mount()
        for number in range(40):
            name = f"new{number}"
            write(self.ufs(name), versioned(number, 1000 + 16 * number))
            self.assertTrue(read(self.at(name)) == versioned(number, 1000 + 16 * number))

    def test_rewritten_again_and_again_at_once(self):
        """Changes much closer together than the clock's ticks: a fetch between two of them is never taken for the later one."""
        self.mount(**{"metadata.ttl": "0s", "metadata.negative_ttl": "0s"})
        write(self.ufs("file"), versioned(0, SIZE))
        for number in range(1, 30):
            in_place(self.ufs("file"), versioned(number, SIZE))
            got = read(self.at("file"))
            self.assertTrue(got == versioned(number, SIZE), f"round {number}: {trees.first_difference(versioned(number, SIZE), got)}")

    def test_size_and_bytes_are_of_one_version_while_the_file_grows(self):
        full = versioned(3, 4 * MIB)
        write(self.ufs("log"), full[: 64 * KIB])
        self.mount(**{"metadata.ttl": "10ms", "metadata.negative_ttl": "10ms"})
        stop = threading.Event()

        def grow():
            with open(self.ufs("log"), "ab", buffering=0) as file:
                for at in range(64 * KIB, len(full), 32 * KIB):
                    file.write(full[at : at + 32 * KIB])
                    if stop.wait(0.005):
                        return

        writer = threading.Thread(target=grow)
        writer.start()
        try:
            while writer.is_alive():
                try:
                    fd = os.open(self.at("log"), os.O_RDONLY)
                except OSError as error:
                    self.assertEqual(error.errno, errno.ESTALE)
                    continue
                try:
                    size = os.fstat(fd).st_size
                    got = whole(fd)
                    self.assertEqual(len(got), size, "cut short, or longer than it says")
                    self.assertTrue(got == full[:size], "zeros or bytes of another place")
                except OSError as error:
                    self.assertEqual(error.errno, errno.ESTALE)
                finally:
                    os.close(fd)
        finally:
            stop.set()
            writer.join()
        after_ttl()
        self.assertTrue(read(self.at("log")) == read(self.ufs("log")))

    def test_every_shape_of_read_hit_miss_and_partly(self):
        """Several buffers, odd offsets and lengths, around part and page borders; each byte lands where it belongs."""
        random = trees.rng("shapes")
        borders = [0, PAGE, PART - PAGE, PART, 2 * PART, SIZE - PAGE, SIZE]
        for round_number in range(3):
            name = f"shape{round_number}"
            write(self.ufs(name), OLD)
            if round_number == 0:
                self.mount()
            after_ttl()
            fd = self.open(name)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            for _ in range(60):  # misses at first, then partly, then hits
                at = max(0, random.choice(borders) + random.randint(-40, 40))
                lengths = [random.choice([1, 15, 512, PAGE, PAGE + 1, 70_000, PART]) for _ in range(random.randint(1, 4))]
                buffers = [bytearray(b"\xee" * length) for length in lengths]
                got = os.preadv(fd, buffers, at)
                joined = b"".join(buffers)
                expected = OLD[at : at + sum(lengths)]
                self.assertEqual(got, len(expected), f"seed {trees.seed()}: {lengths} at {at}")
                self.assertTrue(joined[:got] == expected, f"seed {trees.seed()}: {lengths} at {at}")
                self.assertEqual(joined[got:].strip(b"\xee"), b"", "bytes behind the end were written to")

    def test_a_file_becomes_a_directory_with_the_name_asked_for_before(self):
        """What failed below something that was no directory is not remembered as missing."""
        self.mount(**{"metadata.negative_ttl": "10m"})
        write(self.ufs("blocked"), b"not a directory")
        with self.assertRaises(NotADirectoryError):
            os.lstat(self.at("blocked/file"))
        os.unlink(self.ufs("blocked"))
        self.place.write("blocked/file", b"here")
        after_ttl()
        self.assertEqual(read(self.at("blocked/file")), b"here")


class Rules(Base):
    def test_classes(self):
        """immutable is not asked again, revalidate is after its ttl, skip never comes into the cache."""
        config = self.place.path("rules.yaml")
        write(config, b"""metadata:
  ttl: 10m
  rules:
    - {path: data/**, class: immutable}
    - {path: "*.live", class: revalidate, ttl: 200ms}
    - {path: tmp/**, class: skip}
""")
        for name in ("data/f", "f.live", "tmp/f"):
            self.place.write(name, OLD)
        self.mount_with_file(config)
        for name in ("data/f", "f.live", "tmp/f"):
            self.assertTrue(read(self.at(name)) == OLD)
        objects = self.place.poll()["cache"]["objects"]
        self.assertEqual(objects, 2, "all but the skipped one")
        warm = self.place.try_warm("tmp")
        self.assertEqual(warm.returncode, 0, warm.stderr)
        self.assertEqual(self.place.poll()["cache"]["objects"], 2, "a warm job skips it as well")
        for name in ("data/f", "f.live", "tmp/f"):
            fresh(self.ufs(name), versioned(2, SIZE + 16))
        after_ttl()
        self.assertTrue(read(self.at("data/f")) == OLD, "immutable: as it was")
        self.assertTrue(read(self.at("f.live")) == versioned(2, SIZE + 16), "revalidate: as it is")
        self.assertTrue(read(self.at("tmp/f")) == versioned(2, SIZE + 16), "skip: its bytes are asked for at each open")

    def mount_with_file(self, config):
        self.place.mount("--config", config, "-o", "cache.size=20GiB,cache.min_free=0")


if __name__ == "__main__":
    trees.main()
