"""Complex numbers, which no runtime of ONNX computes with: as pairs of real ones, by DFT.

A complex value is written as a tensor of real numbers with a last dimension of two. What operations
do with them is said by functions of tensors (`PAIRS`), transforms by nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import adjoint as ad
from adjoint.engine.core.dtype import DType
from adjoint.engine.graph.ir import Node
from adjoint.engine.tensor.tensor import Tensor
from adjoint.onnx.exporting.writer import Emitter, NodeWriter, NoForm


@dataclass(frozen=True)
class ComplexParts:
    """Complex numbers as a tensor (..., 2) of their parts."""

    parts: Tensor

    @property
    def real(self) -> Tensor:
        return self.parts[..., 0]

    @property
    def imag(self) -> Tensor:
        return self.parts[..., 1]


def _pair(real: Tensor, imag: Tensor) -> ComplexParts:
    return ComplexParts(ad.stack([real, imag], -1))


def _split(x: Any) -> tuple[Any, Any]:
    """The parts of a pair, of a real tensor or of a number."""
    if isinstance(x, ComplexParts):
        return x.real, x.imag
    return (x.real, x.imag) if isinstance(x, complex) else (x, 0)


def _tensors(*parts: Any) -> ComplexParts:
    """Parts of which one may be a number, or of fewer dimensions."""
    like = next(x for x in parts if isinstance(x, Tensor))
    real, imag = (x if isinstance(x, Tensor) else ad.full_like(like, x) for x in parts)
    return _pair(*ad.broadcast_tensors(real, imag))


def _mul(x: Any, y: Any) -> ComplexParts:
    (a, b), (c, d) = _split(x), _split(y)
    return _tensors(a * c - b * d, a * d + b * c)


def _div(x: Any, y: Any, rounding_mode: str | None = None) -> ComplexParts:
    (a, b), (c, d) = _split(x), _split(y)
    size = c * c + d * d
    return _tensors((a * c + b * d) / size, (b * c - a * d) / size)


def _matmul(x: Any, y: Any) -> ComplexParts:
    (a, b), (c, d) = _split(x), _split(y)
    if not isinstance(b, Tensor) or not isinstance(d, Tensor):  # one of them is real
        return _pair(a @ c, b @ c if isinstance(b, Tensor) else a @ d)
    return _pair(a @ c - b @ d, a @ d + b @ c)


def _exp(x: ComplexParts) -> ComplexParts:
    size = x.real.exp()
    return _pair(size * x.imag.cos(), size * x.imag.sin())


def _slice(x: ComplexParts, index: tuple[Any, ...]) -> ComplexParts:
    places = tuple(
        slice(part[0], part[1], part[2]) if isinstance(part, tuple) else part for part in index
    )
    return ComplexParts(x.parts[(*places, slice(None))])


def _where(mask: Tensor, x: Any, y: Any) -> ComplexParts:
    (a, b), (c, d) = _split(x), _split(y)
    return _tensors(ad.where(mask, a, c), ad.where(mask, b, d))


def _cat(*pairs: Any, dim: int) -> ComplexParts:
    return ComplexParts(ad.cat([_cast(x).parts for x in pairs], dim))


def _cast(x: Any, dtype: DType | None = None) -> Any:
    if isinstance(x, ComplexParts):
        return x
    return _pair(x, ad.zeros_like(x))


# What records do with pairs; dimensions are counted from the front, so that they stay the same.
PAIRS: dict[str, Callable[..., Any]] = {
    "abs": lambda x: (x.real * x.real + x.imag * x.imag).sqrt(),
    "angle": lambda x: ad.atan2(x.imag, x.real),
    "conj": lambda x: _pair(x.real, -x.imag),
    "complex": _pair,
    "view_as_real": lambda x: x.parts,
    "view_as_complex": ComplexParts,
    "cast": _cast,
    "neg": lambda x: ComplexParts(-x.parts),
    "add": lambda x, y: _tensors(*(a + b for a, b in zip(_split(x), _split(y), strict=True))),
    "sub": lambda x, y: _tensors(*(a - b for a, b in zip(_split(x), _split(y), strict=True))),
    "mul": _mul,
    "div": _div,
    "matmul": _matmul,
    "exp": _exp,
    "where": _where,
    "permute": lambda x, dims: ComplexParts(x.parts.permute(*dims, len(dims))),
    "reshape": lambda x, shape: ComplexParts(x.parts.reshape(*shape, 2)),
    "expand": lambda x, shape: ComplexParts(x.parts.expand(*shape, 2)),
    "slice": _slice,
    "roll": lambda x, shifts, dims: ComplexParts(x.parts.roll(shifts, dims)),
    "cat": _cat,
    "sum": lambda x, dims, keepdim: ComplexParts(x.parts.sum(dims, keepdim)),
    "clone": lambda x: x,
}  # fmt: skip


# -- transforms ---------------------------------------------------------------------------------


def _dft(w: NodeWriter, x: str, dim: int, **flags: int) -> str:
    if w.opset < 20:
        return str(w.emit("DFT", x, axis=dim, **flags))
    return str(w.emit("DFT", x, "", w.constant(dim, np.int64), **flags))


def _scaled(w: NodeWriter, x: str, size: Any, node: Node, inverse: bool) -> str:
    """What DFT gives, in the scale that is asked for: its own divides on the way back."""
    usual, dtype = node.params["norm"] or "backward", node.outputs[0].spec.dtype
    real = dtype.to_real() if dtype.is_complex else dtype
    if usual == "backward":
        return x
    if usual == "ortho":
        root = w.emit("Sqrt", w.number(size, real))
        return str(w.emit("Mul" if inverse else "Div", x, root))
    return str(w.emit("Mul" if inverse else "Div", x, w.number(size, real)))


def rfft(w: NodeWriter, node: Node) -> str:
    x, dim = node.inputs[0], node.params["dim"]
    paired = w.emit("Unsqueeze", w.operand(x), w.ints([-1]))
    return _scaled(w, _dft(w, paired, dim, onesided=1), x.spec.shape[dim], node, inverse=False)


def irfft(w: NodeWriter, node: Node) -> str:
    """The half that is left out is put back: the same backwards, conjugate."""
    x, dim, n = node.inputs[0], node.params["dim"], node.params["n"]
    half, name, axis = n // 2 + 1, w.operand(node.inputs[0]), w.ints([dim])
    if int(x.spec.shape[dim]) != int(half):
        raise NoForm(f"irfft of {x.spec.shape[dim]} frequencies where {half} are needed")
    rest = w.emit("Slice", name, w.size(n - half), w.ints([0]), axis, w.ints([-1]))
    real = node.outputs[0].spec.dtype
    signs = w.constant(np.array([1, -1], np.float64 if real is ad.float64 else np.float32))
    whole = w.emit("Concat", name, w.emit("Mul", rest, signs), axis=dim)
    back = _scaled(w, _dft(w, whole, dim, inverse=1), n, node, inverse=True)
    return str(w.emit("Gather", back, w.constant(0, np.int64), axis=-1))


def fft(w: NodeWriter, node: Node) -> str:
    x, inverse = node.inputs[0], bool(node.params["inverse"])
    name = w.operand(x)
    for dim in node.params["dims"]:
        name = _dft(w, name, dim, inverse=int(inverse))
        name = _scaled(w, name, x.spec.shape[dim], node, inverse)
    return name


TRANSFORMS: dict[str, Emitter] = {"rfft": rfft, "irfft": irfft, "fft": fft}


def complex_outputs(w: NodeWriter, node: Node) -> Sequence[str]:
    """The names of the outputs of a node with complex operands or results."""
    name = node.record.name
    if name in TRANSFORMS:
        return [str(TRANSFORMS[name](w, node))]
    if name in PAIRS:
        return w.rewritten(node, PAIRS[name], ComplexParts)
    raise NoForm(f"runtimes of ONNX compute with no complex numbers, and {name} has no form of two")
