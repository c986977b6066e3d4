"""Loops whose iterations need not wait for each other: `associative_scan` and `map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint.engine.autodiff.transforms.batching import vmap
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.graph.flow.scan import scan
from adjoint.engine.graph.flow.trees import check_same, take_apart
from adjoint.engine.ops.shape.join import cat


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int = 0,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """All running combinations of the slices of `xs` along `dim` by an associative function.

    In log2(n) steps, each on all slices at once, instead of n: `combine_fn(a, b)` is given two
    slices (or containers of them), a before b, and gives one like them.

    >>> import adjoint as ad
    >>> ad.associative_scan(lambda a, b: a * b, ad.tensor([1.0, 2.0, 3.0, 4.0]), dim=0)
    tensor([ 1.,  2.,  6., 24.])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            "associative_scan: combine_mode must be 'pointwise' or 'generic', received "
            f"{combine_mode!r}"
        )
    rows, shape = take_apart("associative_scan: xs", xs)
    sizes = {int(x.shape[dim]) if x.ndim else -1 for x in rows}
    if len(sizes) != 1 or -1 in sizes:
        raise ShapeValueError(
            f"associative_scan: tensors of xs must agree on the size of dimension {dim}, received "
            f"shapes {[tuple(x.shape) for x in rows]}"
        )
    rows = [x.movedim(dim, 0) for x in rows]
    rows = [x.flip(0) for x in rows] if reverse else rows

    def combined(left: list[Any], right: list[Any]) -> list[Any]:
        result = combine_fn(shape.fill(left), shape.fill(right))
        new, structure = take_apart("associative_scan: the result of combine_fn", result)
        check_same("associative_scan: the result", structure, shape, *zip(new, left, strict=False))
        return new

    step, count = 1, sizes.pop()
    while step < count:
        new = vmap(combined)([x[:-step] for x in rows], [x[step:] for x in rows])
        rows = [cat([x[:step], y]) for x, y in zip(rows, new, strict=True)]
        step *= 2
    rows = [x.flip(0) for x in rows] if reverse else rows
    return shape.fill([x.movedim(0, dim) for x in rows])


def map_rows(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """`f(x, *args)` for the slices x of `xs` along the first dimension, stacked; one at a time.

    >>> import adjoint as ad
    >>> map_rows(lambda x: x.sum(), ad.ones(2, 3))
    tensor([3., 3.])
    """
    return scan(lambda _, x: (None, f(x, *args)), None, xs)[1]
