"""What the mount tests share besides the mount itself: seeded data, trees of every kind of file, comparisons, other users."""
import ctypes
import os
import pickle
import random
import stat
import sys
import traceback
import unittest

import numpy

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PAGE = 4096

_seed = int(os.environ.get("TEST_SEED") or int.from_bytes(os.urandom(4), "little"))


def seed():
    """The one seed of this run: TEST_SEED, or a fresh one. main() prints it with the line that runs it again."""
    return _seed


def rng(label):
    """A random.Random of its own for each label, so that tests do not disturb each other's numbers."""
    return random.Random(f"{_seed}/{label}")


def data(label, size):
    """`size` seeded bytes; the same label gives the same bytes in one run."""
    return numpy.random.default_rng([_seed, *str(label).encode()]).bytes(size)


def write(path, content):
    with open(path, "wb") as file:
        file.write(content)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def first_difference(a, b):
    """Where two byte strings part, for a message that a person can read."""
    if len(a) != len(b):
        return f"lengths {len(a)} and {len(b)}"
    x, y = numpy.frombuffer(a, numpy.uint8), numpy.frombuffer(b, numpy.uint8)
    where = numpy.flatnonzero(x != y)
    return "none" if where.size == 0 else f"{where.size} bytes differ, first at {where[0]}, last at {where[-1]}"


def as_user(uid, gid, function, *args, groups=()):
    """Runs function(*args) in a child with that identity; returns its result or raises its exception here."""
    sys.stdout.flush()
    sys.stderr.flush()
    from_child, to_parent = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(from_child)
            os.setgroups(list(groups))
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            try:
                answer = (True, function(*args))
            except BaseException as error:  # carried over to the parent, which raises it
                answer = (False, error)
            with os.fdopen(to_parent, "wb") as pipe:
                pickle.dump(answer, pipe)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(to_parent)
    with os.fdopen(from_child, "rb") as pipe:
        raw = pipe.read()
    os.waitpid(child, 0)
    ok, value = pickle.loads(raw)
    if ok:
        return value
    raise value


def errno_of(function, *args, **kwargs):
    """The errno of a call that should fail, or 0."""
    try:
        result = function(*args, **kwargs)
    except OSError as error:
        return error.errno
    if isinstance(result, int) and not isinstance(result, bool) and function is os.open:
        os.close(result)
    return 0


def walk(root):
    """Every path below `root` (bytes, relative, sorted by directory), the root itself as b''. Symlinks are not followed.

    Directories too deep for a path of PATH_MAX bytes are not entered: they need a test that goes level by level.
    """
    pending = [b""]
    while pending:
        relative = pending.pop()
        yield relative
        full = os.path.join(root, relative) if relative else root
        if len(full) < 3800 and stat.S_ISDIR(os.lstat(full).st_mode):
            pending.extend(os.path.join(relative, name) for name in sorted(os.listdir(full), reverse=True))


def facts(path):
    """What lstat says of one name, times and sizes included; none of it may differ between the UFS and the mount."""
    info = os.lstat(path)
    kind = stat.S_IFMT(info.st_mode)
    return {
        "mode": oct(info.st_mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "size": info.st_size,
        "nlink": info.st_nlink,
        "mtime_ns": info.st_mtime_ns,
        "rdev": info.st_rdev if kind in (stat.S_IFCHR, stat.S_IFBLK) else 0,
        "link": os.readlink(path) if kind == stat.S_IFLNK else None,
    }


def compare_trees(test, ufs, mount, content=True):
    """Asserts that both trees hold the same names, facts and (content) bytes. Returns the number of names."""
    ufs, mount = os.fsencode(ufs), os.fsencode(mount)
    names = list(walk(ufs))
    seen = list(walk(mount))
    if names != seen:
        missing, extra = sorted(set(names) - set(seen)), sorted(set(seen) - set(names))
        test.fail(f"names differ: missing {missing[:5]} ({len(missing)}), unexpected {extra[:5]} ({len(extra)})")
    wrong = []
    for name in names:
        a = os.path.join(ufs, name) if name else ufs
        b = os.path.join(mount, name) if name else mount
        if (expected := facts(a)) != (got := facts(b)):
            wrong.append((name, {k: (expected[k], got[k]) for k in expected if expected[k] != got[k]}))
        elif content and expected["link"] is None and stat.S_ISREG(int(expected["mode"], 8)) and expected["size"] <= 64 * MIB:
            if (x := read(a)) != (y := read(b)):
                wrong.append((name, first_difference(x, y)))
    test.assertEqual(wrong[:10], [], f"{len(wrong)} of {len(names)} names differ (UFS, mount)")
    return len(names)


def allocated(root):
    """Bytes in allocated blocks of all regular files below `root`; a file that vanishes meanwhile counts as nothing."""
    total = 0
    for folder, _, files in os.walk(root):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def segments(fd):
    """[(start, end)] of the data that SEEK_DATA and SEEK_HOLE report."""
    found, at, size = [], 0, os.fstat(fd).st_size
    while at < size:
        try:
            start = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == 6:  # ENXIO: only a hole follows
                break
            raise
        end = os.lseek(fd, start, os.SEEK_HOLE)
        found.append((start, end))
        at = end
    return found


class RawDir:
    """opendir, readdir, telldir, seekdir and rewinddir as the C library gives them."""

    class Entry(ctypes.Structure):
        _fields_ = [("ino", ctypes.c_uint64), ("off", ctypes.c_int64), ("reclen", ctypes.c_uint16), ("type", ctypes.c_uint8)]

    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.opendir.restype = ctypes.c_void_p
    _libc.opendir.argtypes = [ctypes.c_char_p]
    _libc.readdir.restype = ctypes.c_void_p
    _libc.telldir.restype = ctypes.c_long
    for _name in ("readdir", "telldir", "rewinddir", "closedir"):
        getattr(_libc, _name).argtypes = [ctypes.c_void_p]
    _libc.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
    _libc.seekdir.restype = None
    _libc.rewinddir.restype = None

    def __init__(self, path):
        self._dir = self._libc.opendir(os.fsencode(path))
        if not self._dir:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)

    def next(self):
        """(name, ino, type), or None at the end."""
        ctypes.set_errno(0)
        address = self._libc.readdir(self._dir)
        if not address:
            if ctypes.get_errno():
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            return None
        entry = self.Entry.from_address(address)
        return ctypes.string_at(address + 19), entry.ino, entry.type  # the name follows the one-byte type

    def tell(self):
        return self._libc.telldir(self._dir)

    def seek(self, where):
        self._libc.seekdir(self._dir, where)

    def rewind(self):
        self._libc.rewinddir(self._dir)

    def close(self):
        self._libc.closedir(self._dir)


def flags():
    """Names of the --flags given to this script, taken out of sys.argv before unittest sees them (`--long`)."""
    known = [argument for argument in sys.argv[1:] if argument == "--long"]
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument != "--long"]
    return {argument.lstrip("-") for argument in known}


def main():
    """unittest.main, with the seed printed when something fails; exit 77 where nothing can be mounted."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        print("skipped: mounting needs root and /dev/fuse")
        sys.exit(77)
    program = unittest.main(exit=False, verbosity=2)
    if not program.result.wasSuccessful():
        print(f"seed {_seed}: run again with TEST_SEED={_seed} {' '.join([sys.executable] + sys.argv)}", file=sys.stderr)
        sys.exit(1)
