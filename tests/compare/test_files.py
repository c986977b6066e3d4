"""Files both ways: PyTorch reads ours with weights_only=True, we read both of its layouts."""

from __future__ import annotations

from collections import Counter, OrderedDict
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.engine.core.dtype import DTYPES

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.compare


def through_torch(value: Any) -> Any:
    file = BytesIO()
    ad.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def from_torch(value: Any, zipped: bool = True, **options: Any) -> Any:
    file = BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return ad.load(file, **options)


def numbers(x: Any) -> Any:
    x = x.detach()
    wide = "complex128" if x.is_complex() else "float64"
    return x.to(getattr(torch if isinstance(x, torch.Tensor) else ad, wide)).numpy()


@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_every_dtype_both_ways(dtype: str) -> None:
    ours = (ad.rand(3, 5) * 7).to(getattr(ad, dtype))
    theirs = through_torch(ours)
    assert theirs.dtype is getattr(torch, dtype)
    np.testing.assert_array_equal(numbers(theirs), numbers(ours))
    for zipped in (True, False):
        back = from_torch(theirs, zipped)
        assert back.dtype is getattr(ad, dtype)
        np.testing.assert_array_equal(numbers(back), numbers(ours))


PLAIN: list[Any] = [
    None, True, 0, 300, -70000, 2**40, -(2**70), 1.25, 1 + 2j, "x", "ü", b"", b"a\xff", bytearray(b"b"),
    (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [1, [2]], {"a": {1: 2}}, {1, 2}, OrderedDict(a=1),
    Counter("aab"),
]  # fmt: skip


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_both_ways(value: Any) -> None:
    assert through_torch(value) == value
    for zipped in (True, False):
        back = from_torch(value, zipped)
        assert back == value
        assert type(back) is type(value)


def test_sizes_dtypes_devices() -> None:
    theirs = through_torch([ad.Size((2, 3)), ad.bfloat16, ad.device("cuda", 1), ad.device("cpu")])
    assert theirs == [
        torch.Size((2, 3)),
        torch.bfloat16,
        torch.device("cuda:1"),
        torch.device("cpu"),
    ]
    assert from_torch(theirs) == [
        ad.Size((2, 3)),
        ad.bfloat16,
        ad.device("cuda", 1),
        ad.device("cpu"),
    ]


@pytest.mark.parametrize("zipped", [True, False])
def test_views_and_sharing_both_ways(zipped: bool) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    value = {
        "b": base,
        "v": base[1::2, 2:5],
        "t": base.t(),
        "e": base.expand(2, 4, 6),
        "z": base[:0],
    }
    ours = from_torch(value, zipped)
    for key, tensor in value.items():
        assert tuple(ours[key].shape) == tuple(tensor.shape)
        np.testing.assert_array_equal(numbers(ours[key]), numbers(tensor))
    ours["b"][1, 2] = -1
    assert ours["v"][0, 0] == -1
    assert ours["t"][2, 1] == -1
    theirs = through_torch(ours)
    assert theirs["v"].stride() == value["v"].stride()
    theirs["b"][1, 2] = -2
    assert theirs["v"][0, 0] == -2


@pytest.mark.parametrize("zipped", [True, False])
def test_state_dicts_both_ways(zipped: bool) -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    state = from_torch({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, zipped)
    assert list(state["model"]) == list(model.state_dict())
    assert state["model"]._metadata == model.state_dict()._metadata
    back = through_torch(state)
    model.load_state_dict(back["model"])
    optimizer.load_state_dict(back["optimizer"])
    for key, value in model.state_dict().items():
        np.testing.assert_array_equal(numbers(state["model"][key]), numbers(value))


def test_parameters_and_attributes() -> None:
    weight = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    tensor = torch.ones(3)
    tensor.note = "kept"
    back = from_torch({"w": weight, "t": tensor, "g": torch.ones(1, requires_grad=True)})
    assert isinstance(back["w"], ad.nn.Parameter)
    assert not back["w"].requires_grad
    assert back["t"].note == "kept"
    assert back["g"].requires_grad
    theirs = through_torch(back)
    assert isinstance(theirs["w"], torch.nn.Parameter)


def test_numpy_in_their_files() -> None:
    back = from_torch({"s": np.float64(2.5), "i": np.int64(3), "a": np.arange(6.0).reshape(2, 3)})
    assert back["s"] == 2.5
    assert back["i"] == 3
    np.testing.assert_array_equal(back["a"], np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("zipped", [True, False])
def test_whole_modules_are_refused_by_name(zipped: bool) -> None:
    with pytest.raises(Exception, match=r"torch\.nn\.modules\.linear\.Linear"):
        from_torch(torch.nn.Linear(1, 1), zipped)


def test_unknown_dtypes_are_named() -> None:
    with pytest.raises(Exception, match="bits16"):
        from_torch(torch.zeros(2, dtype=torch.int16).view(torch.bits16))


def test_mmap_both_ways(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.pt", tmp_path / "theirs.pt"
    ad.save({"x": ad.arange(100.0)}, ours)
    torch.save({"x": torch.arange(100.0)}, theirs)
    assert torch.load(ours, mmap=True, weights_only=True)["x"].sum() == 4950
    assert ad.load(theirs, mmap=True)["x"].sum() == 4950


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_lazy_conjugates_and_negatives(zipped: bool, whole: bool) -> None:
    x = torch.view_as_complex(torch.arange(12.0).reshape(3, 2, 2))
    theirs = {
        "plain": x, "conj": x.conj(), "rows": x.conj()[1:], "turned": x.mH,
        "imag": x.clone().conj().imag, "grad": x.conj().detach().requires_grad_(),
    }  # fmt: skip
    ours = from_torch(theirs, zipped, weights_only=not whole)
    for name, value in theirs.items():
        np.testing.assert_array_equal(
            numbers(ours[name]), value.detach().resolve_conj().resolve_neg().numpy(), name
        )
        assert ours[name].requires_grad is value.requires_grad


def quantised(t: Any) -> dict[str, Any]:
    x, channels = t.linspace(-1, 1, 12).reshape(3, 4), (t.tensor([0.25, 0.5, 1.0]), t.arange(3))
    return {
        **{
            name: t.quantize_per_tensor(x, 0.125, 3, getattr(t, name))
            for name in ("qint8", "quint8", "qint32")
        },
        "transposed": t.quantize_per_tensor(x.t(), 0.125, 3, t.qint8),
        "channels": t.quantize_per_channel(x, *channels, 0, t.qint8),
        "columns": t.quantize_per_channel(x.t(), *channels, 1, t.quint8),
    }


def steps(x: Any) -> Any:
    if x.qscheme() != (torch if isinstance(x, torch.Tensor) else ad).per_channel_affine:
        return x.q_scale(), x.q_zero_point()
    scales, zeros = x.q_per_channel_scales(), x.q_per_channel_zero_points()
    return scales.tolist(), zeros.tolist(), x.q_per_channel_axis()


@pytest.mark.filterwarnings("ignore")  # PyTorch is to lose them
def test_quantised_tensors_both_ways() -> None:
    theirs = quantised(torch)
    older = {name: x for name, x in theirs.items() if x.qscheme() == torch.per_tensor_affine}
    read = [from_torch(older, False), from_torch(theirs), from_torch(theirs, weights_only=False)]
    for found in (*read, through_torch(quantised(ad))):
        for name, x in [(name, theirs[name]) for name in found]:
            assert str(found[name].dtype).rsplit(".", maxsplit=1)[-1] == str(x.dtype)[6:]
            assert found[name].int_repr().tolist() == x.int_repr().tolist()
            assert found[name].dequantize().tolist() == x.dequantize().tolist()
            assert steps(found[name]) == steps(x)
    for weights_only in (True, False):
        with pytest.raises((UnpicklingError, TypeError), match="by channels is not loaded"):
            from_torch(theirs["channels"], False, weights_only=weights_only)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_nested_tensors_both_ways() -> None:
    parts = [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
    theirs = torch.nested.nested_tensor([torch.tensor(part) for part in parts])
    ours = ad.nested.nested_tensor([ad.tensor(part) for part in parts])
    for found in (from_torch(theirs), from_torch(theirs, weights_only=False), through_torch(ours)):
        assert [row.tolist() for row in found.unbind()] == parts
    for weights_only in (True, False):
        with pytest.raises((UnpicklingError, TypeError), match="nested tensor is not loaded"):
            from_torch(theirs, False, weights_only=weights_only)
