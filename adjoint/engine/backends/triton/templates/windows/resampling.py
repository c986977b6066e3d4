"""The template of weighted sums along dimensions: mean pools, interpolation, padding from inside.

An element of the result goes through the terms of its row in each dimension's table, one dimension
inside the other, and each sum is rounded as if a kernel had made it: so the numbers are those of
one dimension after another, and nothing between them is in memory.

Note [tables]
    Which places a row reads, and with which weights, lies in the device's memory: a table for each
    rule, as long as its longest row, with -1 where a row has ended. A launch has its address as a
    word that is known by what is in it (`NamedAddress`); programs put it there once.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import is_aligned
from adjoint.engine.backends.triton.templates.windows.pooling import (
    BLOCK,
    UNROLLED,
    Walk,
    launch,
    nothing_packed,
    own_places,
)
from adjoint.engine.compiler.memory.places import Place
from adjoint.engine.compiler.schedule.steps import Launch, NamedAddress
from adjoint.engine.compiler.target import Setting, Template
from adjoint.engine.core.spec import is_known
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.image.resample import (
    RESAMPLE,
    RESAMPLE_ALL,
    Row,
    Rule,
    table,
    whole_windows,
)

FLOATS = {"float16", "bfloat16", "float32", "float64"}
MOST = 4096  # terms of an element
WHOLE = 64  # terms of whole windows, of which more are better summed by a reduction
FEW = 1 << 18  # elements of a result that small blocks make
SMALL_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a dimension, as a kernel needs to know them."""

    dim: int
    name: str  # of the table
    size: int  # rows
    most: int  # terms of the longest row
    complete: bool  # every row has as many
    some: bool  # every row has one
    weighted: bool


def table_name(rule: Rule, transposed: bool, wide: str) -> str:
    """What a table is known by (Note [tables])."""
    return f"resample {(rule, transposed, wide)!r}"


@lru_cache(maxsize=512)
def table_bytes(name: str) -> bytes:
    """The table of a name: places in 32 bits, then weights, each row as long as the longest."""
    rule, transposed, wide = ast.literal_eval(name.removeprefix("resample "))
    rows = table(rule, transposed)
    most = longest(rows)
    places = np.full((len(rows), most), -1, np.int32)
    weights = np.zeros((len(rows), most), wide)
    for o, row in enumerate(rows):
        for t, (place, weight) in enumerate(row):
            places[o, t], weights[o, t] = place, weight
    first = places.tobytes()
    return first + bytes(weights_at(len(rows), most) - len(first)) + weights.tobytes()


