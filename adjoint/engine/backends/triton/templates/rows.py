"""The template of putting or adding rows at indices: the gradient of an embedding, x[index] = y."""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.registers.operations import KIND
from adjoint.engine.backends.triton.code import memory_type
from adjoint.engine.backends.triton.launch_words import NAME, Written
from adjoint.engine.backends.triton.schedule import power_of_two
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.lower.indexed import bounds_fault
from adjoint.engine.compiler.memory.places import ARENA, OWN, Buffer, Place, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.package.status import CODE_BITS, LEAST
from adjoint.engine.compiler.schedule.steps import Address, Launch, Status, sized, whole
from adjoint.engine.compiler.target import Setting, Template, all_but_first
from adjoint.engine.core.state.determinism import are_deterministic_algorithms_enabled
from adjoint.engine.graph.ir import Node, Value

ZEROS = 2048  # that a program writes
ADDED = {"float32", "float64", "int32", "int64"}  # that the device adds up in memory


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Rows of a row-major result, by indices along its first dimensions."""
    dims = node.params["dims"]
    alike = len({x.spec.shape for x in inputs[2:]}) == 1
    return can_put(setting, node, inputs) and alike and dims == tuple(range(len(dims)))


def can_put(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Whether rows can be put, once the dimensions that are indexed come first."""
    spec = node.outputs[0].spec
    adds = bool(node.params["accumulate"])
    known = ADDED | {"float16", "bfloat16"} if adds else KIND.keys()  # halves are widened
    if adds and spec.dtype.is_floating_point and are_deterministic_algorithms_enabled():
        return False  # sums in the order in which programs come
    return (
        all(isinstance(x, Value) for x in inputs)
        and spec.device.type == setting.target.device
        and spec.dtype.name in known
        and all(x.spec.dtype.name == "int64" for x in inputs[2:])
    )


def steps(setting: Setting, node: Node, operands: list[Any], results: list[Place]) -> list[Launch]:
    """The base copied (None: zeros), then the rows put into it or added to it."""
    base, values, *indices = operands
    out, spec = results[0], node.outputs[0].spec
    if out.buffer.kind not in OWN:  # state, which an error must not change
        own = row_major(Buffer(ARENA, out.buffer.dtype, prod(out.shape), name="rows"), out.shape)
        done = steps(setting, node, operands, [own])
        return [*done, copy_step(setting.target, own, out, "index_put")]
    length, count = prod(spec.shape[len(indices) :]), prod(indices[0].shape)
    dtype, item = out.buffer.dtype.name, out.buffer.dtype.itemsize
    words: list[Any] = [
        Address(out.buffer, out.offset * item), Address(values.buffer, values.offset * item),
        Status(),
    ]  # fmt: skip
    for d, index in enumerate(indices):
        words += [Address(index.buffer, index.offset * 8), bounds_fault(node, d)]
    block = min(1024, power_of_two(length))
    source = rows_source(
        dtype, spec.shape[: len(indices)], length, block,
        accumulate=bool(node.params["accumulate"]), wrap=bool(node.params.get("wrap", True)),
    )  # fmt: skip
    warps = max(1, min(4, block // 128))
    launch = Launch(
        function=f"rows{digest(f'{source};{warps}')}",
        text=Written(source, (count, -(-length // block)), warps, "index_put"),
        words=words,
        reads=(whole(values.buffer), *(whole(i.buffer) for i in indices), whole(out.buffer)),
        writes=(whole(out.buffer),),
        pieces=count,
        cost=2 * count * length,
        label=sized("index_put", count, length),
    )
    if base is None:
        return [zeros_step(out), launch]
    return [copy_step(setting.target, base, out, "index_put"), launch] if base != out else [launch]


def zeros_step(out: Place) -> Launch:
    """Zeros in the whole of a place, which is contiguous."""
    size, dtype = prod(out.shape), out.buffer.dtype
    kind = memory_type(dtype.name)
    lines = [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        f"    out = tl.multiple_of(tl.load(w).to(tl.pointer_type({kind})), {dtype.itemsize})",
        f"    at = tl.program_id(0).to(tl.int64) * {ZEROS} + tl.arange(0, {ZEROS})",
        f"    tl.store(out + at, tl.full(({ZEROS},), 0, {kind}), mask=at < {size})",
    ]
    source = "\n".join(lines) + "\n"
    return Launch(
        function=f"zeros{digest(source)}",
        text=Written(source, (-(-size // ZEROS), 1), 4, "zeros"),
        words=[Address(out.buffer, out.offset * dtype.itemsize)],
        reads=(),
        writes=(whole(out.buffer),),
        pieces=1,
        cost=size,
        label="zeros",
    )


def rows_source(
    dtype: str, sizes: tuple[int, ...], length: int, block: int, *, accumulate: bool, wrap: bool
) -> str:
    """The kernel: a program for each piece of each row."""
    kind = memory_type(dtype)
    lines = [
        "@triton.jit",
        f"def {NAME}(words):",
        "    w = words.to(tl.pointer_type(tl.int64))",
        f"    out = tl.load(w + 0).to(tl.pointer_type({kind}))",
        f"    values = tl.load(w + 1).to(tl.pointer_type({kind}))",
        "    status = tl.load(w + 2).to(tl.pointer_type(tl.int64))",
        "    row = tl.program_id(0).to(tl.int64)",
        "    at = tl.full((), 0, tl.int64)",
        "    good = tl.full((), 1, tl.int1)",
    ]
    for d, size in enumerate(sizes):
        lines += [
            f"    i = tl.load(tl.load(w + {3 + 2 * d}).to(tl.pointer_type(tl.int64)) + row)",
            f"    j = tl.where(i < 0, i + {size}, i)" if wrap else "    j = i",
            f"    bad = (j < 0) | (j >= {size})",
            f"    shown = i << {CODE_BITS}",
            f"    shown = tl.where((shown >> {CODE_BITS}) == i, shown, {LEAST})",
            "    first = bad & (tl.load(status) == 0)",
            f"    tl.store(status, shown | tl.load(w + {4 + 2 * d}), mask=first)",
            "    good = good & (bad == 0)",
            f"    at = at * {size} + j",
        ]
    write = "tl.atomic_add" if accumulate else "tl.store"
    lines += [
        f"    c = tl.program_id(1) * {block} + tl.arange(0, {block})",
        f"    inside = (c < {length}) & good",
        f"    value = tl.load(values + row * {length} + c, mask=inside, other=0)",
        f"    {write}(out + at * {length} + c, value, mask=inside)",
    ]
    return "\n".join(lines) + "\n"


TEMPLATES = {
    "index_put": Template(
        accepts, all_but_first, steps, zeros=frozenset({0}), accepts_moved=can_put, begins=0
    )
}
