"""The files that datagen writes, read by readers that share nothing with it: framing, checksums, protobuf and thrift
are decoded here from their public descriptions."""
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

BENCH = os.path.join(os.environ["STOKER_BIN"], "stoker-bench")
SEED = int(os.environ.get("TEST_SEED", random.randrange(1 << 32)))


def bench(*arguments):
    return subprocess.run([BENCH, *arguments], capture_output=True, text=True, timeout=120)


def params(**keys):
    return [part for key, value in keys.items() for part in ("--param", f"{key.replace('__', '.')}={value}")]


# ---- CRC-32C, bit by bit from its polynomial, then by table.
TABLE = []
for index in range(256):
    for _ in range(8):
        index = index >> 1 ^ (0x82F63B78 if index & 1 else 0)
    TABLE.append(index)


def masked_crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecords(data):
    at = 0
    while at < len(data):
        length, length_crc = struct.unpack_from("<QI", data, at)
        assert masked_crc32c(data[at:at + 8]) == length_crc, f"CRC of the length at byte {at}"
        record = data[at + 12:at + 12 + length]
        assert len(record) == length, "cut record"
        (crc,) = struct.unpack_from("<I", data, at + 12 + length)
        assert masked_crc32c(record) == crc, f"CRC of the data at byte {at + 12}"
        yield record
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def protobuf(data):
    """[(field, value)]: values are integers or bytes."""
    at, out = 0, []
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        elif tag & 7 == 2:
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "cut field"
        else:
            raise AssertionError(f"wire type {tag & 7}")
        out.append((tag >> 3, value))
    return out


def example(record):
    """tf.train.Example -> {feature: bytes or [integers]}"""
    ((number, features),) = protobuf(record)
    assert number == 1
    out = {}
    for number, entry in protobuf(features):
        assert number == 1
        (k, key), (v, feature) = protobuf(entry)
        assert (k, v) == (1, 2)
        ((kind, values),) = protobuf(feature)
        ((number, value),) = protobuf(values)
        assert number == 1
        if kind == 1:
            out[key.decode()] = value
        else:
            assert kind == 3
            ints, at = [], 0
            while at < len(value):
                one, at = varint(value, at)
                ints.append(one)
            out[key.decode()] = ints
    return out


# ---- Thrift's compact protocol, as parquet uses it.
class Thrift:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def number(self):
        value, self.at = varint(self.data, self.at)
        return value >> 1 ^ -(value & 1)

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            self.at += 1
            return self.data[self.at - 1]
        if kind in (4, 5, 6):
            return self.number()
        if kind == 8:
            size, self.at = varint(self.data, self.at)
            self.at += size
            return bytes(self.data[self.at - size:self.at])
        if kind in (9, 10):
            head = self.data[self.at]
            self.at += 1
            count = head >> 4
            if count == 15:
                count, self.at = varint(self.data, self.at)
            return [self.value(head & 15) for _ in range(count)]
        assert kind == 12, f"thrift type {kind}"
        return self.struct()

    def struct(self):
        out, field = {}, 0
        while True:
            head = self.data[self.at]
            self.at += 1
            if head == 0:
                return out
            field = field + (head >> 4) if head >> 4 else self.number()
            assert field not in out
            out[field] = self.value(head & 15)


def levels(data, at, count):
    """RLE/bit-packed hybrid of 1-bit levels, after its 4-byte length."""
    (size,) = struct.unpack_from("<I", data, at)
    at, end, out = at + 4, at + 4 + size, []
    while at < end:
        head, at = varint(data, at)
        assert head & 1 == 0, "a bit-packed run"
        out += [data[at]] * (head >> 1)
        at += 1
    assert at == end and len(out) == count
    return out, end


WIDTH = {1: 4, 2: 8, 4: 4, 5: 8}
UNPACK = {1: "i", 2: "q", 4: "f", 5: "d"}


