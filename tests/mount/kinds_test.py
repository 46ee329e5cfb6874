#!/usr/bin/python3
"""Every kind of file that a real tree holds, and every read-side system call, through the mount against the UFS itself.

The same cases run three times over the same tree: cold with passthrough wished for, again when all of it is warm, and
with passthrough off.
"""
import ctypes
import errno
import mmap
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import e2e
import trees
from trees import GIB, KIB, MIB, PAGE, as_user, data, errno_of, read, rng, write

PART = 1 * MIB  # small, so that ordinary files have several
ALICE, BOB, STAFF = 61234, 61235, 62345  # identities that own nothing on this machine
LONG = "long" in trees.flags()
WIDE = 100_000  # entries of the wide directory


def build_tree(root):
    """The tree of every kind; returns {name: bytes} of its ordinary files."""
    contents = {}

    def add(name, content, mode=0o644):
        write(os.path.join(root, name), content)
        os.chmod(os.path.join(root, name), mode)
        contents[name] = content

    for size in (0, 1, PAGE - 1, PAGE, PAGE + 1, PART - 1, PART, PART + 1, 4 * MIB - 1, 4 * MIB, 4 * MIB + 1, 3 * PART + 12345):
        add(f"size_{size}", data(f"size_{size}", size))
    add("several_parts", data("several", 11 * MIB + 13))
    add("random_reads", data("random", 9 * MIB + 4321))
    add("for_readers", data("readers", 24 * MIB + 77))
    add("direct", data("direct", 6 * MIB + 1000))
    add("mapped", data("mapped", 7 * MIB + 99))
    add("copied", data("copied", 6 * MIB + 5))

    # Links.
    os.symlink("size_1", f"{root}/link_relative")
    os.symlink("/etc/hostname", f"{root}/link_absolute")
    os.symlink("nowhere", f"{root}/link_dangling")
    os.symlink("link_loop_b", f"{root}/link_loop_a")
    os.symlink("link_loop_a", f"{root}/link_loop_b")
    os.symlink("x" * 4000, f"{root}/link_long")
    os.mkdir(f"{root}/dir")
    os.symlink("../size_4096", f"{root}/dir/link_up")
    os.symlink("dir", f"{root}/link_to_dir")
    add("hard_one", data("hard", 70_000))
    os.link(f"{root}/hard_one", f"{root}/hard_two")
    os.link(f"{root}/hard_one", f"{root}/dir/hard_three")

    # What is shown and not read.
    os.mkfifo(f"{root}/fifo")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(root)  # the address of a unix socket may hold 107 bytes only
        server.bind("socket")
        os.chdir(here)
    try:
        os.mknod(f"{root}/device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(f"{root}/block_device", 0o600 | stat.S_IFBLK, os.makedev(7, 250))
    except PermissionError:
        print("device nodes cannot be made here: not tested")

    # Names.
    os.mkdir(f"{root}/names")
    names = {b"x" * 255, "é".encode() * 127, b"\xff\xfe\x80", b"a\nb", b'"', b"'", b"\\", b" lead", b"trail ", b"-rf", b"*", b"...", b"%s%n",
             b"a\tb", b"\x01", b"\xc3", b".hidden", b"~", b"$(x)", b"\xed\xa0\x80"}
    names |= {bytes([byte]) for byte in range(1, 256) if byte not in b"/."}
    for name in names:
        write(os.path.join(os.fsencode(root), b"names", name), b"I am " + name)

    # Modes, one file each, with all kinds of bits; directories too.
    os.mkdir(f"{root}/modes")
    for mode in [*range(0o1000), 0o1644, 0o2644, 0o2755, 0o4644, 0o4755, 0o6755, 0o7777, 0o7000]:
        path = write(f"{root}/modes/{mode:04o}", b"%04o" % mode)
        os.chmod(path, mode)
    for mode in (0o000, 0o111, 0o555, 0o700, 0o1777, 0o2775):
        os.mkdir(f"{root}/modes/dir_{mode:04o}")
        write(f"{root}/modes/dir_{mode:04o}/inside", b"inside")
        os.chmod(f"{root}/modes/dir_{mode:04o}", mode)

    # Owners, for permission checks by the kernel.
    os.mkdir(f"{root}/owners")
    for name, uid, gid, mode in (("root_only", 0, 0, 0o600), ("alice_only", ALICE, ALICE, 0o600), ("nobody_at_all", ALICE, ALICE, 0),
                                 ("staff", 0, STAFF, 0o640), ("world", 0, 0, 0o644), ("owner_less", ALICE, ALICE, 0o044)):
        path = write(f"{root}/owners/{name}", name.encode())
        os.chown(path, uid, gid)
        os.chmod(path, mode)
    os.mkdir(f"{root}/owners/closed")
    write(f"{root}/owners/closed/inside", b"inside")
    os.chmod(f"{root}/owners/closed", 0o700)
    os.mkdir(f"{root}/owners/search_only")
    write(f"{root}/owners/search_only/inside", b"inside")
    os.chmod(f"{root}/owners/search_only", 0o711)

    # Access control lists.
    os.mkdir(f"{root}/acl")
    for name, mode, entry in (("alice_may", 0o600, f"u:{ALICE}:r"), ("alice_may_not", 0o644, f"u:{ALICE}:-"), ("staff_may", 0o600, f"g:{STAFF}:r"),
                              ("masked", 0o600, f"u:{ALICE}:rw,m::-")):
        path = write(f"{root}/acl/{name}", name.encode())
        os.chmod(path, mode)
        subprocess.run(["setfacl", "-m", entry, path], check=True)
    os.mkdir(f"{root}/acl/dir")
    write(f"{root}/acl/dir/inside", b"inside")
    os.chmod(f"{root}/acl/dir", 0o700)
    subprocess.run(["setfacl", "-m", f"u:{ALICE}:rx", f"{root}/acl/dir"], check=True)
    os.mkdir(f"{root}/acl/default")
    subprocess.run(["setfacl", "-d", "-m", f"u:{ALICE}:rwx", f"{root}/acl/default"], check=True)

    # Extended attributes.
    path = write(f"{root}/xattrs", b"attributes")
    for name, value in (("user.plain", b"value"), ("user.empty", b""), ("user.binary", bytes(range(256))), ("user.large", b"v" * 2000),
                        ("user.n\xc3\xa4me", b"name"), ("trusted.of_root", b"secret")):
        os.setxattr(path, name, value)
    os.setxattr(f"{root}/dir", "user.of_dir", b"directory")

    # A sparse file: data in the middle, a hole at both ends; and one beyond 4 GiB.
    with open(f"{root}/sparse", "wb") as file:
        file.truncate(64 * MIB)
        file.seek(20 * MIB + 3 * PAGE)
        file.write(data("sparse", 300 * KIB))
        file.seek(41 * MIB)
        file.write(data("sparse2", 2 * PAGE))
    with open(f"{root}/all_hole", "wb") as file:
        file.truncate(10 * MIB + 1)
    with open(f"{root}/huge", "wb") as file:
        file.write(b"start")
        file.seek(4 * GIB - 5)
        file.write(data("huge", 1 * MIB))  # across the boundary
        file.truncate(5 * GIB + 17)
        file.seek(5 * GIB)
        file.write(b"seventeen bytes..")

    # Programs.
    os.mkdir(f"{root}/bin")
    shutil.copy("/bin/echo", f"{root}/bin/echo")
    write(f"{root}/bin/script", b"#!/bin/sh\necho script says $1\n")
    os.chmod(f"{root}/bin/script", 0o755)

    # A path of more than 4096 bytes, made and read one level at a time.
    os.mkdir(f"{root}/deep")
    at = os.open(f"{root}/deep", os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(25):
        os.mkdir("d" * 200, dir_fd=at)
        below = os.open("d" * 200, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
        os.close(at)
        at = below
    with os.fdopen(os.open("bottom", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=at), "wb") as file:
        file.write(b"at the bottom")
    os.close(at)
    return contents


def remove_deep(root):
    """Takes the deep path away; it is too long for removing by name."""
    subprocess.run(["rm", "-rf", f"{root}/deep"], check=False)


class Cases:
    """The cases. Subclasses say how the mount is made; they run in the order of their names."""

    options = {}
    tree_ready = False

    @classmethod
    def setUpClass(cls):
        cls.place = e2e.Place()
        cls.addClassCleanup(cls.place.finish)
        cls.addClassCleanup(remove_deep, cls.place.ufs)
        cls.contents = build_tree(cls.place.ufs)
        cls.place.mount_with({"prefetch.part_length": "1MiB", **cls.options})

    def at(self, name):
        return os.path.join(self.place.mnt, name)

    def ufs(self, name):
        return os.path.join(self.place.ufs, name)

    # ------------------------------------------------------------------------------------------------ bytes

    def test_a_concurrent_readers_of_one_cold_file(self):
        expected, size = self.contents["for_readers"], len(self.contents["for_readers"])
        before = self.place.metric("ufs_bytes")
        wrong = []

        def reader(number):
            random = rng(f"reader {number}")
            with open(self.at("for_readers"), "rb", buffering=0) as file:
                at = random.randrange(size)
                for _ in range(3):  # from a point of one's own to the end, and from the start
                    while got := os.pread(file.fileno(), random.randrange(1, 700_000), at):
                        if got != expected[at : at + len(got)]:
                            wrong.append((number, at, len(got)))
                        at += len(got)
                    at = 0

        readers = [threading.Thread(target=reader, args=(n,)) for n in range(8)]
        for thread in readers:
            thread.start()
        for thread in readers:
            thread.join()
        self.assertEqual(wrong, [])
        fetched = self.place.metric("ufs_bytes") - before
        self.assertLessEqual(fetched, size, "each part is fetched once, however many ask for it")

    def test_b_random_reads_against_a_model(self):
        expected = self.contents["random_reads"]
        random = rng("pread")
        for turn in ("first", "again"):
            with open(self.at("random_reads"), "rb", buffering=0) as file:
                for _ in range(250):
                    at = random.choice([random.randrange(len(expected) + 5000), random.randrange(0, 10) * PART - random.randrange(3), len(expected) - 1])
                    at = max(at, 0)
                    length = random.choice([0, 1, 511, PAGE, 4097, 131_073, random.randrange(2 * PART)])
                    got = os.pread(file.fileno(), length, at)
                    self.assertEqual(got == expected[at : at + length], True, f"{turn}: pread({length}, {at}) gave {len(got)} bytes")

    def test_c_whole_files(self):
        for turn in ("first", "again"):
            for name, expected in self.contents.items():
                got = read(self.at(name))
                self.assertEqual(got == expected, True, f"{turn}: {name}: {trees.first_difference(expected, got)}")

    def test_d_reads_at_and_past_the_end(self):
        for name in ("size_0", "size_1", f"size_{PART}", "several_parts"):
            size = len(self.contents[name])
            with open(self.at(name), "rb", buffering=0) as file:
                self.assertEqual(os.pread(file.fileno(), 10, size), b"")
                self.assertEqual(os.pread(file.fileno(), 10, size + 1), b"")
                self.assertEqual(os.pread(file.fileno(), 10, size + 3 * GIB), b"")
                self.assertEqual(os.pread(file.fileno(), 100, max(0, size - 3)), self.contents[name][-3:])
                self.assertEqual(file.seek(0, os.SEEK_END), size)

    def test_e_direct_reads(self):
        expected = self.contents["direct"]
        for turn in ("first", "again"):
            fd = os.open(self.at("direct"), os.O_RDONLY | os.O_DIRECT)
            try:
                with mmap.mmap(-1, 2 * MIB) as buffer:
                    at = 0
                    while True:
                        count = os.preadv(fd, [memoryview(buffer)[: 512 * KIB]], at)
                        self.assertEqual(buffer[:count] == expected[at : at + count], True, f"{turn}: at {at}")
                        at += count
                        if count < 512 * KIB:
                            break
                    self.assertEqual(at, len(expected))
                    for at in (4 * MIB, 0, PAGE, 5 * MIB):
                        count = os.preadv(fd, [memoryview(buffer)[:PAGE]], at)
                        self.assertEqual(buffer[:count] == expected[at : at + PAGE], True, f"{turn}: at {at}")
            finally:
                os.close(fd)

    def test_f_maps(self):
        expected = self.contents["mapped"]
        fd = os.open(self.at("mapped"), os.O_RDONLY)
        shared = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
        private = mmap.mmap(fd, 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
        with self.assertRaises(PermissionError):
            mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        os.close(fd)  # maps outlive their descriptor
        random = rng("maps")
        for _ in range(200):
            at = random.randrange(len(expected))
            self.assertEqual(shared[at : at + 5000] == expected[at : at + 5000], True, f"shared at {at}")
            self.assertEqual(private[at : at + 5000] == expected[at : at + 5000], True, f"private at {at}")
        self.assertEqual(shared[:] == expected, True)
        private[100:105] = b"write"
        self.assertEqual(private[100:105], b"write")
        self.assertEqual(shared[100:105], expected[100:105])
        self.assertEqual(read(self.at("mapped")) == expected, True, "a private map's writes stay private")
        shared.close()
        private.close()

    def test_g_sendfile_and_copies(self):
        expected = self.contents["copied"]
        aside = os.path.join(self.place.dir, "aside")
        source = os.open(self.at("copied"), os.O_RDONLY)
        with open(aside, "wb") as out:
            at = 0
            while count := os.sendfile(out.fileno(), source, at, 1 * MIB + 17):
                at += count
        self.assertEqual(read(aside) == expected, True, "sendfile")
        with open(aside, "wb") as out:
            try:
                at = 0
                while count := os.copy_file_range(source, out.fileno(), 1 * MIB, at, at):
                    at += count
                self.assertEqual(read(aside) == expected, True, "copy_file_range")
            except OSError as error:
                self.assertEqual(error.errno, errno.EXDEV, "the kernel's answer that makes programs fall back to reading")
        os.close(source)
        for tool in (["cp"], ["cp", "--reflink=auto", "--sparse=always"], ["dd", "bs=100001", "status=none"]):
            os.unlink(aside)
            if tool[0] == "dd":
                subprocess.run([*tool, f"if={self.at('copied')}", f"of={aside}"], check=True)
            else:
                subprocess.run([*tool, self.at("copied"), aside], check=True)
            self.assertEqual(read(aside) == expected, True, " ".join(tool))
        os.unlink(aside)

    def test_h_programs_run(self):
        for _ in range(2):
            self.assertEqual(subprocess.run([self.at("bin/echo"), "hello"], capture_output=True, text=True).stdout, "hello\n")
            self.assertEqual(subprocess.run([self.at("bin/script"), "yes"], capture_output=True, text=True).stdout, "script says yes\n")
        self.assertEqual(errno_of(os.execv, self.at("size_1"), ["x"]), errno.EACCES)  # no x bit, root or not

    # ------------------------------------------------------------------------------------------------ holes

    def test_i_sparse_files(self):
        for name in ("sparse", "all_hole"):
            with open(self.ufs(name), "rb") as a, open(self.at(name), "rb") as b:
                self.assertEqual(trees.segments(a.fileno()), trees.segments(b.fileno()), f"{name}: SEEK_DATA and SEEK_HOLE before reading")
            self.assertEqual(read(self.at(name)) == read(self.ufs(name)), True, name)
            with open(self.ufs(name), "rb") as a, open(self.at(name), "rb") as b:
                self.assertEqual(trees.segments(a.fileno()), trees.segments(b.fileno()), f"{name}: SEEK_DATA and SEEK_HOLE after reading")
                size = os.fstat(a.fileno()).st_size
                for where in (os.SEEK_DATA, os.SEEK_HOLE):
                    self.assertEqual(errno_of(os.lseek, b.fileno(), size, where), errno.ENXIO)
            self.assertLess(os.lstat(self.at(name)).st_blocks * 512, 2 * MIB, "a sparse file says so through the mount")
        result = self.place.try_warm("sparse", "all_hole")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(self.ufs("sparse"), "rb") as a, open(self.at("sparse"), "rb") as b:
            self.assertEqual(trees.segments(a.fileno()), trees.segments(b.fileno()), "SEEK_DATA and SEEK_HOLE when whole in the cache")
        objects = [i for folder, _, files in os.walk(os.path.join(self.place.cache, "objects")) for f in files
                   if (i := os.lstat(os.path.join(folder, f))).st_size in (64 * MIB, 10 * MIB + 1)]
        self.assertGreaterEqual(len(objects), 1, "the cache file has the size of the UFS file")
        for info in objects:
            self.assertLessEqual(info.st_blocks * 512, 3 * PART + 64 * KIB, "holes stay holes in the cache")

    def test_j_beyond_four_gib(self):
        with open(self.ufs("huge"), "rb") as a, open(self.at("huge"), "rb") as b:
            size = os.fstat(a.fileno()).st_size
            self.assertEqual(os.fstat(b.fileno()).st_size, size)
            self.assertEqual(trees.segments(a.fileno()), trees.segments(b.fileno()))
            random = rng("huge")
            places = [0, 4 * GIB - 6, 4 * GIB - 5, 4 * GIB - 1, 4 * GIB, 4 * GIB + 1, 4 * GIB + MIB - 100, 5 * GIB - 10, 5 * GIB, size - 17, size - 1, size, size + 1]
            for turn in ("cold", "again"):
                for at in places + [random.randrange(size) for _ in range(40)]:
                    length = random.randrange(1, 300_000)
                    self.assertEqual(os.pread(b.fileno(), length, at) == os.pread(a.fileno(), length, at), True, f"{turn}: pread({length}, {at})")
            with mmap.mmap(b.fileno(), 2 * MIB, mmap.MAP_SHARED, mmap.PROT_READ, offset=4 * GIB - MIB) as view:
                self.assertEqual(view[:] == os.pread(a.fileno(), 2 * MIB, 4 * GIB - MIB), True)
        result = self.place.try_warm("huge")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertLess(self.place.poll()["cache"]["used_bytes"], 1 * GIB, "a sparse file of 5 GiB takes what its data take")
        with open(self.ufs("huge"), "rb") as a, open(self.at("huge"), "rb") as b:
            for at in places:
                self.assertEqual(os.pread(b.fileno(), 70_000, at) == os.pread(a.fileno(), 70_000, at), True, f"warm: at {at}")
        if LONG:
            self.assertEqual(subprocess.run(["cmp", self.ufs("huge"), self.at("huge")]).returncode, 0)

    # ------------------------------------------------------------------------------------------------ names and facts

    def test_k_all_names_and_facts(self):
        count = trees.compare_trees(self, self.place.ufs, self.place.mnt, content=False)
        self.assertGreater(count, 800)
        self.assertEqual({os.fsencode(e.name) for e in os.scandir(self.at("names"))}, set(os.listdir(os.fsencode(self.ufs("names")))))
        for name in os.listdir(os.fsencode(self.ufs("names"))):
            self.assertEqual(read(os.path.join(os.fsencode(self.place.mnt), b"names", name)), b"I am " + name)
        self.assertEqual(errno_of(os.lstat, self.at("names/" + "y" * 256)), errno.ENAMETOOLONG)
        self.assertEqual(errno_of(os.lstat, self.at("names/" + "y" * 255)), errno.ENOENT)

    def test_l_inode_numbers_and_hard_links(self):
        inodes, links = {}, {}
        for name in trees.walk(os.fsencode(self.place.mnt)):
            path = os.path.join(os.fsencode(self.place.mnt), name)
            info = os.lstat(path)
            self.assertEqual(info.st_ino, os.lstat(path).st_ino)
            inodes.setdefault((info.st_dev, info.st_ino), []).append(name)
            links[name] = info.st_ino
        together = [sorted(names) for names in inodes.values() if len(names) > 1]
        self.assertEqual(together, [[b"dir/hard_three", b"hard_one", b"hard_two"]], "one number, one file")
        self.assertEqual(os.lstat(self.at("hard_two")).st_nlink, 3)
        with open(self.at("hard_one"), "rb") as one, open(self.at("dir/hard_three"), "rb") as three:
            self.assertTrue(os.path.sameopenfile(one.fileno(), three.fileno()))
            self.assertEqual(one.read(), three.read())
        listed = {os.fsencode(entry.name): entry.inode() for entry in os.scandir(self.place.mnt)}
        self.assertEqual({name: number for name, number in links.items() if name and b"/" not in name}, listed, "a listing's numbers are stat's")

    def test_m_links(self):
        for name in ("link_relative", "link_absolute", "link_dangling", "link_loop_a", "link_long", "dir/link_up", "link_to_dir"):
            self.assertEqual(os.readlink(self.at(name)), os.readlink(self.ufs(name)))
        self.assertEqual(read(self.at("link_relative")), self.contents["size_1"])
        self.assertEqual(read(self.at("dir/link_up")), self.contents["size_4096"])
        self.assertEqual(sorted(os.listdir(self.at("link_to_dir"))), sorted(os.listdir(self.ufs("dir"))))
        self.assertEqual(errno_of(os.open, self.at("link_dangling"), os.O_RDONLY), errno.ENOENT)
        self.assertEqual(errno_of(os.open, self.at("link_loop_a"), os.O_RDONLY), errno.ELOOP)
        self.assertEqual(errno_of(os.open, self.at("link_relative"), os.O_RDONLY | os.O_NOFOLLOW), errno.ELOOP)
        self.assertEqual(errno_of(os.readlink, self.at("size_1")), errno.EINVAL)

    def test_n_special_files_are_shown(self):
        self.assertTrue(stat.S_ISFIFO(os.lstat(self.at("fifo")).st_mode))
        self.assertTrue(stat.S_ISSOCK(os.lstat(self.at("socket")).st_mode))
        types = {entry.name: entry for entry in os.scandir(self.place.mnt)}
        self.assertTrue(types["dir"].is_dir(follow_symlinks=False) and types["link_loop_a"].is_symlink() and types["size_1"].is_file(follow_symlinks=False))
        with socket.socket(socket.AF_UNIX) as client:
            here = os.getcwd()
            os.chdir(self.place.mnt)
            try:
                self.assertEqual(errno_of(client.connect, "socket"), errno.ECONNREFUSED)
            finally:
                os.chdir(here)

    def test_o_deep_path(self):
        at = os.open(self.at("deep"), os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(25):
            self.assertEqual(os.listdir(at), ["d" * 200])
            below = os.open("d" * 200, os.O_RDONLY | os.O_DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        with os.fdopen(os.open("bottom", os.O_RDONLY, dir_fd=at), "rb") as file:
            self.assertEqual(file.read(), b"at the bottom")
        os.close(at)

    def test_p_statfs(self):
        a, b = os.statvfs(self.place.ufs), os.statvfs(self.place.mnt)
        self.assertEqual(a.f_blocks * a.f_frsize, b.f_blocks * b.f_frsize)
        self.assertEqual(a.f_files, b.f_files)
        self.assertEqual(b.f_namemax, 255)
        self.assertTrue(b.f_flag & os.ST_RDONLY)

    # ------------------------------------------------------------------------------------------------ permissions

    def can_read(self, name, uid, gid, groups=()):
        """0 when that user can read the whole file, else the errno. What the mount says must be what the UFS says."""
        answers = []
        for root in (self.place.ufs, self.place.mnt):
            path = os.path.join(root, name)
            answers.append(as_user(uid, gid, errno_of, read, path, groups=groups))
        self.assertEqual(answers[0], answers[1], f"{name} as {uid}:{gid} {groups}: UFS and mount disagree")
        return answers[1]

    def test_q_permissions(self):
        self.assertEqual(self.can_read("owners/root_only", ALICE, ALICE), errno.EACCES)
        self.assertEqual(self.can_read("owners/root_only", 0, 0), 0)
        self.assertEqual(self.can_read("owners/alice_only", ALICE, ALICE), 0)
        self.assertEqual(self.can_read("owners/alice_only", BOB, BOB), errno.EACCES)
        self.assertEqual(self.can_read("owners/alice_only", BOB, ALICE), errno.EACCES)
        self.assertEqual(self.can_read("owners/nobody_at_all", ALICE, ALICE), errno.EACCES)
        self.assertEqual(self.can_read("owners/nobody_at_all", 0, 0), 0)
        self.assertEqual(self.can_read("owners/staff", BOB, STAFF), 0)
        self.assertEqual(self.can_read("owners/staff", BOB, BOB, groups=(STAFF,)), 0)
        self.assertEqual(self.can_read("owners/staff", BOB, BOB), errno.EACCES)
        self.assertEqual(self.can_read("owners/world", BOB, BOB), 0)
        self.assertEqual(self.can_read("owners/owner_less", ALICE, ALICE), errno.EACCES)
        self.assertEqual(self.can_read("owners/owner_less", BOB, BOB), 0)
        self.assertEqual(self.can_read("owners/closed/inside", BOB, BOB), errno.EACCES)
        self.assertEqual(self.can_read("owners/search_only/inside", BOB, BOB), 0)
        self.assertEqual(as_user(BOB, BOB, errno_of, os.listdir, self.at("owners/search_only")), errno.EACCES)
        self.assertEqual(as_user(BOB, BOB, errno_of, os.lstat, self.at("owners/closed/inside")), errno.EACCES)

        def allowed(root):
            return [(name, mode, os.access(os.path.join(root, "modes", name), mode)) for name in sorted(os.listdir(os.path.join(root, "modes")))
                    for mode in (os.F_OK, os.R_OK, os.X_OK)]

        for uid in (0, BOB):
            self.assertEqual(as_user(uid, uid, allowed, self.place.mnt), as_user(uid, uid, allowed, self.place.ufs))
        self.assertFalse(os.access(self.at("size_1"), os.W_OK), "a read-only mount is not writable, for root neither")

    def test_r_access_control_lists(self):
        self.assertEqual(self.can_read("acl/alice_may", ALICE, ALICE), 0)
        self.assertEqual(self.can_read("acl/alice_may", BOB, BOB), errno.EACCES)
        self.assertEqual(self.can_read("acl/alice_may_not", ALICE, ALICE), errno.EACCES)
        self.assertEqual(self.can_read("acl/alice_may_not", BOB, BOB), 0)
        self.assertEqual(self.can_read("acl/staff_may", BOB, STAFF), 0)
        self.assertEqual(self.can_read("acl/staff_may", BOB, BOB, groups=(STAFF,)), 0)
        self.assertEqual(self.can_read("acl/staff_may", BOB, BOB), errno.EACCES)
        self.assertEqual(self.can_read("acl/masked", ALICE, ALICE), errno.EACCES)
        self.assertEqual(self.can_read("acl/dir/inside", ALICE, ALICE), 0)
        self.assertEqual(self.can_read("acl/dir/inside", BOB, BOB), errno.EACCES)

        def lists(root):
            return subprocess.run(["getfacl", "-n", "-R", "."], cwd=os.path.join(root, "acl"), check=True, capture_output=True, text=True).stdout

        self.assertEqual(lists(self.place.mnt), lists(self.place.ufs))

    def test_s_extended_attributes(self):
        for name in ("xattrs", "dir", "size_1", "acl/alice_may", "acl/default", "link_relative"):
            a, b = self.ufs(name), self.at(name)
            names = os.listxattr(a, follow_symlinks=False)
            self.assertEqual(sorted(os.listxattr(b, follow_symlinks=False)), sorted(names))
            for attribute in names:
                self.assertEqual(os.getxattr(b, attribute, follow_symlinks=False), os.getxattr(a, attribute, follow_symlinks=False), attribute)
        self.assertEqual(errno_of(os.getxattr, self.at("xattrs"), "user.none"), errno.ENODATA)
        self.assertEqual(errno_of(os.getxattr, self.at("size_1"), "user.plain"), errno.ENODATA)
        self.assertNotIn("trusted.of_root", as_user(BOB, BOB, os.listxattr, self.at("xattrs")))
        self.assertEqual(as_user(BOB, BOB, errno_of, os.getxattr, self.at("xattrs"), "trusted.of_root"),
                         as_user(BOB, BOB, errno_of, os.getxattr, self.ufs("xattrs"), "trusted.of_root"))

    # ------------------------------------------------------------------------------------------------ read-only

    def test_t_every_change_is_refused(self):
        f, d, new = self.at("several_parts"), self.at("dir"), self.at("new")
        calls = {
            "open for writing": lambda: os.close(os.open(f, os.O_WRONLY)),
            "open for reading and writing": lambda: os.close(os.open(f, os.O_RDWR)),
            "open to append": lambda: os.close(os.open(f, os.O_WRONLY | os.O_APPEND)),
            "open to truncate": lambda: os.close(os.open(f, os.O_RDONLY | os.O_TRUNC)),
            "create": lambda: os.close(os.open(new, os.O_CREAT | os.O_WRONLY)),
            "create for reading": lambda: os.close(os.open(new, os.O_CREAT | os.O_RDONLY)),
            "nameless file": lambda: os.close(os.open(self.place.mnt, os.O_TMPFILE | os.O_RDWR)),
            "truncate": lambda: os.truncate(f, 0),
            "mkdir": lambda: os.mkdir(new),
            "rmdir": lambda: os.rmdir(self.at("modes/dir_0700")),
            "unlink": lambda: os.unlink(f),
            "rename": lambda: os.rename(f, new),
            "rename over": lambda: os.rename(f, self.at("size_1")),
            "rename a directory": lambda: os.rename(d, new),
            "link": lambda: os.link(f, new),
            "symlink": lambda: os.symlink("x", new),
            "mkfifo": lambda: os.mkfifo(new),
            "mknod": lambda: os.mknod(new, 0o600 | stat.S_IFREG),
            "chmod": lambda: os.chmod(f, 0o600),
            "chown": lambda: os.chown(f, 1, 1),
            "lchown": lambda: os.lchown(self.at("link_relative"), 1, 1),
            "utime": lambda: os.utime(f),
            "setxattr": lambda: os.setxattr(f, "user.x", b"x"),
            "removexattr": lambda: os.removexattr(self.at("xattrs"), "user.plain"),
        }
        before = trees.facts(self.ufs("several_parts"))
        for name, call in calls.items():
            with self.subTest(name):
                self.assertEqual(errno.errorcode.get(errno_of(call), "no error"), "EROFS")
        with open(f, "rb") as file:
            self.assertIn(errno_of(os.ftruncate, file.fileno(), 0), (errno.EINVAL, errno.EBADF, errno.EROFS))
            self.assertEqual(errno_of(os.fchmod, file.fileno(), 0), errno.EROFS)
            self.assertEqual(errno_of(os.pwrite, file.fileno(), b"x", 0), errno.EBADF)
            self.assertEqual(errno_of(os.posix_fallocate, file.fileno(), 0, 10), errno.EBADF)
            os.fsync(file.fileno())  # harmless, and programs call it
        self.assertEqual(trees.facts(self.ufs("several_parts")), before)
        self.assertFalse(os.path.lexists(self.ufs("new")))
        self.assertEqual(subprocess.run(["setfacl", "-m", f"u:{BOB}:r", f], capture_output=True).returncode, 1)

    def test_u_advice_and_locks(self):
        with open(self.at("several_parts"), "rb") as file:
            for advice in (os.POSIX_FADV_SEQUENTIAL, os.POSIX_FADV_RANDOM, os.POSIX_FADV_WILLNEED, os.POSIX_FADV_DONTNEED):
                os.posix_fadvise(file.fileno(), 0, 0, advice)
            self.assertEqual(file.read() == self.contents["several_parts"], True)
            import fcntl

            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(file, fcntl.LOCK_UN)


class Cold(Cases, unittest.TestCase):
    """First contact: nothing is cached."""

    def test_zz_facts_stay_after_a_remount(self):
        def numbers():
            return {name: os.lstat(os.path.join(os.fsencode(self.place.mnt), name)).st_ino for name in trees.walk(os.fsencode(self.place.mnt))}

        before = numbers()
        self.place.umount()
        self.place.mount_with({"prefetch.part_length": "1MiB"})
        self.assertEqual(numbers(), before, "inode numbers survive a remount")
        fetched = self.place.metric("ufs_bytes")
        trees.compare_trees(self, self.place.ufs, self.place.mnt)
        self.assertLessEqual(self.place.metric("ufs_bytes") - fetched, 4 * MIB,
                             "what was read before the remount is still cached; only files that no case read are fetched")


class Warm(Cases, unittest.TestCase):
    """Everything was brought in before the cases run."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        result = cls.place.try_warm(".")
        assert result.returncode == 0, result.stdout + result.stderr

    def test_zz_nothing_was_fetched_again(self):
        total = sum(len(content) for content in self.contents.values())
        self.assertLess(self.place.metric("ufs_bytes"), total + 16 * MIB)


class PassthroughOff(Cases, unittest.TestCase):
    """The daemon serves every read."""

    options = {"fuse.passthrough": "off"}

    def test_zz_passthrough_was_off(self):
        status = self.place.poll()
        self.assertFalse(status["passthrough"]["active"])
        self.assertEqual(status["passthrough_opens"], 0)


class WideDirectory(unittest.TestCase):
    """A directory of 100 000 entries."""

    @classmethod
    def setUpClass(cls):
        cls.place = e2e.Place()
        cls.addClassCleanup(cls.place.finish)
        os.mkdir(f"{cls.place.ufs}/wide")
        cls.names = {b"entry_%06d" % n for n in range(WIDE)}
        at = os.open(f"{cls.place.ufs}/wide", os.O_RDONLY)
        for name in cls.names:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=at))
        os.close(at)
        cls.place.mount_with()

    def test_listing(self):
        wide = os.path.join(self.place.mnt, "wide")
        for turn in ("first", "again"):
            start = time.monotonic()
            found = os.listdir(os.fsencode(wide))
            self.assertEqual(len(found), WIDE, turn)
            self.assertEqual(set(found), self.names, turn)
            self.assertLess(time.monotonic() - start, 60, turn)
        numbers = {os.fsencode(entry.name): entry.inode() for entry in os.scandir(wide)}
        self.assertEqual(len(set(numbers.values())), WIDE)
        for name in rng("wide").sample(sorted(self.names), 300):
            self.assertEqual(os.lstat(os.path.join(os.fsencode(wide), name)).st_ino, numbers[name])
        self.assertEqual(subprocess.run(["find", wide, "-type", "f"], capture_output=True).stdout.count(b"\n"), WIDE)

    def test_positions(self):
        listing = trees.RawDir(os.path.join(self.place.mnt, "wide"))
        self.addCleanup(listing.close)
        order, marks = [], {}
        while True:
            if len(order) % 9973 == 0:
                marks[len(order)] = listing.tell()
            entry = listing.next()
            if entry is None:
                break
            order.append(entry)
        self.assertEqual(len(order), WIDE + 2)
        self.assertEqual({name for name, _, _ in order} - {b".", b".."}, self.names)
        for index in rng("marks").sample(sorted(marks), len(marks)):
            listing.seek(marks[index])
            self.assertEqual([listing.next() for _ in range(50)], (order[index : index + 50] + [None] * 50)[:50], f"after seekdir to entry {index}")
        listing.rewind()
        again = []
        while (entry := listing.next()) is not None:
            again.append(entry)
        self.assertEqual(again, order, "after rewinddir")

    def test_two_listings_at_once(self):
        a, b = (trees.RawDir(os.path.join(self.place.mnt, "wide")) for _ in range(2))
        self.addCleanup(a.close)
        self.addCleanup(b.close)
        seen_a, seen_b = set(), set()
        for _ in range(1000):
            seen_a.add(a.next()[0])
            for _ in range(3):
                seen_b.add(b.next()[0])
        self.assertEqual((len(seen_a), len(seen_b)), (1000, 3000))


if __name__ == "__main__":
    trees.main()
