"""Differences, integrals and derivatives of sampled functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.errors import DTypeError, ShapeError, ShapeIndexError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.spec import wrap_dim, wrap_dims
from adjoint.engine.ops.shape.join import cat

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor


def _sides(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """All elements but the last, and all but the first, along `dim`."""
    n = max(x.shape[dim] - 1, 0)
    return x.narrow(dim, 0, n), x.narrow(dim, x.shape[dim] - n, n)


@public(method=True, out=True)
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> Tensor:
    """The n-th difference of neighbours along `dim`."""
    if input.ndim == 0:
        raise ShapeError("diff: expects input to be at least one-dimensional")
    d = wrap_dim("diff", dim, input.ndim)
    for extra in (prepend, append):
        if extra is not None and extra.ndim != input.ndim:
            raise ShapeError(
                "diff: expected prepend and append to have the same number of dimensions as input, "
                f"{input.ndim}, received {extra.ndim}"
            )
        for i in range(input.ndim):
            if extra is not None and i != d and extra.shape[i] != input.shape[i]:
                raise ShapeError(
                    "diff: expected prepend and append to match the shape of input except along "
                    f"dimension {d}: input has {list(input.shape)}, received {list(extra.shape)}"
                )
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    if n == 0:  # whatever is to be put before or after it
        return input.clone()
    x = input
    if prepend is not None or append is not None:
        x = cat([t for t in (prepend, input, append) if t is not None], d)
    for _ in range(min(n, x.shape[d])):
        left, right = _sides(x, d)
        x = left.logical_xor(right) if x.dtype.name == "bool" else right - left
    return x.clone() if x is input else x


def _steps(name: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The distances between sample points, shaped to meet y's intervals."""
    for t in (x, y):
        if t.dtype.name == "bool":
            raise DTypeError(f"{name}: received a bool input, but bool is not supported")
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise ShapeError(
                f"{name}: there must be one `x` value for each sample point, received "
                f"{x.shape[0]} values for {y.shape[dim]} points"
            )
        x = x.reshape([x.shape[0] if d == dim else 1 for d in range(y.ndim)])
    elif x.ndim < y.ndim:
        x = x.reshape((*(1,) * (y.ndim - x.ndim), *x.shape))
    left, right = _sides(x, dim)
    return right - left


