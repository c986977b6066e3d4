"""The templates of attention, forward and backward: weights are never held (Dao et al., 2022).

Forward, a program takes a tile of queries and goes along the keys with running maxima and sums of
exponentials. Backward, weights are made again from the logsumexp of each row (Note [attention],
`ops.nn.attention_rows`): one kernel takes tiles of keys and goes along the queries, another the
other way round, so that nobody adds to what another program writes. Scores and sums are float32;
weights are rounded to the operands' dtype before they are multiplied, as tensor cores want them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from adjoint.engine.backends.triton.launch_words import Written
from adjoint.engine.backends.triton.templates import attention_kernels as kernels
from adjoint.engine.backends.triton.templates.attention_kernels import AttentionForm
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, OWN, Buffer, Place, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.nn.attention_rows import NAME

ATTENTION, BACKWARD = NAME, f"{NAME}_backward"
DTYPES = {"float16", "bfloat16", "float32"}
SIZES = (16, 32, 64, 128, 256)  # of heads, as tiles have them


def is_plain(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Query, key and value on the device, of heads that tiles have; no mask, no dropout."""
    if not all(isinstance(x, Value) and not x.host for x in inputs):
        return False
    query, key, value = (x.spec for x in inputs[:3])
    return (
        not node.params["masked"]
        and not node.params["dropout"]
        and query.dtype.name in DTYPES
        and query.dtype is key.dtype is value.dtype
        and query.device.type == setting.target.device
        and query.shape[-1] in SIZES
        and value.shape[-1] in SIZES
        and 0 not in (*query.shape, *key.shape)
    )


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Heads of queries may share keys and values: dimensions of one are stretched."""
    if len(inputs) != 3 or not is_plain(setting, node, inputs):
        return False
    query, key, value = (x.spec.shape[:-2] for x in inputs)
    shared = len(key) == len(query) and all(k in (1, q) for q, k in zip(query, key, strict=True))
    return key == value and shared


def accepts_backward(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """The same batches and heads everywhere."""
    if len(inputs) != 6 or not is_plain(setting, node, inputs):
        return False
    return len({x.spec.shape[:-2] for x in inputs}) == 1


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands may lie anyhow."""
    return set()


@dataclass(frozen=True, slots=True)
class AttentionLaunch:
    """A kernel's source, its programs, and the places it reads and then writes."""

    source: str
    grid: tuple[int, int]
    reads: list[Place]
    writes: list[Place]


def problem(node: Node, query: Place, key: Place, value: Place) -> AttentionForm:
    """What kernels must know of an attention."""
    return AttentionForm(
        query.buffer.dtype.name, query.shape[:-2], query.shape[-2], key.shape[-2],
        query.shape[-1], value.shape[-1], node.params["scale"], node.params["causal"],
    )  # fmt: skip


def launch(kind: AttentionForm, task: AttentionLaunch, name: str, products: int) -> Launch:
    """A launch of one of the kernels."""
    places = (*task.reads, *task.writes)
    work = prod(kind.batches) * kind.queries * kind.keys
    return Launch(
        function=f"attention{digest(f'{task.source};{kind.warps}')}",
        text=Written(task.source, task.grid, kind.warps, name),
        words=[Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in places],
        reads=tuple(whole(p.buffer) for p in task.reads),
        writes=tuple(whole(p.buffer) for p in task.writes),
        pieces=task.grid[0] * task.grid[1],
        cost=products * work * (kind.size + kind.value_size),
        label=sized(name, kind.queries, kind.keys, kind.size),
    )


def own_places(setting: Setting, results: list[Place]) -> tuple[list[Place], list[Launch]]:
    """Where results are written, and copies to state, which an error must not change."""
    places, copies = [], []
    for out in results:
        place = out
        if out.buffer.kind not in OWN:
            room = Buffer(ARENA, out.buffer.dtype, prod(out.shape), name="attention")
            place = row_major(room, out.shape)
            copies.append(copy_step(setting.target, place, out, ATTENTION))
        places.append(place)
    return places, copies


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch."""
    kind = problem(node, *operands[:3])
    (out, lse), copies = own_places(setting, results)
    grid = (-(-kind.queries // kind.rows), prod(kind.batches))
    strides = [kernels.strides_of(p, kind.batches) for p in (*operands, out, lse)]
    task = AttentionLaunch(kernels.forward(kind, strides), grid, operands, [out, lse])
    return [launch(kind, task, "attention", 2), *copies]


def backward_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """A launch for the gradients of keys and values, one for that of queries."""
    kind = problem(node, *operands[:3])
    wanted = [i for i, n in enumerate(node.params["needed"][:3]) if n]
    found, copies = own_places(setting, results)
    outs = dict(zip(wanted, found, strict=True))
    made: list[Launch] = []
    for names, length, tile in (((1, 2), kind.keys, kind.columns), ((0,), kind.queries, kind.rows)):
        writes = {i: outs[i] for i in names if i in outs}
        if not writes:
            continue
        places = [*operands, *writes.values()]
        strides = [kernels.strides_of(p, kind.batches) for p in places]
        write = kernels.by_keys if 1 in names else kernels.by_queries
        source = write(kind, strides, operands[4].buffer.dtype.name, tuple(writes))
        grid = (-(-length // tile), prod(kind.batches))
        task = AttentionLaunch(source, grid, operands, list(writes.values()))
        made.append(launch(kind, task, "attention backward", 2 + len(writes)))
    return [*made, *copies]


TEMPLATES = {
    ATTENTION: Template(accepts, packed, steps),
    BACKWARD: Template(accepts_backward, packed, backward_steps),
}
