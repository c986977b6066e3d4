"""Files written and read in other ways: without bytes, only looked at, of another byte order."""

from __future__ import annotations

import fractions
import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.errors import FileError
from adjoint.io import collecting


def test_bytes_of_storages_are_skipped(tmp_path: Path) -> None:
    path, full = tmp_path / "empty.pt", tmp_path / "full.pt"
    value = {"a": ad.ones(3), "b": [ad.arange(4), "name"]}
    ad.save(value, full)
    with ad.serialization.skip_data():
        ad.save(value, path)
        room = ad.load(full)
    assert path.stat().st_size == full.stat().st_size  # there is room for the bytes
    for found in (ad.load(path), room):
        assert found["a"].tolist() == [0.0] * 3
        assert found["b"][0].tolist() == [0] * 4
        assert (found["b"][0].dtype, found["b"][1]) == (ad.int64, "name")
    assert ad.load(full)["b"][0].tolist() == [0, 1, 2, 3]


def test_what_a_file_asks_for_is_listed_without_running_it(tmp_path: Path) -> None:
    path = tmp_path / "asks.pt"
    for protocol in (2, 4):
        with zipfile.ZipFile(path, "w") as archive:
            asked = [fractions.Fraction(1, 2), {1, 2}, fractions.Fraction(1, 3)]
            archive.writestr("x/data.pkl", pickle.dumps(asked, protocol))
        listed = ad.serialization.get_unsafe_globals_in_checkpoint
        assert listed(path) == ["fractions.Fraction"]
        with ad.serialization.safe_globals([fractions.Fraction]):
            assert listed(path) == []


def test_byte_order_of_files_that_do_not_say_it(tmp_path: Path) -> None:
    path, bare = tmp_path / "said.pt", tmp_path / "unsaid.pt"
    ad.save(ad.tensor([1], dtype=ad.int32), path)
    with zipfile.ZipFile(path) as said, zipfile.ZipFile(bare, "w") as unsaid:
        for name in said.namelist():
            if not name.endswith("byteorder"):
                unsaid.writestr(name, said.read(name))
    order = ad.serialization.LoadEndianness
    try:
        for chosen, want in ((None, 1), (order.BIG, 1 << 24), (order.LITTLE, 1)):
            ad.serialization.set_default_load_endianness(chosen)
            assert ad.serialization.get_default_load_endianness() is chosen
            assert ad.load(bare).item() == want
            assert ad.load(path).item() == 1
    finally:
        ad.serialization.set_default_load_endianness(None)


def test_arguments_that_nobody_knows_are_refused() -> None:
    file = io.BytesIO()
    ad.save([1], file)
    file.seek(0)
    with pytest.raises(TypeError, match="weight_only"):
        ad.load(file, weight_only=False)
    assert ad.load(file, encoding="latin1") == [1]


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("whole", [False, True], ids=["plain", "whole"])
@pytest.mark.parametrize("parameter", [False, True], ids=["tensor", "parameter"])
@pytest.mark.parametrize(
    ("marks", "factor"),
    [({"conj": True}, (1, -1)), ({"neg": True}, (-1, -1)), ({"conj": True, "neg": True}, (-1, 1))],
)
def test_marks_of_lazy_views_are_followed(
    monkeypatch: pytest.MonkeyPatch,
    zipped: bool,
    whole: bool,
    parameter: bool,
    marks: dict[str, bool],
    factor: tuple[int, int],
) -> None:
    """Files of PyTorch's say that a tensor is the conjugate, or negative, of what they store."""
    plain = collecting.StorageCollector._plain
    monkeypatch.setattr(
        collecting.StorageCollector, "_plain", lambda self, tensor: (*plain(self, tensor), marks)
    )
    kept = ad.tensor([[1 + 2j, 3 - 4j], [5j, -6]])
    value = ad.nn.Parameter(kept.t()) if parameter else kept.t()
    file = io.BytesIO()
    ad.save(value, file, pickle if whole else None, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    out = ad.load(file, weights_only=not whole)
    wanted = kept.t().numpy()
    np.testing.assert_array_equal(
        out.detach().numpy(), wanted.real * factor[0] + 1j * wanted.imag * factor[1]
    )
    assert out.is_leaf
    assert out.requires_grad is parameter
    assert (type(out) is ad.nn.Parameter) is parameter


def test_marks_are_no_way_to_more_memory_than_the_file_earns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = collecting.StorageCollector._plain
    monkeypatch.setattr(
        collecting.StorageCollector,
        "_plain",
        lambda self, tensor: (*plain(self, tensor), {"neg": True}),
    )
    file = io.BytesIO()
    ad.save(ad.ones(1).expand(1 << 40), file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="a tensor"):
        ad.load(file)


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "qint8", "quint4x2", "int4"])
def test_dtypes_that_nothing_is_kept_in_are_refused_by_name(name: str) -> None:
    dtype = getattr(ad, name)
    for make in (
        lambda: ad.zeros(2, dtype=dtype),
        lambda: ad.ones(2).to(dtype),
        lambda: ad.ones(2, dtype=ad.uint8).view(dtype),
    ):
        with pytest.raises(NotImplementedError, match=name):
            make()


