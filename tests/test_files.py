"""save and load: round trips, sharing, refusal of hostile files, damage, kills, full disks."""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import datetime
import enum
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from collections import Counter, OrderedDict
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.dtype import DTYPES
from adjoint.engine.core.files.atomic import atomic_write
from adjoint.export.capi.saving import save_program
from adjoint.io import locations, safetensors
from adjoint.training import save_plot
from adjoint.vision.io import write_png
from adjoint.vision.utils import save_image


def again(value: Any) -> Any:
    file = BytesIO()
    ad.save(value, file)
    file.seek(0)
    return ad.load(file)


PLAIN: list[Any] = [
    None, True, 0, 255, 256, 65536, -1, 2**31, -(2**31) - 1, 2**200, 1.5, float("inf"), 2 - 3j,
    "text", "", "ü\n", b"", b"\x00\xff", bytearray(b"ab"), (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4),
    [], [1, [2]], {}, {"a": 1, 2: "b", (1, 2): None}, {1, 2}, set(), OrderedDict(a=1, b=2),
    Counter("aab"), ad.Size((2, 3)), ad.float16, ad.device("cpu"), ad.device("cuda", 1),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_come_back(value: Any) -> None:
    back = again(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_every_dtype_comes_back(dtype: Any, tmp_path: Path) -> None:
    value = (ad.rand(3, 4) * 5).to(dtype)
    back = again(value)
    assert back.dtype is dtype
    assert (back == value).all()
    if dtype is not ad.complex128:
        path = tmp_path / "x.safetensors"
        ad.save({"x": value}, path)
        assert (ad.load(path)["x"] == value).all()


def test_geometry_sharing_and_parameters() -> None:
    base = ad.arange(12.0).reshape(3, 4)
    weight = ad.nn.Parameter(ad.ones(2))
    state = {"base": base, "row": base[1], "t": base.t(), "w": weight, "tied": weight}
    back = again(state)
    assert back["t"].stride() == base.t().stride()
    back["base"][1, 1] = 100
    assert back["row"][1] == 100
    assert back["t"][1, 1] == 100
    assert isinstance(back["w"], ad.nn.Parameter)
    assert back["tied"] is back["w"]
    assert again(ad.zeros(0, 3)).shape == (0, 3)
    assert again(ad.tensor(2.0)).item() == 2
    assert again(ad.ones(2, requires_grad=True)).requires_grad
    assert again(ad.rand(4, 4)[::2, 1:3]).shape == (2, 2)


def test_recursive_and_shared_containers() -> None:
    inner: list[Any] = [1]
    value: dict[str, Any] = {"a": inner, "b": inner}
    inner.append(value)
    back = again(value)
    assert back["a"] is back["b"]
    assert back["a"][1] is back


def test_state_dict_metadata_is_kept() -> None:
    state = ad.nn.Linear(2, 2).state_dict()
    assert again(state)._metadata == state._metadata


def test_numpy_scalars_become_numbers() -> None:
    assert again([np.float64(1.5), np.int32(3)]) == [1.5, 3]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ad.nn.Linear(1, 1), "state_dict"),
        ([{"k": object()}], r"\[0\]\['k'\]"),
        (np.ones(2), "from_numpy"),
        (frozenset([1]), "plain"),
    ],
)
def test_what_cannot_be_saved_is_named(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        again(value)


@dataclasses.dataclass
class Settings:
    rate: float = 0.1
    sizes: list[int] = dataclasses.field(default_factory=lambda: [1, 2])


class Mode(enum.Enum):
    ON = 1


class Point(NamedTuple):
    x: int
    y: int


class Block(ad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = ad.nn.Sequential(ad.nn.Conv1d(2, 3, 3), ad.nn.BatchNorm1d(3), ad.nn.GELU())
        self.cell = ad.nn.GRUCell(3, 4)
        self.activation = ad.nn.functional.relu
        self.settings = Settings()
        self.register_buffer("scratch", ad.ones(1), persistent=False)

    def forward(self, x: ad.Tensor) -> ad.Tensor:
        return self.activation(self.cell(self.layers(x).mean(2)))


def whole(value: Any, **options: Any) -> Any:
    file = BytesIO()
    ad.save(value, file, pickle_module=pickle)
    file.seek(0)
    return ad.load(file, **options)


def test_whole_modules_come_back() -> None:
    net, x = Block().eval(), ad.randn(2, 2, 6)
    back = whole({"net": net, "epoch": 3}, weights_only=False)["net"]
    assert isinstance(back, Block)
    assert back(x).tolist() == net(x).tolist()
    assert list(back.state_dict()) == list(net.state_dict())
    assert back.settings == net.settings
    back.train()(x).sum().backward()
    assert back.cell.weight_ih.grad is not None
    with pytest.raises(
        pickle.UnpicklingError, match=r"asks for tests.test_files.Block.*weights_only=False"
    ):
        whole(net)


@pytest.mark.parametrize(
    "value",
    [
        argparse.Namespace(lr=0.1, name="a"),
        Settings(0.5, [3]),
        Mode.ON,
        Point(1, 2),
        Path("a/b"),
        datetime.datetime(2020, 1, 2, 3),
        collections.defaultdict(list, {"a": [1]}),
        np.arange(6.0).reshape(2, 3),
        frozenset([1, 2]),
        len,
    ],
    ids=lambda v: type(v).__name__,
)
def test_objects_come_back(value: Any) -> None:
    back = whole([value, value], weights_only=False)
    assert back[0] is back[1]
    assert type(back[0]) is type(value)
    assert np.array_equal(back[0], value) if isinstance(value, np.ndarray) else back[0] == value


def test_classes_declared_safe() -> None:
    value = argparse.Namespace(a=1)
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        whole(value)
    with ad.serialization.safe_globals([argparse.Namespace]):
        assert whole(value) == value
        assert ad.serialization.get_safe_globals() == [argparse.Namespace]
    assert ad.serialization.get_safe_globals() == []
    net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.GRUCell(3, 3))
    with pytest.raises(pickle.UnpicklingError, match="asks for torch.nn.Sequential"):
        whole(net)
    with ad.serialization.safe_globals([ad.nn.Sequential, ad.nn.Linear, ad.nn.GRUCell]):
        assert whole(net)[1].weight_hh.tolist() == net[1].weight_hh.tolist()


def test_further_devices_are_named_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `register_package` was given is asked before Adjoint's own devices."""
    monkeypatch.setattr(locations, "PACKAGES", [])
    ad.serialization.register_package(
        5,
        lambda s: "toy" if s.nbytes() == 8 else None,
        lambda s, where: s if where == "toy" else None,
    )
    file = BytesIO()
    ad.save([ad.ones(2), ad.ones(3)], file)
    file.seek(0)
    assert ad.serialization.location_tag(ad.ones(2).untyped_storage()) == "toy"
    assert [x.tolist() for x in ad.load(file)] == [[1.0, 1.0], [1.0, 1.0, 1.0]]
    for place in ("toy", {"cpu": "toy"}, lambda s, where: s.clone().fill_(0)):
        back = ad.load(BytesIO(file.getvalue()), place)
        assert back[1].tolist() == ([0.0] * 3 if callable(place) else [1.0] * 3)
    with pytest.raises(RuntimeError, match="don't know how to restore"):
        ad.load(BytesIO(file.getvalue()), "nowhere")
    monkeypatch.setattr(locations, "PACKAGES", [])
    with pytest.raises(RuntimeError, match="don't know how to restore.*'toy'"):
        ad.load(BytesIO(file.getvalue()))


class Tagged(ad.Tensor):
    """A subclass of the program's own."""


def test_subclasses_attributes_and_storages_come_back() -> None:
    x = ad.arange(3.0).as_subclass(Tagged)
    x.note = "kept"
    parameter = ad.nn.Parameter(ad.ones(2))
    parameter.note = [1]
    values = [x, parameter, ad.arange(2.0).untyped_storage(), ad.ones(2, device="meta")]
    with pytest.raises(pickle.UnpicklingError, match="Tagged"):
        whole(values)
    with ad.serialization.safe_globals([Tagged]):
        restricted = whole(values)
    for back in (restricted, whole(values, weights_only=False)):
        assert (type(back[0]), back[0].note, back[0].tolist()) == (Tagged, "kept", [0.0, 1.0, 2.0])
        assert (type(back[1]), back[1].note, back[1].requires_grad) == (ad.nn.Parameter, [1], True)
        assert (type(back[2]), back[2].nbytes()) == (ad.storage.TypedStorage, 8)
        assert (back[3].device.type, tuple(back[3].shape)) == ("meta", (2,))


def test_what_has_no_name_cannot_be_saved() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError), match=r"function at \['a'\]\[1\]"):
        whole({"a": [1, lambda: 0]})
    with pytest.raises(TypeError, match=r"_thread.lock at \[0\]"):
        whole([threading.Lock()])


