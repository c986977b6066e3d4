"""Random programs: a small language whose every sentence runs, and the ways to run one.

A program is a list of instructions `(name, a, b, n, m)`. Each takes tensors `a` and `b` out of a
pool (counted from its end, round and round), adapts them if it must, and puts what it makes back;
`n` and `m` choose dimensions, sizes and dtypes. Any list of instructions is a program, so a failing
one shrinks to a short one.

Note [exact values]
    Compiled sums go in another order than eager ones, so their last bits differ. What turns a small
    difference into a large one (comparisons, rounding, indices) is applied to values only that
    are the same bit for bit: those no such operation has touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from hypothesis import strategies as st

import adjoint as ad
import adjoint.nn.functional as F
from tests.smooth_functions import SMOOTH, SMOOTH_PAIRS, floating, is_float, positive

Instruction = tuple[str, int, int, int, int]
DTYPES = [
    "float32", "float64", "bool", "int64", "int32", "uint8", "int8", "int16", "bfloat16", "float16",
]  # fmt: skip
SIZES = [2, 1, 3, 5, 17, 0, 33]
LAYOUTS = ["plain", "transposed", "stepped", "expanded", "offset", "first", "window"]
MOST = 4000  # elements of a tensor; larger results are not kept
WIDE = 50_000  # of a fused program, so that some kernels are divided among workers
# Rows and columns of fused programs: one, less than a vector, odd, prime, whole vectors.
LENGTHS = [1, 2, 3, 5, 8, 13, 16, 17, 31, 64, 129, 257]


@dataclass(frozen=True)
class Given:
    """An argument or a state: shape, dtype, how it lies in memory."""

    shape: tuple[int, ...]
    dtype: str
    layout: str = "plain"
    drawn: str = "quarters"  # or "normal": no two elements are equal


@dataclass(frozen=True)
class Program:
    """What to run."""

    arguments: tuple[Given, ...]
    states: tuple[Given, ...]
    body: tuple[Instruction, ...]
    grad: bool = False
    keep: int = 0b111  # which of the last values are returned
    most: int = MOST


@dataclass
class Cell:
    """What is known about all tensors that share memory (Note [exact values])."""

    exact: bool = True


@dataclass
class Entry:
    """A tensor in the pool."""

    t: Any
    cell: Cell = field(default_factory=Cell)
    writable: bool = True


class Machine:
    """Runs the instructions."""

    def __init__(self, states: list[Any], most: int = MOST) -> None:
        self.most = most
        self.pool: list[Entry] = []
        self.states = [Entry(s) for s in states]

    def pick(self, k: int) -> Entry:
        return self.pool[-1 - k % len(self.pool)]

    def put(self, t: Any, *sources: Entry, exact: bool = True) -> None:
        """Keep a new value."""
        if prod(t.shape) <= self.most and t.ndim <= 5:
            self.pool.append(Entry(t, Cell(exact and all(e.cell.exact for e in sources))))

    def view(self, t: Any, source: Entry, writable: bool = True) -> None:
        """Keep a view of a value."""
        if prod(t.shape) <= self.most and t.ndim <= 5:
            self.pool.append(Entry(t, source.cell, source.writable and writable))

    def wrote(self, target: Entry, *sources: Entry, exact: bool = True) -> None:
        target.cell.exact &= exact and all(e.cell.exact for e in sources)

    def step(self, instruction: Instruction) -> None:
        name, a, b, n, m = instruction
        OPERATIONS[name](self, self.pick(a), self.pick(b), n, m)


Operation = Callable[[Machine, Entry, Entry, int, int], None]
OPERATIONS: dict[str, Operation] = {}


def operation(fn: Operation) -> Operation:
    OPERATIONS[fn.__name__.rstrip("_")] = fn
    return fn


# -- adapting operands --------------------------------------------------------------------------


def dims_of(t: Any, n: int) -> tuple[int, ...]:
    """Some of the dimensions, by the bits of n; none of them would mean all."""
    return tuple(d for d in range(t.ndim) if n >> d & 1) or (t.ndim - 1,)


def fitting(t: Any, shape: tuple[int, ...], up: bool = True) -> Any:
    """`t`, or something of its elements that broadcasts with (or to) a shape."""
    wide = tuple(t.shape)
    if up or len(wide) <= len(shape):
        lead = len(shape) - len(wide)
        pairs = list(zip(wide[::-1], shape[::-1], strict=False))
        if all(x in (1, y) or (up and y == 1) for x, y in pairs) and (up or lead >= 0):
            return t
    if t.numel() == prod(shape):
        return t.reshape(shape)
    return t.reshape(-1)[0] if t.numel() else ad.ones((), dtype=t.dtype)


def indices(e: Entry, size: int, count: int) -> Any:
    """Whole numbers below a size made of a value, or constants."""
    if e.cell.exact and e.t.dtype is ad.int64 and e.t.numel() and not e.t.requires_grad:
        line = e.t.reshape(-1)
        return (ad.cat([line] * (count // line.numel() + 1))[:count]) % size
    return ad.arange(count) * 3 % size


# -- elementwise --------------------------------------------------------------------------------


def scaled(x: Any, y: Any) -> Any:
    """Twice x and y as its dtype; what may be rounded stays out of whole numbers."""
    if is_float(y) and not is_float(x):
        y = x
    return x * 2 + y.to(x.dtype) if x.dtype is not ad.bool else x | (y > 0)


EXACT: dict[str, Callable[[Any], Any]] = {
    "neg": lambda t: -t if t.dtype is not ad.bool else ~t,
    "abs": lambda t: t.abs() if t.dtype is not ad.bool else t,
    "sign": lambda t: t.sign(),
    "relu": lambda t: t.relu() if t.dtype is not ad.bool else t,
    "half": lambda t: t * 0.5,
    "isfinite": lambda t: t.isfinite(),
    "logical_not": lambda t: t.logical_not(),
    "clamp": lambda t: t.clamp(0, 2) if t.dtype is not ad.bool else t,
    "clone": lambda t: t.clone(),
    "contiguous": lambda t: t.contiguous(),
    "zeros_like": lambda t: ad.zeros_like(t),
    "full": lambda t: ad.full(t.shape, 3, dtype=t.dtype),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y if ad.bool not in (x.dtype, y.dtype) else x ^ (y != 0),
    "mul": lambda x, y: x * y,
    "maximum": lambda x, y: ad.maximum(x, y),
    "minimum": lambda x, y: ad.minimum(x, y),
    "rsub": lambda x, y: 1 - y if y.dtype is not ad.bool else ~y,
    "scaled": lambda x, y: scaled(x, y),
}
TESTS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda x, y: x == y,
    "lt": lambda x, y: x < y,
    "ge": lambda x, y: x >= y,
    "logical_and": lambda x, y: x.logical_and(y),
}


def _register_points() -> None:
    def one(fn: Callable[[Any], Any], exact: bool) -> Operation:
        return lambda m, a, b, i, j: m.put(fn(a.t), a, exact=exact)

    def two(fn: Callable[[Any, Any], Any]) -> Operation:
        return lambda m, a, b, i, j: m.put(fn(a.t, fitting(b.t, tuple(a.t.shape))), a, b)

    def pair(fn: Callable[[Any, Any], Any]) -> Operation:
        def run(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
            x = floating(a.t)
            y = fitting(floating(b.t).to(x.dtype), tuple(x.shape))
            m.put(fn(x, y), a, b, exact=False)

        return run

    def test(fn: Callable[[Any, Any], Any]) -> Operation:
        def run(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
            if a.cell.exact and b.cell.exact:
                m.put(fn(a.t, fitting(b.t, tuple(a.t.shape))), a, b)

        return run

    OPERATIONS.update({name: one(fn, True) for name, fn in EXACT.items()})
    OPERATIONS.update({name: one(fn, False) for name, fn in SMOOTH.items()})
    OPERATIONS.update({name: two(fn) for name, fn in BINARY.items()})
    OPERATIONS.update({name: pair(fn) for name, fn in SMOOTH_PAIRS.items()})
    OPERATIONS.update({name: test(fn) for name, fn in TESTS.items()})


_register_points()


@operation
def div(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    other = fitting(b.t, tuple(a.t.shape))
    m.put(a.t / (floating(other).abs() + 1), a, b, exact=False)


@operation
def floor_divide(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.cell.exact and not is_float(a.t) and a.t.dtype is not ad.bool:
        by = (2, 3, -2)[i % 3] if a.t.dtype is not ad.uint8 else 3
        m.put(a.t // by if j % 2 else a.t % by, a)


@operation
def cast(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    dtype = getattr(ad, DTYPES[i % len(DTYPES)])
    if a.cell.exact or dtype.is_floating_point:
        t = a.t if dtype.is_floating_point or not is_float(a.t) else a.t.clamp(0, 100)
        m.put(t.to(dtype), a)


@operation
def where(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.cell.exact:
        other = fitting(b.t, tuple(a.t.shape))
        m.put(ad.where(a.t > 0, other, 2 if i % 2 else other + 1), a, b)


@operation
def tri(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim >= 2:
        m.put(a.t.tril(i - 2) if j % 2 else a.t.triu(i - 2), a)


# -- reductions ---------------------------------------------------------------------------------


@operation
def sum_(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    dims = dims_of(a.t, i) if a.t.ndim else ()
    m.put(a.t.sum(dims, keepdim=bool(j % 2)), a, exact=not is_float(a.t))


@operation
def mean(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel():
        m.put(floating(a.t).mean(dims_of(a.t, i), keepdim=bool(j % 2)), a, exact=False)


@operation
def extreme(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel():
        fn = a.t.amax if j & 2 else a.t.amin
        m.put(fn(dims_of(a.t, i), keepdim=bool(j % 2)), a)


@operation
def any_all(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.cell.exact:
        d = dims_of(a.t, i)[0]
        m.put(a.t.any(d, keepdim=bool(j % 2)) if j & 2 else a.t.all(d, keepdim=bool(j % 2)), a)


@operation
def prod_(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim:
        t = a.t.clamp(0, 2) if a.t.dtype is not ad.bool else a.t
        m.put(t.prod(dims_of(t, i)[0], keepdim=bool(j % 2)), a, exact=not is_float(t))


@operation
def centred(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    """A norm: a reduction, what follows it in the full space, and another reduction."""
    if a.t.ndim and a.t.numel():
        t, dims = floating(a.t), dims_of(a.t, i)
        t = t - t.mean(dims, keepdim=True)
        m.put(t * ((t * t).mean(dims, keepdim=True) + 0.1).rsqrt(), a, exact=False)


@operation
def softmax(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel():
        t, d = floating(a.t), i % a.t.ndim
        fn = (t.softmax, t.log_softmax, t.logsumexp)[j % 3]
        m.put(fn(d), a, exact=False)


@operation
def spread(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel():
        m.put(floating(a.t).var(dims_of(a.t, i), correction=0, keepdim=bool(j % 2)), a, exact=False)


@operation
def argument(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel() and a.cell.exact and a.t.dtype is not ad.bool:
        d = i % a.t.ndim
        m.put(a.t.argmax(d, keepdim=bool(j % 2)) if j & 2 else a.t.argmin(d), a)


@operation
def running(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim:
        d = i % a.t.ndim
        t = a.t if a.t.dtype is not ad.bool else a.t.to(ad.int64)
        if j % 3 == 2:
            if a.t.numel() and a.cell.exact:
                for part in t.cummax(d) if j < 3 else t.cummin(d):
                    m.put(part, a)
        elif j % 3:
            m.put(t.clamp(0, 2).cumprod(d), a, exact=not is_float(t))
        else:
            m.put(t.cumsum(d), a, exact=not is_float(t))


# -- views --------------------------------------------------------------------------------------


@operation
def flatten(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    reshape_to(m, a, (a.t.numel(),))


@operation
def split_dim(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    for d, n in enumerate(a.t.shape):
        for by in (2, 3, 5):
            if n > by and n % by == 0:
                parts = (by, n // by) if j % 2 else (n // by, by)
                reshape_to(m, a, (*a.t.shape[:d], *parts, *a.t.shape[d + 1 :]))
                return


@operation
def merge_dims(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim >= 2:
        d = i % (a.t.ndim - 1)
        shape = tuple(a.t.shape)
        reshape_to(m, a, (*shape[:d], shape[d] * shape[d + 1], *shape[d + 2 :]))


def reshape_to(m: Machine, a: Entry, shape: tuple[int, ...]) -> None:
    made = a.t.reshape(shape)
    if made._base is not None or made is a.t:
        m.view(made, a)
    else:
        m.put(made, a)


@operation
def permute(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim:
        dims = list(range(a.t.ndim))
        k = i % a.t.ndim
        dims = dims[k:] + dims[:k]
        if j % 2:
            dims[0], dims[-1] = dims[-1], dims[0]
        m.view(a.t.permute(dims), a)


@operation
def unsqueeze(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    m.view(a.t.unsqueeze(i % (a.t.ndim + 1)), a)


@operation
def squeeze(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    m.view(a.t.squeeze(), a)


@operation
def expand(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    d = i % (a.t.ndim + 1)
    t = a.t.unsqueeze(d)
    m.view(t.expand(*t.shape[:d], j + 1, *t.shape[d + 1 :]), a, writable=False)


@operation
def slice_(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim:
        d, n = i % a.t.ndim, a.t.shape[i % a.t.ndim]
        window = [slice(j % 2, None), slice(None, None, 2), slice(1, max(n - 1, 1)), slice(0, 1),
                  slice(n, None), slice(j % 3, None, 3)][j % 6]  # fmt: skip
        m.view(a.t[(slice(None),) * d + (window,)], a)


@operation
def select(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.shape[i % a.t.ndim]:
        d = i % a.t.ndim
        m.view(a.t.select(d, j % a.t.shape[d]), a)


@operation
def diagonal(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim >= 2:
        m.view(a.t.diagonal(i % 3 - 1, 0, -1 if j % 2 else 1), a)


@operation
def unfold(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.shape[i % a.t.ndim] >= 2:
        m.view(a.t.unfold(i % a.t.ndim, 2, 1 + j % 2), a, writable=bool(j % 2))


@operation
def as_strided(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.is_contiguous() and a.t.numel() >= 6 and a.t._base is None:
        m.view(a.t.as_strided((2, 3), (1, 2) if j % 2 else (1, 1), i % 2), a, writable=bool(j % 2))


@operation
def detach(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    m.view(a.t.detach(), a)


@operation
def flip(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim:
        dims = dims_of(a.t, i)
        m.put(a.t.flip(dims) if j % 2 else a.t.roll(j - 2, dims[0]), a)


# -- writes -------------------------------------------------------------------------------------


def may_write(a: Entry) -> bool:
    return a.writable and not (a.t.is_leaf and a.t.requires_grad)


@operation
def write(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    """An in-place operation on a value or a view of one."""
    if not may_write(a):
        return
    t, other = a.t, fitting(b.t, tuple(a.t.shape), up=False).to(a.t.dtype)
    if not (is_float(t) or b.cell.exact):
        return
    match i % 6:
        case 0:
            t.add_(other)
        case 1:
            t.mul_(other)
        case 2:
            t.copy_(other)
        case 3:
            t.fill_(j)
        case 4:
            t.zero_()
        case 5:
            t[...] = other
    m.wrote(a, b)


@operation
def write_state(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    """State takes a value, adds one, or two states swap."""
    if not m.states:
        return
    s = m.states[i % len(m.states)]
    if not s.writable or not (is_float(s.t) or a.cell.exact):
        return
    with ad.no_grad():
        value = fitting(a.t.detach(), tuple(s.t.shape), up=False).to(s.t.dtype)
        if j % 3 == 0:
            s.t.copy_(value)
        elif j % 3 == 1:
            s.t.add_(value)
        else:
            other = m.states[(i + 1) % len(m.states)]
            alike = other.t.shape == s.t.shape and is_float(s.t) == is_float(other.t)
            if alike and other.writable:
                kept = s.t.clone()
                s.t.copy_(other.t)
                other.t.copy_(kept)
                m.wrote(other, s)
                m.wrote(s, other)
                return
            s.t[...] = value * 2 if s.t.dtype is not ad.bool else value
    m.wrote(s, a)


@operation
def masked_fill(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if may_write(a) and b.cell.exact:
        a.t.masked_fill_(fitting(b.t, tuple(a.t.shape), up=False) > 0, j % 2)
        m.wrote(a, b)


@operation
def index_write(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    """Rows put, or added, at indices."""
    if not may_write(a) or not a.t.ndim or not a.t.numel():
        return
    d = i % a.t.ndim
    rows = a.t.shape[d]
    if j > 3:  # elements at an index per dimension, or whole rows between two
        at = tuple(indices(b, n, 3) for n in a.t.shape)
        where = at if j == 4 else (at[0], slice(None), *at[2:])
        a.t[where] = a.t[where] * 2 if a.t.dtype is not ad.bool else ~a.t[where]
        m.wrote(a)
        return
    if j % 2:
        index = indices(b, rows, 3)
        a.t.index_add_(
            d, index, ad.ones_like(a.t).select(d, 0).unsqueeze(d).repeat_interleave(3, d)
        )
    else:
        index = ad.arange(max(rows // 2, 1)) * 2 % rows
        a.t.index_fill_(d, index, j)
    m.wrote(a, exact=not (j % 2 and is_float(a.t)))


# -- indices ------------------------------------------------------------------------------------


@operation
def index_select(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel():
        d = i % a.t.ndim
        m.put(a.t.index_select(d, indices(b, a.t.shape[d], 1 + j)), a)


@operation
def index(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel():
        d = i % a.t.ndim
        at = indices(b, a.t.shape[d], 4).reshape(2, 2)
        if j % 2 and a.t.ndim > 1 and d != a.t.ndim - 1:
            more = indices(b, a.t.shape[d + 1], 4).reshape(2, 2)
            m.put(a.t[(slice(None),) * d + (at, more)], a)
        elif j == 2 and a.t.ndim > 2:  # apart from each other, of different shapes
            first = indices(b, a.t.shape[0], 4).reshape(2, 2)
            m.put(a.t[first, :, indices(b, a.t.shape[2], 2)], a)
        else:
            m.put(a.t[(slice(None),) * d + (at,)], a)


@operation
def gather(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel():
        d = i % a.t.ndim
        shape = (*a.t.shape[:d], 1 + j % 3, *a.t.shape[d + 1 :])
        at = indices(b, a.t.shape[d], prod(shape)).reshape(shape)
        m.put(a.t.gather(d, at), a)


@operation
def scatter(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel():
        d = i % a.t.ndim
        count = 1 if j % 2 else min(2, a.t.shape[d])
        shape = (*a.t.shape[:d], count, *a.t.shape[d + 1 :])
        if count == 1:
            at = indices(b, a.t.shape[d], prod(shape)).reshape(shape)
        else:
            at = ad.arange(count).reshape(count, *(1,) * (a.t.ndim - 1 - d)).expand(shape)
        source = (a.t * 2 if a.t.dtype is not ad.bool else ~a.t).narrow(d, 0, count)
        m.put(a.t.scatter_add(d, at, source) if j & 2 else a.t.scatter(d, at, source), a)


@operation
def scatter_reduce(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim and a.t.numel() and a.t.dtype is not ad.bool:
        d = i % a.t.ndim
        at = indices(b, a.t.shape[d], a.t.numel()).reshape(a.t.shape)
        how = ("amax", "amin", "sum", "prod")[j % 4]
        t = a.t if j % 4 < 3 else a.t.clamp(0, 2)
        exact = j % 4 < 2 or not is_float(t)
        m.put(t.scatter_reduce(d, at, t, how), a, exact=exact)


@operation
def one_hot(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    if a.t.ndim <= 2:
        at = indices(a, 4, max(a.t.numel(), 1))
        m.put(F.one_hot(at, 4), a)


# -- the rest -----------------------------------------------------------------------------------


@operation
def join(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    other = b.t if b.t.shape == a.t.shape else a.t + 1
    if other.dtype is not a.t.dtype:
        other = (other > 0 if b.cell.exact else a.t > 5) if a.t.dtype is ad.bool else a.t
    if j % 2 or not a.t.ndim:
        m.put(ad.stack([a.t, other], i % (a.t.ndim + 1)), a, b)
    else:
        d = i % a.t.ndim
        m.put(ad.cat([a.t, other, a.t.narrow(d, 0, min(1, a.t.shape[d]))], d), a, b)


@operation
def matmul(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    x = floating(a.t)
    if not x.ndim:
        return
    y = floating(b.t).to(x.dtype)
    if j % 3 == 0 and x.ndim >= 2:
        m.put(x @ x.transpose(-1, -2), a, exact=False)
    elif j % 3 == 1 and y.ndim >= 2 and y.shape[-2] == x.shape[-1] and y.ndim == 2:
        m.put(x @ y, a, b, exact=False)
    else:
        flat = x.reshape(x.shape[0], -1) if x.numel() else x.reshape(x.shape[0], 0)
        m.put(flat.t() @ flat, a, exact=False)


@operation
def random_(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    shape = tuple(a.t.shape)
    match i % 4:
        case 0:
            m.put(ad.rand(shape, dtype=ad.float64 if j % 2 else ad.float32))
        case 1:
            m.put(ad.randn(shape))
        case 2:
            m.put(ad.randint(0, 7, shape))
        case _:
            m.put(F.dropout(floating(a.t), 0.5), a)


@operation
def arange(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    m.put(ad.arange(i, i + 3 * j, 1 + j % 2, dtype=getattr(ad, DTYPES[(0, 1, 3, 4)[i % 4]])))


# -- loops and branches -------------------------------------------------------------------------

# What a body does: functions of two floats that have the first one's shape; whether they are exact.
BODIES: tuple[tuple[Callable[[Any, Any], Any], bool], ...] = (
    (lambda x, y: x * 0.5 + y, True),
    (lambda x, y: (x * y).sin(), False),
    (lambda x, y: ad.maximum(x, -y), True),
    (lambda x, y: x - floating(x).mean().to(x.dtype) if x.numel() else x * 2, False),
    (lambda x, y: x.flip(0) - y if x.ndim else x + 1, True),
    (lambda x, y: x.clamp(-1, 1).transpose(0, -1).reshape(x.shape) if x.ndim else y * 1, True),
)


def pair(a: Entry, b: Entry) -> tuple[Any, Any]:
    """Two floats of one dtype, the second of which broadcasts to the first."""
    x = floating(a.t)
    return x, fitting(b.t, tuple(x.shape), up=False).to(x.dtype)


@operation
def choose(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    """One of two functions, by whether anything is positive."""
    if b.cell.exact:
        x, y = pair(a, b)
        (yes, sure), (no, certain) = BODIES[i % len(BODIES)], BODIES[j % len(BODIES)]
        out = ad.cond((b.t > 0).any(), lambda x: yes(x, y) * 1, lambda x: no(x, y) * 1, (x,))
        m.put(out, a, b, exact=sure and certain)


@operation
def repeat(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    """A function applied up to five times, as long as nothing is large."""
    x, y = pair(a, b)
    fn, exact = BODIES[j % len(BODIES)]
    exact = exact and a.cell.exact and b.cell.exact

    def goes_on(n: Any, x: Any) -> Any:
        return (n < i) & (x < 3).all() if exact else n < i

    bound = 5 if x.requires_grad or y.requires_grad else None  # else no reverse derivative
    n, out = ad.while_loop(goes_on, lambda n, x: (n + 1, fn(x, y)), (0, x), max_iterations=bound)
    m.put(n, a, b, exact=True)
    m.put(out * 1, a, b, exact=exact)


@operation
def walk(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    """A scan with a branch in it, by rows."""
    if a.t.ndim and a.cell.exact and len(a.t) <= 5:
        rows = floating(a.t)
        (yes, sure), (no, certain) = BODIES[i % len(BODIES)], BODIES[j % len(BODIES)]

        def turn(c: Any, row: Any) -> Any:
            new = ad.cond((row > 0).any(), lambda c: yes(c, row), lambda c: no(c, row) * 1, (c,))
            return new, new * 0.5

        c, ys = ad.scan(turn, ad.ones(rows.shape[1:], dtype=rows.dtype), rows, reverse=j > 2)
        m.put(c * 1, a, exact=sure and certain)
        m.put(ys, a, exact=sure and certain)


# -- programs -----------------------------------------------------------------------------------


@st.composite
def givens(draw: Any) -> Given:
    shape = tuple(draw(st.lists(st.sampled_from(SIZES), max_size=3)))
    dtype = draw(st.sampled_from(["float32", "float32", *DTYPES]))
    return Given(shape, dtype, draw(st.sampled_from(LAYOUTS)))


@st.composite
def programs(draw: Any, length: int = 10) -> Program:
    small = st.integers(0, 5)
    body = st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 7), small, small, small)
    return Program(
        tuple(draw(st.lists(givens(), min_size=1, max_size=3))),
        tuple(draw(st.lists(givens(), max_size=2))),
        tuple(draw(st.lists(body, min_size=1, max_size=length))),
        draw(st.booleans()),
        draw(st.integers(0, 63)),
    )


# What becomes part of one kernel: functions, and reductions with what follows them.
REDUCING = ["softmax", "softmax", "centred", "sum", "mean", "peak", "spread"]
MIXING = ["add", "sub", "mul", "quotient", "where", "cast_float", *SMOOTH_PAIRS]
MOVING = ["permute", "unsqueeze", "expand", "slice", "clone", "contiguous", "detach"]


@operation
def peak(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    """How far below the largest; which one that is may depend on last bits, so it is a constant."""
    if a.t.ndim and a.t.numel():
        m.put(a.t - a.t.detach().amax(dims_of(a.t, i), keepdim=True), a)


@operation
def quotient(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    m.put(a.t / positive(fitting(b.t, tuple(a.t.shape))), a, b, exact=False)


@operation
def cast_float(m: Machine, a: Entry, b: Entry, i: int, j: int) -> None:
    m.put(a.t.to(ad.float64 if i % 2 else ad.float32), a)


@st.composite
def fused_programs(draw: Any, length: int = 12) -> Program:
    """Functions of shared values between reductions over the same dimensions.

    Most become a kernel or two of several loop nests, with values that one nest keeps for another.
    """
    rows, columns = draw(st.sampled_from(LENGTHS)), draw(st.sampled_from(LENGTHS))
    full = (rows, columns) if draw(st.integers(0, 3)) else (2, rows, columns)
    shapes = st.sampled_from([full, full, full, (columns,), (rows, 1), (1,), ()])
    dtype = draw(st.sampled_from(["float32", "float64"]))
    layouts = st.sampled_from(["plain", "plain", "plain", "transposed", "stepped", "offset"])
    arguments = [Given(full, dtype, draw(layouts), "normal")]
    more = range(draw(st.integers(0, 2)))
    arguments += [Given(draw(shapes), dtype, draw(layouts), "normal") for _ in more]
    dim = draw(st.integers(0, len(full) - 1))  # of most reductions
    near = st.integers(0, 4)

    def instruction(names: list[str], a: int, b: int) -> Instruction:
        name = draw(st.sampled_from(names))
        n = draw(st.integers(0, 7))
        if name in REDUCING and draw(st.integers(0, 9)):
            n = dim if name == "softmax" else 1 << dim
        return name, a, b, n, draw(st.integers(0, 5))

    smooth = sorted(SMOOTH)
    body = []
    for _ in range(draw(st.integers(1, 3))):  # each a value that several later ones share
        body.append(instruction(draw(st.sampled_from([MIXING, smooth])), draw(near), draw(near)))
        body.append(instruction(smooth, 0, draw(near)))
        count = draw(st.integers(1, 3))
        body += [instruction(REDUCING, k, draw(near)) for k in range(count)]
        for _ in range(draw(st.integers(0, 3))):
            kinds = st.sampled_from([MIXING, MIXING, smooth, REDUCING, MOVING])
            body.append(instruction(draw(kinds), draw(near), draw(near)))
    grad, keep = draw(st.booleans()), draw(st.sampled_from([63, draw(st.integers(0, 63))]))
    return Program(tuple(arguments), (), tuple(body[:length]), grad, keep, WIDE)


def elements(rng: Any, shape: tuple[int, ...], dtype: str, drawn: str = "quarters") -> Any:
    """Quarters between -2 and 2: sums and products of a few are exact. Or any numbers."""
    if drawn == "normal":
        return ad.tensor(rng.standard_normal(shape)).to(getattr(ad, dtype))
    if dtype == "bool":
        return ad.tensor(rng.integers(0, 2, shape).astype(bool))
    low = 0 if dtype == "uint8" else -8
    x = rng.integers(low, 9, shape)
    kind = getattr(ad, dtype)
    return ad.tensor(x * 0.25 if kind.is_floating_point else x // 2).to(kind)


def lay(rng: Any, given: Given, before: list[Any]) -> Any:
    """A tensor as described; some show memory of one that was made before."""
    shape, kind = given.shape, (given.dtype, given.drawn)
    match given.layout:
        case "transposed" if len(shape) >= 2:
            return elements(rng, (*shape[:-2], shape[-1], shape[-2]), *kind).transpose(-1, -2)
        case "stepped" if shape:
            return elements(rng, (*shape[:-1], 2 * shape[-1]), *kind)[..., ::2]
        case "expanded" if shape:
            return elements(rng, (1, *shape[1:]), *kind).expand(shape)
        case "offset" if shape:
            return elements(rng, (shape[0] + 2, *shape[1:]), *kind)[1:-1]
        case "first" if before:
            return before[0]
        case "window" if before and before[0].ndim:
            return before[0][1:]
    return elements(rng, shape, *kind)


def function(program: Program, states: list[Any]) -> Callable[..., Any]:
    """The program as a function of tensors."""

    def run(*arguments: Any) -> Any:
        machine = Machine(states, program.most)
        given = zip((*program.arguments, *program.states), (*arguments, *states), strict=True)
        cells: dict[Any, Cell] = {}
        leaves = []
        for spec, t in given:
            cell = cells.setdefault(t._storage.identity, Cell())
            written = spec.layout not in ("expanded", "first")
            machine.pool.append(Entry(t, cell, written and spec.layout != "window"))
            if program.grad and is_float(t):
                leaf = t.detach().requires_grad_()
                leaves.append(leaf)
                machine.pool.append(Entry(leaf * 1))
        machine.states = machine.pool[-len(states) :] if states and not program.grad else []
        for instruction in program.body:
            machine.step(instruction)
        kept = [e for k, e in enumerate(reversed(machine.pool[-6:])) if program.keep >> k & 1]
        grads: list[Any] = []
        if leaves:
            outs = [e.t for e in machine.pool if e.t.requires_grad and not e.t.is_leaf]
            loss = sum((t * t * 0.25).sum().to(ad.float64) for t in outs if is_float(t))
            grads = list(ad.autograd.grad(loss, leaves, allow_unused=True))  # type: ignore[arg-type]
        exact = tuple(e.cell.exact for e in kept)
        return [e.t for e in kept], grads, exact

    return run
