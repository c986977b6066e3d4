"""PyTorch's functions on lists of tensors: `_foreach_add_(params, grads, alpha=-lr)` and the like.

They have an underscore in front but are used by many training programs. Each is one operation on
every tensor of a list; in place, small tensors are changed many at once (`update_many`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from adjoint.engine.backends.array.lists.many import update_many
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.tensor.tensor import Tensor

PREFIX = "_foreach_"
UNARY = frozenset(
    """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg
    reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
    """.split()
)
BINARY = frozenset("add sub mul div pow lerp maximum minimum clamp_max clamp_min".split())
SCALED = frozenset("addcmul addcdiv".split())  # their factor is a keyword of the method
# Bounds by number or tensor, in place or not: maximum(x, y) is x clamped from below.
METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}


def _listed(name: str, tensors: Any) -> list[Tensor]:
    if not isinstance(tensors, (list, tuple)) or not all(map(is_tensor, tensors)):
        raise TypeError(
            f"{name}: argument 'self' must be a tuple or list of Tensors, received "
            f"{type(tensors).__name__}"
        )
    if not tensors:
        raise RuntimeError(f"{name}: Tensor list must have at least one tensor.")
    return list(tensors)


def _columns(name: str, tensors: list[Tensor], args: Sequence[Any]) -> list[list[Any]]:
    """Arguments by tensor: what is no list is the same for all."""
    columns = [list(a) if isinstance(a, (list, tuple)) else [a] * len(tensors) for a in args]
    for column in columns:
        if len(column) != len(tensors):
            raise RuntimeError(
                f"{name}: Tensor lists must have the same number of tensors, got {len(tensors)} "
                f"and {len(column)}"
            )
    return columns


def _change(name: str, fn: Callable[..., Any], tensors: list[Tensor], args: Sequence[Any]) -> None:
    """fn(tensor, *args) for each tensor, which it changes in place."""
    lists = [isinstance(a, (list, tuple)) for a in args]
    columns = _columns(name, tensors, args)
    if all(not many or all(map(is_tensor, a)) for a, many in zip(args, lists, strict=True)):
        fixed = list(args)
        moving = [i for i, many in enumerate(lists) if many]

        def rule(target: Tensor, *others: Tensor) -> None:
            given = fixed.copy()
            for i, other in zip(moving, others, strict=True):
                given[i] = other
            fn(target, *given)

        # A tensor shared by all may have any shape; only a 0-d one fits a vector.
        single = [a for a in fixed if is_tensor(a)]
        if not any(a.ndim for a in single):
            update_many(rule, tensors, *(columns[i] for i in moving), reads=single)
            return
    for tensor, *row in zip(tensors, *columns, strict=True):
        fn(tensor, *row)


def _method(op: str, *, in_place: bool, alpha: Any = 1) -> Callable[..., Any]:
    known = METHODS.get(op, op) + "_" * in_place

    def method(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        """The tensor's own, which of a subclass's asks it."""
        return getattr(tensor, known)(*args, **kwargs)

    if op in SCALED:
        return lambda x, y, z, value=1: method(x, y, z, value=value)
    if op in ("add", "sub") and alpha != 1:
        return partial(method, alpha=alpha)
    return method


def _arguments(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """Positional and named arguments in order."""
    given = [*args, *kwargs.values()]
    if op in SCALED and len(given) == 3 and is_tensor(given[2]):  # one factor for each
        given[2] = given[2].tolist()
    return given


def _elementwise(name: str, op: str, in_place: bool) -> Callable[..., Any]:
    def foreach(self: Any, *args: Any, **kwargs: Any) -> Any:
        fn = _method(op, in_place=in_place, alpha=kwargs.pop("alpha", 1))
        if op == "pow" and not in_place and not isinstance(self, (list, tuple)):
            return tuple(self**e for e in _listed(name, args[0]))  # a number to many powers
        tensors, given = _listed(name, self), _arguments(op, args, kwargs)
        if in_place:
            return _change(name, fn, tensors, given)
        columns = _columns(name, tensors, given)
        return tuple(fn(t, *row) for t, *row in zip(tensors, *columns, strict=True))

    foreach.__name__ = foreach.__qualname__ = name
    foreach.__doc__ = f"`{op}` of every tensor in a list{', in place' * in_place}."
    return foreach


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The norm of every tensor in a list."""
    return tuple(t.norm(ord, dtype=dtype) for t in _listed("_foreach_norm", self))


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    """The sum of the powers of the elements' sizes, for every tensor in a list."""
    return tuple(
        t.to(dtype or t.dtype).abs().pow(ord).sum() for t in _listed("_foreach_powsum", self)
    )


def _foreach_max(self: Any) -> tuple[Tensor, ...]:
    """The largest element of every tensor in a list."""
    return tuple(t.max() for t in _listed("_foreach_max", self))


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """A copy of every tensor in a list."""
    more = {} if memory_format is None else {"memory_format": memory_format}
    return tuple(t.clone(**more) for t in _listed("_foreach_clone", self))


def _foreach_mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    """The products of the matrices in two lists."""
    tensors = _listed("_foreach_mm", self)
    (others,) = _columns("_foreach_mm", tensors, [mat2])
    return tuple(a.mm(b) for a, b in zip(tensors, others, strict=True))


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> None:
    """Copy the tensors of a list into those of another."""
    tensors = _listed("_foreach_copy_", self)
    _change("_foreach_copy_", lambda x, y: x.copy_(y), tensors, [src])


def _foreach_zero_(self: Any) -> None:
    """Fill every tensor in a list with zeros."""
    for tensor in _listed("_foreach_zero_", self):
        tensor.zero_()


@cache
def find(name: str) -> Callable[..., Any] | None:
    """The function of that name, or None.

    >>> import adjoint as ad
    >>> xs = [ad.ones(2), ad.zeros(1)]
    >>> ad._foreach_add_(xs, 1)
    >>> ad._foreach_mul(xs, [2, 3])
    (tensor([4., 4.]), tensor([3.]))
    """
    if name in globals():
        return globals()[name]
    op = name.removeprefix(PREFIX).removesuffix("_")
    if op in UNARY | BINARY | SCALED:
        return _elementwise(name, op, name.endswith("_"))
    return None
