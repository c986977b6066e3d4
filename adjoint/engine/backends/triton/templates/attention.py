"""The templates of attention, forward and backward: weights are never held (Dao et al., 2022).

Forward, a program takes a tile of queries and goes along the keys with running maxima and sums of
exponentials. Backward, weights are made again from the logsumexp of each row (Note [attention],
`ops.nn.attention_rows`): one kernel takes tiles of keys and goes along the queries, another the
other way round, so that nobody adds to what another program writes. Scores and sums are float32;
weights are rounded to the operands' dtype before they are multiplied, as tensor cores want them.
"""

from __future__ import annotations

from math import prod
from typing import Any

from adjoint.engine.backends.triton.launch_words import Written, is_aligned
from adjoint.engine.backends.triton.templates import attention_kernels as kernels
from adjoint.engine.backends.triton.templates.attention_kernels import AttentionForm, Operand
from adjoint.engine.compiler.loops.copying import copy_step
from adjoint.engine.compiler.memory.places import ARENA, OWN, Place, PlannedBuffer, row_major
from adjoint.engine.compiler.package.naming import digest
from adjoint.engine.compiler.schedule.steps import Address, Launch, sized, whole
from adjoint.engine.compiler.target import LayoutOf, Setting, Template
from adjoint.engine.graph.ir import Node, Value
from adjoint.engine.ops.nn.attention_rows import NAME

ATTENTION, BACKWARD = NAME, f"{NAME}_backward"
STATISTICS = "lt"  # a number for each row, of which in eager mode few loads are worth no kernel
DTYPES = {"float16", "bfloat16", "float32"}
MASKS = {"bool", *DTYPES}
LARGEST = 256  # of heads


def is_known(setting: Setting, node: Node, inputs: tuple[Any, ...], given: int) -> bool:
    """Operands on the device, of heads that tiles have; perhaps a mask, ranges or dropout."""
    if not all(isinstance(x, Value) and not x.host for x in inputs):
        return False
    query, key, value = (x.spec for x in inputs[:3])
    masks = [x.spec for x in inputs[given:]]
    if node.params.get("ranged"):
        bounds, masks = masks, []
        if any(b.dtype.name != "int32" or b.shape != (query.shape[-2], 1) for b in bounds):
            return False
    if node.params.get("placed"):
        *masks, place = masks
        if (place.shape, place.dtype.name) != ((2,), "int64"):
            return False
    return (
        len(masks) == int(node.params["masked"])
        and (not node.params["dropout"] or node.params.get("placed", False))
        and query.dtype.name in DTYPES
        and query.dtype is key.dtype is value.dtype
        and all(m.dtype.name in MASKS for m in masks)
        and query.device.type == setting.target.device
        and 1 <= query.shape[-1] <= LARGEST
        and 1 <= value.shape[-1] <= LARGEST
        and 0 not in (*query.shape, *key.shape)
        and share_alike(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        and all(fits(m.shape, (*query.shape[:-1], key.shape[-2])) for m in masks)
    )


def share_alike(query: Any, key: Any, value: Any) -> bool:
    """Whether heads of queries have keys and values of their own, or share those of one."""
    stretched = len(key) == len(query) and all(k in (1, q) for q, k in zip(query, key, strict=True))
    return stretched and key == value


def fits(shape: Any, scores: Any) -> bool:
    """Whether a mask broadcasts to the scores."""
    return len(shape) <= len(scores) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(scores), strict=False)
    )


