"""Files crafted to crash, hang, fill the memory or run code; each is to be refused."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import adjoint as ad
from adjoint.data.readers import png
from adjoint.io.legacy import MAGIC, PROTOCOL
from tests.hostile.crafted_models import MODEL_CASES
from tests.hostile.crafted_published import PUBLISHED_CASES
from tests.hostile.parts import Case, zipped
from tests.hostile.readers import READERS, TABLE, legacy, tokenizer_json

MiB = 1 << 20
PRIME = (1 << 61) - 1  # whole numbers that differ by it have the same hash


# -- pickles --------------------------------------------------------------------------------------


def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def whole(number: int) -> bytes:
    raw = pickle.encode_long(number)
    return b"\x8a" + bytes([len(raw)]) + raw


def name(path: str) -> bytes:
    module, _, last = path.rpartition(".")
    return b"c" + module.encode() + b"\n" + last.encode() + b"\n"


def call(path: str, *args: bytes) -> bytes:
    return name(path) + b"(" + b"".join(args) + b"tR"


def numpy_array(state: bytes) -> bytes:
    made = call(
        "numpy.core.multiarray._reconstruct", name("numpy.ndarray"), b"K\x00\x85", b"C\x01b"
    )
    return made + state + b"b"


def dtype(code: str, *fields: bytes) -> bytes:
    return call("numpy.dtype", text(code), b"\x89", b"\x88") + b"(" + b"".join(fields) + b"tb"


NONE = b"N"
PLAIN_DTYPE = (b"K\x03", text("<"), NONE, NONE, NONE)


def number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def with_dtype(*fields: bytes, code: str = "f4") -> bytes:
    """An array whose dtype has this state."""
    return numpy_array(b"(K\x01K\x01\x85" + dtype(code, *fields) + b"\x89C\x04abcdt")


def nested(step: bytes, count: int, core: bytes = b")") -> bytes:
    return core + step * count


def doubled(count: int) -> bytes:
    """A tuple of two times one tuple of two times ...: 2**count leaves."""
    return b")q\x00" + b"h\x00h\x00\x86q\x00" * count


def pid(*parts: bytes) -> bytes:
    return b"(" + b"".join(parts) + b"tQ"


FLOATS = name("torch.FloatStorage")
STORAGE = pid(text("storage"), FLOATS, text("0"), text("cpu"), b"K\x04")


def tensor(storage: bytes, offset: bytes, size: bytes, stride: bytes) -> bytes:
    empty = name("collections.OrderedDict") + b")R"
    return call("torch._utils._rebuild_tensor_v2", storage, offset, size, stride, b"\x89", empty)


def colliding(count: int) -> Iterator[bytes]:
    return (whole(PRIME * (i + 1)) for i in range(count))


def deep_args(count: int) -> bytes:
    """A rebuilding function that rebuilds by itself, and so on."""
    own = name("torch._tensor._rebuild_from_type_v2")
    kind = name("torch.Tensor")
    return own + b"(" + (own + kind + b"(") * count + b")" + (b"tN" * count) + b"tR"


PICKLES: dict[str, Callable[[], bytes]] = {
    "a nested tuple as key": lambda: b"}" + nested(b"\x85", MiB) + b"Ns",
    "a nested tuple in a set": lambda: b"\x8f(" + nested(b"\x85", MiB) + b"\x90",
    "a nested tuple in a frozenset": lambda: b"(" + nested(b"\x85", MiB) + b"\x91",
    "a nested tuple in a Counter": lambda: call("collections.Counter", b"}" + nested(b"\x85", MiB) + b"K\x01s"),
    "a nested tuple for set()": lambda: call("builtins.set", b"](" + nested(b"\x85", MiB) + b"e"),
    "a nested tuple for frozenset()": lambda: call("builtins.frozenset", b"](" + nested(b"\x85", MiB) + b"e"),
    "a nested tuple in an OrderedDict": lambda: name("collections.OrderedDict") + b")R" + nested(b"\x85", MiB) + b"Ns",
    "a nested tuple in DICT": lambda: b"(" + nested(b"\x85", MiB) + b"Nd",
    "pairs of nested tuples": lambda: b"}" + nested(b"K\x01\x86", MiB // 3) + b"Ns",
    "nested frozensets": lambda: b")" + b"".join([b"q\x00(h\x00\x91"] * (MiB // 8)),
    "nested tuples": lambda: nested(b"\x85", MiB),
    "nested lists": lambda: b"]" * MiB + b"a" * (MiB - 1),
    "nested lists by marks": lambda: b"](" * (MiB // 3) + b"e" * (MiB // 3),
    "nested dicts": lambda: b"}" + b"K\x00}" * (MiB // 4) + b"s" * (MiB // 4),
    "tuples of tuples by marks": lambda: b"(" * MiB + b"t" * MiB,
    "nested OrderedDicts": lambda: b"".join([name("collections.OrderedDict") + b")RK\x00"] * 20000) + b"N" + b"s" * 20000,
    "60 doubly shared tuples as key": lambda: b"}" + doubled(60) + b"Ns",
    "60 doubly shared tuples in a set": lambda: b"\x8f(" + doubled(60) + b"\x90",
    "60 doubly shared tuples in a frozenset": lambda: b"(" + doubled(60) + b"\x91",
    "20 doubly shared tuples, often a key": lambda: doubled(20) + b"q\x01}" + b"h\x01Ns" * 100_000,
    "keys of one hash": lambda: b"}(" + b"N".join(colliding(40_000)) + b"Nu",
    "members of one hash": lambda: b"\x8f(" + b"".join(colliding(40_000)) + b"\x90",
    "a frozenset of one hash": lambda: b"(" + b"".join(colliding(40_000)) + b"\x91",
    "set() of one hash": lambda: call("builtins.set", b"](" + b"".join(colliding(40_000)) + b"e"),
    "tuples of one hash": lambda: b"}(" + b"".join(x + b"\x85N" for x in colliding(40_000)) + b"u",
    "a huge int as key": lambda: b"}\x8b" + struct.pack("<I", MiB) + bytes([1]) * MiB + b"Ns",
    "a list as key": lambda: b"}]Ns",
    "an array as key": lambda: b"}" + with_dtype(*PLAIN_DTYPE, number(-1), number(-1), b"K\x00") + b"Ns",
    "a list in a set": lambda: b"\x8f(]\x90",
    "a list in a frozenset": lambda: b"(]\x91",
    "a key without a value": lambda: b"}(K\x01u",
    "many empty lists": lambda: b"(" + b"]" * (8 * MiB) + b"t",
    "many empty dicts": lambda: b"(" + b"}" * (8 * MiB) + b"t",
    "many empty sets": lambda: b"(" + b"\x8f" * (4 * MiB) + b"t",
    "a memo of far numbers": lambda: b"N" + b"".join(b"r" + struct.pack("<I", 7 * i + 9) for i in range(MiB)),
    "a text without end": lambda: b"X" + b"\xff" * 4 + b"abc",
    "a text of 2**63 bytes": lambda: b"\x8d" + b"\xff" * 7 + b"\x7f" + b"abc",
    "bytes of 2**62": lambda: b"\x8e" + struct.pack("<Q", 1 << 62),
    "a bytearray of 2**40": lambda: b"\x96" + struct.pack("<Q", 1 << 40),
    "a number of 4 GB": lambda: b"\x8b" + b"\xff" * 4,
    "a number of many digits": lambda: b"I" + b"9" * MiB + b"\n",
    "a long of many digits": lambda: b"L" + b"9" * MiB + b"L\n",
    "copies of bytes": lambda: b"B" + struct.pack("<I", MiB) + bytes(MiB) + b"q\x000" + (name("builtins.bytearray") + b"h\x00\x85R") * 20_000,
    "copies of text": lambda: text("x" * MiB) + b"q\x000" + (name("_codecs.encode") + b"h\x00\x85R") * 20_000,
    "copies of a set": lambda: b"](" + b"".join(b"M" + struct.pack("<H", i) for i in range(65000)) + b"eq\x000" + (name("builtins.set") + b"h\x00\x85R") * 20_000,
    "copies of a dict": lambda: b"}(" + b"".join(b"M" + struct.pack("<H", i) + b"N" for i in range(65000)) + b"uq\x000" + (name("collections.Counter") + b"h\x00\x85R") * 20_000,
    "attributes over and over": lambda: b"}(" + b"".join(text(str(i)) + b"N" for i in range(20000)) + b"uq\x000" + (name("collections.OrderedDict") + b")Rh\x00b") * 20_000,
    "many tensors on one storage": lambda: tensor(STORAGE, b"K\x00", b"K\x04\x85", b"K\x01\x85").replace(b"tR", b"tq\x07R") + (b"0" + name("torch._utils._rebuild_tensor_v2") + b"h\x07R") * 200_000,
    "many sparse tensors": lambda: (name("torch.serialization._get_layout") + text("torch.sparse_coo") + b"\x85R") * 100_000,
    "a size of a million": lambda: tensor(STORAGE, b"K\x00", b"(" + b"K\x01" * MiB + b"t", b"(" + b"K\x01" * MiB + b"t"),
    "a negative stride": lambda: tensor(STORAGE, b"K\x03", b"K\x02\x85", number(-1) + b"\x85"),
    "a negative size": lambda: tensor(STORAGE, b"K\x00", number(-2) + b"\x85", b"K\x01\x85"),
    "a negative offset": lambda: tensor(STORAGE, number(-1), b"K\x01\x85", b"K\x01\x85"),
    "an offset outside": lambda: tensor(STORAGE, b"K\x05", b"K\x01\x85", b"K\x01\x85"),
    "a size outside": lambda: tensor(STORAGE, b"K\x00", b"M\xff\xff\x85", b"K\x01\x85"),
    "a stride outside": lambda: tensor(STORAGE, b"K\x00", b"K\x02\x85", whole(2**60) + b"\x85"),
    "a size of 2**62": lambda: tensor(STORAGE, b"K\x00", whole(2**62) + b"\x85", b"K\x00\x85"),
    "sizes whose product wraps": lambda: tensor(STORAGE, b"K\x00", whole(2**32) + whole(2**32) + b"\x86", b"K\x00K\x00\x86"),
    "a size that is text": lambda: tensor(STORAGE, b"K\x00", text("44"), b"K\x01\x85"),
    "a size of floats": lambda: tensor(STORAGE, b"K\x00", b"G" + bytes(8) + b"\x85", b"K\x01\x85"),
    "a tensor without a storage": lambda: tensor(b"N", b"K\x00", b"K\x04\x85", b"K\x01\x85"),
    "a storage of 2**60": lambda: pid(text("storage"), FLOATS, text("0"), text("cpu"), whole(2**60)),
    "a storage of -1": lambda: pid(text("storage"), FLOATS, text("0"), text("cpu"), number(-1)),
    "a storage of text": lambda: pid(text("storage"), FLOATS, text("0"), text("cpu"), text("4")),
    "a storage that is missing": lambda: pid(text("storage"), FLOATS, text("77"), text("cpu"), b"K\x04"),
    "a storage with a path": lambda: pid(text("storage"), FLOATS, text("../../etc/passwd"), text("cpu"), b"K\x04"),
    "a storage of another place": lambda: pid(text("storage"), FLOATS, text("0"), text("mars"), b"K\x04"),
    "a persistent id that is text": lambda: text("0") + b"Q",
    "a persistent id that is deep": lambda: nested(b"\x85", MiB) + b"Q",
    "a persistent id of doubled tuples": lambda: doubled(60) + b"Q",
    "a call of doubled tuples": lambda: doubled(60) + b")R",
    "a name of doubled tuples": lambda: doubled(60) + doubled(60) + b"\x93",
    "a dtype of size -5": lambda: with_dtype(*PLAIN_DTYPE, number(-5), number(-1), b"K\x00"),
    "a dtype of size 2**30": lambda: with_dtype(*PLAIN_DTYPE, number(1 << 30), number(-1), b"K\x00"),
    "a dtype that holds references": lambda: with_dtype(*PLAIN_DTYPE, number(-1), number(-1), b"K\x01"),
    "a dtype of alignment 0": lambda: with_dtype(*PLAIN_DTYPE, number(-1), b"K\x00", b"K\x00"),
    "a dtype of flags 255": lambda: with_dtype(*PLAIN_DTYPE, number(-1), number(-1), b"K\xff"),
    "a dtype with a subarray": lambda: with_dtype(b"K\x03", text("<"), dtype("f8", *PLAIN_DTYPE, number(-1), number(-1), b"K\x00") + b"K\x04\x85\x86", NONE, NONE, number(-1), number(-1), b"K\x00"),
    "a dtype with fields": lambda: with_dtype(b"K\x03", text("<"), NONE, text("a") + b"\x85", b"}", number(-1), number(-1), b"K\x00"),
    "a dtype of no byte order": lambda: with_dtype(b"K\x03", text("Z"), NONE, NONE, NONE, number(-1), number(-1), b"K\x00"),
    "a dtype of version 99": lambda: with_dtype(b"Kc", text("<"), NONE, NONE, NONE, number(-1), number(-1), b"K\x00"),
    "a dtype with metadata": lambda: with_dtype(*PLAIN_DTYPE, number(-1), number(-1), b"K\x00", b"}"),
    "a dtype of too few fields": lambda: with_dtype(*PLAIN_DTYPE),
    "a text dtype of size 4": lambda: with_dtype(*PLAIN_DTYPE, number(4), number(4), b"K\x08", code="U9"),
    "a dtype of objects": lambda: call("numpy.dtype", text("O8"), b"\x89", b"\x88"),
    "a dtype of void": lambda: call("numpy.dtype", text("V8"), b"\x89", b"\x88"),
    "a dtype in source": lambda: call("numpy.dtype", text("f4,(1000000,1000000)O"), b"\x89", b"\x88"),
    "an array of too many elements": lambda: numpy_array(b"(K\x01" + whole(2**60) + b"\x85" + call("numpy.dtype", text("f4")) + b"\x89C\x04abcdt"),
    "an array of a negative size": lambda: numpy_array(b"(K\x01" + number(-1) + b"\x85" + call("numpy.dtype", text("f4")) + b"\x89C\x04abcdt"),
    "an array of a million dimensions": lambda: numpy_array(b"(K\x01(" + b"K\x01" * MiB + b"t" + call("numpy.dtype", text("f4")) + b"\x89C\x04abcdt"),
    "an array of a list": lambda: numpy_array(b"(K\x01K\x01\x85" + call("numpy.dtype", text("f4")) + b"\x89]t"),
    "an array state that is short": lambda: numpy_array(b"(K\x01K\x01\x85t"),
    "a scalar of too few bytes": lambda: call("numpy.core.multiarray.scalar", call("numpy.dtype", text("f8")), b"C\x04abcd"),
    "a scalar of 2 GB": lambda: call("numpy.core.multiarray.scalar", call("numpy.dtype", text("S999999999")), b"C\x04abcd"),
    "a tensor that rebuilds itself": lambda: deep_args(100_000),
    "state of a tensor": lambda: tensor(STORAGE, b"K\x00", b"K\x04\x85", b"K\x01\x85") + b"}b",
    "state of a list": lambda: b"]}b",
    "state of a name": lambda: name("torch.FloatStorage") + b"}b",
    "an attribute that is no text": lambda: name("collections.OrderedDict") + b")R}K\x01K\x02sb",
    "os.system": lambda: call("os.system", text("touch owned")),
    "posix.system": lambda: call("posix.system", text("touch owned")),
    "eval": lambda: call("builtins.eval", text("1")),
    "getattr": lambda: call("builtins.getattr", text("a"), text("upper")),
    "an import": lambda: call("builtins.__import__", text("os")),
    "Popen": lambda: call("subprocess.Popen", text("true") + b"\x85"),
    "a dotted name": lambda: b"\x8c\x0bcollections\x8c\x1eOrderedDict.__init__.__globals__\x93.",
    "INST": lambda: b"(S'x'\nios\nsystem\n",
    "OBJ": lambda: b"(" + name("os.system") + text("x") + b"o",
    "NEWOBJ of a module": lambda: name("adjoint.nn.Linear") + b")\x81",
    "NEWOBJ_EX": lambda: name("collections.OrderedDict") + b")}\x92",
    "EXT1": lambda: b"\x82\x01",
    "PERSID": lambda: b"Pabc\n",
    "NEXT_BUFFER": lambda: b"\x97",
    "no value": lambda: b"",
    "a mark as value": lambda: b"(",
    "pops without end": lambda: b"0" * 1000,
    "a set of an OrderedDict": lambda: call("builtins.set", name("collections.OrderedDict") + b")R"),
    "complex of text": lambda: call("builtins.complex", text("1" * MiB)),
    "a sparse tensor outside": lambda: call(
        "torch._utils._rebuild_sparse_tensor",
        call("torch.serialization._get_layout", text("torch.sparse_coo")),
        b"(" + tensor(STORAGE, b"K\x00", b"K\x01K\x04\x86", b"K\x04K\x01\x86") + tensor(STORAGE, b"K\x00", b"K\x04\x85", b"K\x01\x85") + whole(2**61) + whole(2**61) + b"\x86t",
    ),
}  # fmt: skip


def archive_of(pickled: bytes, storage: bytes = bytes(16)) -> bytes:
    return zipped(
        {"a/data.pkl": b"\x80\x02" + pickled + b".", "a/data/0": storage, "a/version": b"3\n"}
    )


def legacy_of(pickled: bytes) -> bytes:
    heads = b"".join(pickle.dumps(x, 2) for x in (MAGIC, PROTOCOL, {"little_endian": True}))
    tail = pickle.dumps(["0"], 2) + (4).to_bytes(8, "little") + bytes(16)
    return heads + b"\x80\x02" + pickled + b"." + tail


# Of legacy files: what differs from the zip layout, and the worst of the rest.
LEGACY: dict[str, Callable[[], bytes]] = {
    "many storages of the file's size": lambda: legacy_of(bytes(4 * MiB).replace(b"\0", b"N0")[: 4 * MiB] + b"".join(pid(text("storage"), FLOATS, text(str(i)), text("cpu"), number(MiB)) + b"0" for i in range(200)) + b"N"),
    "a part outside its storage": lambda: legacy_of(pid(text("storage"), FLOATS, text("0"), text("cpu"), b"K\x04", b"(" + text("v") + b"K\x02K\x04t")),
    "a part at -1": lambda: legacy_of(pid(text("storage"), FLOATS, text("0"), text("cpu"), b"K\x04", b"(" + text("v") + number(-1) + b"K\x02t")),
    "a part that is a number": lambda: legacy_of(pid(text("storage"), FLOATS, text("0"), text("cpu"), b"K\x04", b"K\x05")),
    "a storage of two dtypes": lambda: legacy_of(STORAGE + pid(text("storage"), name("torch.DoubleStorage"), text("0"), text("cpu"), b"K\x04") + b"\x86"),
    "storages without elements": lambda: legacy(ad.ones(4))[:-24] + b"",
    "another magic number": lambda: pickle.dumps(1, 2) + legacy(1),
    "a nested magic number": lambda: nested(b"\x85", MiB) + b".",
    "another protocol": lambda: pickle.dumps(MAGIC, 2) + pickle.dumps(7, 2),
    **{name: partial(lambda make: legacy_of(make()), PICKLES[name]) for name in (
        "a nested tuple as key", "60 doubly shared tuples as key", "keys of one hash", "many empty lists",
        "a dtype of size -5", "a text of 2**63 bytes", "bytes of 2**62", "os.system", "copies of bytes",
    )},
}  # fmt: skip


# -- zip archives ---------------------------------------------------------------------------------

END = "<4s4H2LH"


def good() -> bytearray:
    return bytearray(READERS["pt"].sample())


def patched(place: Callable[[bytes], int], form: str, value: int) -> bytes:
    data = good()
    struct.pack_into(form, data, place(bytes(data)), value)
    return bytes(data)


def directory(data: bytes) -> int:
    return data.index(b"PK\1\2")


def last(data: bytes) -> int:
    return data.rindex(b"PK\5\6")


def twice() -> bytes:
    """Two entries of the directory that are one in the file, each 16 MiB when unpacked."""
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = body.compress(bytes(16 * MiB)) + body.flush()
    crc = zlib.crc32(bytes(16 * MiB))
    sizes = (crc, len(packed), 16 * MiB)
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, *sizes, 5, 0) + b"a/xyz" + packed
    rows = b""
    for i in range(400):
        title = f"a/{i:03}".encode()
        rows += (
            struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, *sizes, 5, 0, 0, 0, 0, 0, 0)
            + title
        )
    return local + rows + struct.pack(END, b"PK\5\6", 0, 0, 400, 400, len(rows), len(local), 0)


def repeated_name() -> bytes:
    data = zipped({"a/data.pkl": b"\x80\x02N.", "a/data/0": b"x", "a/data/1": b"y"})
    return data.replace(b"a/data/1", b"a/data/0")


def renamed(title: str) -> bytes:
    data = bytes(archive_of(b"N"))
    return data.replace(b"a/version", title.encode().ljust(9, b"x")[:9])


ZIPS: dict[str, Callable[[], bytes]] = {
    "a deflated pickle of 1 GB": lambda: zipped({"a/data.pkl": b"\x80\x02" + b"N0" * (500 * MiB // 2) + b"N."}, zipfile.ZIP_DEFLATED),
    "a deflated storage of 600 MB": lambda: zipped({"a/data.pkl": b"\x80\x02" + pid(text("storage"), FLOATS, text("0"), text("cpu"), number(150 * MiB)) + b".", "a/data/0": bytes(600 * MiB)}, zipfile.ZIP_DEFLATED),
    "entries that overlap": twice,
    "an entry that occurs twice": repeated_name,
    "two values": lambda: zipped({"a/data.pkl": b"\x80\x02N.", "b/data.pkl": b"\x80\x02N."}),
    "no value": lambda: zipped({"a/data": b"x"}),
    "TorchScript": lambda: zipped({"a/data.pkl": b"\x80\x02N.", "a/constants.pkl": b"x"}),
    "a name above": lambda: renamed("../../abc"),
    "an absolute name": lambda: renamed("/etc/pass"),
    "a name with a zero": lambda: renamed("a/vers\0on"),
    "a size of 4 GB": lambda: patched(lambda d: directory(d) + 24, "<L", 0xFFFFFFFE),
    "a packed size of 4 GB": lambda: patched(lambda d: directory(d) + 20, "<L", 0xFFFFFFFE),
    "a zip64 size that is missing": lambda: patched(lambda d: directory(d) + 24, "<L", 0xFFFFFFFF),
    "a header outside": lambda: patched(lambda d: directory(d) + 42, "<L", 0xFFFFFF00),
    "a header elsewhere": lambda: patched(lambda d: directory(d) + 42, "<L", 7),
    "another method": lambda: patched(lambda d: directory(d) + 10, "<H", 99),
    "an encrypted entry": lambda: patched(lambda d: directory(d) + 8, "<H", 1),
    "another disk": lambda: patched(lambda d: last(d) + 4, "<H", 3),
    "65535 entries": lambda: patched(lambda d: last(d) + 10, "<H", 65535),
    "a directory outside": lambda: patched(lambda d: last(d) + 16, "<L", 0xFFFFFFF0),
    "a directory of 4 GB": lambda: patched(lambda d: last(d) + 12, "<L", 0xFFFFFFF0),
    "a zip64 end that is missing": lambda: patched(lambda d: last(d) + 16, "<L", 0xFFFFFFFF),
    "a long local name": lambda: patched(lambda d: 26, "<H", 0xFFFF),
    "a wrong checksum": lambda: patched(lambda d: directory(d) + 16, "<L", 0),
    "a byte order of nonsense": lambda: zipped({"a/data.pkl": b"\x80\x02N.", "a/byteorder": b"x" * MiB}),
    "a hundred thousand entries": lambda: zipped({f"a/{i}": b"" for i in range(30_000)}),
    "only the end": lambda: struct.pack(END, b"PK\5\6", 0, 0, 0, 0, 0, 0, 0),
    "zip64 that lies": lambda: bytes(good()[: last(bytes(good()))]) + struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 9, 9, 2**60, 2**60) + struct.pack("<4sLQL", b"PK\6\7", 0, last(bytes(good())), 1) + struct.pack(END, b"PK\5\6", 0, 0, 9, 9, 0xFFFFFFFF, 0xFFFFFFFF, 0),
    "zip64 outside": lambda: bytes(good()[: last(bytes(good()))]) + struct.pack("<4sLQL", b"PK\6\7", 0, 2**63, 1) + struct.pack(END, b"PK\5\6", 0, 0, 9, 9, 0xFFFFFFFF, 0xFFFFFFFF, 0),
}  # fmt: skip


# -- safetensors ----------------------------------------------------------------------------------


def header(about: Any, data: bytes = b"") -> bytes:
    raw = about if isinstance(about, bytes) else json.dumps(about).encode()
    return len(raw).to_bytes(8, "little") + raw + data


def entry(shape: Any, offsets: Any, kind: Any = "F32") -> dict[str, Any]:
    return {"dtype": kind, "shape": shape, "data_offsets": offsets}


SAFETENSORS: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "a short file": lambda: b"abc",
    "a header of 2**63": lambda: (2**63).to_bytes(8, "little") + b"{}",
    "a header longer than the file": lambda: (100).to_bytes(8, "little") + b"{}",
    "a header that is a list": lambda: header([]),
    "a header that is no JSON": lambda: header(b"{'a': 1}"),
    "a header that is no text": lambda: header(b"\xff\xfe"),
    "a nested header": lambda: header(b"[" * MiB),
    "a header of empty objects": lambda: header(b"[" + b"{}," * (2 * MiB) + b"{}]"),
    "a name twice": lambda: header(b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4)),
    "a name twice among many": lambda: header(b"{" + b",".join(b'"%d":1' % i for i in [*range(50_000), 49_999]) + b"}"),
    "an overlap": lambda: header({"a": entry([1], [0, 4]), "b": entry([1], [0, 4])}, bytes(4)),
    "a gap": lambda: header({"a": entry([1], [0, 4]), "b": entry([1], [8, 12])}, bytes(12)),
    "a negative offset": lambda: header({"a": entry([1], [-4, 0])}, bytes(4)),
    "an offset outside": lambda: header({"a": entry([1], [0, 4])}, b""),
    "offsets the wrong way": lambda: header({"a": entry([1], [4, 0])}, bytes(4)),
    "offsets of text": lambda: header({"a": entry([1], ["0", "4"])}, bytes(4)),
    "one offset": lambda: header({"a": entry([1], [0])}, bytes(4)),
    "a negative size": lambda: header({"a": entry([-1, -1], [0, 4])}, bytes(4)),
    "a size of floats": lambda: header({"a": entry([1.0], [0, 4])}, bytes(4)),
    "a size of 2**63": lambda: header({"a": entry([2**63], [0, 4])}, bytes(4)),
    "sizes of no elements": lambda: header({"a": entry([0, 2**61, 2**61], [0, 0])}),
    "sizes of many digits": lambda: header(b'{"a":{"dtype":"F32","shape":[' + b",".join([b"9" * 4000] * 200) + b'],"data_offsets":[0,4]}}', bytes(4)),
    "a million dimensions": lambda: header({"a": entry([1] * MiB, [0, 4])}, bytes(4)),
    "another size": lambda: header({"a": entry([2], [0, 4])}, bytes(4)),
    "a dtype that lies": lambda: header({"a": entry([1], [0, 4], "F64")}, bytes(4)),
    "a dtype that is unknown": lambda: header({"a": entry([1], [0, 4], "F8_E4M3")}, bytes(4)),
    "a dtype that is a list": lambda: header({"a": entry([1], [0, 4], [])}, bytes(4)),
    "metadata that is a number": lambda: header({"__metadata__": 5}),
    "metadata of numbers": lambda: header({"__metadata__": {"a": 5}}),
    "no shape": lambda: header({"a": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "more than it should have": lambda: header({"a": {**entry([1], [0, 4]), "x": 1}}, bytes(4)),
    "bytes at the end": lambda: header({"a": entry([1], [0, 4])}, bytes(5)),
    "a constant that is none": lambda: header(b'{"a": NaN}'),
}  # fmt: skip


# -- graphs ---------------------------------------------------------------------------------------


def graph_with(change: Callable[[Any], None]) -> bytes:
    import io

    with zipfile.ZipFile(io.BytesIO(READERS["graph"].sample())) as source:
        entries = {n: source.read(n) for n in source.namelist()}
    data = json.loads(entries["graph.json"])
    change(data)
    return zipped({**entries, "graph.json": json.dumps(data).encode()})


def setting(*path: Any) -> Callable[[], bytes]:
    def change(data: Any) -> None:
        *keys, end, value = path
        for key in keys:
            data = data[key]
        data[end] = value

    return lambda: graph_with(change)


def deep(kind: str, count: int) -> Any:
    value: Any = 1
    for _ in range(count):
        value = {kind: [value]}
    return value


def nested_graphs(count: int) -> Any:
    """Compositions in compositions, each of which could be checked twice."""
    inner: Any = {"inputs": [], "nodes": [], "outputs": []}
    for _ in range(count):
        node = {"op": "relu", "inputs": [], "params": {}, "outputs": [], "subgraph": inner}
        inner = {"inputs": [], "nodes": [node], "outputs": []}
    return inner


PARAM = ("graph", "nodes", 0, "params", "x")
GRAPHS: dict[str, Callable[[], bytes]] = {
    "no graph": lambda: zipped({"other.json": b"{}"}),
    "a list": lambda: zipped({"graph.json": b"[]"}),
    "nested JSON": lambda: zipped({"graph.json": b"[" * MiB}),
    "empty objects": lambda: zipped({"graph.json": b"[" + b"{}," * (2 * MiB) + b"{}]"}),
    "deflated": lambda: zipped({"graph.json": b" " * (400 * MiB)}, zipfile.ZIP_DEFLATED),
    "a cycle": setting("graph", "nodes", 0, "inputs", 0, {"value": "v99"}),
    "an unknown record": setting("graph", "nodes", 0, "op", "os.system"),
    "a record that is a list": setting("graph", "nodes", 0, "op", []),
    "an unknown kind": setting(*PARAM, {"pickle": "cos"}),
    "a kind of two": setting(*PARAM, {"tuple": [], "dict": []}),
    "keys of one hash": setting(*PARAM, {"dict": [[PRIME * i, 0] for i in range(1, 20_000)]}),
    "nested tuples": setting(*PARAM, deep("tuple", 400)),
    "nested keys": setting(*PARAM, {"dict": [[deep("tuple", 300), 1]]}),
    "a float of words": setting(*PARAM, {"float": "many"}),
    "a complex of one": setting(*PARAM, {"complex": [1]}),
    "a shape of 2**62": setting("graph", "inputs", 0, 1, 0, [2**62]),
    "a shape of many digits": setting("graph", "inputs", 0, 1, 0, [10**4000]),
    "a shape of a million": setting("graph", "inputs", 0, 1, 0, [1] * MiB),
    "a shape of -1": setting("graph", "inputs", 0, 1, 0, [-1]),
    "a dtype of nonsense": setting("graph", "inputs", 0, 1, 1, "object"),
    "a device of nonsense": setting("graph", "inputs", 0, 1, 2, "mars:3"),
    "a name that is code": setting("graph", "nodes", 0, "outputs", 0, 0, "x): import os"),
    "an array that is missing": setting("inputs", 1, "array", 10**9),
    "an array above": setting("inputs", 1, {"variable": "w", "array": "../x", "requires_grad": True}),
    "an input of nonsense": setting("inputs", 1, deep("x", 200)),
    "draws of nonsense": setting("draws", {"cpu": 10**30}),
    "updates outside": setting("updates", {"u": [[10**9, "v0"]]}),
    "names that are a list": setting("names", []),
    "30 compositions in each other": setting("graph", nested_graphs(30)),
    "many compositions in each other": setting("graph", nested_graphs(200)),
    "a later version": setting("version", 99),
}  # fmt: skip


# -- pictures, tables, numbers, words -------------------------------------------------------------


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def picture(
    width: int, height: int, depth: int, color: int, pixels: bytes, *more: bytes, interlace: int = 0
) -> bytes:
    about = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlace)
    body = chunk(b"IHDR", about) + b"".join(more) + chunk(b"IDAT", zlib.compress(pixels, 9))
    return png.SIGNATURE + body + chunk(b"IEND", b"")


PNGS: dict[str, Callable[[], bytes]] = {
    "a bomb": lambda: picture(20_000, 10_000, 8, 2, bytes(10_000 * 60_001)),
    "a bomb of bits": lambda: picture(60_000, 20_000, 1, 0, bytes(20_000 * 7501)),
    "huge dimensions": lambda: picture(2**31 - 1, 2**31 - 1, 8, 2, b""),
    "dimensions of 2**32": lambda: picture(2**32 - 1, 2**32 - 1, 16, 6, b""),
    "more pixels than dimensions": lambda: picture(2, 2, 8, 0, bytes(300 * MiB)),
    "fewer pixels than dimensions": lambda: picture(20, 20, 8, 0, bytes(10)),
    "no dimensions": lambda: picture(0, 0, 8, 0, b""),
    "lines without end": lambda: picture(1, 20_000_000, 8, 0, bytes(40_000_000)),
    "a line without end": lambda: picture(40_000_000, 1, 8, 0, b"\4" + bytes(40_000_000)),
    "predicted lines without end": lambda: picture(3, 8_000_000, 8, 0, b"\4\1\1\1" * 8_000_000),
    "a filter of 9": lambda: picture(2, 1, 8, 0, b"\x09ab"),
    "a depth of 3": lambda: picture(2, 1, 3, 0, b"\0ab"),
    "a depth of 255": lambda: picture(2, 1, 255, 0, b"\0ab"),
    "a colour of 7": lambda: picture(2, 1, 8, 7, b"\0ab"),
    "no palette": lambda: picture(2, 1, 8, 3, b"\0ab"),
    "a short palette": lambda: picture(2, 1, 8, 3, b"\0ab", chunk(b"PLTE", b"abc")),
    "a palette of 4 bytes": lambda: picture(2, 1, 8, 3, b"\0ab", chunk(b"PLTE", b"abcd")),
    "interlaced nonsense": lambda: picture(2, 1, 8, 0, b"\0ab", interlace=9),
    "a chunk of 4 GB": lambda: png.SIGNATURE + b"\xff\xff\xff\xffIHDR" + bytes(20),
    "only a signature": lambda: png.SIGNATURE,
    "no header": lambda: png.SIGNATURE + chunk(b"IDAT", b"") + chunk(b"IEND", b""),
    "a wrong checksum": lambda: png.SIGNATURE + chunk(b"IHDR", bytes(13))[:-1] + b"\7",
}  # fmt: skip

NPYS: dict[str, Callable[[], bytes]] = {
    name: partial(lambda text, data: b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + data, text, data)
    for name, text, data in [
        ("objects", "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", pickle.dumps([1])),
        ("a huge shape", "{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000, 10000), }\n", b"x"),
        ("a negative shape", "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }\n", bytes(8)),
        ("nested brackets", "(" * 9000, b""),
        ("nested signs", "-" * 9000 + "1", b""),
        ("code", "__import__('os').system('touch owned')", b""),
        ("fields", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", bytes(4)),
        ("a cut", "{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }\n", bytes(8)),
    ]
}  # fmt: skip

OTHERS: list[tuple[str, str, Callable[[], bytes]]] = [
    ("ppm", "huge", lambda: b"P6 999999999 999999999 255\n"),
    ("ppm", "digits", lambda: b"P6 " + b"9" * MiB + b" 1 255\n"),
    ("ppm", "spaces", lambda: b"P6" + b" " * MiB + b"1 1 255\n"),
    ("ppm", "comments", lambda: b"P6" + b"#a\n" * (MiB // 3) + b"1 1 255\n"),
    ("ppm", "nothing", lambda: b"P5 0 0 255\n"),
    ("ppm", "white of 0", lambda: b"P5 1 1 0\nx"),
    ("jpeg", "nothing", lambda: b"\xff\xd8\xff"),
    ("jpeg", "eps", lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(touch owned) run\n"),
    ("bmp", "huge", lambda: b"BM" + struct.pack("<LHHL", 54, 0, 0, 54) + struct.pack("<LllHHLLllLL", 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)),
    ("idx", "absurd sizes", lambda: b"\0\0\x08\x04" + b"\xff" * 16),
    ("idx", "255 dimensions", lambda: b"\0\0\x08\xff" + b"\0\0\0\1" * 255 + b"x"),
    ("idx", "sizes of nothing", lambda: b"\0\0\x0e\x03" + b"\xff\xff\xff\xff" * 2 + bytes(4)),
    ("idx", "a kind of 99", lambda: b"\0\0\x63\x01\0\0\0\1x"),
    ("idx", "no sizes", lambda: b"\0\0\x08\x03"),
    ("idx.gz", "a bomb", lambda: gzip.compress(b"\0\0\x08\x01" + struct.pack(">I", 600 * MiB) + bytes(600 * MiB))),
    ("idx.gz", "more than it says", lambda: gzip.compress(b"\0\0\x08\x01" + struct.pack(">I", 9) + bytes(300 * MiB))),
    ("idx.gz", "absurd sizes", lambda: gzip.compress(b"\0\0\x08\x04" + b"\xff" * 16)),
    ("idx.gz", "parts without end", lambda: gzip.compress(b"\0\0\x08\x01\0\0\0\2") + gzip.compress(b"") * 20_000),
    ("idx.gz", "cut", lambda: gzip.compress(bytes(READERS["idx"].sample()))[:20]),
    ("csv", "a huge field", lambda: b"a,b\n1," + b"x" * MiB + b"\n"),
    ("csv", "a quote without end", lambda: b'a,b\n1,"' + b"x\n" * MiB),
    ("csv", "zeros", lambda: TABLE + b"1,\0,c\n"),
    ("csv", "no text", lambda: b"\xff\xfe\xfd"),
    ("csv", "rows of different lengths", lambda: TABLE + b"1,2\n"),
    ("csv", "many short cells", lambda: b"\n".join(b"%07d,%07d" % (i, i) for i in range(MiB))),
    ("csv", "nothing", lambda: b"\n\n"),
    ("cifar", "a cut", lambda: bytes(3000)),
    ("cifar pickle", "os.system", lambda: PICKLES["os.system"]() + b"."),
    ("cifar pickle", "a dtype of size -5", lambda: PICKLES["a dtype of size -5"]() + b"."),
    ("cifar pickle", "a nested key", lambda: PICKLES["a nested tuple as key"]() + b"."),
    ("cifar pickle", "a memo of far numbers", lambda: b"Nr\xff\xff\xff\x7f."),
    ("cifar pickle", "storages", lambda: STORAGE + b"."),
    ("cifar pickle", "another value", lambda: b"]."),
    ("vocab", "no text", lambda: b"\xff\xfe" * 100),
    ("vocab", "no pieces", lambda: b"\n" * 100),
    ("vocab", "many short pieces", lambda: b"\n".join(b"%x" % i for i in range(MiB))),
    ("tokenizer", "nested", lambda: b'{"model":' * 100_000),
    ("tokenizer", "a list", lambda: b"[]"),
    ("tokenizer", "no model", lambda: b"{}"),
    ("tokenizer", "numbers that are none", lambda: tokenizer_json().replace(b'"word1": 6', b'"word1": "6"')),
    ("tokenizer", "numbers of many digits", lambda: tokenizer_json().replace(b'"word1": 6', b'"word1": ' + b"9" * 5000)),
    ("index", "a path above", lambda: b'{"weight_map": {"a": "../../etc/passwd"}}'),
    ("index", "a list", lambda: b'{"weight_map": []}'),
    ("program", "nothing", lambda: b""),
    ("program", "a long head", lambda: b"\xff" * 8 + b"{}"),
    ("program", "lengths of 2**62", lambda: header({"lengths": [2**62] * 5})),
    ("program", "lengths below 0", lambda: header({"lengths": [-1] * 5})),
    ("program", "marshal", lambda: b"(\xff\xff\xff\x7f"),
    ("entry", "nothing", lambda: b""),
    ("entry", "a wrong sum", lambda: b"ADJSTORE" + bytes(32) + b"code"),
    ("checkpoint", "another value", lambda: archive_of(b"}")),
    ("checkpoint", "parts that are lists", lambda: archive_of(b"}(" + text("states") + b"]" + text("values") + b"]" + text("rng") + b"]" + text("format") + b"K\x01u")),
    ("weights", "a list", lambda: archive_of(b"]")),
    ("weights", "numbers", lambda: archive_of(b"}" + text("w") + b"K\x01s")),
]  # fmt: skip


def generator_state(**changes: Any) -> bytes:
    """A checkpoint whose generators would read outside their memory."""
    import io

    state = ad.io.rng_state()
    for part, (place, value) in changes.items():
        state[part][place] = value
    out = io.BytesIO()
    model = ad.nn.Linear(2, 3).state_dict()
    ad.save({"format": 1, "states": {"model": model}, "values": {}, "rng": state}, out)
    return out.getvalue()


GENERATORS: dict[str, Callable[[], bytes]] = {
    "NumPy's generator at 10**6": lambda: generator_state(numpy=(2, 10**6)),
    "NumPy's generator at -5": lambda: generator_state(numpy=(2, -5)),
    "NumPy's generator of few words": lambda: generator_state(numpy=(1, ad.ones(3, dtype=ad.int64))),
    "Python's generator of few words": lambda: generator_state(python=(1, ad.ones(3, dtype=ad.int64))),
    "words of 64 bits": lambda: generator_state(numpy=(1, ad.full((624,), 2**40))),
}  # fmt: skip


def _chain(step: str, count: int) -> bytes:
    """defaultdicts in each other, from the outside in: freeing them takes a frame each."""
    new = name("collections.defaultdict") + b"(tR"
    inner = (b"h\x01K\x00" + new + b"q\x01s0") * count if step == "late" else b""
    return new + b"q\x00q\x01" + inner + (b"h\x00" if step == "late" else b"")


OBJECTS: dict[str, Callable[[], bytes]] = {
    "nested defaultdicts": lambda: (name("collections.defaultdict") + b"(tRK\x00") * 60_000 + b"N" + b"s" * 60_000,
    "defaultdicts nested late": lambda: _chain("late", 60_000),
    "a defaultdict of pairs": lambda: name("collections.defaultdict") + b"N](" + b"".join(x + b"N\x86" for x in colliding(40_000)) + b"e\x86R",
    "a module given a list": lambda: name("torch.nn.Linear") + b")\x81]b",
    "a module given text": lambda: name("torch.nn.Linear") + b")\x81" + text("x") + b"b",
    "a call of a module": lambda: call("torch.nn.Linear", b"K\x01", b"K\x01"),
    "os.system": PICKLES["os.system"],
    "a module outside": lambda: name("torch.nn.modules..os.system") + b")\x81",
}  # fmt: skip

# Odd, but what they ask for is little: they may load, within bounds.
SOUND = (
    "a huge int as key",
    "many sparse tensors",
    "nested keys",
    "a module given a list",
    "more pixels than dimensions",
)

CASES: dict[str, Case] = {
    **{f"pt: {n}": Case("pt", partial(lambda make: archive_of(make()), make), n in SOUND) for n, make in PICKLES.items()},
    **{f"legacy: {n}": Case("legacy", make) for n, make in LEGACY.items()},
    **{f"zip: {n}": Case("pt", make) for n, make in ZIPS.items()},
    **{f"zip for graphs: {n}": Case("graph", ZIPS[n]) for n in ("entries that overlap", "an entry that occurs twice", "a name above")},
    **{f"safetensors: {n}": Case("safetensors", make) for n, make in SAFETENSORS.items()},
    **{f"graph: {n}": Case("graph", make, n in SOUND) for n, make in GRAPHS.items()},
    **{f"png: {n}": Case("png", make, n in SOUND) for n, make in PNGS.items()},
    **{f"png by Pillow: {n}": Case("vision", PNGS[n]) for n in ("a bomb", "huge dimensions", "only a signature")},
    **{f"npy: {n}": Case("npy", make) for n, make in NPYS.items()},
    **{f"{reader}: {n}": Case(reader, make) for reader, n, make in OTHERS},
    **{f"checkpoint: {n}": Case("checkpoint", make) for n, make in GENERATORS.items()},
    **{f"objects: {n}": Case("pt objects", partial(lambda make: archive_of(make()), make), n in SOUND) for n, make in OBJECTS.items()},
    **MODEL_CASES,
    **PUBLISHED_CASES,
}  # fmt: skip