def _sample_dim(name: str, dim: int, y: Tensor) -> int:
    if y.ndim == 0:
        raise ShapeIndexError(f"{name}: dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(name, dim, y.ndim)


def _check_samples(name: str, y: Tensor, x: Any, dx: Any) -> None:
    if y.dtype.name == "bool":
        raise DTypeError(f"{name}: received a bool input for `y`, but bool is not supported")
    if x is not None and dx is not None:
        raise TypeError(f"{name}: received both x and dx; pass one of them")


def _areas(name: str, y: Tensor, x: Any, dx: Any, dim: int) -> Tensor:
    """Twice the area over each interval."""
    _check_samples(name, y, x, dx)
    left, right = _sides(y, dim)
    if x is None:
        return (left + right) * (1 if dx is None else dx)
    return _steps(name, y, x, dim) * (left + right)


@public(aliases=("trapz",))
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1) -> Tensor:
    """The integral along `dim` by the trapezoidal rule, over points `x` or steps `dx`.

    >>> import adjoint as ad
    >>> ad.trapezoid(ad.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    d = _sample_dim("trapezoid", dim, y)
    if y.shape[d] == 0:
        return y.sum(d).to(y.dtype)
    if x is None:  # the sum with half of both ends, in which nothing overflows early
        ends = (y.select(d, 0) + y.select(d, -1)) * 0.5
        _check_samples("trapezoid", y, x, dx)
        return (y.sum(d) - ends) * (1 if dx is None else dx)
    areas = _areas("trapezoid", y, x, dx, d)
    return areas.sum(d) / 2


@public()
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = None, dim: int = -1
) -> Tensor:
    """The running integral along `dim` by the trapezoidal rule."""
    d = _sample_dim("cumulative_trapezoid", dim, y)
    areas = _areas("cumulative_trapezoid", y, x, dx, d)
    return areas.cumsum(d) / 2


def _at(x: Tensor, dim: int, index: int) -> Tensor:
    n = x.shape[dim]
    return x.narrow(dim, index % n, 1)


def _gradient_along(f: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    """Central differences inside, one-sided ones of `edge_order` at the edges."""
    n = f.shape[dim]
    if is_tensor(spacing) and spacing.ndim:
        steps = spacing.diff().reshape([-1 if d == dim else 1 for d in range(f.ndim)])
        before, after = steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2)
        first, second = _at(steps, dim, 0), _at(steps, dim, 1 if n > 2 else 0)
        last, previous = _at(steps, dim, -1), _at(steps, dim, -2 if n > 2 else 0)
    else:
        before = after = first = second = last = previous = spacing
    low, middle, high = (f.narrow(dim, i, n - 2) for i in range(3))
    total = before + after
    inside = (
        low * (-after / (before * total))
        + middle * ((after - before) / (before * after))
        + high * (before / (after * total))
        if is_tensor(before)
        else (high - low) / total
    )
    if edge_order == 1:
        start = (_at(f, dim, 1) - _at(f, dim, 0)) / first
        end = (_at(f, dim, -1) - _at(f, dim, -2)) / last
    else:
        start = _edge(_at(f, dim, 0), _at(f, dim, 1), _at(f, dim, 2), first, second)
        end = -_edge(_at(f, dim, -1), _at(f, dim, -2), _at(f, dim, -3), last, previous)
    return cat([start, inside, end], dim)


def _edge(f0: Tensor, f1: Tensor, f2: Tensor, h0: Any, h1: Any) -> Tensor:
    """The derivative at f0, second order, from the two points next to it."""
    a = -(2 * h0 + h1) / (h0 * (h0 + h1))
    b = (h0 + h1) / (h0 * h1)
    return a * f0 + b * f1 - h0 / (h1 * (h0 + h1)) * f2


@public()
def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Numerical derivatives of samples along each of `dim`, `spacing` apart or at coordinates."""
    spacing = 1 if spacing is None else spacing
    if input.dtype.name == "uint8":
        raise DTypeError("gradient: does not support uint8 input. Convert it first.")
    if edge_order not in (1, 2):
        raise RuntimeError(
            f"gradient: only supports edge_order=1 and edge_order=2, received {edge_order}"
        )
    if dim is None:
        many = isinstance(spacing, (tuple, list))
        dims = tuple(range(input.ndim))
        if many and len(spacing) != len(dims):
            raise RuntimeError(
                f"gradient: expected spacing to be unspecified, a scalar, or a list of length "
                f"{len(dims)}, received {len(spacing)}"
            )
    else:
        dims = wrap_dims("gradient", (dim,) if isinstance(dim, int) else dim, input.ndim)
    spacings: Sequence[Any] = (
        spacing if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    )
    if len(spacings) != len(dims):
        raise RuntimeError(
            f"gradient: expected one spacing for each of {len(dims)} dimensions, received "
            f"{len(spacings)}"
        )
    for d, h in zip(dims, spacings, strict=True):
        if input.shape[d] < edge_order + 1:
            raise ShapeError(
                f"gradient: each dimension size to be at least edge_order+1, received "
                f"{input.shape[d]} in dimension {d}"
            )
        if is_tensor(h) and h.ndim and h.shape[0] != input.shape[d]:
            raise ShapeError(
                f"gradient: expected {input.shape[d]} coordinates for dimension {d}, received "
                f"{h.shape[0]}"
            )
    return tuple(
        _gradient_along(input, d, h, edge_order) for d, h in zip(dims, spacings, strict=True)
    )