class Call:
    def __init__(self, fn: Any, *args: Any) -> None:
        self.fn, self.args = fn, args

    def __reduce__(self) -> Any:
        return self.fn, self.args


def hostile(value: Any, protocol: int) -> BytesIO:
    """An archive whose pickle runs code when Python reads it."""
    good, bad = BytesIO(), BytesIO()
    ad.save([1], good)
    with zipfile.ZipFile(good) as source, zipfile.ZipFile(bad, "w") as target:
        for name in source.namelist():
            data = pickle.dumps(value, protocol) if name.endswith("data.pkl") else source.read(name)
            target.writestr(name, data)
    bad.seek(0)
    return bad


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize(
    ("call", "name"),
    [
        (Call(os.system, "touch owned"), "posix.system"),
        (Call(eval, "1"), "builtins.eval"),
        (Call(getattr, "a", "upper"), "builtins.getattr"),
        (Call(subprocess.Popen, ["true"]), "subprocess.Popen"),
    ],
)
def test_hostile_pickles_are_refused_by_name(call: Call, name: str, protocol: int) -> None:
    with pytest.raises(pickle.UnpicklingError, match=f"asks for {name}"):
        ad.load(hostile({"weights": [call]}, protocol))


def test_own_classes_and_functions_are_called_where_they_are_declared() -> None:
    """PyTorch calls what a program declared safe; all else is refused, `os` whatever is declared."""
    for call in (Call(Settings, 1.0), Call(again, 3), Call(Block), Call(ad.nn.Linear, 1, 1)):
        with pytest.raises(pickle.UnpicklingError, match="asks for"):
            ad.load(hostile([call], 2))
    with ad.serialization.safe_globals([Settings, os.system]):
        assert ad.load(hostile([Call(Settings, 1.0)], 2)) == [Settings(1.0)]
        with pytest.raises(pickle.UnpicklingError, match="asks for posix.system"):
            ad.load(hostile([Call(os.system, "true")], 2))