def read_column(data, chunk, element, rows):
    """Values of one column chunk, checking pages, levels and sizes: a list of rows."""
    meta = chunk[3]
    at = meta.get(11, meta[9])
    end = at + meta[7]
    dictionary, out, numbers = None, [], 0
    while at < end:
        thrift = Thrift(data, at)
        header = thrift.struct()
        assert header[2] == header[3]
        body, at = data[thrift.at:thrift.at + header[3]], thrift.at + header[3]
        if header[1] == 2:
            assert header[7] == {1: 256, 2: 0}
            dictionary = struct.unpack("<256i", body)
            continue
        assert header[1] == 0
        count = header[5][1]
        numbers += count
        starts, offset = [1] * count, 0
        if len(meta[3]) == 3:
            repetition, offset = levels(body, 0, count)
            definition, offset = levels(body, offset, count)
            assert set(definition) == {1}
            starts = [1 - level for level in repetition]
        if dictionary:
            assert header[5][2] == 8 and body[offset] == 8
            run, offset = varint(body, offset + 1)
            assert run & 1 and (run >> 1) * 8 == len(body) - offset and (run >> 1) * 8 - count < 8
            values = [dictionary[index] for index in body[offset:offset + count]]
        elif element[1] == 7:
            assert element[2] == 2 and len(body) - offset == 2 * count
            values = struct.unpack_from(f"<{count}e", body, offset)
        else:
            assert header[5][2] == 0 and len(body) - offset == WIDTH[element[1]] * count
            values = struct.unpack_from(f"<{count}{UNPACK[element[1]]}", body, offset)
        for start, value in zip(starts, values):
            if start:
                out.append([])
            out[-1].append(value)
    assert at == end and numbers == meta[5] and len(out) == rows
    return out


