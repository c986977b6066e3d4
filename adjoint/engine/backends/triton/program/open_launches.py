"""Launches of a plan for many sizes, and what they are at some (Note [open plans])."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.program.direct import LaunchedWork, NumberedDraft
from adjoint.engine.backends.triton.runtime.arguments import with_arguments
from adjoint.engine.backends.triton.runtime.open_numbers import OPEN_NUMBERS, word
from adjoint.engine.backends.triton.templates.product import MatrixProduct
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Launch
from adjoint.engine.graph.sizes.extents import Extent, ExtentFloat, SizeScope
from adjoint.engine.graph.sizes.marked import Marked


@dataclass(frozen=True, slots=True)
class OpenLaunch:
    """A launch of a plan for many sizes."""

    name: str
    at: int
    work: Any  # its kernel, or a product with extents in the place of sizes
    given: int  # words of the image's
    more: list[Any]  # words besides; marks where they depend on sizes
    grids: list[tuple[Any, Any]]  # of its kernel and of others to choose from
    is_table: bool


def filled(launch: OpenLaunch, words: Any, values: dict[int, Any]) -> LaunchedWork:
    """A launch at some sizes."""
    told = words[launch.at : launch.at + launch.given].tolist()
    for x in launch.more:
        told.append(word_at(x, values) if isinstance(x, Marked) else x)
    work = launch.work
    if isinstance(work, MatrixProduct):
        work = product_at(work, lambda x: values.get(id(x), x))
    else:
        others = []
        for way, grid in zip(work.others, launch.grids[1:], strict=True):
            others.append(with_grid(way, grid, values, ()))
        work = with_grid(work, launch.grids[0], values, tuple(others))
    return LaunchedWork(launch.name, launch.at, work, told, launch.given, launch.is_table)


def with_grid(
    way: Written, grid: tuple[Any, Any], values: dict[int, Any], others: tuple[Written, ...]
) -> Written:
    """A kernel launched for some sizes; what `replace` does takes five times as long."""
    across, down = grid
    return Written(
        way.source, (values.get(id(across), across), values.get(id(down), down)), way.warps,
        way.origin, way.stages, registers=way.registers, fused=way.fused, by_rows=way.by_rows,
        others=others,
    )  # fmt: skip


def word_at(marked: Marked, values: dict[int, Any]) -> int:
    """The word that a mark stands for."""
    value = values[id(marked.number)]
    return word(value if is_plain(marked) else float(marked.write(value)))


def is_plain(marked: Marked) -> bool:
    """Whether a mark's word is its number, a whole one."""
    return isinstance(marked.number, Extent) and marked.write is int.__repr__


def ways_of(work: Written) -> list[Written]:
    """A kernel and others to choose from, each by itself."""
    return [replace(work, others=()), *work.others]


def product_at(product: MatrixProduct, value: Callable[[Any], Any]) -> MatrixProduct:
    """A product with numbers in the place of extents."""
    p, (a, b, c), (d, e, f) = product, product.lead, product.steps
    return MatrixProduct(
        p.dtype, p.out, value(p.m), value(p.n), value(p.k), p.transposed,
        (value(a), value(b), value(c)), value(p.count), (value(d), value(e), value(f)), p.biased,
        value(p.aligned), p.refs,
    )  # fmt: skip


def opened(entry: tuple[str, int, Launch], scope: SizeScope) -> OpenLaunch:
    """What an entry of a draft launches at all sizes."""
    name, at, launch = entry
    given = len(launch.words)
    product = launch.kernels[0] if launch.kernels else None
    if isinstance(product, MatrixProduct):
        return OpenLaunch(name, at, product, given, [], [], False)
    if not isinstance(launch.text, Written):
        raise NotImplementedError(f"{launch.label}: no launch of eager mode")
    written, more = OPEN_NUMBERS.marked_kernel(launch.text, given, scope)
    with_words = with_arguments(written, given + len(more))
    if with_words is None and more:
        raise NotImplementedError(f"{launch.label}: numbers that cannot be arguments")
    work = with_words or written
    grids = [way.grid for way in ways_of(launch.text)]
    name = f"t{digest(repr(work.codes()))}"
    return OpenLaunch(name, at, work, given, more, grids, with_words is None)


def numbers_of(launches: list[OpenLaunch], draft: NumberedDraft) -> list[Any]:
    """All that depends on sizes in launches and in an image."""
    found = draft.numbers_of_sizes()
    for launch in launches:
        found += [x.number for x in launch.more if isinstance(x, Marked)]
        found += [n for grid in launch.grids for n in grid]
        if isinstance(launch.work, MatrixProduct):
            for f in fields(MatrixProduct):
                value = getattr(launch.work, f.name)
                found += value if isinstance(value, tuple) else (value,)
    sized = [x for x in found if isinstance(x, (Extent, ExtentFloat))]
    return [*{id(x): x for x in sized}.values()]