@pytest.mark.parametrize("protocol", range(2, 6))
def test_a_file_that_is_trusted_runs(protocol: int) -> None:
    """`weights_only=False` is Python's own unpickler: what the file names is called."""
    file = hostile([Call(again, 3), Call(Settings, 2.0), Call(str.upper, "a")], protocol)
    assert ad.load(file, weights_only=False) == [again(3), Settings(2.0), "A"]
    with pytest.raises(RuntimeError, match="explicit pickle_module"):
        ad.load(hostile([1], protocol), pickle_module=pickle, weights_only=True)
    assert ad.load(hostile([Call(again, 3)], protocol), pickle_module=pickle) == [again(3)]


def test_hostile_opcodes() -> None:
    for body in (
        b"cbuiltins\nset\n(I1\ntR.",  # a call that cannot be made
        b"\x80\x02ctorch\nfloat32\n)R.",  # something that is not to be called
        b"(S'x'\ni__main__\nX\n.",  # INST
        b"\x80\x02]}b.",  # state of a list
        b"\x80\x02q\x00.",  # an empty stack
        b"\x80\x02h\x05.",  # an empty memo
        b"\x80\x02t.",
        b"",
        b"\x80\x02K",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.",  # a string of 2**63 bytes
    ):
        file = hostile(None, 2)
        target = BytesIO()
        with zipfile.ZipFile(file) as source, zipfile.ZipFile(target, "w") as out:
            for name in source.namelist():
                out.writestr(name, body if name.endswith("data.pkl") else source.read(name))
        target.seek(0)
        with pytest.raises((pickle.UnpicklingError, EOFError, RuntimeError, OverflowError)):
            ad.load(target)


