"""Many tensors at once: small ones end to end in one vector, so that one call serves them all.

For work on a GPU that goes element by element and would otherwise cost a launch for each tensor:
clipping and unscaling gradients, averages of parameters. What is not eager and concrete goes one by
one, and so do NumPy's arrays: native code finds a small call in less time than two copies take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from numpy import ndarray

from adjoint.engine.backends.array.devices import active, library
from adjoint.engine.backends.array.lists.apart import apart, plain
from adjoint.engine.core.operations.overrides import ORDINARY
from adjoint.engine.core.state.context import CONTEXT
from adjoint.engine.tensor.storage import Window
from adjoint.engine.tensor.tensor import Tensor, wrap
from adjoint.engine.tensor.watching import doubt

Array = Any

SMALL = 1 << 15  # elements: copying a longer tensor costs more than the call it saves
SMALL_HERE = 1 << 8  # the same of NumPy's arrays


def scatter(joined: Array, targets: Sequence[Array]) -> None:
    """Copy the parts of a vector back to where they came from."""
    ends = accumulate((a.size for a in targets), initial=0)
    for (start, end), array in zip(pairwise(ends), targets, strict=True):
        array[...] = joined[start:end].reshape(array.shape)


def join(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of tensors of one dtype and device, end to end; off the tape."""
    with active(tensors[0].device):
        xp = library(tensors[0].device)
        return wrap(xp.concatenate([t._array.reshape(-1) for t in tensors]))


def _kind(tensor: Tensor) -> Any:
    """What tensors that go together have in common; None for one that goes by itself."""
    if type(tensor) not in ORDINARY and not hasattr(tensor, "split_over"):
        return None  # its class takes operations over
    array = tensor._array
    here = type(array) is ndarray
    most = SMALL_HERE if here else SMALL
    if type(array) is Window or not 0 < array.size <= most or tensor._storage.version < 0:
        return None
    return array.dtype if here else (array.dtype, tensor.device)


def _alike(one: Any, other: Any) -> bool:
    """Whether each element of one belongs to that of the other in the same place."""
    if one._array.shape != other._array.shape:
        return False
    if type(one) in ORDINARY and type(other) in ORDINARY:
        return True
    # Parts of one shape, of tensors that are divided differently, have other elements.
    return type(one) is type(other) and one._layout == other._layout


def bundles(*columns: Sequence[Tensor]) -> tuple[list[list[int]], list[int]]:
    """Which rows of tensors can go together, and which go by themselves, in order.

    The tensors in a row have one shape, dtype and device; rows that go together differ in shape.
    """
    if not CONTEXT.plain or CONTEXT.grad_enabled:
        return [], list(range(len(columns[0])))
    kinds: dict[Any, list[int]] = {}
    for i, tensor in enumerate(columns[0]):
        kinds.setdefault(_kind(tensor), []).append(i)
    alone = kinds.pop(None, [])
    for column in columns[1:]:
        for kind, rows in kinds.items():
            fit = [_kind(column[i]) == kind and _alike(column[i], columns[0][i]) for i in rows]
            alone += [i for i, good in zip(rows, fit, strict=True) if not good]
            kinds[kind] = [i for i, good in zip(rows, fit, strict=True) if good]
    together = []
    for rows in kinds.values():
        if len(rows) > 1:
            together.append(rows)
        else:
            alone += rows
    return together, sorted(alone)


def _independent(targets: Sequence[Tensor], reads: Sequence[Sequence[Tensor]]) -> bool:
    """Whether no target is written or read on behalf of another, nor read while it is written."""
    read = [t._array for column in reads for t in column]
    written = [t._array for t in targets]
    if any(type(array) is Window for array in (*written, *read)):
        return False
    return all(map(plain, written)) and apart(written, read)


def update_many(
    rule: Callable[..., Any],
    targets: Sequence[Tensor],
    *others: Sequence[Tensor],
    reads: Sequence[Tensor] = (),
) -> None:
    """rule(target, other, ...) for each target, which it changes in place, element by element.

    The result is that of one after the other; `reads` are what the rule reads besides.

    >>> import adjoint as ad
    >>> xs = [ad.ones(2), ad.zeros(1)]
    >>> with ad.no_grad():
    ...     update_many(lambda x: x.add_(1), xs)
    >>> xs
    [tensor([2., 2.]), tensor([1.])]
    """
    together: list[list[int]] = []
    alone = list(range(len(targets)))
    if not all(type(target._array) is ndarray for target in targets):
        together, alone = bundles(targets, *others)
    if together and not _independent(targets, [*others, reads]):
        together, alone = [], list(range(len(targets)))
    for rows in together:
        vectors = [join([column[i] for i in rows]) for column in (targets, *others)]
        rule(*vectors)
        try:
            with active(vectors[0].device):
                scatter(vectors[0]._array, [targets[i]._array for i in rows])
            for i in rows:
                targets[i]._storage.version += 1
        except BaseException:
            doubt(*(targets[i]._storage for i in rows))
            raise
    rest = [[targets[i], *(column[i] for column in others)] for i in alone]
    for_each(rule, rest, elementwise=True)


def for_each(
    rule: Callable[..., Any], rows: Sequence[Sequence[Tensor]], *, elementwise: bool = False
) -> list[Any]:
    """rule(*row) for each row; a capture records it once for rows alike (Note [repeats]).

    One that is `elementwise` treats all elements alike, whatever the shape (Note [any shape]).

    >>> import adjoint as ad
    >>> for_each(ad.add, [[ad.ones(1), ad.ones(1)], [ad.zeros(2), ad.ones(2)]])
    [tensor([2.]), tensor([1., 1.])]
    """
    capture = CONTEXT.capture
    repeats = None if capture is None else capture.repeats()
    if repeats is None:
        return [rule(*row) for row in rows]
    return [repeats.run(None, row, partial(rule, *row), elementwise=elementwise) for row in rows]
