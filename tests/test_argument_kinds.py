"""Arguments of the wrong kind are refused by PyTorch's exceptions, and results lie as its do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

X = ad.arange(12.0).reshape(3, 4)
# What is asked, the exception, what it says.
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: X.sum(True), TypeError, "sum: a dimension must be int, not bool"),
    (lambda: X.mean(True), TypeError, "must be int, not bool"),
    (lambda: X.amax(False), TypeError, "must be int, not bool"),
    (lambda: X.any(True), TypeError, "must be int, not bool"),
    (lambda: X.cumsum(True), TypeError, "must be int, not bool"),
    (lambda: X.transpose(True, False), TypeError, "must be int, not bool"),
    (lambda: X.softmax(0, True), TypeError, "softmax: dtype must be a dtype"),  # type: ignore[arg-type]
    (lambda: X.unique(0), TypeError, "unique: sorted must be bool"),  # type: ignore[arg-type]
    (lambda: ad.zeros(3, 0).unique(dim=0), RuntimeError, "0 sized dimensions"),
    (lambda: X.bool().trace(), NotImplementedError, "trace: not implemented for bool"),
    (lambda: ad.ldexp(X, X > 3), NotImplementedError, "ldexp: not implemented"),
]


@pytest.mark.parametrize("k", range(len(REFUSED)))
@pytest.mark.parametrize("compiled", [False, True])
def test_refused(k: int, compiled: bool) -> None:
    ask, kind, says = REFUSED[k]
    with pytest.raises(kind, match=says):
        (ad.compile(ask) if compiled else ask)()


@pytest.mark.parametrize("compiled", [False, True])
def test_replacements_beyond_a_dtype_are_infinite(compiled: bool) -> None:
    def replaced(x: Any) -> Any:
        return x.nan_to_num(nan=-1e9, posinf=1e9, neginf=-70000)

    x = ad.tensor([math.nan, math.inf, -math.inf, 2.0], dtype=ad.float16)
    out = (ad.compile(replaced) if compiled else replaced)(x)
    assert out.tolist() == [-math.inf, math.inf, -math.inf, 2.0]


def along(x: Any, dim: int) -> dict[str, Any]:
    """Functions whose results lie row after row, whatever their operands do."""
    return {
        "softmax": x.softmax(dim),
        "log_softmax": x.log_softmax(dim),
        "cumsum": x.cumsum(dim),
        "cumprod": x.cumprod(dim),
        "logcumsumexp": x.logcumsumexp(dim),
        "cummax": x.cummax(dim).values,
        "cummax's places": x.cummax(dim).indices,
        "cummin's places": x.cummin(dim).indices,
    }


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("compiled", [False, True])
def test_results_lie_row_after_row(dim: int, compiled: bool) -> None:
    numbers = np.random.default_rng(dim).normal(size=(2, 3, 4))
    expected = along(ad.from_numpy(numbers.transpose(2, 0, 1).copy()), dim)
    x = ad.from_numpy(numbers).permute(2, 0, 1)
    for name, out in (ad.compile(along) if compiled else along)(x, dim).items():
        assert out.is_contiguous(), name
        np.testing.assert_allclose(out.numpy(), expected[name].numpy(), rtol=1e-12)


# Calls by NumPy's names and numbers, and what they are otherwise.
SPELT: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
    (lambda: ad.abs(x=-X), lambda: X),
    (lambda: ad.abs(a=-X), lambda: X),
    (lambda: ad.add(x1=X, x2=X), lambda: X + X),
    (lambda: X.add(x2=X), lambda: X + X),
    (lambda: ad.sum(a=X, axis=1, keepdims=True), lambda: X.sum(1, keepdim=True)),
    (lambda: ad.cat(X.chunk(np.int64(3), 1)), lambda: ad.cat(X.chunk(3, 1))),
    (lambda: X.split(np.int32(2))[1], lambda: X.split(2)[1]),
    (lambda: X.tensor_split(np.int64(3), 1)[0], lambda: X.tensor_split(3, 1)[0]),
    (lambda: X.hsplit(np.int64(4))[3], lambda: X[:, 3:]),
    (lambda: X.hsplit(1, 3)[1], lambda: X[:, 1:3]),
    (lambda: X.vsplit(np.int32(3))[1], lambda: X[1:2]),
    (lambda: ad.fft.ifftn(X, dim=np.int64(1)).real, lambda: ad.fft.ifftn(X, dim=1).real),
    (
        lambda: ad.nn.functional.max_pool1d(X, np.int32(2), np.int32(1)),
        lambda: ad.nn.functional.max_pool1d(X, 2, 1),
    ),
    (lambda: X.sum_to_size(np.int64(1), 4), lambda: X.sum(0, keepdim=True)),
    (lambda: X.sum_to_size(size=(3, 1)), lambda: X.sum(1, keepdim=True)),
    (lambda: X.repeat_interleave(np.int64(2), 0), lambda: X.repeat_interleave(2, 0)),
    (lambda: ad.nn.LayerNorm(np.int64(4))(X), lambda: ad.nn.LayerNorm(4)(X)),
]


@pytest.mark.parametrize("k", range(len(SPELT)))
@pytest.mark.parametrize("compiled", [False, True])
def test_numpys_names_and_numbers(k: int, compiled: bool) -> None:
    spelt, plain = SPELT[k]
    assert (ad.compile(spelt) if compiled else spelt)().tolist() == plain().tolist()


def test_tensors_of_one_number_are_numbers() -> None:
    assert [part.tolist() for part in X.chunk(ad.tensor(2))] == [X[:2].tolist(), X[2:].tolist()]
    assert [part.tolist() for part in X.split(ad.tensor(2))] == [X[:2].tolist(), X[2:].tolist()]


def test_names_that_are_nobodys_are_refused() -> None:
    for kwargs in ({"y": X}, {"x": X, "a": X}, {"input": X, "x": X}):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            ad.abs(**kwargs)


def test_other_spellings_write_to_out() -> None:
    out = ad.empty(3, 4)
    assert ad.add(x=X, x2=X, out=out) is out
    assert out.tolist() == (2 * X).tolist()
    with pytest.warns(UserWarning, match="deprecated"):
        assert ad.add(X, 2, X, out=out) is out
    assert out.tolist() == (3 * X).tolist()
