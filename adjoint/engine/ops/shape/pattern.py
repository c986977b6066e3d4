"""rearrange: reshaping and transposing by a pattern with named axes."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING, Any

from adjoint.engine.core.annotations import complete
from adjoint.engine.core.errors import ShapeValueError
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.shape.join import stack

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

complete(globals())

_TOKEN = re.compile(r"\s*(\.\.\.|[()]|[^\W\d]\w*|1(?!\d))")
_ELLIPSIS = "..."
Group = list[str]  # the axes one dimension is made of
_ANY: Group = [_ELLIPSIS]  # itself, not its equal: `...` outside parentheses, a dimension per axis


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Tensor:
    """The elements of a tensor (or of a sequence, stacked) in the order a pattern asks for.

    Parentheses join axes into one dimension, or take one apart where `axes_lengths` (or all
    other axes of it) give the sizes; `1` is a dimension of size 1 and `...` stands for any.

    >>> import adjoint as ad
    >>> x = ad.arange(12).view(2, 6)
    >>> ad.func.rearrange(x, "b (h w) -> w (b h)", w=2).shape
    adjoint.Size([2, 6])
    """
    x = tensor if is_tensor(tensor) else stack(list(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: expected one '->' in the pattern, received {pattern!r}")
    left, right = _parse(sides[0], pattern), _parse(sides[1], pattern)
    inner = [f"{_ELLIPSIS}{i}" for i in range(x.ndim - len(left) + 1)]
    left, right = _without_ellipsis(left, inner, apart=True), _without_ellipsis(right, inner)
    before, after = _names(left, pattern), _names(right, pattern)
    if set(before) != set(after) or not axes_lengths.keys() <= set(before):
        unknown = set(before) ^ set(after) | (axes_lengths.keys() - set(before))
        raise ValueError(f"rearrange: {sorted(unknown)} must be on both sides of {pattern!r}")
    if len(left) != x.ndim:
        raise ShapeValueError(
            f"rearrange: {pattern!r} is for {len(left)} dimensions, received shape {tuple(x.shape)}"
        )
    sizes = dict(axes_lengths)
    for group, size in zip(left, x.shape, strict=True):
        _solve(group, size, sizes, pattern)
    apart = x.reshape([sizes[name] for name in before])
    turned = apart.permute([before.index(name) for name in after])
    return turned.reshape([prod(sizes[name] for name in group) for group in right])


def _parse(side: str, pattern: str) -> list[Group]:
    """One side of a pattern: the axes of each dimension."""
    groups: list[Group] = []
    inside = False
    place = 0
    side = side.rstrip()
    while place < len(side):
        token = _TOKEN.match(side, place)
        if token is None or (token[1] == "(" and inside) or (token[1] == ")" and not inside):
            raise ValueError(f"rearrange: cannot read {side[place:]!r} in {pattern!r}")
        place = token.end()
        if token[1] in "()":
            inside = token[1] == "("
            groups += [[]] if inside else []
        elif inside:
            groups[-1] += [] if token[1] == "1" else [token[1]]
        elif token[1] == _ELLIPSIS:
            groups.append(_ANY)
        else:
            groups.append([] if token[1] == "1" else [token[1]])
    if inside:
        raise ValueError(f"rearrange: a parenthesis is not closed in {pattern!r}")
    return groups


def _without_ellipsis(groups: list[Group], inner: list[str], apart: bool = False) -> list[Group]:
    """`...` replaced by the axes it stands for."""
    expanded: list[Group] = []
    for group in groups:
        if group is _ANY:
            expanded += [[name] for name in inner]
        elif _ELLIPSIS in group and apart:
            raise ValueError("rearrange: '...' cannot stand in parentheses on the left")
        else:
            expanded.append([n for name in group for n in (inner if name == _ELLIPSIS else [name])])
    return expanded


def _names(groups: list[Group], pattern: str) -> list[str]:
    """All axes in order, each once."""
    names = [name for group in groups for name in group]
    if len(set(names)) != len(names):
        raise ValueError(f"rearrange: an axis appears twice on one side of {pattern!r}")
    return names


def _solve(group: Group, size: int, sizes: dict[str, int], pattern: str) -> None:
    """Find the size of the one axis of a dimension that is not given."""
    unknown = [name for name in group if name not in sizes]
    known = prod(sizes[name] for name in group if name in sizes)
    if len(unknown) > 1:
        raise ValueError(f"rearrange: give the sizes of all but one of {unknown} in {pattern!r}")
    if unknown and known and size % known == 0:
        sizes[unknown[0]] = size // known
    elif unknown or known != size:
        raise ShapeValueError(
            f"rearrange: a dimension of size {size} cannot be {group or [1]} in {pattern!r}, "
            f"whose given sizes multiply to {known}"
        )
