"""Printing, copying, pickling and sharing memory with other libraries."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import adjoint as ad

# As PyTorch 2.13 prints them.
PRINTED = {
    "tensor([1., 2.])": [1.0, 2.0],
    "tensor(3.5000)": 3.5,
    "tensor([])": [],
    "tensor([], size=(1, 0))": [[]],
    "tensor([1.0000e-05, 1.0000e+00])": [1e-5, 1.0],
    "tensor([1.0000e+09, 2.0000e+00])": [1e9, 2],
    "tensor([1.5000,    nan])": [1.5, float("nan")],
    "tensor([1., inf])": [1.0, float("inf")],
    "tensor([ True, False])": [True, False],
    "tensor([1.0000+2.j, 3.5000-1.j])": [1 + 2j, 3.5 - 1j],
    "tensor([[1, 2],\n        [3, 4]])": [[1, 2], [3, 4]],
    "tensor([1.0000e-01, 1.0002e+03])": [0.1, 1000.2],
    "tensor([ 0, 1, 2, ..., 1997, 1998, 1999])": list(range(2000)),
}


@pytest.mark.parametrize("text", PRINTED)
def test_printing(text: str) -> None:
    shown = repr(ad.tensor(PRINTED[text]))
    assert " ".join(shown.split()) == " ".join(text.split())


def test_printing_of_dtype_and_tape() -> None:
    x = ad.ones(1, requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert repr(ad.ones(1, dtype=ad.float64)) == "tensor([1.], dtype=adjoint.float64)"
    assert f"{ad.tensor(1.5):.2f}" == "1.50"


def test_pickle_keeps_sharing() -> None:
    base = ad.arange(6.0).reshape(2, 3)
    row, extra = base[1], ad.ones(2, requires_grad=True)
    again, row2, extra2 = pickle.loads(pickle.dumps((base, row, extra)))
    row2.add_(10)
    assert again.numpy().tolist() == [[0, 1, 2], [13, 14, 15]]
    assert extra2.requires_grad
    assert extra2.is_leaf


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64"]
)
def test_pickle_every_dtype(dtype: str) -> None:
    x = ad.arange(4).to(getattr(ad, dtype))
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype is x.dtype
    assert (y == x).all()


MEMORY = np.arange(48.0, dtype=np.float32).reshape(4, 3, 4)
WINDOWS: dict[str, Any] = {
    "all": lambda x: x,
    "rows": lambda x: x[1:],
    "turned": lambda x: x.permute(1, 2, 0)[:, 1:],
    "bits": lambda x: x.view(ad.int32)[1:, :2],
    "one": lambda x: x[1, 1].view(ad.int32),
}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize(
    "array",
    [MEMORY, MEMORY.T, MEMORY.transpose(1, 0, 2), MEMORY[::2, :, 1:], MEMORY.T[1:, ::2]],
    ids=["rows", "columns", "planes", "gaps", "columns with gaps"],
)
def test_copies_lie_as_what_they_are_of(array: Any, copied: Any) -> None:
    x = ad.from_numpy(array)
    for name, window in WINDOWS.items():
        seen = window(x)
        whole, part = copied((x, seen))
        assert part.dtype is seen.dtype, name
        assert part.tolist() == seen.tolist(), name
        assert part.stride() == seen.stride(), name
        whole.zero_()
        assert not part.any(), name


def test_copies_of_pairs_seen_as_complex_numbers() -> None:
    x = ad.arange(13.0)
    seen = ad.view_as_complex(x[:12].view(6, 2))[1:]
    assert copy.deepcopy(seen).tolist() == seen.tolist()
    assert pickle.loads(pickle.dumps(seen.real)).tolist() == seen.real.tolist()


def test_deepcopy_keeps_sharing_and_gradients() -> None:
    w = ad.ones(2, requires_grad=True)
    (w * 3).sum().backward()
    buffer = ad.zeros(4)
    w2, b2, view2 = copy.deepcopy((w, buffer, buffer[:2]))
    view2.add_(1)
    assert b2.numpy().tolist() == [1, 1, 0, 0]
    assert buffer.numpy().tolist() == [0, 0, 0, 0]
    assert w2.grad is not None
    assert w2.grad.numpy().tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(w * 2)


def test_numpy_shares_memory_both_ways() -> None:
    array = np.arange(4, dtype=np.float32)
    x = ad.from_numpy(array)
    x[0] = 9
    assert array[0] == 9
    x.numpy()[1] = 8
    assert x[1].item() == 8
    assert np.asarray(x)[1] == 8
    assert ad.as_tensor(array).data_ptr() == x.data_ptr()
    assert ad.tensor(array).data_ptr() != x.data_ptr()
    assert ad.ones(2).bfloat16().numpy().dtype == ml_dtypes.bfloat16
    with pytest.raises(RuntimeError, match="requires grad"):
        ad.ones(1, requires_grad=True).numpy()


def test_dlpack_shares_memory_both_ways() -> None:
    array = np.arange(4.0)
    x = ad.from_dlpack(array)
    x[0] = 5
    assert array[0] == 5
    back = np.from_dlpack(x)
    assert back[0] == 5
    assert back.ctypes.data == x.data_ptr()


def test_mixed_expressions_with_numpy() -> None:
    x = ad.ones(2)
    for y in (x + np.float32(1), np.float32(1) + x, x * np.int64(2), x + np.float64(1)):
        assert isinstance(y, ad.Tensor)
        assert y.dtype is ad.float32
        assert y.numpy().tolist() == [2, 2]


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "int64"), (1.0, "float32"), (True, "bool"), (1j, "complex64"), ([1, 2.5], "float32"),
        ([True, 2], "int64"), ([[1], [2]], "int64"), (np.ones(2), "float64"),
        (np.float32(3), "float32"), ([], "float32"), (np.arange(2, dtype=np.int8), "int8"),
        ([1, np.float64(2)], "float64"), ([np.float32(1), 2], "float32"), (range(3), "int64"),
        ([ad.tensor(1, dtype=ad.int8), 2], "int64"), ([[ad.ones(1)], [ad.ones(1, 1)]], "float32"),
    ],
)  # fmt: skip
def test_dtype_of_data(data: Any, dtype: str) -> None:
    assert ad.tensor(data).dtype is getattr(ad, dtype)


def test_negative_numbers_wrap_in_unsigned_data() -> None:
    assert ad.tensor([-1, 255], dtype=ad.uint8).tolist() == [255, 255]
    assert ad.tensor(np.array([300]), dtype=ad.uint8).tolist() == [44]


def test_numpy_functions_return_tensors() -> None:
    y = np.sin(ad.zeros(2))  # type: ignore[call-overload]
    assert isinstance(y, ad.Tensor)
    assert y.tolist() == [0, 0]


def test_sizes_as_separate_arguments() -> None:
    x = ad.arange(6).view(2, 3)
    assert x.broadcast_to(4, 2, 3).shape == (4, 2, 3)
    assert x.count_nonzero(0, 1) == 5
    assert x.count_nonzero(dim=0).tolist() == [1, 2, 2]


def test_reversed_rows() -> None:
    assert reversed(ad.arange(4).view(2, 2)).tolist() == [[2, 3], [0, 1]]


def test_default_dtype() -> None:
    ad.set_default_dtype(ad.float64)
    try:
        assert ad.tensor(1.0).dtype is ad.float64
        assert (ad.arange(2) / 2).dtype is ad.float64
        assert (ad.arange(2) * 1.5).dtype is ad.float64
    finally:
        ad.set_default_dtype(ad.float32)
    assert (ad.arange(2) / 2).dtype is ad.float32
    with pytest.raises(TypeError):
        ad.set_default_dtype(ad.int64)


def test_heavy_libraries_wait() -> None:
    """Importing loads nothing heavy; using a lazy family works without asking for it."""
    code = (
        "import sys, adjoint as ad; x = ad.ones(2) + 1; "
        "heavy = {'scipy', 'cupy', 'torch', 'llvmlite', 'triton', 'hypothesis'} & set(sys.modules); "
        "assert not heavy, heavy; assert ad.linalg.det(ad.eye(2)).item() == 1; ad.eye(2).det()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_errors_of_a_subclass_property_are_seen() -> None:
    class Mine(ad.Tensor):
        @property
        def wrong(self) -> Any:
            return self.missing

        @property
        def refused(self) -> Any:
            raise AttributeError("not for this tensor")

    x: Any = ad.ones(2).as_subclass(Mine)
    with pytest.raises(AttributeError, match="'Mine' object has no attribute 'missing'"):
        _ = x.wrong
    with pytest.raises(AttributeError, match="not for this tensor"):
        _ = x.refused
    with pytest.raises(AttributeError, match="'Mine' object has no attribute 'absent'"):
        _ = x.absent
    assert not hasattr(x, "refused")
    assert x.det.__name__ == "det"


class Whole:
    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: ad.tril(x, i(1)),
        lambda x, i: x.triu(i(-1)),
        lambda x, i: ad.eye(i(2), i(3)),
        lambda x, i: x.sum([i(0), i(-1)]),
        lambda x, i: x.mean((i(1),)),
        lambda x, i: x.amax([i(0)], keepdim=True),
        lambda x, i: x[None].squeeze(i(0)),
        lambda x, i: x.var([i(0)]),
        lambda x, i: x.count_nonzero([i(1)]),
        lambda x, i: x.long().flatten().bincount(minlength=i(9)),
        lambda x, i: ad.nn.functional.layer_norm(x, [i(2)]),
    ],
)
def test_objects_that_are_integers(call: Any) -> None:
    """What has an `__index__` is an integer; a float is none."""
    x = ad.arange(4.0).reshape(2, 2)
    assert call(x, Whole).equal(call(x, int))
    with pytest.raises((TypeError, RuntimeError)):
        call(x, float)