def test_a_storage_is_no_key_in_a_file() -> None:
    """Its memory comes when all else of the file was read, and its hash with it."""
    file = io.BytesIO()
    ad.save({ad.ones(2).untyped_storage(): 1}, file)
    file.seek(0)
    with pytest.raises(FileError, match="cannot be a key"):
        ad.load(file)


def stored_again(value: Any, **options: Any) -> Any:
    file = io.BytesIO()
    ad.save(value, file)
    file.seek(0)
    return ad.load(file, **options)


@pytest.mark.parametrize("weights_only", [True, False])
def test_quantised_and_nested_tensors_come_back(weights_only: bool) -> None:
    x = ad.linspace(-1, 1, 12).reshape(3, 4)
    one = ad.quantize_per_tensor(x.t(), 0.125, 3, ad.quint8)
    many = ad.quantize_per_channel(x, ad.tensor([0.25, 0.5, 1.0]), ad.arange(3), 0, ad.qint8)
    rows = ad.nested.nested_tensor([x[:2], x[2:]])
    back = stored_again([one, many, rows], weights_only=weights_only)
    for found, saved in zip(back[:2], (one, many), strict=True):
        assert found.dtype is saved.dtype
        assert found.qscheme() == saved.qscheme()
        assert ad.equal(found.int_repr(), saved.int_repr())
        assert ad.equal(found.dequantize(), saved.dequantize())
    assert [row.tolist() for row in back[2].unbind()] == [x[:2].tolist(), x[2:].tolist()]
    with pytest.raises(TypeError, match="ragged dimension"):
        stored_again(ad.nested.nested_tensor([x[:2, :, None], x[:, :, None]]).transpose(1, 2))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "_rebuild_qtensor",
            lambda args: (*args[:4], (*args[4][:3], 5), *args[5:]),
            "channels along",
        ),
        (
            "_rebuild_qtensor",
            lambda args: (*args[:4], args[4][:3], *args[5:]),
            "not enough|expected",
        ),
        ("_rebuild_qtensor", lambda args: (*args[:4], 3, *args[5:]), "a scheme"),
        ("_rebuild_qtensor", lambda args: (args[0], 9, *args[2:]), "exceed"),
        ("_rebuild_nested_tensor", lambda args: (*args[:3], args[3] + 9), "exceeds"),
        ("_rebuild_nested_tensor", lambda args: (*args[:3], args[3] - 9), "exceeds"),
        ("_rebuild_nested_tensor", lambda args: (args[0], args[1].float(), *args[2:]), "whole"),
        (
            "_rebuild_nested_tensor",
            lambda args: (args[0], args[1] * 2**40, *args[2:]),
            "are allowed",
        ),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    name: str, change: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduce = collecting.StorageCollector.reduce

    def changed(self: Any, tensor: Any) -> Any:
        rebuild, args = reduce(self, tensor)
        return rebuild, change(args) if rebuild.endswith(name) else args

    monkeypatch.setattr(collecting.StorageCollector, "reduce", changed)
    x = ad.ones(3, 4)
    values = {
        "_rebuild_qtensor": ad.quantize_per_channel(x, ad.ones(3), ad.zeros(3), 0, ad.qint8),
        "_rebuild_nested_tensor": ad.nested.nested_tensor([x, x[:2]]),
    }
    with pytest.raises(pickle.UnpicklingError, match=message):
        stored_again(values[name])


@pytest.mark.parametrize("zipped", [True, False])
def test_windows_of_nothing_start_anywhere(zipped: bool) -> None:
    """A slice of an empty tensor has a place, in a storage without bytes."""
    file = io.BytesIO()
    weight = ad.zeros(3, 0)
    window = weight.as_strided((1, 0), (1, 1), 2)
    ad.save({"all": weight, "part": window}, file, _use_new_zipfile_serialization=zipped)
    shown = ad.load(io.BytesIO(file.getvalue()))["part"]
    assert (shown.shape, shown.stride()) == ((1, 0), (1, 1))
    storage = ad.UntypedStorage(0)
    part = ad._utils._rebuild_tensor_v2(storage, 2, (1, 0), (1, 1), False, None)
    assert part.shape == (1, 0)