def weights_at(size: int, most: int) -> int:
    """Where in a table weights begin: at a multiple of 8 bytes."""
    return -(-4 * size * most // 8) * 8


def longest(rows: list[Row]) -> int:
    """Terms of the longest row, one at least."""
    return max(1, *map(len, rows)) if rows else 1


@lru_cache(maxsize=512)
def terms_of(dim: int, rule: Rule, transposed: bool, wide: str) -> Terms:
    """The terms of a rule along a dimension."""
    rows = table(rule, transposed)
    most = longest(rows)
    return Terms(
        dim,
        table_name(rule, transposed, wide),
        len(rows),
        most,
        complete=all(len(row) == most for row in rows),
        some=all(rows),
        weighted=any(weight != 1 for row in rows for _, weight in row),
    )


def rules_of(node: Node) -> tuple[list[tuple[int, Rule]], bool, float | None]:
    """Dimensions with their rules, the one summed first in front; whether transposed; a divisor."""
    params = node.params
    if node.record is RESAMPLE:
        return [(params["dim"], params["rule"])], params["transposed"], None
    rules = [*params["rules"]]
    return rules[::-1] if params["transposed"] else rules, params["transposed"], params["divisor"]


def wide_of(dtype: str) -> str:
    """What sums are made in."""
    return "float64" if dtype == "float64" else "float32"


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Floats on the device; of other numbers, what is nothing but copied."""
    (x,) = inputs
    if not isinstance(x, Value) or x.host or x.spec.device.type != setting.target.device:
        return False
    shapes = (*x.spec.shape, *node.outputs[0].spec.shape)
    if x.spec.dtype.name not in KIND or not all(is_known(n) and n > 0 for n in shapes):
        return False
    rules, transposed, divisor = rules_of(node)
    terms = [terms_of(dim, rule, transposed, wide_of(x.spec.dtype.name)) for dim, rule in rules]
    count = prod(term.most for term in terms)
    if x.spec.dtype.name not in FLOATS:
        return divisor is None and count == 1 and not any(term.weighted for term in terms)
    whole = node.record is RESAMPLE_ALL and all(whole_windows(rule) for _, rule in rules)
    return count <= (WHOLE if whole else MOST)


class ResampleText:
    """The lines of nested sums."""

    def __init__(self, walk: Walk, x: Place, terms: list[Terms], wide: str) -> None:
        self.walk, self.x, self.terms, self.wide = walk, x, terms, f"tl.{wide}"
        self.block = walk.block
        self.copies = x.buffer.dtype.name not in FLOATS
        self.divisor: float | None = None  # of what is loaded

    def heads(self, first: int) -> None:
        """Pointers to tables, whose addresses are the words from `first` on; where a row begins."""
        for k, term in enumerate(self.terms):
            weights = f"(tl.load(w + {first + k}) + {weights_at(term.size, term.most)})"
            self.walk.add(
                f"i{k} = tl.load(w + {first + k}).to(tl.pointer_type(tl.int32))"
                f" + c{term.dim} * {term.most}"
            )
            if term.weighted:
                self.walk.add(
                    f"f{k} = {weights}.to(tl.pointer_type({self.wide})) + c{term.dim} * {term.most}"
                )

    def look(self, k: int, number: int | str, name: str) -> list[str]:
        """A term of a dimension: its place, its weight, whether there is one."""
        term = self.terms[k]
        lines = [f"q{name} = tl.load(i{k} + {number}, mask=valid, other=-1)"]
        if term.weighted:
            lines.append(f"m{name} = tl.load(f{k} + {number}, mask=valid, other=0)")
        return lines

    def value(self, names: list[str], mask: str) -> list[str]:
        """What a term of every dimension reads."""
        coordinates = [f"c{d}" for d in range(len(self.x.shape))]
        for term, name in zip(self.terms, names, strict=True):
            coordinates[term.dim] = f"q{name}"
        kind = "" if self.copies else f".to({self.wide})"
        place = self.walk.at(self.x, coordinates)
        lines = [f"v = tl.load(p0 + ({place}), mask={mask}, other=0){kind}"]
        if self.divisor is not None:
            lines.append(f"v = {divided('v', self.divisor, self.wide)}")
        return lines

    def all(self) -> str:
        """Write all sums; the name of what they come to."""
        if self.copies:
            lines = [line for k in range(len(self.terms)) for line in self.look(k, 0, f"{k}")]
            self.walk.add(*lines, *self.value([f"{k}" for k in range(len(self.terms))], "valid"))
            return "v"
        if prod(term.most for term in self.terms) <= UNROLLED:
            for k, term in enumerate(self.terms):
                for number in range(term.most):
                    self.walk.add(*self.look(k, number, f"{k}_{number}"))
            self.written(len(self.terms) - 1, [], "valid")
        else:
            self.walk.add(*self.looped(len(self.terms) - 1, "valid"))
        return f"a{len(self.terms) - 1}"

    def begin(self, k: int) -> str:
        """A sum of nothing, to which -0.0 can be added."""
        return f"a{k} = tl.full(({self.block},), -0.0, {self.wide})"

    def step(self, k: int, name: str, mask: str) -> str:
        """A term added."""
        inner = "v" if k == 0 else f"a{k - 1}"
        term = f"{inner} * m{name}" if self.terms[k].weighted else inner
        if self.terms[k].complete:
            return f"a{k} = a{k} + {term}"
        return f"a{k} = tl.where({mask}, a{k} + {term}, a{k})"

    def end(self, k: int, first: str) -> list[str]:
        """Rows without terms come to 0."""
        if self.terms[k].some:
            return []
        return [f"a{k} = tl.where({first} >= 0, a{k}, 0.0)"]

    def written(self, k: int, outer: list[str], mask: str) -> None:
        """The sum over a dimension, term by term."""
        self.walk.add(self.begin(k))
        for number in range(self.terms[k].most):
            name, here = f"{k}_{number}", mask
            if not self.terms[k].complete:
                here = f"{mask} & (q{name} >= 0)"
            if k:
                self.written(k - 1, [name, *outer], here)
            else:
                self.walk.add(*self.value([name, *outer], here))
            self.walk.add(self.step(k, name, here))
        self.walk.add(*self.end(k, f"q{k}_0"))

    def looped(self, k: int, mask: str) -> list[str]:
        """The same as a loop."""
        here = mask if self.terms[k].complete else f"h{k}"
        inside = self.look(k, f"t{k}", f"{k}")
        if not self.terms[k].complete:
            inside.append(f"h{k} = {mask} & (q{k} >= 0)")
        names = [f"{j}" for j in range(len(self.terms))]
        inside += self.looped(k - 1, here) if k else self.value(names, here)
        inside.append(self.step(k, f"{k}", here))
        lines = [self.begin(k), f"for t{k} in range({self.terms[k].most}):"]
        lines += [f"    {line}" for line in inside]
        if not self.terms[k].some:
            lines += [f"q{k} = tl.load(i{k}, mask=valid, other=-1)", *self.end(k, f"q{k}")]
        return lines


def divided(value: str, divisor: float, wide: str) -> str:
    """The expression of a rounded quotient."""
    by = f"tl.full({value}.shape, {divisor!r}, {wide})"
    return f"{value} / {by}" if wide == "tl.float64" else f"tl.div_rn({value}, {by})"


def source_of(places: list[Place], node: Node, aligned: list[bool], block: int) -> str:
    """The kernel's text."""
    x, out = places
    rules, transposed, divisor = rules_of(node)
    wide = wide_of(x.buffer.dtype.name)
    terms = [terms_of(dim, rule, transposed, wide) for dim, rule in rules]
    walk = Walk(out, places, aligned, block)
    sums = ResampleText(walk, x, terms, wide)
    sums.divisor = divisor if transposed else None
    sums.heads(len(places))
    total = sums.all()
    if divisor is not None and not transposed:
        total = divided(total, divisor, f"tl.{wide}")
    walk.add(f"tl.store(p1 + e, ({total}).to({memory_type(out.buffer.dtype.name)}), mask=valid)")
    return walk.source()


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch."""
    outs, copies = own_places(setting, results)
    places = [*operands, *outs]
    aligned = [is_aligned(setting.target, p) for p in places]
    block = SMALL_BLOCK if prod(outs[0].shape) < FEW else BLOCK
    rules, transposed, _ = rules_of(node)
    wide = wide_of(operands[0].buffer.dtype.name)
    terms = [terms_of(dim, rule, transposed, wide) for dim, rule in rules]
    step = launch(
        source_of(places, node, aligned, block),
        f"resample {' '.join(dict.fromkeys(rule[0] for _, rule in rules))}",
        operands,
        outs,
        prod(term.most for term in terms),
        block,
    )
    step.words += [NamedAddress(term.name) for term in terms]
    return [step, *copies]


TEMPLATES = dict.fromkeys(
    (RESAMPLE.name, RESAMPLE_ALL.name), Template(accepts, nothing_packed, steps, ordered=True)
)
