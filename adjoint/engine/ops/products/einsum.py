"""Einstein summation, lowered to diagonals, permutations, sums and matrix products.

The equation becomes a list of labels per operand; labels are ints, letters and ellipsis
dimensions alike. Operands are then contracted in pairs, the pair with the smallest result first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.engine.core.dtype import int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.ops.products.matmul import MATMUL

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ELLIPSIS = "..."  # stands in a list of labels until the operand's rank says what it covers
Labels = list[Any]


class Term(NamedTuple):
    """An operand with a label for each dimension."""

    labels: list[Any]
    tensor: Any


# -- reading the arguments ----------------------------------------------------------------------


def _parse(text: str, what: str) -> Labels:
    """The labels of one subscript string."""
    labels: Labels = []
    text = text.replace(" ", "")
    i = 0
    while i < len(text):
        if text[i] == ".":
            if text[i : i + 3] != _ELLIPSIS or _ELLIPSIS in labels:
                raise RuntimeError(
                    f"einsum(): found '.' for {what} that is not part of a single ellipsis '...'"
                )
            labels.append(_ELLIPSIS)
            i += 3
        elif text[i] in _LETTERS:
            labels.append(text[i])
            i += 1
        else:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {i} of {what}: {text[i]!r}, "
                "subscripts must be in [a-zA-Z]"
            )
    return labels


def _read_equation(equation: str) -> tuple[list[Labels], Labels | None]:
    left, arrow, right = equation.partition("->")
    inputs = [_parse(part, f"operand {i}") for i, part in enumerate(left.split(","))]
    return inputs, _parse(right, "the output") if arrow else None


def _read_sublists(args: Sequence[Any]) -> tuple[list[Labels], Labels | None, list[Any]]:
    """Operands interleaved with lists of integer labels, perhaps an output list last."""

    def letters(sublist: Any) -> Labels:
        labels: Labels = []
        for s in sublist:
            if s is Ellipsis:
                labels.append(_ELLIPSIS)
            elif 0 <= int(s) < len(_LETTERS):
                labels.append(_LETTERS[int(s)])
            else:
                raise ValueError(f"einsum(): subscripts must be in 0..51, received {s}")
        return labels

    pairs = len(args) // 2
    operands = [args[2 * i] for i in range(pairs)]
    inputs = [letters(args[2 * i + 1]) for i in range(pairs)]
    return inputs, letters(args[-1]) if len(args) % 2 else None, operands


def _expand_ellipsis(labels: Labels, rank: int, index: int) -> tuple[Labels, int]:
    """Labels for every dimension; those of an ellipsis count from its end: -1 is the last."""
    named = len(labels) - (_ELLIPSIS in labels)
    covered = rank - named
    if covered < 0 or (covered and _ELLIPSIS not in labels):
        raise ShapeError(
            f"einsum(): the number of subscripts in the equation ({named}) does not match the "
            f"number of dimensions ({rank}) for operand {index}"
        )
    expanded: Labels = []
    for label in labels:
        expanded += range(-covered, 0) if label == _ELLIPSIS else [label]
    return expanded, covered


def _output_labels(inputs: list[Labels], output: Labels | None, covered: int) -> Labels:
    dots: Labels = list(range(-covered, 0))
    if output is None:  # ellipsis first, then letters that occur once, in alphabetical order
        count = Counter(label for labels in inputs for label in labels if isinstance(label, str))
        return dots + sorted(label for label, n in count.items() if n == 1)
    labels: Labels = []
    for label in output:
        labels += dots if label == _ELLIPSIS else [label]
    for label, n in Counter(labels).items():
        if n > 1:
            raise RuntimeError(
                f"einsum(): output subscript {label} appears more than once in the output"
            )
        if not any(label in operand for operand in inputs):
            raise RuntimeError(
                f"einsum(): output subscript {label} does not appear in the equation for any "
                "input operand"
            )
    return labels


# -- contracting --------------------------------------------------------------------------------


def _take_diagonals(term: Term, index: int) -> Term:
    """Repeated labels become one dimension."""
    labels, x = term
    while len(set(labels)) != len(labels):
        label = next(c for c, n in Counter(labels).items() if n > 1)
        i = labels.index(label)
        j = labels.index(label, i + 1)
        if x.shape[i] != x.shape[j]:
            raise ShapeError(
                f"einsum(): subscript {label} is repeated for operand {index} but the sizes don't "
                f"match, {x.shape[j]} != {x.shape[i]}"
            )
        x = x.diagonal(0, i, j)  # the diagonal goes last
        labels = [c for d, c in enumerate(labels) if d not in (i, j)] + [label]
    return Term(labels, x)


def _drop_ones(term: Term, sizes: dict[Any, int]) -> Term:
    """Without dimensions of size 1 that broadcast against a larger one."""
    labels, x = term
    dims = [d for d, c in enumerate(labels) if not (x.shape[d] == 1 and sizes[c] != 1)]
    if len(dims) == len(labels):
        return term
    return Term([labels[d] for d in dims], x.reshape(tuple(x.shape[d] for d in dims)))


def _sum_out(term: Term, keep: Iterable[Any]) -> Term:
    """Sum over labels nobody else needs; integers become int64, as in `sum`."""
    labels, x = term
    gone = [d for d, c in enumerate(labels) if c not in keep]
    return Term([c for c in labels if c in keep], x.sum(gone)) if gone else term


def _arrange(term: Term, *groups: Labels) -> Any:
    """The tensor permuted and reshaped to one dimension per group of labels."""
    order = [term.labels.index(c) for group in groups for c in group]
    x = term.tensor.permute(order) if order != sorted(order) else term.tensor
    sizes = dict(zip(term.labels, term.tensor.shape, strict=True))
    return x.reshape(tuple(prod(sizes[c] for c in group) for group in groups))


def _contract(a: Term, b: Term, keep: set[Any]) -> Term:
    """One product of two terms, summed over what is not kept."""
    same = a.tensor.dtype is b.tensor.dtype
    a = _sum_out(a, keep | set(b.labels))
    b = _sum_out(b, keep | set(a.labels))
    if same and a.tensor.dtype is not b.tensor.dtype:  # a sum widened one of them
        a, b = Term(a.labels, a.tensor.to(int64)), Term(b.labels, b.tensor.to(int64))
    shared = [c for c in a.labels if c in b.labels]
    batch, inner = [c for c in shared if c in keep], [c for c in shared if c not in keep]
    rows = [c for c in a.labels if c not in shared]
    columns = [c for c in b.labels if c not in shared]
    sizes = dict(zip(a.labels + b.labels, (*a.tensor.shape, *b.tensor.shape), strict=True))
    labels = batch + rows + columns
    shape = tuple(sizes[c] for c in labels)
    if not inner:  # nothing to sum: a broadcast product
        left = _arrange(a, *[[c] for c in batch + rows])
        left = left.reshape((*left.shape, *(1,) * len(columns)))
        right = _arrange(b, *[[c] for c in batch + columns])
        right = right.reshape(
            (*right.shape[: len(batch)], *(1,) * len(rows), *right.shape[len(batch) :])
        )
        return Term(labels, left * right)
    if batch:
        out = MATMUL(_arrange(a, batch, rows, inner), _arrange(b, batch, inner, columns))
    else:
        out = MATMUL(_arrange(a, rows, inner), _arrange(b, inner, columns))
    return Term(labels, out.reshape(shape))


def _next_pair(terms: list[Term], output: Labels, sizes: dict[Any, int]) -> tuple[int, int]:
    """The two terms whose product is smallest next to what it replaces."""
    if len(terms) == 2:
        return 0, 1

    def growth(i: int, j: int) -> int:
        rest = set(output).union(*(t.labels for k, t in enumerate(terms) if k not in (i, j)))
        labels = {c for c in (*terms[i].labels, *terms[j].labels) if c in rest}
        before = sum(prod(t.tensor.shape) for t in (terms[i], terms[j]))
        return prod(sizes[c] for c in labels) - before

    pairs = [(i, j) for j in range(len(terms)) for i in range(j)]
    return min(pairs, key=lambda pair: (growth(*pair), pair))


def _sizes(terms: list[Term]) -> dict[Any, int]:
    sizes: dict[Any, int] = {}
    for index, (labels, x) in enumerate(terms):
        for label, size in zip(labels, x.shape, strict=True):
            have = sizes.get(label, 1)
            if have != 1 and size not in (1, have):
                raise ShapeError(
                    f"einsum(): subscript {label} has size {size} for operand {index} which does "
                    f"not broadcast with previously seen size {have}"
                )
            sizes[label] = size if size != 1 else have
    return sizes


def _evaluate(terms: list[Term], output: Labels) -> Any:
    sizes = _sizes(terms)
    terms = [_drop_ones(t, sizes) for t in terms]
    while len(terms) > 1:
        i, j = _next_pair(terms, output, sizes)
        others = [t for k, t in enumerate(terms) if k not in (i, j)]
        keep = set(output).union(*(t.labels for t in others))
        terms = [*others, _contract(terms[i], terms[j], keep)]
    last = _sum_out(terms[0], output)
    order = [last.labels.index(c) for c in output]
    return last.tensor.permute(order)


@public()
def einsum(*args: Any) -> Tensor:
    """Sums of products of elements, by Einstein's notation.

    >>> import adjoint as ad
    >>> ad.einsum("ij,j->i", ad.ones(2, 3), ad.ones(3))
    tensor([3., 3.])
    """
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    if isinstance(args[0], str):
        operands = list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
        inputs, output = _read_equation(args[0])
        if len(operands) != len(inputs):
            fewer = "fewer" if len(operands) < len(inputs) else "more"
            raise RuntimeError(
                f"einsum(): {fewer} operands were provided ({len(operands)}) than specified in "
                f"the equation ({len(inputs)})"
            )
    else:
        inputs, output, operands = _read_sublists(args)
    for x in operands:
        if not is_tensor(x):
            raise TypeError(f"einsum(): operands must be Tensors, received {type(x).__name__}")
    terms: list[Term] = []
    covered = 0
    for i, (labels, x) in enumerate(zip(inputs, operands, strict=True)):
        full, here = _expand_ellipsis(labels, x.ndim, i)
        covered = max(covered, here)
        terms.append(Term(full, x))
    result_labels = _output_labels([t.labels for t in terms], output, covered)
    terms = [_take_diagonals(t, i) for i, t in enumerate(terms)]
    return _evaluate(terms, result_labels)