def test_windows_outside_their_storage_are_refused() -> None:
    from adjoint.engine.core.device import CPU
    from adjoint.io.storages import Stored

    stored = Stored(np.zeros(4, np.float32), ad.float32, CPU)
    for size, stride, offset in [
        ((5,), (1,), 0),
        ((2,), (1,), 3),
        ((2,), (-1,), 1),
        ((2,), (1, 1), 0),
    ]:
        with pytest.raises(ValueError, match="exceed|make no tensor"):
            stored.tensor(size, stride, offset)


def test_truncated_and_corrupt_files_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    ad.save({"w": ad.rand(200), "b": [1, 2]}, path)
    whole = path.read_bytes()
    rng = random.Random(0)
    for cut in [0, 1, 4, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:cut])
        with pytest.raises((RuntimeError, EOFError), match=r"model\.pt"):
            ad.load(path)
    start = whole.index(b"data/0") + 100
    for _ in range(20):  # a flipped bit among the elements
        damaged = bytearray(whole)
        damaged[start + rng.randrange(600)] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(RuntimeError, match=r"model\.pt.*damaged"):
            ad.load(path)
    for _ in range(200):  # anywhere: an error or a value, never anything else
        damaged = bytearray(whole)
        damaged[rng.randrange(len(whole))] = rng.randrange(256)
        path.write_bytes(damaged)
        with contextlib.suppress(RuntimeError, EOFError, pickle.UnpicklingError, TypeError):
            ad.load(path)
    method = whole.index(b"PK\x01\x02") + 10  # of the first record, in the archive's directory
    path.write_bytes(whole[:method] + b"\x63" + whole[method + 1 :])
    with pytest.raises(RuntimeError, match=r"model\.pt: the zip archive is damaged"):
        ad.load(path)
    path.write_bytes(b"not a model at all")
    with pytest.raises(RuntimeError, match=r"model\.pt is not a file that save wrote"):
        ad.load(path)


def test_memory_mapped(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    ad.save({"w": ad.arange(1000.0), "h": ad.ones(3, dtype=ad.bfloat16)}, path)
    before = path.read_bytes()
    back = ad.load(path, mmap=True)
    assert back["w"].data_ptr() % 64 == 0
    back["w"][0] = 5  # stays in memory
    assert back["w"][:2].tolist() == [5, 1]
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="needs a path"):
        ad.load(BytesIO(before), mmap=True)