def accepts(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Forward: any heads may share. A single query would go along all keys alone: it is loops."""
    return inputs[0].spec.shape[-2] > 1 and is_known(setting, node, inputs, 3)


def accepts_backward(setting: Setting, node: Node, inputs: tuple[Any, ...]) -> bool:
    """Backward: queries share along one dimension at most; a mask has no gradient."""
    if any(node.params["needed"][3:]) or not is_known(setting, node, inputs, 6):
        return False
    return len(shared_dims(inputs[0].spec.shape, inputs[1].spec.shape)) <= 1


def shared_dims(query: Any, key: Any) -> list[int]:
    """Batch dimensions along which queries share keys."""
    pairs = zip(query[:-2], key[:-2], strict=True)
    return [d for d, (q, k) in enumerate(pairs) if q != k]


def packed(layout: LayoutOf, inputs: tuple[Any, ...]) -> set[int]:
    """Operands may lie anyhow."""
    return set()


def problem(node: Node, query: Place, key: Place, value: Place, mask: list[Place]) -> AttentionForm:
    """What kernels must know of an attention; `mask` are its further operands."""
    dropout = float(node.params["dropout"]) if node.params.get("placed") else 0.0
    mask = mask[:-1] if dropout else mask
    shared, ranged = shared_dims(query.shape, key.shape), bool(node.params.get("ranged"))
    return AttentionForm(
        query.buffer.dtype.name, query.shape[:-2], query.shape[-2], key.shape[-2],
        query.shape[-1], value.shape[-1], node.params["scale"], node.params["causal"],
        mask[0].buffer.dtype.name if mask and not ranged else "", shared[0] if shared else -1,
        ranged, dropout,
    )  # fmt: skip


def names_of(kind: AttentionForm, given: str) -> list[str]:
    """What kernels call the operands: a letter each, bounds or a mask, the place of a draw."""
    masks = [*kernels.BOUNDS] if kind.ranged else ["m"] if kind.mask else []
    return [*given, *masks, *([kernels.PLACE] if kind.dropout else [])]


def own_places(setting: Setting, results: list[Place]) -> tuple[list[Place], list[Launch]]:
    """Where results are written, and copies to state, which an error must not change."""
    places, copies = [], []
    for out in results:
        place = out
        if out.buffer.kind not in OWN:
            room = PlannedBuffer(ARENA, out.buffer.dtype, prod(out.shape), name="attention")
            place = row_major(room, out.shape)
            copies.append(copy_step(setting.target, place, out, ATTENTION))
        places.append(place)
    return places, copies


def launch(
    setting: Setting,
    kind: AttentionForm,
    which: str,
    reads: dict[str, Place],
    writes: dict[str, Place],
) -> Launch:
    """A launch of one of the kernels; all its tilings are tried when it first runs."""
    places = {**reads, **writes}
    target: Any = setting.target
    operands = [
        Operand(
            name, p.buffer.dtype.name, kernels.strides_of(p, kind.batches),
            is_aligned(target, p) and (target.sized or name not in STATISTICS),
        )
        for name, p in places.items()
    ]  # fmt: skip
    label = "attention" if which == kernels.FORWARD else "attention backward"
    count = prod(kind.batches)
    if which == kernels.BY_KEYS and kind.shared >= 0:
        count //= kind.batches[kind.shared]
    written = []
    for tiling in kernels.tilings(kind, which):
        source = kernels.WRITERS[which](kind, tiling, operands)
        by_keys = which == kernels.BY_KEYS
        length, step = (kind.keys, tiling.columns) if by_keys else (kind.queries, tiling.rows)
        grid = (-(-length // step) * count, 1)
        way = Written(
            source, grid, tiling.warps, label, tiling.stages, registers=tiling.registers,
            fused=True, by_rows=True,
        )  # fmt: skip
        written.append(way)
    work = prod(kind.batches) * kind.queries * kind.keys
    text = written[0].beside(written[1:])
    return Launch(
        function=f"attention{digest(repr(text))}",
        text=text,
        words=[Address(p.buffer, p.offset * p.buffer.dtype.itemsize) for p in places.values()],
        reads=tuple(whole(p.buffer) for p in reads.values()),
        writes=tuple(whole(p.buffer) for p in writes.values()),
        pieces=text.grid[0] * text.grid[1],
        cost=(2 if which == kernels.FORWARD else 3) * work * (kind.size + kind.value_size),
        label=sized(label, kind.queries, kind.keys, kind.size),
    )


def steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """One launch."""
    query, key, value, *mask = operands
    kind = problem(node, query, key, value, mask)
    (out, lse), copies = own_places(setting, results)
    reads = dict(zip(names_of(kind, "qkv"), operands, strict=True))
    step = launch(setting, kind, kernels.FORWARD, reads, {"o": out, "l": lse})
    return [step, *copies]


def backward_steps(
    setting: Setting, node: Node, operands: list[Place], results: list[Place]
) -> list[Launch]:
    """A launch for the gradients of keys and values, one for that of queries."""
    query, key, value = operands[:3]
    kind = problem(node, query, key, value, operands[6:])
    wanted = [i for i, n in enumerate(node.params["needed"][:3]) if n]
    places, copies = own_places(setting, results)
    outs = dict(zip(wanted, places, strict=True))
    reads = dict(zip(names_of(kind, "qkvlgt"), operands, strict=True))
    launches: list[Launch] = []
    for which, positions in ((kernels.BY_KEYS, (1, 2)), (kernels.BY_QUERIES, (0,))):
        writes = {f"d{i}": outs[i] for i in positions if i in outs}
        if writes:
            launches.append(launch(setting, kind, which, reads, writes))
    return [*launches, *copies]


def result_of(node: Node) -> Value | None:
    """The result of the attention that a backward node is the derivative of, if its sixth operand
    is the sum of that times the cotangent alone: derivatives of the logsumexp change it."""
    lse, grad, shift = node.inputs[3:6]
    forward = lse.node if isinstance(lse, Value) else None
    total = shift.node if isinstance(shift, Value) else None
    if forward is None or forward.record.name != ATTENTION or forward.outputs[1] is not lse:
        return None
    if total is None or total.record.name != "sum" or not total.params["keepdim"]:
        return None
    product, result = total.inputs[0].node, forward.outputs[0]
    whole = total.params["dims"] == (len(result.spec.shape) - 1,)
    if product is None or product.record.name != "mul" or not whole:
        return None
    same = {uncast(x) for x in product.inputs} == {uncast(grad), uncast(result)}
    return result if same else None


def uncast(x: Any) -> Any:
    """What a value was before it was converted."""
    while isinstance(x, Value) and x.node is not None and x.node.record.name == "cast":
        x = x.node.inputs[0]
    return x


def anywhere(place: Place) -> bool:
    """Results may lie anyhow."""
    return True


TEMPLATES = {
    ATTENTION: Template(accepts, packed, steps, writes_to=anywhere),
    BACKWARD: Template(accepts_backward, packed, backward_steps, writes_to=anywhere),
}
