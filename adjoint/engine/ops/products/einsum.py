"""Einstein summation, lowered to diagonals, permutations, sums and matrix products.

The equation becomes a list of labels per operand; labels are ints, letters and ellipsis
dimensions alike. Operands are then contracted in pairs, the pair with the smallest result first.

All that is worked out on sizes alone (`EinsumOperand`), once for an equation and sizes that come
again: to sort labels takes longer than to multiply small tensors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from adjoint.engine.core.dtype import DType, int64
from adjoint.engine.core.errors import ShapeError
from adjoint.engine.core.operations.public import public
from adjoint.engine.core.operations.record import is_tensor
from adjoint.engine.core.promotion import common_dtype
from adjoint.engine.ops.products.matmul import MATMUL

if TYPE_CHECKING:
    from adjoint.engine.tensor.tensor import Tensor

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ELLIPSIS = "..."  # stands in a list of labels until the operand's rank says what it covers
Labels = list[Any]


class EinsumStep(NamedTuple):
    """One operation of a contraction, on tensors by number; its result has the next one."""

    name: str  # of a method of the first
    operands: tuple[int, ...]
    arguments: tuple[Any, ...] = ()


class EinsumOperand:
    """A tensor that is not there yet: what is done to it is written down as steps."""

    __slots__ = ("dtype", "number", "shape", "steps")

    def __init__(
        self, steps: list[EinsumStep], number: int, shape: tuple[int, ...], dtype: DType
    ) -> None:
        self.steps, self.number, self.shape, self.dtype = steps, number, shape, dtype

    def after(
        self, shape: tuple[int, ...], step: EinsumStep, dtype: DType | None = None
    ) -> EinsumOperand:
        """What one more step gives."""
        self.steps.append(step)
        number = len(self.steps) - 1  # operands themselves are the first
        return EinsumOperand(self.steps, number, shape, self.dtype if dtype is None else dtype)

    def permute(self, order: Sequence[int]) -> EinsumOperand:
        if list(order) == list(range(len(self.shape))):
            return self
        shape = tuple([self.shape[d] for d in order])
        return self.after(shape, EinsumStep("permute", (self.number,), (tuple(order),)))

    def reshape(self, shape: tuple[int, ...]) -> EinsumOperand:
        if shape == self.shape:
            return self
        return self.after(shape, EinsumStep("reshape", (self.number,), (shape,)))

    def diagonal(self, i: int, j: int) -> EinsumOperand:
        """The diagonal of two dimensions, which goes last."""
        shape = (*[n for d, n in enumerate(self.shape) if d not in (i, j)], self.shape[i])
        return self.after(shape, EinsumStep("diagonal", (self.number,), (0, i, j)))

    def sum(self, dims: list[int]) -> EinsumOperand:
        """Sums over dimensions; integers become int64."""
        shape = tuple([n for d, n in enumerate(self.shape) if d not in dims])
        dtype = self.dtype if self.dtype.is_inexact else int64
        return self.after(shape, EinsumStep("sum", (self.number,), (dims,)), dtype)

    def to(self, dtype: DType) -> EinsumOperand:
        if dtype is self.dtype:
            return self
        return self.after(self.shape, EinsumStep("to", (self.number,), (dtype,)), dtype)

    def times(self, name: str, other: EinsumOperand, shape: tuple[int, ...]) -> EinsumOperand:
        """A product: "mul" or "matmul"."""
        return self.after(
            shape, EinsumStep(name, (self.number, other.number)), common_dtype((self, other))
        )


class Term(NamedTuple):
    """An operand with a label for each dimension."""

    labels: list[Any]
    tensor: EinsumOperand


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
        x = x.diagonal(i, j)
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


def _arrange(term: Term, *groups: Labels) -> EinsumOperand:
    """The tensor permuted and reshaped to one dimension per group of labels."""
    order = [term.labels.index(c) for group in groups for c in group]
    sizes = dict(zip(term.labels, term.tensor.shape, strict=True))
    shape = tuple(prod(sizes[c] for c in group) for group in groups)
    return term.tensor.permute(order).reshape(shape)


def _spread(term: Term, labels: Labels) -> EinsumOperand:
    """The tensor with a dimension for each label, of size 1 where it has none."""
    sizes = dict(zip(term.labels, term.tensor.shape, strict=True))
    order = [term.labels.index(c) for c in labels if c in sizes]
    return term.tensor.permute(order).reshape(tuple(sizes.get(c, 1) for c in labels))


def _are_earlier(some: Labels, others: Labels, output: Labels) -> bool:
    """Whether all of the labels stand in the output before all the others."""
    if not all(c in output for c in some + others):
        return False
    return max(map(output.index, some)) < min(map(output.index, others))


def _contract(a: Term, b: Term, keep: set[Any], output: Labels, swaps: bool) -> Term:
    """One product of two terms, summed over what is not kept.

    `swaps` says that they may change places, for a result that lies as it is asked for.
    """
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
    each = [[c] for c in batch]  # merged, they might have to be copied
    if not inner:  # nothing to sum: a broadcast product, which lies in memory as it is asked for
        labels = [c for c in output if c in sizes] + [c for c in labels if c not in output]
        shape = tuple(sizes[c] for c in labels)
        return Term(labels, _spread(a, labels).times("mul", _spread(b, labels), shape))
    if swaps and rows and columns and _are_earlier(columns, rows, output):
        a, b, rows, columns = b, a, columns, rows
        labels = batch + rows + columns
        shape = tuple(sizes[c] for c in labels)
    left, right = _arrange(a, *each, rows, inner), _arrange(b, *each, inner, columns)
    out = left.times("matmul", right, (*left.shape[:-1], right.shape[-1]))
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


def _contract_all(terms: list[Term], output: Labels) -> EinsumOperand:
    sizes = _sizes(terms)
    terms = [_drop_ones(t, sizes) for t in terms]
    swaps = len(terms) == 2  # of more, PyTorch leaves them where they are
    while len(terms) > 1:
        i, j = _next_pair(terms, output, sizes)
        others = [t for k, t in enumerate(terms) if k not in (i, j)]
        keep = set(output).union(*(t.labels for t in others))
        terms = [*others, _contract(terms[i], terms[j], keep, output, swaps)]
    last = _sum_out(terms[0], output)
    return last.tensor.permute([last.labels.index(c) for c in output])


def _plan(equation: Any, shapes: tuple[Any, ...], dtypes: tuple[DType, ...]) -> list[EinsumStep]:
    """The steps of a contraction; the first, one for each operand, say nothing.

    The equation is a text, or the labels of operands and of the result (None: it is not told).
    """
    inputs, output = _read_equation(equation) if isinstance(equation, str) else equation
    if len(shapes) != len(inputs):
        fewer = "fewer" if len(shapes) < len(inputs) else "more"
        raise RuntimeError(
            f"einsum(): {fewer} operands were provided ({len(shapes)}) than specified in "
            f"the equation ({len(inputs)})"
        )
    steps = [EinsumStep("", ()) for _ in shapes]
    terms: list[Term] = []
    covered = 0
    for i, (labels, shape, dtype) in enumerate(zip(inputs, shapes, dtypes, strict=True)):
        full, here = _expand_ellipsis(labels, len(shape), i)
        covered = max(covered, here)
        terms.append(Term(full, EinsumOperand(steps, i, tuple(shape), dtype)))
    result_labels = _output_labels([t.labels for t in terms], output, covered)
    terms = [_take_diagonals(t, i) for i, t in enumerate(terms)]
    out = _contract_all(terms, result_labels)
    if len(steps) == len(shapes):  # the result is a tensor of its own
        steps.append(EinsumStep("permute", (out.number,), (tuple(range(len(out.shape))),)))
    return steps


_known_plan = lru_cache(maxsize=1024)(_plan)


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
    equation: Any = args[0]
    if isinstance(equation, str):
        operands = list(args[1:])
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = list(operands[0])
    else:
        inputs, output, operands = _read_sublists(args)
        equation = tuple(map(tuple, inputs)), None if output is None else tuple(output)
    for x in operands:
        if not is_tensor(x):
            raise TypeError(f"einsum(): operands must be Tensors, received {type(x).__name__}")
    shapes = tuple([tuple(x.shape) for x in operands])
    known = all(n.__class__ is int for shape in shapes for n in shape)  # not a size that is open
    steps = (_known_plan if known else _plan)(equation, shapes, tuple([x.dtype for x in operands]))
    values = operands
    for name, numbers, arguments in steps[len(operands) :]:
        first, *others = [values[k] for k in numbers]
        if name == "matmul":
            values.append(MATMUL(first, *others))
        else:
            values.append(getattr(first, name)(*others, *arguments))
    return values[-1]