def parquet(data):
    """{column: rows}, and the footer."""
    assert data[:4] == b"PAR1" and data[-4:] == b"PAR1"
    (size,) = struct.unpack("<I", data[-8:-4])
    thrift = Thrift(data, len(data) - 8 - size)
    footer = thrift.struct()
    assert thrift.at == len(data) - 8
    leaves = [element for element in footer[2] if 1 in element]
    assert sum(element.get(5, 0) for element in footer[2]) == len(footer[2]) - 1
    out, at = {}, 4
    for group in footer[4]:
        assert len(group[1]) == len(leaves)
        for chunk, element in zip(group[1], leaves):
            meta = chunk[3]
            assert meta.get(11, meta[9]) == at == chunk[2] and meta[4] == 0 and meta[6] == meta[7]
            at += meta[7]
            out.setdefault(meta[3][0].decode(), []).extend(read_column(data, chunk, element, group[3]))
        assert group[2] == sum(chunk[3][7] for chunk in group[1])
    assert at == len(data) - 8 - size
    assert footer[3] == sum(group[3] for group in footer[4])
    return out, footer


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="stoker-formats-", dir=os.environ.get("STOKER_TEST_TMP"))
        self.addCleanup(shutil.rmtree, self.dir)

    def generate(self, name, *arguments):
        data = os.path.join(self.dir, name)
        done = bench("datagen", "--data-dir", data, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.files(data)

    def files(self, data):
        out = {}
        for folder, _, names in os.walk(data):
            for name in sorted(names):
                with open(os.path.join(folder, name), "rb") as file:
                    out[os.path.relpath(os.path.join(folder, name), data)] = file.read()
        return out


class TfRecord(Case):
    def test_records_are_examples(self):
        files = self.generate("new", "--mlperf", "v1.0", "--workload", "resnet50",
                              *params(dataset__num_files_train=3, dataset__num_samples_per_file=11))
        self.assertEqual(sorted(files), [f"train/img_{i}_of_3.tfrecord" for i in range(3)])
        for data in files.values():
            records = list(tfrecords(data))
            self.assertEqual(len(records), 11)
            images = set()
            for record in records:
                features = example(record)
                self.assertEqual(sorted(features), ["image", "size"])
                self.assertEqual(len(features["image"]), 338 * 338)
                self.assertEqual(features["size"], [338])
                images.add(features["image"])
            self.assertEqual(len(images), 11)  # no two samples alike

    def test_v05_writes_doubles_and_a_label(self):
        files = self.generate("old", "--mlperf", "v0.5", "--workload", "bert",
                              *params(dataset__num_files_train=2, dataset__num_samples_per_file=50))
        self.assertEqual(sorted(files), ["train/part_0_of_2.tfrecord", "train/part_1_of_2.tfrecord"])
        for data in files.values():
            for record in tfrecords(data):
                features = example(record)
                self.assertEqual(sorted(features), ["image", "label"])
                values = struct.unpack(f"<{17 * 17}d", features["image"])
                self.assertTrue(all(1 <= value < 2 for value in values))

    def test_the_reader_notices_a_flipped_bit(self):
        data = bytearray(self.generate("flip", "--mlperf", "v1.0", "--workload", "resnet50", *params(
            dataset__num_files_train=1, dataset__num_samples_per_file=1))["train/img_0_of_1.tfrecord"])
        data[random.Random(SEED).randrange(len(data))] ^= 4
        with self.assertRaises((AssertionError, struct.error)):
            list(tfrecords(bytes(data)))


class Jpeg(Case):
    def test_raw_bytes_of_the_right_size(self):
        files = self.generate("r", "--workload", "retinanet", *params(
            dataset__num_files_train=25, dataset__num_subfolders_train=10))
        self.assertEqual(len(files), 25)
        self.assertIn("retinanet/train/03/img_13_of_25.jpeg", files)
        self.assertEqual({len(data) for data in files.values()}, {568 * 568})
        self.assertEqual(len(set(files.values())), 25)


class Parquet(Case):
    COLUMNS = ("vector:float32*300, id:int64, flag:uint8*9:skip, half:float16, small:int8, wide:float64*140000, "
               "count:uint32, other:int32, big:uint64")

    def test_every_kind_of_column(self):
        files = self.generate("p", "--workload", "flux", *params(dataset__num_files_train=2,
                              dataset__num_samples_per_file=10, dataset__parquet__row_group_size=4,
                              dataset__parquet__columns=self.COLUMNS))
        for name, data in files.items():
            columns, footer = parquet(data)
            self.assertEqual([group[3] for group in footer[4]], [4, 4, 2], name)
            sizes = {"vector": 300, "id": 1, "flag": 9, "half": 1, "small": 1, "wide": 140000, "count": 1,
                     "other": 1, "big": 1}
            self.assertEqual(list(columns), list(sizes))
            for column, size in sizes.items():
                self.assertEqual({len(row) for row in columns[column]}, {size}, column)
            for column in ("vector", "half", "wide"):
                self.assertTrue(all(1 <= value < 2 for row in columns[column] for value in row), column)
            self.assertTrue(all(0 <= value < 256 for row in columns["flag"] for value in row))
            self.assertTrue(all(-128 <= value < 128 for row in columns["small"] for value in row))
            self.assertEqual(len({tuple(row) for row in columns["vector"]}), 10)

    def test_dlrm(self):
        files = self.generate("d", "--workload", "dlrm", *params(dataset__num_files_train=1,
                              dataset__num_samples_per_file=500, dataset__parquet__row_group_size=384))
        ((name, data),) = files.items()
        columns, footer = parquet(data)
        self.assertEqual(name, "dlrm/train/img_0_of_1.parquet")
        self.assertEqual([group[3] for group in footer[4]], [384, 116])
        self.assertEqual(list(columns), [f"feature_{i:03}" for i in range(200)])
        types = [(element[1], element.get(6)) for element in footer[2][1:]]
        self.assertEqual({kind: types.count(kind) for kind in set(types)},
                         {(7, None): 50, (5, None): 49, (4, None): 56, (1, 15): 45})

    def test_without_columns_one_of_bytes(self):
        files = self.generate("b", "--workload", "flux", "--accelerator", "h100", *params(
            dataset__num_files_train=2, dataset__format="parquet", dataset__num_samples_per_file=3,
            dataset__record_length_bytes=2500, dataset__record_length_bytes_stdev=0))
        for data in files.values():
            columns, _ = parquet(data)
            self.assertEqual([len(row) for row in columns["data"]], [2500] * 3)


class EveryFormat(Case):
    SETS = {
        "npz": ["--workload", "unet3d", *params(dataset__record_length_bytes=3000000,
                                                 dataset__record_length_bytes_stdev=900000)],
        "tfrecord": ["--mlperf", "v1.0", "--workload", "cosmoflow"],
        "jpeg": ["--workload", "retinanet", *params(dataset__record_length_bytes=900000)],
        "parquet": ["--workload", "flux", *params(dataset__num_samples_per_file=2)],
    }

    def test_number_of_writers_changes_nothing(self):
        for name, arguments in self.SETS.items():
            few = params(dataset__num_files_train=5)
            one = self.generate(name + "1", *arguments, *few, "--num-parallel", "1")
            self.assertEqual(len(one), 5)
            self.assertEqual(one, self.generate(name + "4", *arguments, *few, "--num-parallel", "4"), name)

    def test_goes_on_after_kill(self):
        rng = random.Random(SEED)
        for name, arguments in self.SETS.items():
            count = 24
            many = [*arguments, *params(dataset__num_files_train=count)]
            whole = self.generate(name + "-whole", *many)
            data = os.path.join(self.dir, name + "-killed")
            for _ in range(3):
                process = subprocess.Popen([BENCH, "datagen", "--data-dir", data, *many], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                deadline = time.monotonic() + 30
                before = rng.randrange(1, count)
                while process.poll() is None and time.monotonic() < deadline:
                    if sum(len(names) for _, _, names in os.walk(data)) >= before:
                        break
                    time.sleep(0.001)
                process.send_signal(signal.SIGKILL)
                process.wait()
                for path, content in self.files(data).items():
                    if not os.path.basename(path).startswith("."):
                        self.assertEqual(content, whole[path], f"{path}, seed {SEED}")
            self.assertEqual(self.generate(name + "-killed", *many), whole, f"seed {SEED}")
            shutil.rmtree(data)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v"])
