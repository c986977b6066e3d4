"""Bad input, record by record: the exception PyTorch raises, naming the operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.engine import assembly
from adjoint.engine.core.operations.record import REGISTRY, Record

assembly.load_lazy()
ELEMENTWISE = [r for r in REGISTRY.values() if r.family == "elementwise"]
ROWS = ad.ones(2, 3)
LINE = ad.arange(3.0)
INDEX = ad.tensor([5])
WIDE = ad.ones(2, 3, dtype=ad.complex64)
linalg = ad.linalg

# record -> (a call it must refuse, exception, what the message says besides the operation)
REFUSALS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "reshape": (lambda: ROWS.reshape(4, -1), RuntimeError, r"\[4, -1\].*size 6"),
    "permute": (lambda: ROWS.permute(0), RuntimeError, "2 is not equal"),
    "expand": (lambda: ROWS.expand(4, 3), RuntimeError, r"\[4, 3\].*\[2, 3\]"),
    "slice": (lambda: LINE.narrow(0, 2, 2), RuntimeError, "narrow: .*size"),
    "view_scatter": (lambda: LINE.select_scatter(ROWS, 0, 0), RuntimeError, "size"),
    "view_as_real": (lambda: ad.view_as_real(LINE), RuntimeError, "complex"),
    "view_as_complex": (lambda: ad.view_as_complex(ROWS), RuntimeError, "2"),
    "view_dtype": (lambda: ROWS.view(ad.int64), RuntimeError, "divisible by 2"),
    "index": (lambda: LINE[INDEX], IndexError, "5 is out of bounds.*size 3"),
    "index_put": (lambda: LINE.index_fill(0, INDEX, 1.0), IndexError, "5 is out of bounds"),
    "diagonal": (lambda: ROWS.diagonal(0, 1, 1), RuntimeError, "identical"),
    "unfold": (lambda: LINE.unfold(0, 4, 1), RuntimeError, "3.*4"),
    "as_strided": (lambda: LINE.as_strided((9,), (1,)), RuntimeError, "storage"),
    "cat": (lambda: ad.cat([ROWS, LINE]), RuntimeError, "2 and 1"),
    "stack": (lambda: ad.stack([ROWS, LINE]), RuntimeError, r"\[2, 3\].*\[3\]"),
    "flip": (lambda: LINE.flip(1), IndexError, "range"),
    "roll": (lambda: LINE.roll((1, 2), 0), RuntimeError, "align"),
    "tril": (lambda: LINE.tril(), RuntimeError, "2 dimensions"),
    "triu": (lambda: LINE.triu(), RuntimeError, "2 dimensions"),
    "sum": (lambda: ROWS.sum((0, 0)), RuntimeError, "more than once"),
    "cumsum": (lambda: LINE.cumsum(1), IndexError, "range"),
    "gather": (lambda: LINE.gather(0, INDEX), RuntimeError, "5 is out of bounds.*size 3"),
    "scatter": (lambda: LINE.scatter(0, INDEX, 1.0), RuntimeError, "5 is out of bounds"),
    "scatter_reduce": (
        lambda: LINE.scatter_reduce(0, INDEX, ad.ones(1), "amax"),
        RuntimeError,
        "5 is out of bounds",
    ),
    "fft": (lambda: ad.fft.fft(LINE, n=0), RuntimeError, "0"),
    "rfft": (lambda: ad.fft.rfft(WIDE), RuntimeError, "real"),
    "irfft": (lambda: ad.fft.irfft(WIDE, dim=5), IndexError, "range"),
    "matmul": (lambda: ROWS @ ROWS, RuntimeError, r"\(2, 3\)"),
    "all": (lambda: LINE.all(4), IndexError, "range"),
    "any": (lambda: LINE.any(4), IndexError, "range"),
    "cumprod": (lambda: LINE.cumprod(1), IndexError, "range"),
    "logcumsumexp": (lambda: LINE.long().logcumsumexp(0), RuntimeError, "int64"),
    "prod": (lambda: LINE.prod(1), IndexError, "range"),
    "amax": (lambda: LINE[:0].amax(), RuntimeError, "dim"),
    "amin": (lambda: LINE[:0].amin(), RuntimeError, "dim"),
    "argmax": (lambda: LINE[:0].argmax(), IndexError, "numel"),
    "argmin": (lambda: LINE[:0].argmin(), IndexError, "numel"),
    "argsort": (lambda: WIDE.sort(), RuntimeError, "complex64"),
    "topk": (lambda: LINE.topk(4), RuntimeError, "k=4.*3"),
    "kthvalue": (lambda: LINE.kthvalue(0), RuntimeError, "k=0.*3"),
    "median": (lambda: WIDE.median(), RuntimeError, "complex64"),
    "multinomial": (lambda: ad.multinomial(-LINE, 1), RuntimeError, "< 0|negative"),
    "arange": (lambda: ad.arange(0, 5, 0), RuntimeError, "nonzero"),
    "full": (lambda: ad.full((-1,), 2), RuntimeError, "negative"),
    "linspace": (lambda: ad.linspace(0, 1, -1), RuntimeError, "-1"),
    "logspace": (lambda: ad.logspace(0, 1, -1), RuntimeError, "-1"),
    "eye": (lambda: ad.eye(-1), RuntimeError, "-1"),
    "searchsorted": (lambda: ad.searchsorted(ROWS, LINE), RuntimeError, "dim"),
    "bincount": (lambda: ad.bincount(ad.tensor([-1])), RuntimeError, "non-negative"),
    "histc": (lambda: LINE.histc(0), RuntimeError, "bins"),
    "inv": (lambda: linalg.inv(ROWS), RuntimeError, "square.*2 by 3"),
    "solve": (lambda: linalg.solve(ad.eye(2), ad.ones(3, 1)), RuntimeError, "3"),
    "cholesky": (lambda: linalg.cholesky(-ad.eye(2)), RuntimeError, "positive-definite"),
    "det": (lambda: linalg.det(ROWS), RuntimeError, "square.*2 by 3"),
    "slogdet": (lambda: linalg.slogdet(ROWS), RuntimeError, "square.*2 by 3"),
    "eigh": (lambda: linalg.eigh(ROWS), RuntimeError, "square.*2 by 3"),
    "eig": (lambda: linalg.eig(ROWS), RuntimeError, "square.*2 by 3"),
    "qr": (lambda: linalg.qr(LINE), RuntimeError, "2 dimensions"),
    "svd": (lambda: linalg.svd(LINE), RuntimeError, "2 dimensions"),
    "lstsq": (lambda: linalg.lstsq(ad.eye(2), ad.ones(3, 1)), RuntimeError, "2.*3|3.*2"),
    "matrix_exp": (lambda: linalg.matrix_exp(ROWS), RuntimeError, "square.*2 by 3"),
}
NAMES = {  # what the user called, where it is not the record's name
    "slice": "narrow", "view_scatter": "select_scatter", "argsort": "sort", "view_dtype": "view",
    "tril": "tril/triu", "triu": "tril/triu",
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_by_name(name: str) -> None:
    call, kind, message = REFUSALS[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert NAMES.get(name, name) in str(caught.value)


@pytest.mark.parametrize(
    "record", [r for r in ELEMENTWISE if len(r.operands) > 1], ids=lambda r: r.name
)
def test_shapes_that_do_not_broadcast(record: Record) -> None:
    operands = [ad.ones(2, 3).bool() if record.name == "where" else ad.ones(2, 3)]
    operands += [ad.ones(4)] * (len(record.operands) - 1)
    with pytest.raises(RuntimeError, match=r"\(3\).*\(4\)") as caught:
        record(*operands)
    assert str(caught.value).startswith(record.name)


PARAMETERS = {
    "polygamma": {"n": 1},
    "gegenbauer_polynomial": {"order": 1},
    "laguerre_polynomial": {"order": 1},
}


@pytest.mark.parametrize("dtype", [ad.bool, ad.int8, ad.complex64])
@pytest.mark.parametrize("record", ELEMENTWISE, ids=lambda r: r.name)
def test_a_dtype_is_computed_or_refused_by_name(record: Record, dtype: Any) -> None:
    operands = [ad.ones(2, dtype=dtype)] * len(record.operands)
    if record.name == "where":
        operands[0] = ad.ones(2).bool()
    refusal = ""
    try:
        record(*operands, **PARAMETERS.get(record.name, {}))
    except RuntimeError as error:  # NotImplementedError is one
        refusal = str(error)
    assert not refusal or (refusal.startswith(record.name) and dtype.name in refusal), refusal
