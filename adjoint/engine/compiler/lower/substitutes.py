"""Operations that are others by the time kernels are made: some products, scatters, `eye`."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.compiler.fuse.fuse import POINT, TEMPLATE
from adjoint.engine.core.dtype import bool_, float32, int64, uint8
from adjoint.engine.core.operations.record import REGISTRY
from adjoint.engine.core.spec import broadcast_shapes, is_known
from adjoint.engine.graph.ir import Node, Value

if TYPE_CHECKING:
    from adjoint.engine.compiler.lower.legalise import Legal

LINE, LONGEST_LINE = 64, 4096  # of a matrix that one row is multiplied by
FEW = 1 << 17  # its elements, where columns do not lie in lines
# What a scatter of truth values is on the bytes that hold them.
OF_BYTES = {"sum": "amax", "prod": "amin", "amax": "amax", "amin": "amin"}


def is_loop_product(legal: Legal, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether a matrix product is done by loops: one that no BLAS has, a small one, or one row's.

    With few multiplications (`Target.small`) a launch is all that a product takes, and as loops it
    is part of a launch with what comes before and after it. So it is with one row times a matrix,
    which takes as long as reading the matrix.
    """
    if node.record.name != "matmul":
        return False
    dtype, small = node.outputs[0].spec.dtype, legal.setting.target.small
    if not dtype.is_inexact:
        return dtype is not bool_
    if not small or not all(isinstance(x, Value) and not x.host for x in inputs):
        return False
    dtypes = {x.spec.dtype for x in inputs}
    multiplied = (*node.outputs[0].spec.shape, inputs[0].spec.shape[-1])
    if dtype is float32 and dtypes == {float32} and is_at_most(multiplied, small):
        return True
    known = dtype is float32 or dtype.is_half
    return known and all(d is float32 or d.is_half for d in dtypes) and is_one_row(legal, inputs)


def is_one_row(legal: Legal, inputs: tuple[Any, ...]) -> bool:
    """Whether a product is of one row and a matrix whose columns lie in lines, or are few."""
    x, y = inputs[:2]
    if x.spec.shape[-2] != 1 or not all(map(is_known, y.spec.shape)):
        return False
    k, n = y.spec.shape[-2:]
    in_lines = legal.layout[y].strides[-2] == 1 and LINE <= k <= LONGEST_LINE
    return in_lines or k * n <= FEW


def is_at_most(shape: tuple[Any, ...], most: int) -> bool:
    """Whether there are so few elements; of sizes that are not known, it is not said."""
    return all(map(is_known, shape)) and 0 < prod(shape) <= most


def loop_product(legal: Legal, node: Node, x: Value, y: Value, *bias: Value) -> Value:
    """Products of all pairs, summed as they are made: (..., m, k, 1) times (..., 1, k, n)."""
    batch = broadcast_shapes("matmul", x.spec.shape[:-2], y.spec.shape[:-2])
    dtype = node.outputs[0].spec.dtype

    def spread(v: Value, shape: tuple[int, ...]) -> Value:
        lead = v.spec.shape[:-2]
        return legal.reshape(wide(v), (*(1,) * (len(batch) - len(lead)), *lead, *shape))

    def wide(v: Value) -> Value:
        return legal.cast(v, float32) if v.spec.dtype.is_half else v

    (m, k), n = x.spec.shape[-2:], y.spec.shape[-1]
    pairs = legal.emit(POINT, REGISTRY["mul"], spread(x, (m, k, 1)), spread(y, (1, k, n)))
    assert pairs.node is not None
    legal.pairs.add(pairs.node)
    product = legal.reduce(REGISTRY["sum"], pairs, (len(batch) + 1,), keepdim=False)
    for term in bias:
        product = legal.emit(POINT, REGISTRY["add"], product, wide(term))
    return legal.cast(product, dtype) if dtype.is_half else product


def identity_matrix(legal: Legal, node: Node) -> Value:
    """Whether the row's number is the column's, in numbers."""
    n, m, dtype, device = (node.params[name] for name in ("n", "m", "dtype", "device"))
    rows, columns = (
        legal.emit(
            POINT, REGISTRY["arange"], start=0, step=1, length=size, dtype=int64, device=device
        )
        for size in (n, m)
    )
    same = legal.emit(POINT, REGISTRY["eq"], legal.reshape(rows, (n, 1)), columns)
    return same if dtype is bool_ else legal.cast(same, dtype)


def wants_another_scatter(node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether a scatter is one of truth values, or has fewer indices than its base has lines."""
    if node.record.name not in ("scatter", "scatter_reduce") or not inputs[0].spec.shape:
        return False
    return inputs[0].spec.dtype is bool_ or _part(node, inputs) is not None


def _part(node: Node, inputs: tuple[Any, ...]) -> tuple[tuple[int, int, int], ...] | None:
    """The lines of the base that have indices, as a slice; None if all have."""
    base, index, dim = inputs[0].spec.shape, inputs[2].spec.shape, node.params["dim"]
    sizes = [n if d == dim else index[d] for d, n in enumerate(base)]
    return None if tuple(sizes) == base else tuple((0, n, 1) for n in sizes)


def another_scatter(legal: Legal, node: Node, inputs: tuple[Any, ...]) -> Value:
    """Truth values as bytes; the lines that have indices by themselves, then put back."""
    base, values, index = inputs
    record, params, dtype = node.record, node.params, base.spec.dtype
    if dtype is bool_:
        how = params.get("reduce") or ("sum" if params["accumulate"] else "")
        if how:
            record, params = REGISTRY["scatter_reduce"], {"reduce": OF_BYTES[how]}
            params["dim"] = node.params["dim"]
    if dtype is bool_ or dtype.is_half:
        wide = uint8 if dtype is bool_ else float32
        base, values = legal.cast(base, wide), legal.cast(values, wide)
    part = _part(node, inputs)
    lines = base if part is None else legal.show("slice", base, index=part)
    operands = legal.fixed(legal.setting.template(record.name), (lines, values, index))
    out = legal.emit(TEMPLATE, record, *operands, **params)
    if part is not None:
        chain = ((REGISTRY["slice"], {"index": part}),)
        out = legal.emit(TEMPLATE, REGISTRY["view_scatter"], base, out, chain=chain)
    return out if out.spec.dtype is dtype else legal.cast(out, dtype)
