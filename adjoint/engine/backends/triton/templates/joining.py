"""Parts put side by side by one kernel, where launches are what it takes: in eager mode.

`compiler.lower.joins` copies each part by a launch of its own. Here an element of the result is
read from the part that it is of, the loads of other parts are masked off; what lies where it
belongs already is left out. Elements are moved as whole numbers of as many bits.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from adjoint.engine.backends.triton.launch_words import is_aligned
from adjoint.engine.backends.triton.templates.windows.padding import FEW, SMALL_BLOCK
from adjoint.engine.backends.triton.templates.windows.pooling import BLOCK, Walk, launch, span
from adjoint.engine.compiler.lower import joins
from adjoint.engine.compiler.memory.places import OWN, Place
from adjoint.engine.compiler.target import Setting
from adjoint.engine.core.spec import is_known
from adjoint.engine.graph.ir import Node

PARTS = 8  # whose loads a kernel has for every element
MOST_PARTS = 4 * PARTS
MOST = 1 << 21  # elements: of more, memory is what it takes
Part = tuple[int, int, Place]  # where it begins along the dimension, where it ends, where it lies


def steps(setting: Setting, node: Node, operands: list[Place], results: list[Place]) -> list[Any]:
    """A launch for every few parts, or the copies."""
    (out,), dim = results, node.params["dim"]
    windows = joins.TEMPLATES[node.record.name].parts
    assert windows is not None
    left: list[Part] = []
    end = 0
    for source, window in zip(operands, windows(node, out), strict=True):
        begin = end
        end += 1 if node.record.name == "stack" else source.shape[dim]
        if not joins.is_same(source, window):
            left.append((begin, end, source))
    if not are_few(out, left):
        return joins.copies(setting, node, operands, results)
    chunks = [left[k : k + PARTS] for k in range(0, len(left), PARTS)]
    return [
        step_of(setting, node, out, chunk, whole=len(chunk) == len(operands)) for chunk in chunks
    ]


def are_few(out: Place, left: list[Part]) -> bool:
    """Whether there are several parts, but not too many, of few elements in known sizes."""
    shapes = [out.shape, *[x.shape for *_, x in left]]
    return (
        2 <= len(left) <= MOST_PARTS
        and all(is_known(n) and n > 0 for shape in shapes for n in shape)
        and prod(out.shape) <= MOST
        and out.buffer.kind in OWN
        and span(out) == prod(out.shape)
        and out.buffer.dtype.itemsize <= 8
        and all(x.buffer.dtype == out.buffer.dtype and x.buffer is not out.buffer for *_, x in left)
    )


def step_of(setting: Setting, node: Node, out: Place, parts: list[Part], whole: bool) -> Any:
    """One launch; `whole`: of all that the result is made of."""
    block = SMALL_BLOCK if prod(out.shape) < FEW else BLOCK
    places = [*[x for *_, x in parts], out]
    kind = f"tl.int{8 * out.buffer.dtype.itemsize}"
    aligned = [is_aligned(setting.target, p) for p in places]
    walk = Walk(out, places, aligned, block, kind)
    dim, stacked = node.params["dim"], node.record.name == "stack"
    # No `v0`: that is what an open number may be called (Note [open numbers]).
    walk.add(f"v = tl.full(({block},), 0, {kind})")
    for k, (begin, end, x) in enumerate(parts):
        inside = ["valid", *[f"(c{dim} >= {begin})"] * (begin > 0)]
        inside += [f"(c{dim} < {end})"] * (end < out.shape[dim])
        coordinates = [f"c{d}" for d in range(len(out.shape))]
        if stacked:
            del coordinates[dim]
        elif begin:
            coordinates[dim] = f"(c{dim} - {begin})"
        walk.add(
            f"m{k} = {' & '.join(inside)}",
            f"part{k} = tl.load(p{k} + ({walk.at(x, coordinates)}), mask=m{k}, other=0)",
            f"v = tl.where(m{k}, part{k}, v)",
        )
    stored = "valid" if whole else " | ".join([f"m{k}" for k in range(len(parts))])
    walk.add(f"tl.store(p{len(parts)} + e, v, mask={stored})")
    return launch(walk.source(), node.record.name, places[:-1], [out], 1, block)


TEMPLATES = {name: replace(joins.TEMPLATES[name], steps=steps) for name in ("cat", "stack")}