def test_map_location(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    ad.save(ad.ones(2), path)
    for where in ("cpu", ad.device("cpu"), {"cuda:0": "cpu"}, lambda storage, place: storage):
        assert ad.load(path, map_location=where).tolist() == [1, 1]
    if not ad.cuda.is_available():
        with pytest.raises(RuntimeError, match="map_location='cpu'"):
            ad.load(path, map_location="cuda:0")


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    value = {"b": ad.rand(3), "a": ad.rand(2, 2).t(), "e": ad.zeros(0, 2), "f": ad.tensor(True)}
    ad.save(value, path, metadata={"format": "pt"})
    for mapped in (False, True):
        back = ad.load(path, mmap=mapped)
        assert {k: v.tolist() for k, v in back.items()} == {k: v.tolist() for k, v in value.items()}
    assert safetensors.load_metadata(path) == {"format": "pt"}
    with pytest.raises(TypeError, match="holds tensors only"):
        ad.save({"a": 1}, path)
    whole = path.read_bytes()
    header = int.from_bytes(whole[:8], "little")
    for damaged in (
        b"", whole[:7], whole[:20], whole[:-1], whole + b"x",
        whole.replace(b'"F32"', b'"F99"', 1), whole.replace(b"[0,", b"[4,", 1),
        (2**60).to_bytes(8, "little") + whole[8:], whole[:8] + b"{" * header + whole[8 + header :],
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(RuntimeError, match=r"m\.safetensors"):
            ad.load(path)


def save_on(path: Path, started: int) -> None:
    """Save until killed: steps whose elements say which step it is."""
    step = 0
    while True:
        ad.save({"step": step, "w": ad.full((200_000,), float(step))}, path)
        if step == 0:
            os.write(started, b"x")
        step += 1


def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    rng = random.Random(1)
    for _ in range(20):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            save_on(path, writing)
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        time.sleep(rng.random() * 0.03)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        back = ad.load(path)
        assert (back["w"] == back["step"]).all()
        assert len(list(tmp_path.iterdir())) <= 2  # at most one left over, removed by the next
    ad.save(1, path)
    assert [p.name for p in tmp_path.iterdir()] == ["last.pt"]


FULL = """
import resource, sys, adjoint as ad
resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
try:
    ad.save(ad.zeros(1_000_000), sys.argv[1])
except OSError as error:
    print(error)
"""


def test_a_full_disk_is_reported_and_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    ad.save({"good": 1}, path)
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert "last.pt" in done.stdout
    assert "previous file is unchanged" in done.stdout
    assert ad.load(path) == {"good": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["last.pt"]


def test_atomic_write_keeps_mode_links_and_cleans_up(tmp_path: Path) -> None:
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o600)
    link.symlink_to(path)
    with atomic_write(link) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600

    def half() -> None:
        with atomic_write(path) as file:
            file.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        half()
    assert path.read_bytes() == b"new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "link"]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ad.save(1, tmp_path / "nowhere" / "a.pt")


WRITERS: dict[str, Any] = {
    "save": lambda path: ad.save([1], path),
    "safetensors": lambda path: safetensors.save_file({"w": ad.ones(1)}, path),
    "graph": lambda path: ad.nn.Linear(1, 1).to_graph(ad.ones(1, 1)).save(path),
    "checkpoint": lambda path: ad.io.save_checkpoint(path, epoch=1),
    "plot": lambda path: save_plot(path, {"a": [(0, 1.0), (1, 2.0)]}, "a"),
    "program": lambda path: save_program(ad.nn.Linear(1, 1), ad.ones(1, 1), path),
    "png": lambda path: write_png(ad.zeros(3, 2, 2, dtype=ad.uint8), path),
    "image": lambda path: save_image(ad.zeros(3, 2, 2), path, format="png"),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_keeps_modes_links_and_long_names(writer: str, tmp_path: Path) -> None:
    write, before = WRITERS[writer], os.umask(0o027)
    try:
        new, old, link = tmp_path / "new", tmp_path / "old", tmp_path / "link"
        write(new)
        assert new.stat().st_mode & 0o777 == 0o640
        old.write_bytes(b"old")
        old.chmod(0o604)
        link.symlink_to("old")
        write(link)
        assert link.is_symlink()
        assert old.read_bytes() != b"old"
        assert old.stat().st_mode & 0o777 == 0o604
        dangling = tmp_path / "dangling"
        dangling.symlink_to("later")
        write(dangling)
        assert dangling.is_symlink()
        long = tmp_path / ("x" * 255)
        write(long)
        names = {"new", "old", "link", "dangling", "later", long.name}
        assert {p.name for p in tmp_path.iterdir()} == names
    finally:
        os.umask(before)


def test_only_abandoned_temporaries_of_ours_are_removed(tmp_path: Path) -> None:
    abandoned = tmp_path / f".adjoint-{'a' * 16}.tmp"
    abandoned.write_bytes(b"half")
    others = [".adjoint-notes.tmp", ".a.tmp", f"adjoint-{'a' * 16}.tmp", f".adjoint-{'A' * 16}.tmp"]
    for name in others:
        (tmp_path / name).write_bytes(b"kept")
    (tmp_path / f".adjoint-{'b' * 16}.tmp").symlink_to(others[0])
    with atomic_write(tmp_path / "one") as file:  # a live one, while another file is saved
        file.write(b"1")
        file.flush()
        ad.save(2, tmp_path / "two")
        assert not abandoned.exists()
    assert (tmp_path / "one").read_bytes() == b"1"
    assert all((tmp_path / name).read_bytes() == b"kept" for name in others)


@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_ones_own_are_flushed(zipped: bool) -> None:
    class Sender:
        def __init__(self) -> None:
            self.held, self.sent = b"", b""

        def write(self, data: Any) -> None:
            self.held += bytes(data)

        def flush(self) -> None:
            self.sent, self.held = self.sent + self.held, b""

        def tell(self) -> int:
            raise NotImplementedError("a sender has no place")

    sender = Sender()
    ad.save({"w": ad.ones(2)}, sender, _use_new_zipfile_serialization=zipped)
    assert ad.load(BytesIO(sender.sent))["w"].tolist() == [1.0, 1.0]


def test_a_link_to_itself_is_no_place(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("a")
    with pytest.raises(OSError, match="a"):
        ad.save(1, tmp_path / "a")
    assert (tmp_path / "a").is_symlink()


def test_arrays_in_tuples_and_deep_values_load() -> None:
    numpy = np.arange(6, dtype=">i4").reshape(2, 3)
    back = ad.load(hostile((numpy, (numpy.astype("U5"), 1), np.float64(2.5)), 2))
    assert (back[0] == numpy).all()
    assert back[1][0].tolist() == numpy.astype("U5").tolist()
    value: Any = [1]
    for i in range(120):
        value = {"layer": [value, (i, "name")]}
    found = ad.load(hostile(value, 4))
    for _ in range(120):
        found = found["layer"][0]
    assert found == [1]


def test_booleans_are_0_or_1() -> None:
    file = BytesIO()
    ad.save(ad.ones(4, dtype=ad.uint8).bool(), file)
    data = file.getvalue()
    with zipfile.ZipFile(BytesIO(data)) as source:
        entries = {n: source.read(n) for n in source.namelist()}
    changed = BytesIO()
    with zipfile.ZipFile(changed, "w") as target:
        for name, content in entries.items():
            target.writestr(name, b"\0\7\xff\1" if name.endswith("data/0") else content)
    changed.seek(0)
    assert ad.load(changed).view(ad.uint8).tolist() == [0, 1, 1, 1]


def test_large_tensors_are_read_without_a_second_copy(tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    ad.save(ad.zeros(4_000_000), path)
    tracemalloc.start()
    try:
        ad.load(path)
        assert tracemalloc.get_traced_memory()[1] < 18_000_000
    finally:
        tracemalloc.stop()


def test_files_of_big_endian_machines() -> None:
    from adjoint.io.storages import from_bytes

    swapped = np.array([1.0, 2.0], ">f4").view(np.uint8)
    assert from_bytes(swapped, ad.float32, "big").tolist() == [1, 2]
    assert from_bytes(swapped, ad.complex64, "big").tolist() == [1 + 2j]


def test_results_of_operations_are_written_as_leaves() -> None:
    x = ad.arange(4.0, requires_grad=True) * 2
    file = BytesIO()
    ad.save({"all": x, "part": x[1:3]}, file)
    file.seek(0)
    read = ad.load(file)
    for given, whole, part in [
        ("pickle", *pickle.loads(pickle.dumps((x, x[1:3])))),
        ("save", read["all"], read["part"]),
    ]:
        assert (whole.is_leaf, part.is_leaf) == (True, True), given
        assert (whole.requires_grad, part.requires_grad) == (True, True), given
        assert (whole.tolist(), part.tolist()) == ([0.0, 2.0, 4.0, 6.0], [2.0, 4.0]), given
        with ad.no_grad():
            part.zero_()
        assert whole.tolist() == [0.0, 0.0, 0.0, 6.0], given
